package repository

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
	"github.com/symphony-cron/symphony/runner/host/local/files"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// commands runs git for a mirror. The directory of the mirror may not exist yet.
type commands struct {
	remote host.Repository
	path   string   // of the mirror
	env    []string // the operator's environment
	// inherit returns the files that commands inherit, including the given files.
	inherit func(...*os.File) []*os.File
	lock    *os.File // the lock of the mirror while this process holds it; commands inherit it
}

// exists reports whether the mirror is there. HEAD is written last, and is empty if its writer
// was killed.
func (c *commands) exists() bool {
	info, err := os.Stat(filepath.Join(c.path, "HEAD"))
	return err == nil && info.Size() > 0
}

// remoteGit is git in the mirror with the operator's configuration and credentials. If there
// is no mirror, it uses no repository.
func (c *commands) remoteGit(ctx context.Context, args ...string) *exec.Cmd {
	where := "GIT_DIR=" + c.path
	if !c.exists() {
		where = "GIT_CEILING_DIRECTORIES=" + filepath.Dir(filepath.Dir(c.path))
	}
	cmd := c.command(ctx, gitcmd.Operator, args...)
	cmd.Env = append(cmd.Env, where)
	return cmd
}

// refChange is the change of a reference of the remote, as a compare-and-swap.
type refChange struct {
	ref      string // such as refs/heads/symphony/ABC-1
	expected string // what it must lead to; empty if it must not exist
	commit   string // what it is to lead to; empty to delete it
}

// pushCommand is a git push of changes, with more options.
func (c *commands) pushCommand(ctx context.Context, options []string, changes ...refChange) *exec.Cmd {
	args := append([]string{"push", "--no-verify", "--no-follow-tags", "--recurse-submodules=no"}, options...)
	for _, change := range changes {
		args = append(args, "--force-with-lease="+change.ref+":"+change.expected)
	}
	args = append(args, "--", c.remote.URL)
	for _, change := range changes {
		args = append(args, change.commit+":"+change.ref)
	}
	return c.remoteGit(ctx, args...)
}

// localGit is git in the mirror with no configuration but the mirror's. It talks to no remote.
func (c *commands) localGit(ctx context.Context, args ...string) *exec.Cmd {
	return withDir(c.command(ctx, gitcmd.Nobody, args...), c.path, "")
}

// fileGit is localGit that may read files outside the mirror.
func (c *commands) fileGit(ctx context.Context, args ...string) *exec.Cmd {
	cmd := c.localGit(ctx, args...)
	cmd.Env = append(cmd.Env, "GIT_ALLOW_PROTOCOL=file")
	return cmd
}

// withObjects lets a git command read the objects in another directory, unless that is empty.
func withObjects(cmd *exec.Cmd, objects string) *exec.Cmd {
	if objects != "" {
		cmd.Env = append(cmd.Env, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+git.Quoted(objects))
	}
	return cmd
}

// withDir lets a git command use the repository in a git directory, and a work tree unless that
// is empty.
func withDir(cmd *exec.Cmd, gitDir, workTree string) *exec.Cmd {
	cmd.Env = append(cmd.Env, "GIT_DIR="+gitDir)
	if workTree != "" {
		cmd.Env = append(cmd.Env, "GIT_WORK_TREE="+workTree)
	}
	return cmd
}

// command returns a command that starts in the directory of the mirrors, where no agent can
// write.
func (c *commands) command(ctx context.Context, trust gitcmd.Trust, args ...string) *exec.Cmd {
	return c.commandAt(ctx, filepath.Dir(c.path), trust, args...)
}

// commandAt returns a command that starts in a directory.
func (c *commands) commandAt(ctx context.Context, dir string, trust gitcmd.Trust, args ...string) *exec.Cmd {
	cmd := gitcmd.Command(ctx, dir, trust, c.env, args...)
	cmd.ExtraFiles = c.inherit()
	if c.lock != nil {
		cmd.ExtraFiles = c.inherit(c.lock)
	}
	return cmd
}

// maxMemory bounds the memory of each process of a git that reads agents' objects, in bytes.
// It is more than views get, because git needs memory to pack the largest files. Tests lower
// it.
var maxMemory uint64 = 2 << 30

// run runs a command that reads agents' objects.
func (c *commands) run(cmd *exec.Cmd) error { return c.runWithin(cmd, maxMemory) }

// runWithin runs a command, each process of which may have so many bytes of memory. One that
// talks to the remote has gitcmd.NoLimit: the objects that it pushes were read with a bound
// before. Its error has no password of the remote.
func (c *commands) runWithin(cmd *exec.Cmd, memory uint64) error {
	err := gitcmd.Run(cmd, memory)
	said, isOfGit := errors.AsType[host.GitError](err)
	if !isOfGit {
		return err
	}
	said.Lines = text.Map(said.Lines, func(line string) string {
		return strings.ReplaceAll(line, c.remote.URL, c.Address())
	})
	return said
}

