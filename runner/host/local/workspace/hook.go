package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

const (
	hookOutput = 64 << 10        // bytes of output that are kept: the last ones
	killedFor  = 5 * time.Second // how long a killed shell is waited for
)

// Hook is a script of the workflow.
type Hook struct {
	Name   string
	Script string
	// Timeout is positive.
	Timeout time.Duration
	// Env is its environment; what Workspace.Env says is added.
	Env []string
	// Files are inherited from descriptor 3 on. The lease is one of them.
	Files []*os.File
}

// RunHook runs a hook in a workspace (specification 9.4): `sh -lc Script` in a process group of its own that is killed at the
// timeout or when ctx ends. It is over when the shell exits: children that it leaves may go on, and go on writing, until the run
// is reaped. The last 64 KiB of the output are written to log, then how it ended.
//
// Its errors are hook_failed, with the exit status and the last line of output, hook_timeout, Verify's, or
// the context's. A log that can't be written is no failure of the hook (specification 14).
func RunHook(ctx context.Context, h Hook, w *Workspace, log io.Writer) error {
	if err := w.Verify(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("hook %s: %w", h.Name, err)
	}
	out, err := newCapture(hookOutput)
	if err != nil {
		return files.Failed(err, "run the hook %s", h.Name)
	}
	began := time.Now()
	cmd := exec.Command("sh", "-lc", h.Script) //nolint:noctx // waitShell ends it, with all of its group
	cmd.Dir, cmd.Env, cmd.ExtraFiles = w.Path, append(append([]string{}, h.Env...), w.Env()...), h.Files
	cmd.Stdout, cmd.Stderr = out.in, out.in // files, so that Wait does not wait for a child that keeps them open
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	out.started()
	crash.At("workspace.hook.started")
	if err != nil {
		err = &reconcile.Error{
			Code: CodeHookFailed, Message: h.Name + ": start the shell: " + err.Error(),
			Hint: "sh must be on the PATH of the worker", Err: err,
		}
	} else {
		err = h.waitShell(ctx, cmd)
	}
	output, lost := out.finish()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		what := exit.Error()
		if exit.ExitCode() >= 0 {
			what = fmt.Sprintf("exit status %d", exit.ExitCode())
		}
		if line := files.LastLine(output); line != "" {
			what += ": " + line
		}
		err = &reconcile.Error{
			Code: CodeHookFailed, Message: h.Name + ": " + what,
			Hint: "its output is in the run's hook log (symphony logs ISSUE --hooks)", Err: err,
		}
	}
	how, text := "succeeded", string(output)
	if err != nil {
		how = err.Error()
	}
	if lost > 0 {
		text = fmt.Sprintf("--- the first %d bytes of output are left out\n%s", lost, text)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	_, _ = fmt.Fprintf(log, "--- %s\n%s--- %s: %s after %s\n", h.Name, text, h.Name, how, time.Since(began).Round(time.Millisecond))
	return err
}

// waitShell returns the shell's own error, a hook_timeout, or the context's.
func (h Hook) waitShell(ctx context.Context, cmd *exec.Cmd) error {
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	timer := time.NewTimer(h.Timeout)
	defer timer.Stop()
	var err error
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		err = fmt.Errorf("hook %s: %w", h.Name, ctx.Err())
	case <-timer.C:
		err = &reconcile.Error{
			Code:    CodeHookTimeout,
			Message: fmt.Sprintf("%s ran longer than %s and was killed", h.Name, h.Timeout),
			Hint:    "raise hooks.timeout_ms, or make the hook faster",
		}
	}
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // it fails where the whole group has ended just now
	// One that even SIGKILL does not end (a hung file system) is left to the reaping of the run.
	select {
	case <-done: //nolint:errcheck // how a killed one ended says nothing
	case <-time.After(killedFor):
	}
	return err
}

// capture keeps the last bytes that come through a pipe. It can be finished while a process still holds the
// writing end. What comes later is read and discarded for as long as the worker lives, so that such a process neither gets
// SIGPIPE nor blocks.
type capture struct {
	in, out *os.File
	tail    files.Tail
	done    chan struct{}
}

func newCapture(limit int) (*capture, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c := &capture{in: in, out: out, tail: files.Tail{Limit: limit}, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		_, _ = io.Copy(&c.tail, c.out) // to the end, or until finish stops it
	}()
	return c, nil
}

// started closes our copy of the writing end, once the child has its own.
func (c *capture) started() { _ = c.in.Close() }

// finish gives all that was written before the call, as far as it is kept, and how many bytes went before.
func (c *capture) finish() (text []byte, lost int64) {
	_ = c.out.SetReadDeadline(time.Now()) // os.Pipe gives files that have deadlines
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

// drain takes what is in the pipe already, without waiting for more and not for ever: a child may be filling
// it. What was written before is within the first pipeful, and no pipe that we make holds more than this.
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
