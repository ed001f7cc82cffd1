package term

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"

	"github.com/symphony-cron/symphony/reconcile"
)

// The exit codes of a shell that could not start a program.
const (
	shellNotExecutable = 126
	shellNotFound      = 127
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
	var cmd *exec.Cmd
	switch named, set := w.Lookup("PAGER"); {
	case named != "" && named != "cat":
		cmd = exec.CommandContext(ctx, "sh", "-c", named)
	case set:
		return nil
	default:
		less, err := exec.LookPath("less")
		if err != nil {
			return nil
		}
		cmd = exec.CommandContext(ctx, less, "-FRX")
	}
	cmd.Dir, cmd.Env = w.Dir, w.Environ
	// The operator's own settings win. Without these less would show colours as text and umlauts as bytes.
	for name, value := range map[string]string{"LESS": "FRX", "LESSCHARSET": "utf-8"} {
		if _, set := w.Lookup(name); !set {
			cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], name+"="+value)
		}
	}
	return cmd
}

// pager starts its program at the first write: an error is not paged.
type pager struct {
	cmd  *exec.Cmd
	in   io.WriteCloser // nil until it is started
	gone error          // it has ended, or could not be started
}

// Write implements io.Writer.
func (p *pager) Write(b []byte) (int, error) {
	if p.in == nil && p.gone == nil {
		p.start()
	}
	if p.gone != nil {
		return 0, p.gone
	}
	n, err := p.in.Write(b)
	p.gone = err
	return n, err
}

// Unread reports a pager that the operator has left: it reads no more.
func (w *Env) Unread() bool {
	p, ok := w.Stdout.(*pager)
	return ok && p.gone != nil
}

func (p *pager) start() {
	in, err := p.cmd.StdinPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		p.gone = pagerError(p.cmd, err)
		return
	}
	p.in = in
}

// end waits until the operator has left the pager, so that a signal does not take the terminal from it. Its exit code
// matters only where the shell could not start it.
func (p *pager) end() error {
	var known *reconcile.Error
	if errors.As(p.gone, &known) {
		return known
	}
	if p.in == nil {
		return nil
	}
	_ = p.in.Close() // it may have ended
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && (exit.ExitCode() == shellNotFound || exit.ExitCode() == shellNotExecutable) {
		return pagerError(p.cmd, err)
	}
	return nil
}

func pagerError(cmd *exec.Cmd, err error) error {
	return &reconcile.Error{
		Code: "pager_failed", Message: fmt.Sprintf("the pager %q could not be started: %v", cmd.Args[len(cmd.Args)-1], err),
		Hint: "set PAGER to a program that is there, or use --no-pager", Err: err,
	}
}
