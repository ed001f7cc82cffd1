// Package demo runs real passes with real workers on a folder of issues, a repository and a
// WORKFLOW.md in a temporary folder, and prints their progress.
package demo

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/lock"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/codex/codextest"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
)

var (
	//go:embed WORKFLOW.md
	workflowText string
	//go:embed issues.yaml
	madeUpIssues []byte
)

// How long a demo may take, and how often it runs a pass.
const (
	scriptedBound = 2 * time.Minute
	agentBound    = 20 * time.Minute
	demoStep      = 150 * time.Millisecond
)

// playground is the folder of a demo and the progress of its runs.
type playground struct {
	w   *term.Env
	dir string
	Options
	began   time.Time
	tracker *reconcile.TrackerAdapter
	issues  []reconcile.Issue // as the tracker described them last
	ended   map[string]bool   // runs whose end was shown
}

// Options are the flags and the argument of demo.
type Options struct {
	Agent  string // a kind, such as codex; empty for the scripted agent
	Model  string // of that agent; empty for its own
	Remove bool   // the temporary folder at the end
}

// Run takes the issues to their handoff. Afterwards, unless the folder is removed, it shows
// where to look.
func Run(ctx context.Context, w *term.Env, o Options) (err error) {
	made, err := os.MkdirTemp("", "symphony-demo-")
	if err != nil {
		return err
	}
	dir, err := filepath.EvalSymlinks(made)
	if err != nil {
		return err
	}
	if o.Remove {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	d := &playground{w: w, dir: dir, Options: o, began: w.Now(), ended: map[string]bool{}}
	steps := []func(context.Context) error{d.makeRepository, d.addIssues, d.writeWorkflow, d.openTracker}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return errors.Join(err, os.RemoveAll(dir))
		}
	}
	d.say("%s and everything else are in %s", text.Plural(len(d.issues), "issue"), dir)
	d.say("passes that do nothing are not shown")
	if err := d.play(ctx); err != nil {
		return errors.Join(err, d.stopAll(ctx))
	}
	// The user's own account may run the passes from now on, as after tell.
	if err := wiring.UnclaimFolder(d.w.Environment(), "file "+d.folder()); err != nil {
		return err
	}
	return d.lookBack(ctx)
}

// Agent is the scripted agent, a separate process that speaks codex's protocol. It returns the
// exit code.
func Agent(args []string, w *term.Env) int { return codextest.Main(args, w.Stdin, w.Stdout, w.Stderr) }

func (d *playground) say(format string, args ...any) {
	after := d.w.Now().Sub(d.began).Seconds()
	fmt.Fprintf(d.w.Stdout, "%5.1fs  %s\n", after, text.Visible(fmt.Sprintf(format, args...)))
}

func (d *playground) folder() string     { return filepath.Join(d.dir, "issues") }
func (d *playground) workflow() string   { return filepath.Join(d.dir, "WORKFLOW.md") }
func (d *playground) stateDir() string   { return filepath.Join(d.dir, "state") }
func (d *playground) repository() string { return filepath.Join(d.dir, "repository") }

// project reads the project again, as each pass does.
func (d *playground) project() *wiring.Project {
	return wiring.NewProject(d.w.Environment(), d.workflow(), d.stateDir())
}

// flags are the flags with which later commands find the project.
func (d *playground) flags() string {
	return fmt.Sprintf("-w %s --state-dir %s", text.ShellQuote(d.workflow()), text.ShellQuote(d.stateDir()))
}

func failed(hint, format string, args ...any) error {
	return reconcile.NewError("failed", fmt.Sprintf(format, args...), hint)
}

