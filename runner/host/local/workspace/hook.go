package workspace

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host/local/files"
	"github.com/symphony-cron/symphony/runner/host/local/tree"
	"github.com/symphony-cron/symphony/runner/proc"
)

// hookOutput is how many bytes at the end of the output are kept.
const hookOutput = 64 << 10

// Hook is a script of the workflow.
type Hook struct {
	Name   string
	Script string
	// Where is its place in the workflow, for messages; empty if unknown.
	Where string
	// Timeout is positive.
	Timeout time.Duration
	// Env is its environment. Workspace.Env is added.
	Env []string
	// Files are inherited as descriptor 3 and following. They include the lease.
	Files []*os.File
}

// RunHook runs a hook in a workspace (specification 9.4): `sh -c Script`, in the environment
// of a login shell and in a new process group, which is ended at the timeout or when ctx ends.
// The hook is over when the shell exits: its children may continue to run and write until the
// processes of the run are ended. RunHook writes the last 64 KiB of output to log, then how
// the hook ended.
//
// Its errors are hook_failed, with the exit status and a line of output, hook_timeout, and the
// errors of Verify and of ctx. Errors of log are ignored (specification 14).
func RunHook(ctx context.Context, h Hook, w *Workspace, log io.Writer) error {
	if err := w.Verify(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("hook %s: %w", h.Name, err)
	}
	// a child in the background could keep the lock of cron's flock
	if err := proc.SealDescriptors(); err != nil {
		return files.Failed(err, "run the hook %s", h.Name)
	}
	out, err := newCapture()
	if err != nil {
		return files.Failed(err, "run the hook %s", h.Name)
	}
	began := time.Now()
	err = h.run(ctx, w, out)
	output, lost := out.finish()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = h.exitFailed(exit, w.Path, output)
	}
	took := time.Since(began).Round(time.Millisecond)
	h.report(log, output, lost, fmt.Sprintf("%s after %s", howEnded(err), took))
	return err
}

// run starts the shell and waits until it exits. Its output goes to out.
func (h Hook) run(ctx context.Context, w *Workspace, out *capture) error {
	cmd := exec.Command("sh", "-c", h.Script) //nolint:noctx // waitShell ends it, with all of its group
	cmd.Dir = w.Path
	cmd.Env = append(append([]string{}, h.Env...), w.Env()...)
	cmd.ExtraFiles = h.Files
	cmd.Stdout = out.in
	cmd.Stderr = out.in // an *os.File, so that Wait does not wait for a child that keeps it open
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err := cmd.Start()
	_ = out.in.Close() // the child holds its own
	crash.At("workspace.hook.started")
	if err != nil {
		return reconcile.NewError(
			CodeHookFailed,
			h.title()+": start the shell: "+err.Error(),
			"sh must be on the PATH of the worker",
		).WithCause(err)
	}
	return h.waitShell(ctx, cmd)
}

// howEnded says how a hook ended, given its error.
func howEnded(err error) string {
	if err == nil {
		return "succeeded"
	}
	return err.Error()
}

// report writes the kept part of the output to a log, and then how the hook ended.
func (h Hook) report(log io.Writer, output []byte, lost int64, end string) {
	said := string(output)
	if lost > 0 {
		said = fmt.Sprintf("--- the first %d bytes of output are left out\n%s", lost, said)
	}
	if said != "" && !strings.HasSuffix(said, "\n") {
		said += "\n"
	}
	_, _ = fmt.Fprintf(log, "--- %s\n%s--- %s: %s\n", h.Name, said, h.Name, end)
}

// The exit statuses of a shell that may not start a command, and that does not find one.
const (
	notAllowed = 126
	notFound   = 127
)

