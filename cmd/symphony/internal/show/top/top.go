// Package top is the full screen of symphony top: the issues of all projects, with keys for
// symphony's own commands about the selected issue. The package keeps no state of its own.
package top

import (
	"cmp"
	"context"
	"errors"
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

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// framesPerSecond limits how often the screen is redrawn if it changed. Keys are answered
// within a frame.
const framesPerSecond = 30

// Program carries out a command line of symphony and returns its exit code.
type Program func(ctx context.Context, w *term.Env, args []string) int

// Run shows the issues of all projects of the account, or only of p unless that is nil, until
// the operator quits or ctx ends. It waits for commands that then still run in the background.
// Commands that print are given the terminal and carried out by program.
func Run(ctx context.Context, w *term.Env, p *wiring.Project, program Program) error {
	if !w.OnTerminal() || w.Getenv("TERM") == "dumb" {
		return reconcile.NewError(
			"not_a_terminal",
			"top needs a terminal with a cursor that can be moved",
			"symphony ps prints the same once, symphony ps --watch every second",
		)
	}
	r := runner{ctx: ctx, env: w, program: program, interrupts: make(chan os.Signal, 1)}
	m := model{
		env:     w,
		effects: effects{read: r.read(p), log: r.log, run: r.background, show: r.foreground},
	}
	// Ctrl-C is a key while the screen is shown. Otherwise it is a signal for the command that
	// uses the terminal, and may come only after the end of that command.
	signal.Notify(r.interrupts, syscall.SIGINT)
	defer signal.Stop(r.interrupts)
	screen := tea.NewProgram(
		m,
		tea.WithContext(ctx),
		tea.WithEnvironment(w.Environ),
		tea.WithFPS(framesPerSecond),
		tea.WithInput(w.Stdin),
		tea.WithOutput(w.Stdout),
		tea.WithoutSignalHandler(),
	)
	_, err := screen.Run()
	if ctx.Err() != nil {
		err = nil // a signal ended it
	}
	r.wait.Wait()
	return err
}

// runner carries out the effects of the model.
type runner struct {
	ctx        context.Context
	env        *term.Env
	program    Program
	interrupts chan os.Signal
	wait       sync.WaitGroup // for commands in the background
}

// searchedRuns is how many recorded runs a filter finds at most.
const searchedRuns = 200

// read reads the overviews of p, or of all projects if that is nil.
func (r *runner) read(p *wiring.Project) func(filter string) tea.Cmd {
	return func(filter string) tea.Cmd {
		o := view.Options{All: true}
		o.Search.Words = strings.Fields(filter)
		if filter != "" {
			o.Ended = searchedRuns
		}
		return func() tea.Msg {
			if p != nil {
				// the workflow may have changed
				v, err := view.Read(r.ctx, wiring.NewProject(r.env.Environment(), p.Path, p.StateDir), o)
				return readMsg{[]view.Overview{v}, err}
			}
			all, err := view.ReadAll(r.ctx, r.env.Environment(), o)
			return readMsg{all, err}
		}
	}
}

// logLines is how many lines of a log are read: more than screens have.
const logLines = 200

// log reads the log of the newest run of a row's issue.
func (r *runner) log(selected row) tea.Cmd {
	return func() tea.Msg {
		of := selected.overview.Project
		p := wiring.NewProject(r.env.Environment().Silent(), of.WorkflowPath, of.StateDir)
		db, err := wiring.OpenForReading(r.ctx, p)
		if err != nil { // the state tells of errors
			return logMsg{key: selected.key()}
		}
		defer db.Close()
		run, _, _ := db.Runs.Last(r.ctx, selected.IssueID)
		hasEnded := run.Outcome != "" || wiring.WorkerDead(p, run)
		tail, _ := eventlog.ReadTail(p.StateDir, run, logLines, r.env.Now(), hasEnded)
		return logMsg{key: selected.key(), lines: tail.Lines}
	}
}

// background carries out a command without the terminal. Ctrl-C does not end it.
func (r *runner) background(c command) tea.Cmd {
	return func() tea.Msg {
		if c.verb != "open" { // a browser may stay
			r.wait.Add(1)
			defer r.wait.Done()
		}
		lines, err := r.carryOut(context.WithoutCancel(r.ctx), c)
		_, isTold := errors.AsType[exit.Only](err)
		if err != nil && !isTold {
			known := exit.From(err)
			lines = append(lines, known.Error(), known.Hint)
		}
		return endedMsg{
			command:    c,
			lines:      text.Filter(lines, func(line string) bool { return line != "" }),
			err:        err,
			background: true,
		}
	}
}

// carryOut carries out a command, and returns the messages about it.
func (r *runner) carryOut(ctx context.Context, c command) ([]string, error) {
	p := wiring.NewProject(r.env.Environment().Silent(), c.path, c.stateDir)
	if c.verb == "open" {
		return r.openPage(ctx, p, c.issues[0])
	}
	if len(c.issues) == 0 {
		done, err := operate.Do(ctx, p, c.operation())
		if err != nil {
			return nil, err
		}
		return done.Lines(p.Env.Now()), done.Err()
	}
	if len(c.issues) == 1 && c.verb == "stop" {
		name := c.issues[0]
		if _, isAgent := agents.ProjectOf(ctx, p, name); isAgent {
			ended, err := agents.Stop(ctx, p.Env, name)
			if err != nil {
				return nil, err
			}
			return []string{name + " has ended: " + string(ended.Outcome)}, nil
		}
	}
	targets := text.Map(c.issues, func(name string) operate.Target {
		return operate.Target{Project: p, Name: name}
	})
	var lines []string
	done := 0
	results := operate.Each(ctx, targets, c.operation(), func(result operate.TargetResult) {
		lines = append(lines, result.Lines...)
		if e := result.Error; e != nil {
			lines = append(lines, e.Error(), e.Hint)
			return
		}
		done++
	})
	if len(results) > 1 {
		lines = append(lines, fmt.Sprintf("%d of %d done", done, len(results)))
	}
	return lines, operate.ExitCode(results)
}

// operation is the command as an operation, without its issues.
func (c command) operation() operate.Command {
	o, known := operate.OrderOf(c.verb)
	if !known {
		return operate.Change{Verb: reconcile.Verb(c.verb)}
	}
	if o.Name == "stop" { // top shows how the runs end
		return operate.Stop{}
	}
	return o.Command(operate.Arguments{Texts: []string{c.text}, Becomes: c.becomes})
}

// openPage opens the page of an issue in the browser.
func (r *runner) openPage(ctx context.Context, p *wiring.Project, issue string) ([]string, error) {
	address, err := operate.IssueAddress(ctx, p, issue)
	if err != nil {
		return nil, err
	}
	opened, err := r.env.OpenPageBeside(ctx, address)
	if err != nil {
		return []string{address}, err
	}
	if !opened {
		return []string{address, term.NoDisplay}, nil
	}
	return []string{address}, nil
}

// foreground gives the terminal to a command until it ends.
func (r *runner) foreground(c command) tea.Cmd {
	env := r.env.ForCommand()
	pager, stays := pagerFor(env)
	env.Environ = append(slices.Clone(env.Environ), "PAGER="+pager)
	prints := slices.Contains([]string{"show", "logs", "diff"}, c.verb)
	paged := prints && !slices.Contains(c.words, "--follow")
	v := &visit{
		line:  c.String(),
		pause: paged && !stays,
		quiet: paged && stays,
		env:   env,
		run:   func() error { return r.untilInterrupt(env, c) },
	}
	return tea.Exec(v, func(err error) tea.Msg { return endedMsg{command: c, err: err} })
}

// untilInterrupt carries out a command, which Ctrl-C ends.
func (r *runner) untilInterrupt(env *term.Env, c command) error {
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	select {
	case <-r.interrupts: // was meant for the command before
	default:
	}
	go func() {
		select {
		case <-r.interrupts:
			cancel()
		case <-ctx.Done():
		}
	}()
	code := r.program(ctx, env, append([]string{"symphony"}, c.words...))
	if code != exit.OK {
		return fmt.Errorf("exit status %d", code)
	}
	return nil
}

// pagerFor returns the pager of the commands that top starts. A short text must not vanish at
// once: stays is false where the pager may end by itself.
func pagerFor(w *term.Env) (pager string, stays bool) {
	pager, set := w.Lookup("PAGER")
	if !set {
		if _, err := exec.LookPath("less"); err != nil {
			return "cat", false
		}
		pager = "less -R"
	}
	name, _, _ := strings.Cut(strings.TrimSpace(pager), " ")
	if filepath.Base(name) == "less" {
		return pager + " -+F -+X", true
	}
	return cmp.Or(pager, "cat"), false
}

// visit is a command that uses the terminal. Its output stays until the operator saw it.
type visit struct {
	run   func() error
	line  string // the command as it is typed
	pause bool   // wait for a key at the end, even if the command succeeds
	quiet bool   // the pager fills the screen: the command is not printed above
	env   *term.Env
}

// SetStdin implements tea.ExecCommand. A command uses the streams of top.
func (v *visit) SetStdin(io.Reader) {}

// SetStdout implements tea.ExecCommand.
func (v *visit) SetStdout(io.Writer) {}

// SetStderr implements tea.ExecCommand.
func (v *visit) SetStderr(io.Writer) {}

// Run implements tea.ExecCommand.
func (v *visit) Run() error {
	if !v.quiet {
		fmt.Fprintln(v.env.Stdout, "$ "+text.Visible(v.line))
	}
	err := v.run()
	if !v.quiet {
		fmt.Fprintln(v.env.Stdout)
	}
	if err == nil && !v.pause {
		return nil
	}
	// The question at which Ctrl-C ended the command may still read the line. An end of the
	// input returns, too.
	_, _ = term.AskLine(context.Background(), v.env, "press enter to return to symphony top ")
	return err
}
