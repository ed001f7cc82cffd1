package repository

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/proc"
)

// endGrace is the time between SIGTERM and SIGKILL for a git command. With SIGTERM, git removes its locks.
const endGrace = 2 * time.Second

// settings apply to every git command. No operator's setting may start a program that is meant for a work tree, remove objects
// or push more than is asked for. Git trusts a commit-graph, and an agent can write one beside its objects. Fetched
// objects stay in a pack, which git writes to disk before it updates references, because not every version does so for loose ones.
var settings = []string{
	"core.hooksPath=/dev/null", "core.fsmonitor=false", "gc.auto=0", "maintenance.auto=false", "fetch.unpackLimit=1",
	"fetch.recurseSubmodules=false", "push.recurseSubmodules=no", "submodule.recurse=false", "push.followTags=false",
	"core.commitGraph=false", "core.multiPackIndex=false", "pack.useBitmaps=false", "advice.detachedHead=false",
}

// remoteGit is git in the mirror with the operator's configuration and credentials. If there is no mirror, it uses no repository.
func (m *Mirror) remoteGit(ctx context.Context, args ...string) *exec.Cmd {
	where := "GIT_DIR=" + m.path
	if !m.exists() {
		where = "GIT_CEILING_DIRECTORIES=" + filepath.Dir(filepath.Dir(m.path))
	}
	return m.command(ctx, append(slices.Clone(m.env), where), args)
}

// localGit is git in the mirror with no configuration but the mirror's. It talks to no remote.
func (m *Mirror) localGit(ctx context.Context, args ...string) *exec.Cmd {
	return m.command(ctx, append(m.plain(), "GIT_DIR="+m.path, "GIT_ALLOW_PROTOCOL=none"), args)
}

// plain is the environment of git without the configuration of the system and the account.
func (m *Mirror) plain() []string {
	env := slices.DeleteFunc(slices.Clone(m.env), func(entry string) bool {
		return strings.HasPrefix(entry, "GIT_") || strings.HasPrefix(entry, "HOME=") || strings.HasPrefix(entry, "XDG_CONFIG_HOME=")
	})
	return append(env, "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1")
}

func (m *Mirror) command(ctx context.Context, env, args []string) *exec.Cmd {
	var all []string
	for _, s := range settings {
		all = append(all, "-c", s)
	}
	env = append([]string{"SSH_ASKPASS_REQUIRE=never"}, env...) // unless the operator has set it
	env = append(env, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1")
	return m.program(ctx, cmp.Or(lookPath("git", env), "git"), env, append(append(all, "--no-pager"), args...))
}

// program returns a command that starts in the directory of the mirrors, where no agent can write.
func (m *Mirror) program(ctx context.Context, path string, env, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Env = filepath.Dir(m.path), env
	cmd.ExtraFiles = m.inherit()
	if m.locked != nil {
		cmd.ExtraFiles = m.inherit(m.locked)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // without a terminal that ssh could ask on (symphony takeover)
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGTERM) }
	cmd.WaitDelay = endGrace
	return cmd
}

// lookPath returns the path of a program in an environment, whose PATH may be another one than that of this process.
func lookPath(name string, env []string) string {
	for _, entry := range slices.Backward(env) {
		list, isPath := strings.CutPrefix(entry, "PATH=")
		if !isPath {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil && filepath.IsAbs(path) {
				return path
			}
		}
		break
	}
	return ""
}

// Environ returns an environment for New: env without the variables that select git's repository, and without those in drop.
func Environ(env []string, drop func(name, value string) bool) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, value, _ := strings.Cut(entry, "=")
		return slices.Contains(repositoryVars, name) || drop(name, value)
	})
}

// repositoryVars are those of git rev-parse --local-env-vars, except for settings.
var repositoryVars = []string{
	"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_CONFIG", "GIT_DIR", "GIT_GRAFT_FILE", "GIT_IMPLICIT_WORK_TREE",
	"GIT_INDEX_FILE", "GIT_INTERNAL_SUPER_PREFIX", "GIT_NAMESPACE", "GIT_NO_REPLACE_OBJECTS", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX",
	"GIT_QUARANTINE_PATH", "GIT_REPLACE_REF_BASE", "GIT_SHALLOW_FILE", "GIT_WORK_TREE",
}

// run runs a command. Its error consists of the lines that git, ssh and the remote, or gh, have written.
func (m *Mirror) run(cmd *exec.Cmd) error {
	if err := proc.SealDescriptors(); err != nil { // ssh or a credential helper may stay in the background
		return err
	}
	complaint := &text.Tail{Limit: 16 << 10}
	cmd.Stderr = complaint
	err := cmd.Run()
	if cmd.Process != nil && err != nil {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // fails if the whole group has ended
	}
	if err == nil || errors.Is(err, exec.ErrWaitDelay) { // a process in the background has its streams
		return nil
	}
	said, _ := complaint.Text()
	lines := m.complaints(string(said))
	if lines == "" {
		return fmt.Errorf("%s: %w", verb(cmd), err)
	}
	return saidError{lines, err}
}

// saidError has the lines that a program has written as its text.
type saidError struct {
	lines string
	err   error
}

func (e saidError) Error() string { return e.lines }
func (e saidError) Unwrap() error { return e.err }

// verb returns what git or gh was asked to do: git push, gh api.
func verb(cmd *exec.Cmd) string {
	return filepath.Base(cmd.Args[0]) + " " + cmd.Args[max(0, slices.Index(cmd.Args, "--no-pager"))+1]
}

func (m *Mirror) output(cmd *exec.Cmd) (string, error) {
	var out bytes.Buffer
	cmd.Stdout = &out
	err := m.run(cmd)
	return strings.TrimSpace(out.String()), err
}

const maxComplaint = 2 << 10 // bytes

// complaints returns what git and others have written, in one line, without lines that are unrelated to the cause.
func (m *Mirror) complaints(said string) string {
	var kept []string
	for line := range strings.Lines(strings.ReplaceAll(strings.ToValidUTF8(said, "\uFFFD"), "\r", "\n")) {
		line = strings.TrimSpace(line)
		if line == "" || line == "remote:" || slices.ContainsFunc(noise, func(start string) bool { return strings.HasPrefix(line, start) }) {
			continue
		}
		kept = append(kept, line)
	}
	text := strings.ReplaceAll(strings.Join(kept, "; "), m.remote.URL, m.address())
	if len(text) > maxComplaint {
		text = strings.ToValidUTF8(text[:maxComplaint], "") + "…"
	}
	return text
}

// noise are the beginnings of lines that do not explain the cause of an error.
var noise = []string{
	"hint:", "To ", "From ", "Please make sure you have the correct access rights", "and the repository exists.",
	"Warning: Permanently added ", "error: failed to push some refs to ",
}

// address is the address of the remote without a password, and over HTTP without a user, which may be a token.
func (m *Mirror) address() string {
	u, err := url.Parse(m.remote.URL)
	if err != nil || u.User == nil {
		return m.remote.URL
	}
	if strings.HasPrefix(u.Scheme, "http") {
		u.User = nil
	} else {
		u.User = url.User(u.User.Username())
	}
	return u.String()
}