// says runs a command that answers a question with its exit code, such as merge-base
// --is-ancestor: 0 is yes, and 1 is no. A git that failed, with exit code 128 for instance, has
// not answered, which is an error.
func (c *commands) says(cmd *exec.Cmd) (bool, error) {
	err := c.run(cmd)
	if gitcmd.ExitedWith(err, 1) {
		return false, nil
	}
	return err == nil, err
}

// entries runs a command with -z, and returns the entries that it prints.
func (c *commands) entries(cmd *exec.Cmd) ([]string, error) {
	var out gitcmd.Answer
	cmd.Stdout = &out
	if err := c.run(cmd); err != nil {
		return nil, err
	}
	text := strings.TrimSuffix(out.String(), "\x00")
	if text == "" {
		return nil, nil
	}
	return strings.Split(text, "\x00"), nil
}

func (c *commands) output(cmd *exec.Cmd) (string, error) { return c.outputWithin(cmd, maxMemory) }

func (c *commands) outputWithin(cmd *exec.Cmd, memory uint64) (string, error) {
	var out gitcmd.Answer
	cmd.Stdout = &out
	err := c.runWithin(cmd, memory)
	return strings.TrimSpace(out.String()), err
}

// Address is the address of the remote without a password, and over HTTP without a user, which
// may be a token.
func (c *commands) Address() string {
	u, err := url.Parse(c.remote.URL)
	if err != nil || u.User == nil {
		return c.remote.URL
	}
	if strings.HasPrefix(u.Scheme, "http") {
		u.User = nil
	} else {
		u.User = url.User(u.User.Username())
	}
	return u.String()
}

// failed wraps the error of a git command; nil stays nil. The second text names the task,
// empty for the push itself. A fault of this machine keeps its own code.
func (c *commands) failed(code, what string, err error) error {
	if err == nil {
		return nil
	}
	failed := c.explain(code, err)
	// these report the remote's objections to the commits
	if failed.Code != host.CodeDeliveryFailed && failed.Code != host.CodeDeliveryConflict {
		what = cmp.Or(what, "push") + " (" + c.Address() + ")"
	}
	if what != "" {
		failed.Message = what + ": " + failed.Message
	}
	return failed
}

// explain returns the error of a git command with the next step. It has the code, unless the
// fault is of this machine.
func (c *commands) explain(code string, err error) *reconcile.Error {
	failed := func(code, message, hint string) *reconcile.Error {
		return &reconcile.Error{Code: code, Message: message, Hint: hint, Err: err}
	}
	if known := host.GitHint(host.GitOutput(err)); known != "" {
		return failed(code, err.Error()+": "+known, known)
	}
	if errors.As(err, &killedError{}) {
		const hint = "see in the kernel's log what kills git"
		return failed(host.CodeGitKilled, err.Error(), hint)
	}
	if limit, reached := errors.AsType[gitcmd.LimitError](err); reached {
		return failed(host.CodeGitLimit, err.Error(), limit.Hint())
	}
	if errors.Is(err, exec.ErrNotFound) {
		const hint = "install git, or add its directory to PATH in ~/.profile"
		return failed(code, fmt.Sprintf("git is missing: it is not in %q", os.Getenv("PATH")), hint)
	}
	if isDiskFull(err) {
		return failed(files.CodeDiskFull, err.Error(), paths.MakeRoom(filepath.Dir(c.path)))
	}
	hint := "try it yourself: git ls-remote " + c.Address()
	known, isKnown := errors.AsType[*reconcile.Error](err)
	if !isKnown {
		return failed(code, err.Error(), hint)
	}
	return failed(code, strings.TrimPrefix(err.Error(), known.Code+": "), cmp.Or(known.Hint, hint))
}

const (
	// the beginning of the names of directories for objects that are not in a mirror yet
	incomingPrefix = "incoming-"
	// allocLimit bounds the memory that git allocates at once. It streams larger blobs, and a
	// tree or a commit is never that large.
	allocLimit = "GIT_ALLOC_LIMIT=600m"
)

// isDiskFull reports whether a volume of this machine is full: not of the remote, and not of
// another machine that has the workspace.
func isDiskFull(err error) bool {
	if paths.IsFull(err) {
		return true
	}
	said, isGit := errors.AsType[host.GitError](err)
	return isGit && fullDisk().MatchString(said.Output())
}

// fullDisk matches the messages of git, which are joined by semicolons; messages of the remote
// begin with "remote:".
var fullDisk = text.Pattern(
	`(?:^|; )(?:error|fatal): [^;]*(?:No space left on device|Disk quota exceeded)`,
)

// killedError is the error of a git that a signal ended, and not because the context ended.
type killedError struct{ error }

// ofSignal returns err as a killedError if a signal ended git before ctx ended.
func ofSignal(ctx context.Context, err error) error {
	if killed(err) && ctx.Err() == nil {
		return killedError{err}
	}
	return err
}

// killed reports whether a signal ended git or a program that it started on this machine.
func killed(err error) bool {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Sys().(syscall.WaitStatus).Signaled() {
		return true
	}
	return programDied().MatchString(host.GitOutput(err))
}

// programDied matches the messages of git, which are joined by semicolons; messages of the
// remote begin with "remote:".
var programDied = text.Pattern(`(?:^|; )(?:error|fatal): \S+ died of signal`)
