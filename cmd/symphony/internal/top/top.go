// Package top is the full screen of symphony top: the issues of all projects, with keys that run symphony's own commands about the
// selected one. The package keeps no state of its own and starts nothing but symphony.
package top

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	tea "charm.land/bubbletea/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// framesPerSecond limits how often the screen is compared with what is shown. Keys are answered within a frame.
const framesPerSecond = 30

// Run shows the issues of all projects of the account, or only of p unless that is nil, until the operator quits or ctx ends. It
// waits for the commands that then still run in the background.
func Run(ctx context.Context, w *term.Env, p *project.Project) error {
	if !w.OnTerminal() || w.Getenv("TERM") == "dumb" {
		return &reconcile.Error{
			Code: "not_a_terminal", Message: "top needs a terminal with a cursor that can be moved",
			Hint: "symphony ps prints the same once, symphony ps --watch every second",
		}
	}
	r := runner{ctx: ctx, env: w, program: project.ProgramPath()}
	m := model{env: w, effects: effects{read: r.read(p), run: r.background, show: r.foreground}}
	// Ctrl-C is a key while the screen is shown. Otherwise it is a signal for the command that has the terminal, and also reaches this
	// process, maybe only when that command has ended.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, syscall.SIGINT)
	defer signal.Stop(interrupts)
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithEnvironment(w.Environ), tea.WithFPS(framesPerSecond),
		tea.WithInput(w.Stdin), tea.WithOutput(w.Stdout), tea.WithoutSignalHandler()).Run()
	if ctx.Err() != nil {
		err = nil // a signal has ended it
	}
	r.wait.Wait()
	return err
}

// runner carries out the effects of the model.
type runner struct {
	ctx     context.Context
	env     *term.Env
	program string
	wait    sync.WaitGroup // for the commands in the background
}

func (r *runner) read(p *project.Project) tea.Cmd {
	return func() tea.Msg {
		o := view.Options{All: true}
		if p != nil {
			v, err := view.Read(r.ctx, project.New(r.env, p.Path, p.StateDir), o) // the workflow may have changed
			return readMsg{[]view.Overview{v}, err}
		}
		all, err := view.ReadAll(r.ctx, r.env, o)
		return readMsg{all, err}
	}
}

// background runs a command without the terminal, in a process group of its own, so that Ctrl-C in a later command does not end it.
func (r *runner) background(c command) tea.Cmd {
	return func() tea.Msg {
		if c[0] != "open" { // a browser may stay
			r.wait.Add(1)
			defer r.wait.Done()
		}
		out, err := r.output(c)
		return endedMsg{c, out, err, true}
	}
}

// output returns what a command prints. A file takes it, because a browser that outlives top could not write to a pipe.
func (r *runner) output(c command) (string, error) {
	file, err := os.CreateTemp("", "symphony-top-")
	if err != nil {
		return "", err
	}
	defer file.Close()
	cmd := exec.CommandContext(context.WithoutCancel(r.ctx), r.program, c...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = r.env.Dir, r.env.Environ, &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdout, cmd.Stderr = file, file
	runErr := cmd.Run()
	text, err := os.ReadFile(file.Name())
	return string(text), cmp.Or(runErr, err, os.Remove(file.Name()))
}

// foreground gives the terminal to a command until it ends.
func (r *runner) foreground(c command) tea.Cmd {
	cmd := exec.CommandContext(r.ctx, r.program, c...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	pager, stays := pagerFor(r.env)
	cmd.Dir, cmd.Env = r.env.Dir, append(slices.Clone(r.env.Environ), "PAGER="+pager)
	paged := !slices.Contains(c, "--follow") && slices.Contains([]string{"show", "logs", "diff"}, c[0])
	return tea.Exec(&visit{cmd: cmd, line: c.String(), pause: paged && !stays, quiet: paged && stays}, func(err error) tea.Msg {
		return endedMsg{command: c, err: err}
	})
}

// pagerFor returns the pager of the commands that top starts. A short text must not vanish at once: stays is false where the
// pager may end by itself.
func pagerFor(w *term.Env) (pager string, stays bool) {
	pager, set := w.Lookup("PAGER")
	if !set {
		if _, err := exec.LookPath("less"); err != nil {
			return "cat", false
		}
		pager = "less -R"
	}
	if name, _, _ := strings.Cut(strings.TrimSpace(pager), " "); filepath.Base(name) == "less" {
		return pager + " -+F -+X", true
	}
	return cmp.Or(pager, "cat"), false
}

// visit is a command that has the terminal. Its output stays until the operator has seen it.
type visit struct {
	cmd   *exec.Cmd
	line  string // the command as it is typed
	pause bool   // wait for a key at the end, even if the command succeeds
	quiet bool   // the pager fills the screen: the command is not printed above
}

// SetStdin, SetStdout and SetStderr implement tea.ExecCommand.
func (v *visit) SetStdin(r io.Reader)  { v.cmd.Stdin = r }
func (v *visit) SetStdout(w io.Writer) { v.cmd.Stdout = w }
func (v *visit) SetStderr(w io.Writer) { v.cmd.Stderr = w }

// Run implements tea.ExecCommand.
func (v *visit) Run() error {
	if !v.quiet {
		fmt.Fprintln(v.cmd.Stdout, "$ "+text.Visible(v.line))
	}
	err := v.cmd.Run()
	if !v.quiet {
		fmt.Fprintln(v.cmd.Stdout)
	}
	if err == nil && !v.pause {
		return nil
	}
	fmt.Fprint(v.cmd.Stdout, "press enter to return to symphony top ")
	key := make([]byte, 1)
	for !bytes.Equal(key, []byte("\n")) {
		if _, readErr := v.cmd.Stdin.Read(key); readErr != nil {
			break
		}
	}
	return err
}
