package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
)

// mentions reports whether the workflow mentions something.
func (e *environment) mentions(pattern string) bool {
	return regexp.MustCompile(pattern).Match(e.config.Redacted)
}

// checkGit looks for git as hooks and agents do.
func checkGit(ctx context.Context, e *environment) []finding {
	return e.checkProgram(ctx, "git", "agents can't commit, and hooks can't clone")
}

// ghBound is enough for gh, which asks GitHub whether its login is valid.
const ghBound = 5 * time.Second

// checkGh looks for gh, and whether it is logged in, if the workflow mentions it.
func checkGh(ctx context.Context, e *environment) []finding {
	found := e.checkProgram(ctx, "gh", "the workflow names it")
	if found[0].Status != statusOK || !e.mentions(`\bgh\b`) {
		return found
	}
	ctx, cancel := context.WithTimeout(ctx, ghBound)
	defer cancel()
	answer, err := e.shell(ctx, "if gh auth status >/dev/null 2>&1; then echo in; else echo out; fi")
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return warn("gh auth status does not answer", "try it; without a network it can't know")
	case err != nil:
		return failWith(err)
	case answer == "in":
		return found
	}
	return warn("gh is not logged in to GitHub, and the workflow names it",
		"log in with gh auth login, as this account, or put GH_TOKEN=… into "+e.p.EnvPath())
}

// checkProgram finds a program and its version. If it is missing, missing says what that means; only git is needed by every
// workflow.
func (e *environment) checkProgram(ctx context.Context, name, missing string) []finding {
	path, err := e.program(ctx, name)
	switch {
	case err != nil:
		return failWith(err)
	case path == "" && name != "git" && !e.mentions(`\b`+name+`\b`):
		return ok("not found, and the workflow does not name it")
	case path == "":
		return warn("not found: "+missing, e.hintForProgram(ctx, name))
	}
	version, err := e.shell(ctx, name+" --version | head -n 1")
	switch {
	case err != nil:
		return failWith(err)
	case version == "":
		return warn(path+" does not say its version", "try it: "+path+" --version")
	}
	return ok("%s, %s", path, version)
}

// checkSSHAgent says whether hooks and agents have an ssh agent.
func checkSSHAgent(ctx context.Context, e *environment) []finding {
	const hint = "give hooks a key without a passphrase of its own (IdentityFile in ~/.ssh/config), or set SSH_AUTH_SOCK to a lasting agent's in the environment file"
	socket, err := e.shell(ctx, `printf %s "$SSH_AUTH_SOCK"`)
	switch {
	case err != nil:
		return failWith(err)
	case socket == "" && e.mentions(`git@|ssh://`):
		return warn("none, and the workflow names a repository by ssh", hint)
	case socket == "":
		return ok("none")
	}
	dialer := net.Dialer{Timeout: 2 * time.Second}
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return warn("SSH_AUTH_SOCK names "+socket+", where none answers", hint)
	}
	_ = conn.Close() // nothing was written
	return ok("%s", socket)
}

// checkRoot looks at the directory of the workspaces.
func checkRoot(_ context.Context, e *environment) (list []finding) {
	root := project.Resolve(e.config.Workspace.Root)
	if err := project.RootFits(e.p, e.config, true); err != nil {
		return failWith(err)
	}
	free, err := workspace.FreeBytes(root)
	if err != nil {
		return failWith(err)
	}
	if least := e.config.Policy.MinFreeBytes; free < least {
		list = append(list, fail(fmt.Sprintf("disk_low: %s has %s free, and workspace.min_free_bytes wants %s", root, term.BytesText(free), term.BytesText(least)),
			"free space there; until then nothing is started")...)
	}
	const hint = "set workspace.root to a folder on a local disk, such as ~/symphony"
	if temporary := project.TemporaryAbove(root, e.p.Env.Getenv("TMPDIR")); temporary != "" {
		list = append(list, warn(root+" lies below "+temporary+", which the system may clear: work that is not pushed is lost then", hint)...)
	}
	switch name, lasts := fileSystem(root); {
	case name == "":
	case lasts:
		list = append(list, warn(root+" is on "+name+", where locks of workspaces are not reliable", hint)...)
	default:
		list = append(list, warn(root+" is on "+name+", which is empty after a reboot", hint)...)
	}
	switch {
	case list != nil:
		return list
	case !project.Exists(root):
		return ok("%s, which the first pass makes; %s free", root, term.BytesText(free))
	}
	return ok("%s, %s free", root, term.BytesText(free))
}

// fileSystem names the file system of a path if it is one to warn about; lasts is false if a reboot empties it.
func fileSystem(path string) (name string, lasts bool) {
	for !project.Exists(path) && path != filepath.Dir(path) {
		path = filepath.Dir(path)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return "", true
	}
	return riskyFileSystem(&st)
}

// checkAccount says what agents can read because this account can.
func checkAccount(_ context.Context, e *environment) []finding {
	var files []string
	if project.Exists(e.p.EnvPath()) {
		files = append(files, e.p.EnvPath())
	}
	if keys, err := filepath.Glob(filepath.Join(e.p.Env.Home, ".ssh", "id_*")); err == nil && len(keys) > 0 {
		files = append(files, filepath.Join(e.p.Env.Home, ".ssh"))
	}
	if e.config != nil {
		if login := filepath.Join(e.codexHome(), "auth.json"); project.Exists(login) {
			files = append(files, login)
		}
	}
	if len(files) == 0 {
		return ok("no environment file, ssh key or login of codex lies where an agent could read it")
	}
	return warn("agents run as it, and can read "+strings.Join(files, ", "), "an OS user of its own for symphony keeps the rest of yours from them")
}
