package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// The names of the hooks (specification 9.4).
const (
	AfterCreate  = "after_create"
	BeforeRun    = "before_run"
	AfterRun     = "after_run"
	BeforeRemove = "before_remove"
)

// DefaultHookTimeout is hooks.timeout_ms where nothing is set (specification 5.3.4).
const DefaultHookTimeout = time.Minute

const (
	hookOutput = 64 << 10        // bytes of output that are kept: the last ones
	killedFor  = 5 * time.Second // how long a killed shell is waited for
)

// Hook is a script of the workflow.
type Hook struct {
	Name   string
	Script string
	// Timeout is DefaultHookTimeout where it is not positive.
	Timeout time.Duration
}

// RunHook runs a hook in a workspace (specification 9.4, design section 7): in a process group of its own
// that is killed at the timeout or when ctx ends, with env (all of it; w.Env is added) and the lease. It is
// over when the shell exits: children that it leaves may go on, and go on writing, until the run is reaped.
// The last 64 KiB of the output are written to log, then how it ended. An empty script is no hook.
//
// Its errors are hook_failed, with the exit status and the last line of output, hook_timeout, Verify's, or
// the context's. A log that can't be written is no failure of the hook (specification 14).
func RunHook(ctx context.Context, h Hook, start Starter, env []string, w *Workspace, log io.Writer) error {
	if strings.TrimSpace(h.Script) == "" {
		return nil
	}
	if err := w.Verify(); err != nil {
		return err
	}
	if h.Timeout <= 0 {
		h.Timeout = DefaultHookTimeout
	}
	out, err := newCapture(hookOutput)
	if err != nil {
		return files.Failed(err, "run the hook %s", h.Name)
	}
	began := time.Now()
	p, err := start(ctx, Command{
		Script: h.Script, Dir: w.Path, Env: append(append([]string{}, env...), w.Env()...),
		Stdout: out.in, Stderr: out.in, ExtraFiles: []*os.File{w.Lease()},
	})
	out.started()
	crash.At("workspace.hook.started")
	if err == nil {
		err = waitHook(ctx, h, p)
	} else if ctx.Err() == nil {
		err = &reconcile.Error{
			Code: CodeHookFailed, Message: h.Name + ": start the shell: " + err.Error(),
			Hint: "sh must be on the PATH of the worker", Err: err,
		}
	}
	text, lost := out.finish()
	err = h.explain(err, text)
	h.report(log, text, lost, time.Since(began), err)
	return err
}

// waitHook returns the shell's own error, a hook_timeout, or the context's.
func waitHook(ctx context.Context, h Hook, p Process) error {
	done := make(chan error, 1)
	go func() { done <- p.Wait() }()
	timer := time.NewTimer(h.Timeout)
	defer timer.Stop()
	var err error
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = &reconcile.Error{
			Code:    CodeHookTimeout,
			Message: fmt.Sprintf("%s ran longer than %s and was killed", h.Name, h.Timeout),
			Hint:    "raise hooks.timeout_ms, or make the hook faster",
		}
	}
	p.KillGroup()
	// One that even SIGKILL does not end (a hung file system) is left to the reaping of the run.
	select {
	case <-done: //nolint:errcheck // how a killed one ended says nothing
	case <-time.After(killedFor):
	}
	return err
}

// explain turns what waitHook gave into what the caller gets.
func (h Hook) explain(err error, text []byte) error {
	var ended *reconcile.Error
	switch {
	case err == nil || errors.As(err, &ended):
		return err
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("hook %s: %w", h.Name, err)
	}
	what := err.Error()
	var exit interface{ ExitCode() int }
	if errors.As(err, &exit) && exit.ExitCode() >= 0 {
		what = fmt.Sprintf("exit status %d", exit.ExitCode())
	}
	message := h.Name + ": " + what
	if line := files.LastLine(text); line != "" {
		message += ": " + line
	}
	return &reconcile.Error{
		Code: CodeHookFailed, Message: message,
		Hint: "its output is in the run's hook log (symphony logs ISSUE --hooks)", Err: err,
	}
}

// report writes the output and how it ended as one block.
func (h Hook) report(log io.Writer, text []byte, lost int64, took time.Duration, err error) {
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n", h.Name)
	if lost > 0 {
		fmt.Fprintf(&b, "--- the first %d bytes of output are left out\n", lost)
	}
	b.Write(text)
	if len(text) > 0 && text[len(text)-1] != '\n' {
		b.WriteByte('\n')
	}
	how := "succeeded"
	if err != nil {
		how = err.Error()
	}
	fmt.Fprintf(&b, "--- %s: %s after %s\n", h.Name, how, took.Round(time.Millisecond))
	_, _ = io.WriteString(log, b.String())
}