// addIssues writes the files of the issues, with instructions for the scripted agent.
func (d *playground) addIssues(context.Context) error {
	var issues []struct {
		Title       string
		Priority    int
		Description string
		BlockedBy   []string `yaml:"blocked_by"`
	}
	if err := yaml.Unmarshal(madeUpIssues, &issues); err != nil {
		return fmt.Errorf("read the issues of the demo: %w", err)
	}
	if err := os.Mkdir(d.folder(), 0o700); err != nil {
		return err
	}
	for n, issue := range issues {
		id := fmt.Sprintf("DEMO-%d", n+1)
		if d.Agent != "" {
			issue.Description, _, _ = strings.Cut(issue.Description, "\n```agent")
		}
		front, err := yaml.Marshal(map[string]any{
			"id":           id,
			"title":        issue.Title,
			"status":       "To Do",
			"priority":     issue.Priority,
			"blocked_by":   issue.BlockedBy,
			"created_date": d.began.Add(time.Duration(n-60) * time.Minute).UTC().Format(time.RFC3339),
		})
		if err != nil {
			return err
		}
		content := "---\n" + string(front) + "---\n\n" + issue.Description
		if err := os.WriteFile(filepath.Join(d.folder(), id+".md"), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// makeRepository makes the repository, and the environment of everything that the demo starts.
func (d *playground) makeRepository(ctx context.Context) error {
	d.w.Environ = append(d.w.Environ, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Symphony demo", "GIT_AUTHOR_EMAIL=demo@example.com",
		"GIT_COMMITTER_NAME=Symphony demo", "GIT_COMMITTER_EMAIL=demo@example.com")
	if d.Agent == "" { // the demo neither obeys the limits of a codex account nor counts as its use
		d.w.Environ = append(d.w.Environ, "XDG_STATE_HOME="+d.stateDir(), reconcile.MaxAgentsVar+"=")
	}
	err := os.Mkdir(d.repository(), 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(d.repository(), "README.md"), []byte("# A small project\n"), 0o600)
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-qm", "Begin"}} {
		if err == nil {
			_, err = gitcmd.Ask(ctx, d.repository(), d.w.Environ, args...)
		}
	}
	if err != nil {
		return reconcile.NewError("failed", "the repository: "+err.Error(), "the demo needs git on PATH").WithCause(err)
	}
	return nil
}

func (d *playground) writeWorkflow(context.Context) error {
	repository := string(text.JSON(d.repository())) // which YAML reads, too
	values := map[string]string{"Repository": repository}
	if d.Agent != "" && d.Agent != workflow.DefaultAgent {
		values["Kind"] = d.Agent
	}
	switch {
	case d.Model != "" && d.Agent == workflow.DefaultAgent:
		values["CodexModel"] = string(text.JSON(d.Model))
	case d.Model != "":
		values["Model"] = string(text.JSON(d.Model))
	}
	if d.Agent == "" {
		exe, err := os.Executable()
		if err != nil {
			return err
		}
		home := filepath.Join(d.dir, "agent-home")
		if err := os.Mkdir(home, 0o700); err != nil {
			return err
		}
		values["Home"] = "./agent-home"
		values["Command"] = fmt.Sprintf(
			"%s demo-agent app-server --pace 150ms --home %s",
			text.ShellQuote(exe),
			text.ShellQuote(home),
		)
	}
	parsed := template.Must(template.New("").Delims("[[", "]]").Parse(workflowText))
	var source bytes.Buffer
	if err := parsed.Execute(&source, values); err != nil {
		return fmt.Errorf("write the workflow of the demo: %w", err)
	}
	return os.WriteFile(d.workflow(), source.Bytes(), 0o600)
}

// openTracker opens the folder of the issues and reads them.
func (d *playground) openTracker(ctx context.Context) error {
	p := d.project()
	cfg, err := p.Config()
	if err != nil {
		return err
	}
	d.tracker, err = wiring.NewTracker(p, cfg, wiring.TrackerOptions{})
	if err != nil {
		return err
	}
	d.issues, err = d.readIssues(ctx)
	return err
}

func (d *playground) readIssues(ctx context.Context) ([]reconcile.Issue, error) {
	return d.tracker.Candidates(ctx, []string{"To Do", "In Progress", "Human Review", "Done"})
}

// play runs pass after pass until every issue is handed over and nothing runs.
func (d *playground) play(ctx context.Context) error {
	bound := scriptedBound
	if d.Agent != "" {
		bound = agentBound
	}
	// The demo holds the loop's lock: workers then start no passes, so that nothing outlives
	// the demo.
	if err := os.MkdirAll(d.stateDir(), 0o700); err != nil {
		return err
	}
	file, err := wiring.TakeLoopLock(ctx, d.stateDir())
	if err != nil && !errors.Is(err, lock.ErrHeld) {
		return err
	}
	if err == nil {
		defer func() { _ = lock.Release(file) }() // the end of the process unlocks it anyway
	}
	for d.w.Now().Sub(d.began) < bound {
		r, err := pass.Run(ctx, d.project(), pass.Options{
			Trigger:     wiring.TriggerManual,
			Stays:       true,
			Unlisted:    true,
			LockTimeout: wiring.CommandPatience,
		})
		if err != nil {
			return err
		}
		if len(r.Errors) > 0 {
			return r.Errors[0]
		}
		if err := d.show(ctx, r); err != nil {
			return err
		}
		isOpen := func(i reconcile.Issue) bool { return i.State == "To Do" || i.State == "In Progress" }
		waiting := slices.ContainsFunc(d.issues, isOpen)
		idle := r.Holder == nil && r.Running+r.Retrying+r.Held == 0 && len(r.Applied) == 0
		if idle && !waiting && len(pass.LiveRuns(ctx, d.project())) == 0 {
			d.say("every issue is handed over, and nothing runs")
			return nil
		}
		if idle && waiting {
			if err := d.merge(ctx); err != nil {
				return err
			}
		}
		if !wiring.Sleep(ctx, demoStep) {
			return ctx.Err()
		}
	}
	return failed("see why: "+program(wiring.ProgramPath())+" ps --all "+d.flags(),
		"not every issue was handed over within %s", text.Duration(bound))
}

// merge does what a person does after merging a branch: it moves an issue in review to its last
// state. Another issue waits for that.
func (d *playground) merge(ctx context.Context) error {
	blocker := text.First(d.issues, func(i reconcile.Issue) bool {
		return i.ID == "DEMO-1" && i.State == "Human Review"
	})
	if blocker.ID == "" {
		return nil
	}
	waiting := text.First(d.issues, func(i reconcile.Issue) bool { return len(i.BlockedBy) > 0 })
	const line = "you       move %s to Done, as after a merge: %s waits for it"
	d.say(line, blocker.Identifier, waiting.Identifier)
	return d.tracker.Move(ctx, blocker.ID, "Done")
}

// show prints the issues that changed their states, the runs that ended, and the actions of
// the pass.
func (d *playground) show(ctx context.Context, r pass.Result) error {
	before := d.issues
	now, err := d.readIssues(ctx)
	if err != nil {
		return err
	}
	d.issues = now
	for _, was := range before {
		for _, issue := range d.issues {
			if issue.ID == was.ID && issue.State != was.State {
				d.say("tracker   %s: %s -> %s", issue.Identifier, was.State, issue.State)
			}
		}
	}
	v, err := view.Read(ctx, d.project(), view.Options{All: true})
	if err != nil {
		return err
	}
	for _, e := range slices.Backward(v.Ended) {
		if d.ended[e.RunID] {
			continue
		}
		d.ended[e.RunID] = true
		turns := text.Plural(e.Turns, "turn")
		tokens := text.Count(e.Tokens.Total)
		line := fmt.Sprintf("run of %s %s, %s, %s tokens", e.Identifier, *e.Outcome, turns, tokens)
		if e.Error != nil {
			line += ": " + *e.Error
		}
		d.say("worker    %s", line)
	}
	// a schedule would wait until it is over; the user of a demo should not
	if b := v.ProjectBlock; b != nil {
		return failed(
			"the agent must be installed and logged in; without --agent none is needed",
			"%s: %s",
			b.Reason,
			b.Message,
		)
	}
	r.Applied = slices.DeleteFunc(slices.Clone(r.Applied), func(a reconcile.Applied) bool {
		// the run's own end reports it
		return a.Kind == reconcile.ActSettle || a.Kind == reconcile.ActReap
	})
	for _, line := range r.Sentences(d.w.Now()) {
		d.say("pass %-4d %s", r.Pass.ID, line)
	}
	return nil
}

// stopAll ends the running workers when the demo is interrupted.
func (d *playground) stopAll(ctx context.Context) error {
	p := d.project()
	if !p.HasState() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	if _, err := operate.Do(ctx, p, operate.Stop{All: true, NoWait: true}); err != nil {
		return err
	}
	for len(pass.LiveRuns(ctx, p)) > 0 && wiring.Sleep(ctx, wiring.WaitStep) {
	}
	return nil
}

// lookBack prints the result, commands that show more, and how to begin in a repository of the
// user's own.
func (d *playground) lookBack(ctx context.Context) error {
	v, err := view.Read(ctx, d.project(), view.Options{All: true})
	if err != nil {
		return err
	}
	fmt.Fprintln(d.w.Stdout)
	for _, issue := range d.issues {
		fmt.Fprintf(d.w.Stdout, "  %-8s %-14s %s\n", issue.Identifier, issue.State, issue.Title)
	}
	fmt.Fprintf(
		d.w.Stdout,
		"\n%s, %s tokens, nothing running.\n",
		text.Plural(len(v.Ended), "run"),
		text.Count(v.Totals.Total),
	)
	if !d.Remove {
		d.lookAround()
	}
	fmt.Fprint(d.w.Stdout, d.begin(wiring.ProgramPath()))
	return nil
}

// lookAround prints commands about the result, and the command that removes it. The scripted agent
// reads nothing, so an issue is sent back only to a real one.
func (d *playground) lookAround() {
	command := program(wiring.ProgramPath())
	fmt.Fprintf(
		d.w.Stdout,
		"\nThe work is on branches of %s. Look around:\n\n  %s ps --all %s\n  %[2]s logs DEMO-3 %[3]s\n"+
			"  git -C %[4]s log -p HEAD..symphony/DEMO-3\n",
		text.Visible(d.repository()),
		command,
		d.flags(),
		text.ShellQuote(d.repository()),
	)
	if d.Agent != "" {
		fmt.Fprintf(
			d.w.Stdout,
			"\nOr send a result back, and let its agent go on:\n\n  %s tell DEMO-3 %s %s\n  %[1]s run DEMO-3 %[3]s\n",
			command,
			text.ShellQuote("Greet in German."),
			d.flags(),
		)
	}
	fmt.Fprintf(
		d.w.Stdout,
		"\nWhen you have seen enough, remove all of it:\n\n  rm -rf %s\n",
		text.ShellQuote(d.dir),
	)
}

// begin tells how to use the program in the user's own repository. A program that go run has
// built has to be built again, because it is gone when it ends.
func (o Options) begin(path string) string {
	lines := "\n"
	command := text.ShellQuote(path)
	if isTemporary(path) {
		command = "~/.local/bin/symphony"
		lines += "Build the program:\n\n  scripts/build " + command + "\n\n"
	}
	title := workflow.DefaultAgent
	flags := ""
	if o.Agent != "" && o.Agent != workflow.DefaultAgent {
		title = o.Agent
		flags = " --agent " + o.Agent
	}
	if o.Model != "" {
		flags += " --model " + text.ShellQuote(o.Model)
	}
	return lines + "Now in your own repository, with " + title + " installed and logged in:\n\n  " +
		command + " init --tracker file" + flags + "\n"
}

// program returns the command to call the program at that path from a shell. A program built
// by go run is gone when it ends.
func program(path string) string {
	if isTemporary(path) {
		return "go run ./cmd/symphony"
	}
	return text.ShellQuote(path)
}

func isTemporary(path string) bool { return path == "" || wiring.BuiltByGoRun(path) }
