package term

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"

	"github.com/symphony-cron/symphony/reconcile"
)

// Paged runs a command whose answer may be longer than the terminal is high. Without a terminal, or where wanted is false,
// there is no pager.
func (w *Env) Paged(ctx context.Context, wanted bool, answer func() error) error {
	command := w.pagerCommand(context.WithoutCancel(ctx)) // the pager reacts to signals itself
	if !wanted || w.Width == 0 || w.JSON || command == nil {
		return answer()
	}
	out := w.Stdout
	pg := &pager{cmd: command}
	pg.cmd.Stdout, pg.cmd.Stderr = out, w.Stderr
	w.Stdout = pg
	defer func() { w.Stdout = out }()
	return errors.Join(answer(), pg.end())
}

// pagerCommand is $PAGER, otherwise less if it is installed; nil for none, which an empty PAGER or cat asks for.
func (w *Env) pagerCommand(ctx context.Context) *exec.Cmd {
	named, set := w.Lookup("PAGER")
	if !set {
		named = "less -FRX"
		if _, err := exec.LookPath("less"); err != nil {
			return nil
		}
	}
	if named == "" || named == "cat" {
		return nil
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", named)
	// The operator's own settings win. Without these less would show colours as text and umlauts as bytes.
	cmd.Dir, cmd.Env = w.Dir, append([]string{"LESS=FRX", "LESSCHARSET=utf-8"}, w.Environ...)
	return cmd
}

// pager starts its program at the first write: an error is not paged.
type pager struct {
	cmd  *exec.Cmd
	in   io.WriteCloser // nil until it is started
	gone error          // it has ended, or could not be started
}

// Write implements io.Writer.
func (p *pager) Write(b []byte) (n int, err error) {
	if p.in == nil && p.gone == nil {
		if p.in, p.gone = p.cmd.StdinPipe(); p.gone == nil {
			p.gone = p.cmd.Start()
		}
	}
	if p.gone == nil {
		n, p.gone = p.in.Write(b)
	}
	return n, p.gone
}

// Unread reports a pager that the operator has left: it reads no more.
func (w *Env) Unread() bool {
	p, ok := w.Stdout.(*pager)
	return ok && p.gone != nil
}

// The exit codes of a shell that could not start a program.
const (
	shellNotExecutable = 126
	shellNotFound      = 127
)

// end waits until the operator has left the pager, so that a signal does not take the terminal from it. Its exit code
// matters only where it could not be started.
func (p *pager) end() error {
	if p.in == nil {
		return p.gone
	}
	_ = p.in.Close() // it may have ended
	if err := p.cmd.Wait(); p.cmd.ProcessState == nil || p.cmd.ProcessState.ExitCode() == shellNotFound || p.cmd.ProcessState.ExitCode() == shellNotExecutable {
		return &reconcile.Error{
			Code: "pager_failed", Message: fmt.Sprintf("the pager %q could not be started: %v", p.cmd.Args[len(p.cmd.Args)-1], err),
			Hint: "set PAGER to a program that is there, or use --no-pager", Err: err,
		}
	}
	return nil
}
