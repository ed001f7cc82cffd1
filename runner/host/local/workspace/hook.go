package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/files"
	"github.com/symphony-cron/symphony/runner/host/local/tree"
	"github.com/symphony-cron/symphony/runner/proc"
)

// hookOutput is how many bytes at the end of the output are kept.
const hookOutput = 64 << 10

// Hook is a script of the workflow. Workspace.Env is added to its environment.
type Hook struct {
	host.HookRequest
	// Files are inherited as descriptor 3 and following. They include the lease.
	Files []*os.File
}

// RunHook runs a hook in a workspace (specification 9.4): `sh -c Script`, in the environment
// of a login shell and in a new process group, which is ended at the timeout or when ctx ends.
// The hook is over when the shell exits: its children may continue to run and write until the
// processes of the run are ended. log is the last 64 KiB of output, and how the hook ended.
//
// Its errors are hook_failed, with the exit status and a line of output, hook_timeout, and the
// errors of Verify and of ctx.
func RunHook(ctx context.Context, h Hook, w *Workspace) (log string, err error) {
	if err := w.Verify(); err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("hook %s: %w", h.Name, err)
	}
	// a child in the background could keep the lock of cron's flock
	if err := proc.SealDescriptors(); err != nil {
		return "", files.Failed(err, "run the hook %s", h.Name)
	}
	tail := &text.Tail{Limit: hookOutput}
	out, err := proc.NewCapture(tail)
	if err != nil {
		return "", files.Failed(err, "run the hook %s", h.Name)
	}
	began := time.Now()
	err = h.run(ctx, w, out)
	out.Finish()
	output, lost := tail.Text()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = h.exitFailed(exit, output)
	}
	took := time.Since(began).Round(time.Millisecond)
	return h.report(output, lost, fmt.Sprintf("%s after %s", howEnded(err), took)), err
}

// run starts the shell and waits until it exits. Its output goes to out.
func (h Hook) run(ctx context.Context, w *Workspace, out *proc.Capture) error {
	cmd := exec.Command("sh", "-c", h.Script) //nolint:noctx // waitShell ends it, with all of its group
	cmd.Dir = w.Path
	cmd.Env = append(append([]string{}, h.Env...), w.Env()...)
	cmd.ExtraFiles = h.Files
	cmd.Stdout = out.In
	cmd.Stderr = out.In // an *os.File, so that Wait does not wait for a child that keeps it open
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err := cmd.Start()
	_ = out.In.Close() // the child holds its own
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

// report is the kept part of the output, and then how the hook ended.
func (h Hook) report(output []byte, lost int64, end string) string {
	said := string(output)
	if lost > 0 {
		said = fmt.Sprintf("--- the first %d bytes of output are left out\n%s", lost, said)
	}
	if said != "" && !strings.HasSuffix(said, "\n") {
		said += "\n"
	}
	return fmt.Sprintf("--- %s\n%s--- %s: %s\n", h.Name, said, h.Name, end)
}

// notFound is the exit status of a shell that does not find a command.
const notFound = 127

// exitFailed is the error of a shell that exited with another status than 0.
func (h Hook) exitFailed(exit *exec.ExitError, output []byte) error {
	what := exit.Error()
	if exit.ExitCode() >= 0 {
		what = fmt.Sprintf("exit status %d", exit.ExitCode())
	}
	if line := files.Reason(output); line != "" {
		what += ": " + line
	}
	if exit.ExitCode() == notFound {
		what += "; bash -lc 'echo $PATH' prints the PATH of hooks"
	}
	return reconcile.NewError(CodeHookFailed, h.title()+": "+what,
		"symphony logs ISSUE --hooks has its output").WithCause(exit)
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
func CheckScript(ctx context.Context, shell, script string) (message string, line int) {
	ctx, cancel := context.WithTimeout(ctx, syntaxBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, shell, "-n", "-c", script)
	_, said, err := proc.Output(cmd)
	exit, is := errors.AsType[*exec.ExitError](err)
	if !is || ctx.Err() != nil {
		return "", 0 // without a shell nothing is known
	}
	message, _, _ = strings.Cut(strings.TrimSpace(said), "\n")
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