// exitFailed is the error of a shell that exited with another status than 0.
func (h Hook) exitFailed(exit *exec.ExitError, dir string, output []byte) error {
	what := exit.Error()
	if exit.ExitCode() >= 0 {
		what = fmt.Sprintf("exit status %d", exit.ExitCode())
	}
	if line := files.Reason(output); line != "" {
		what += ": " + line
	}
	word := bashOnly(output)
	asks := len(output) == 0 && readsInput().MatchString(h.Script)
	switch {
	case asks:
		what += "; it printed nothing, and can't ask: a hook has no terminal and no input"
	case word != "":
		what += "; hooks run in sh, not bash, and sh has no " + word + ": " + bashWords[word]
	case exit.ExitCode() == notAllowed:
		what += "; make the file executable with chmod +x, and commit that"
	case exit.ExitCode() == notFound && missingFile(dir, output) != "":
		what += "; " + missingFile(dir, output)
	case exit.ExitCode() == notFound:
		what += "; hooks have the PATH of the login shell: bash -lc 'echo $PATH' prints it"
	}
	return reconcile.NewError(CodeHookFailed, h.title()+": "+what,
		"its output is in the run's hook log (symphony logs ISSUE --hooks)").WithCause(exit)
}

// readsInput matches the commands with which a script asks its user.
var readsInput = text.Pattern(`(?m)(?:^|[;&|({]|\b(?:then|do|while|if))\s*(?:read|select)\b`)

// bashWords are commands of bash that other shells lack, each with what to write instead.
var bashWords = map[string]string{
	"source":    "write . ./FILE",
	"[[":        "write [",
	"declare":   inBash,
	"typeset":   inBash,
	"shopt":     inBash,
	"mapfile":   inBash,
	"readarray": inBash,
	"pushd":     "write cd",
	"popd":      "write cd",
	"let":       "write $((…))",
}

const inBash = "give that part to bash -c"

// missingCommand finds the command that a shell did not find: `sh: 3: source: not found`, and
// without the number of the line in busybox.
var missingCommand = text.Pattern(`(?m)^[^:\n]*sh:(?: (?:line )?\d+:)? (\S+): (?:command )?not found$`)

// missingFile says what is wrong with a file that a shell did not find in a workspace, such as
// ./setup.sh; empty for a command without a path, and for one that is elsewhere.
func missingFile(dir string, output []byte) string {
	found := missingCommand().FindSubmatch(output)
	if found == nil || !bytes.ContainsRune(found[1], '/') || filepath.IsAbs(string(found[1])) {
		return ""
	}
	name := string(found[1])
	content, err := files.ReadRegular(filepath.Join(dir, name), mostScript)
	first, _, _ := strings.Cut(string(content), "\n")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		git := "git -C " + text.ShellQuote(dir)
		return name + " is not in the workspace: commit it; this workspace, which is older, gets it by " +
			git + " fetch && " + git + " merge origin/HEAD"
	case err != nil:
		return ""
	case strings.HasSuffix(first, "\r"):
		return "the lines of " + name + " end with CR, which is a part of the name of its shell then: give it the ends " +
			"of lines of Unix, and commit that"
	case strings.HasPrefix(first, "#!"):
		return name + " is there, but not the program that its first line names: " + text.Visible(first)
	}
	return ""
}

// mostScript is how much of a script is read for its first line.
const mostScript = 1 << 20

// bashOnly returns the first command of bash that the shell of a hook did not find; empty for
// none.
func bashOnly(output []byte) string {
	for _, m := range missingCommand().FindAllSubmatch(output, -1) {
		if _, is := bashWords[string(m[1])]; is {
			return string(m[1])
		}
	}
	return ""
}

// bashWord matches a command of bash at the beginning of a command.
var bashWord = text.Pattern(`(?m)(?:^|&&|\|\||;|\b(?:then|do|else|if))[ \t]*(source|\[\[|declare|typeset|shopt|` +
	`mapfile|readarray|pushd|popd|let)[ \t]`)

// BashWord returns the first command of bash in the script of a hook that sh does not have here, and what
// to write instead; empty for none.
func BashWord(script string) (word, instead string) {
	ctx, cancel := context.WithTimeout(context.Background(), syntaxBound)
	defer cancel()
	for _, found := range bashWord().FindAllStringSubmatch(script, -1) {
		word = found[1]
		if exec.CommandContext(ctx, "sh", "-c", `type "$1"`, "sh", word).Run() != nil && ctx.Err() == nil {
			return word, bashWords[word]
		}
	}
	return "", ""
}

