package term

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"

	"github.com/symphony-cron/symphony/reconcile"
)

// HasPager reports whether Paged would use a pager.
func (w *Env) HasPager(ctx context.Context) bool {
	return !w.Piped() && !w.JSON && w.pagerCommand(ctx) != nil
}

// Paged runs answer, whose output may be longer than the screen, with a pager as its stdout.
// Without a terminal, or if wanted is false, there is no pager.
func (w *Env) Paged(ctx context.Context, wanted bool, answer func() error) error {
	command := w.pagerCommand(context.WithoutCancel(ctx)) // the pager reacts to signals itself
	if !wanted || w.Piped() || w.JSON || command == nil {
		return answer()
	}
	out := w.Stdout
	pg := &pager{cmd: command}
	pg.cmd.Stdout = out
	pg.cmd.Stderr = w.Stderr
	w.Stdout = pg
	defer func() { w.Stdout = out }()
	return errors.Join(answer(), pg.end())
}

// pagerCommand is $PAGER, otherwise less if it is installed. It is nil for no pager, which an
// empty PAGER or cat stands for.
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
	// The operator's own settings take precedence. Without these, less would show colours as
	// text and umlauts as bytes.
	cmd.Dir = w.Dir
	cmd.Env = append([]string{"LESS=FRX", "LESSCHARSET=utf-8"}, w.Environ...)
	return cmd
}

// pager starts its program at the first write, so that an error is not paged.
type pager struct {
	cmd  *exec.Cmd
	in   io.WriteCloser // nil until it is started
	gone error          // set once the program ended or could not be started
}

// Write implements io.Writer.
func (p *pager) Write(b []byte) (int, error) {
	if p.in == nil && p.gone == nil {
		p.gone = p.start()
	}
	if p.gone != nil {
		return 0, p.gone
	}
	var n int
	n, p.gone = p.in.Write(b)
	return n, p.gone
}

// start starts the program.
func (p *pager) start() error {
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.in = in
	return nil
}

// Unread reports whether the operator left the pager, so that no more output is read.
func (w *Env) Unread() bool {
	p, ok := w.Stdout.(*pager)
	return ok && p.gone != nil
}

// notStarted are the exit codes of a shell that could not start a program: not found, not
// executable.
var notStarted = []int{127, 126}

// end waits until the operator leaves the pager, so that a signal does not take the terminal
// from it. The pager's exit code matters only if the shell could not start it.
func (p *pager) end() error {
	if p.in == nil && p.gone == nil { // nothing was printed
		return nil
	}
	if p.in == nil {
		return p.failed(p.gone)
	}
	_ = p.in.Close() // it may have ended
	err := p.cmd.Wait()
	if p.cmd.ProcessState != nil && !slices.Contains(notStarted, p.cmd.ProcessState.ExitCode()) {
		return nil
	}
	return p.failed(err)
}

func (p *pager) failed(cause error) error {
	program := p.cmd.Args[len(p.cmd.Args)-1]
	return reconcile.NewError(
		"failed",
		fmt.Sprintf("the pager %q could not be started: %v", program, cause),
		"set PAGER to an installed program, or use --no-pager",
	).WithCause(cause)
}