// title names the hook and its place.
func (h Hook) title() string {
	if h.Where == "" {
		return h.Name
	}
	return h.Name + " (" + h.Where + ")"
}

// syntaxBound limits how long the shell may take to read a script.
const syntaxBound = 5 * time.Second

// lineNumber finds the line in a shell's message: `sh: 3: Syntax error`, `sh: -c: line 3:
// syntax error`.
var lineNumber = text.Pattern(`^[^:]*:(?: -c:)?(?: line)? (\d+): (.*)`)

// CheckScript asks a shell whether it can read a script, which it does not run. It returns the
// shell's message, empty if it can, and the line of the script from 1, 0 if the shell names
// none.
func CheckScript(shell, script string) (message string, line int) {
	ctx, cancel := context.WithTimeout(context.Background(), syntaxBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, shell, "-n", "-c", script)
	cmd.WaitDelay = time.Second
	said, err := cmd.CombinedOutput()
	exit, is := errors.AsType[*exec.ExitError](err)
	if !is || ctx.Err() != nil {
		return "", 0 // without a shell nothing is known
	}
	message, _, _ = strings.Cut(strings.TrimSpace(string(said)), "\n")
	if m := lineNumber().FindStringSubmatch(message); m != nil {
		line, _ = strconv.Atoi(m[1])
		message = m[2]
	}
	return cmp.Or(message, exit.Error()), line
}

// waitShell returns the shell's error, hook_timeout, or the error of ctx.
func (h Hook) waitShell(ctx context.Context, cmd *exec.Cmd) error {
	limit := text.Took(h.Timeout.Milliseconds())
	err := tree.WaitGroup(ctx, cmd, h.Timeout, func() error {
		return reconcile.NewError(
			CodeHookTimeout,
			fmt.Sprintf("%s ran longer than hooks.timeout_ms, %s, and was killed", h.title(), limit),
			"raise hooks.timeout_ms, or make the hook faster",
		)
	})
	if err != nil && errors.Is(err, ctx.Err()) {
		return fmt.Errorf("hook %s: %w", h.Name, err)
	}
	return err
}

// capture keeps the last bytes that are written to a pipe. It can be finished while a process
// still holds the writing end open. Later output is read and discarded for as long as the
// worker lives, so that such a process neither gets SIGPIPE nor blocks.
type capture struct {
	in, out *os.File
	tail    text.Tail
	done    chan struct{}
}

func newCapture() (*capture, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c := &capture{in: in, out: out, tail: text.Tail{Limit: hookOutput}, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		_, _ = io.Copy(&c.tail, c.out) // until the end of the output, or until finish stops it
	}()
	return c, nil
}

// finish returns the kept part of the output before the call, and how many bytes came before
// it.
func (c *capture) finish() (text []byte, lost int64) {
	_ = c.out.SetReadDeadline(time.Now()) // files of os.Pipe support deadlines
	<-c.done
	_ = c.out.SetReadDeadline(time.Time{})
	c.drain()
	text, lost = c.tail.Text()
	go func() {
		_, _ = io.Copy(io.Discard, c.out)
		_ = c.out.Close()
	}()
	return text, lost
}

// drain reads the bytes already in the pipe, without waiting for more. It stops after a
// pipeful, because a child may still be writing: everything written before is in the first
// pipeful, and no pipe contains more than 1 MiB.
func (c *capture) drain() {
	const pipeful = 1 << 20
	raw, err := c.out.SyscallConn()
	if err != nil {
		return
	}
	buf := make([]byte, 32<<10)
	_ = raw.Read(func(fd uintptr) bool {
		for got := 0; got < pipeful; {
			n, err := unix.Read(int(fd), buf)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || n <= 0 {
				break
			}
			_, _ = c.tail.Write(buf[:n])
			got += n
		}
		return true
	})
}
