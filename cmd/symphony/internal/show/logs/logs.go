// Package logs prints the logs of an issue's runs: the agent's events, its stderr, the
// worker's log and the output of hooks. It follows runs that go on.
package logs

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/state"
)

// Options select which logs of which runs to print, and how.
type Options struct {
	Follow bool // print later lines, too
	Raw    bool // print the events as they are stored
	Whole  bool // print all events, and all of each
	All    bool // all runs instead of the newest
	// File is a log other than the events: agent.stderr, worker.log or hooks.log.
	File  string
	Run   string    // the beginning of a run's id
	Since time.Time // only later events
	Tail  int       // only that many of the lines that there are at first; 0 for all
	Last  string    // only the last event of this kind, in full; see eventlog.Kinds
}

// searchedRuns is how many of the newest runs are searched for the last event of a kind.
const searchedRuns = 20

// Print prints the logs of an issue, and with Follow the lines written later. The end of ctx
// ends only the following.
func Print(ctx context.Context, w *term.Env, p *wiring.Project, ref string, o Options) error {
	db, err := wiring.OpenForReading(context.WithoutCancel(ctx), p)
	if err != nil {
		return err
	}
	defer db.Close()
	pr := &printer{w: w, p: p, db: db, o: o}
	if err := pr.findIssue(ctx, ref); err != nil {
		return err
	}
	runs, err := pr.runs(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	if o.Last != "" {
		return pr.printLast(runs)
	}
	last := ""
	for _, run := range runs {
		if w.Unread() {
			return nil
		}
		if o.All || len(runs) > 1 || pr.ofAnotherDay(run) {
			pr.printHeadline(run)
		}
		pr.newest = run.ID == runs[len(runs)-1].ID
		if err := pr.printRun(ctx, run.ID); err != nil {
			return err
		}
		last = run.ID
	}
	if o.Follow && o.Run == "" {
		return pr.followIssue(ctx, last)
	}
	return nil
}

// Read returns a run of an issue with its whole log. id is the beginning of the run's id, or
// empty for the newest run of an agent.
func Read(
	ctx context.Context,
	p *wiring.Project,
	ref, id string,
) (run reconcile.Run, lines []eventlog.Line, err error) {
	db, err := wiring.OpenForReading(ctx, p)
	if err != nil {
		return run, nil, err
	}
	defer db.Close()
	pr := &printer{p: p, db: db, o: Options{Run: id}}
	if err := pr.findIssue(ctx, ref); err != nil {
		return run, nil, err
	}
	runs, err := pr.runs(ctx)
	if err != nil {
		return run, nil, err
	}
	run, dead := wiring.ConfirmDead(ctx, p, db.Runs, runs[0])
	lines, err = eventlog.ReadRun(p.StateDir, run, p.Env.Now(), run.Outcome != "" || dead)
	return run, lines, err
}

// FollowRun prints the events of a run until its end.
func FollowRun(ctx context.Context, w *term.Env, p *wiring.Project, runID string) error {
	db, err := wiring.OpenForReading(context.WithoutCancel(ctx), p)
	if err != nil {
		return err
	}
	defer db.Close()
	pr := &printer{w: w, p: p, db: db, o: Options{Follow: true}, newest: true}
	return pr.printLog(ctx, runID)
}

// printer prints the logs of an issue.
type printer struct {
	w  *term.Env
	p  *wiring.Project
	db *state.DB
	o  Options

	id         string // of the issue
	identifier string // of the issue
	// held are functions that print the last lines, while the log is read for the first time
	// with Tail.
	held   []func()
	holds  bool
	asked  []string // the ids of the requests that were printed
	newest bool     // the run is the newest of the issue
	// status is the last line on the terminal. It names what runs now, and the next output
	// replaces it.
	status string
}

// findIssue finds the issue in the database. An issue without a run can be followed; findIssue
// then asks the tracker for it.
func (pr *printer) findIssue(ctx context.Context, ref string) error {
	id, identifier, known, err := pr.db.Views.FindIssue(ctx, ref)
	if err != nil {
		return err
	}
	if known {
		pr.id = id
		pr.identifier = identifier
		return nil
	}
	if !pr.o.Follow || pr.o.Run != "" {
		if err := wiring.RefuseOfTeam(ctx, pr.p, pr.db, ref); err != nil {
			return err
		}
		return wiring.UnknownIssue(ctx, pr.db, ref, "it has had no run")
	}
	issue, err := wiring.FetchIssue(ctx, pr.p, ref)
	if err != nil {
		return err
	}
	pr.id = issue.ID
	pr.identifier = issue.Identifier
	return nil
}

// runs returns the runs that the options select, the oldest first.
func (pr *printer) runs(ctx context.Context) ([]reconcile.Run, error) {
	if pr.o.Run != "" {
		return pr.namedRun(ctx)
	}
	runs, err := pr.selectedRuns(ctx)
	if err != nil {
		return nil, err
	}
	if len(runs) == 0 && !pr.o.Follow && !pr.o.Since.IsZero() {
		pr.w.Note(slog.LevelInfo, pr.identifier+" had no run since then")
		return nil, nil
	}
	if len(runs) == 0 && !pr.o.Follow {
		return nil, reconcile.NewError(
			"not_found",
			pr.identifier+" has had no run yet",
			"",
		).WithHint(
			"%s shows why; symphony logs -f %s waits for one",
			reconcile.CommandFor("show", pr.identifier),
			pr.identifier,
		)
	}
	return runs, nil
}

// namedRun returns the run whose id begins as the options say.
func (pr *printer) namedRun(ctx context.Context) ([]reconcile.Run, error) {
	runs, err := pr.db.Runs.ByPrefix(ctx, pr.id, pr.o.Run, 2)
	if err != nil {
		return nil, err
	}
	if len(runs) == 1 {
		return runs, nil
	}
	message := pr.identifier + " has no run " + pr.o.Run
	if len(runs) > 1 {
		message = "several runs of " + pr.identifier + " begin with " + pr.o.Run
	}
	return nil, reconcile.NewError("not_found", message, "").
		WithHint("%s lists the latest", reconcile.CommandFor("show", pr.identifier))
}

// selectedRuns returns the runs that options other than Run select, the oldest first.
func (pr *printer) selectedRuns(ctx context.Context) ([]reconcile.Run, error) {
	if pr.o.All || !pr.o.Since.IsZero() {
		return pr.db.Runs.Since(ctx, pr.id, pr.o.Since)
	}
	if pr.o.Last == "" {
		return pr.db.Runs.OfAgents(ctx, pr.id, 1)
	}
	runs, err := pr.db.Runs.OfAgents(ctx, pr.id, searchedRuns)
	slices.Reverse(runs)
	return runs, err
}

// printLast prints the last event of a kind, in full, from the newest run with such an event.
func (pr *printer) printLast(runs []reconcile.Run) error {
	for _, run := range slices.Backward(runs) {
		line, err := eventlog.Last(pr.p.StateDir, run.ID, pr.o.Last)
		if err != nil {
			return err
		}
		if line == nil {
			continue
		}
		pr.printHeadline(run)
		if pr.o.Raw {
			pr.printRaw(line)
			return nil
		}
		reader := eventlog.Reader{Workspace: run.WorkspacePath}
		if l, ok := reader.Read(line); ok {
			render.Log{Whole: true}.Print(pr.w, l)
		}
		return nil
	}
	return reconcile.NewError(
		"not_found",
		fmt.Sprintf("no %s in the log of %s", pr.o.Last, pr.identifier),
		"symphony logs "+pr.identifier+" shows what there is",
	)
}

// printRun prints a run's log and, after the events, how the run ended: a run that failed
// early left no events.
func (pr *printer) printRun(ctx context.Context, runID string) error {
	if err := pr.printLog(ctx, runID); err != nil {
		return err
	}
	if pr.o.Raw || pr.o.File != "" {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	run, err := pr.db.Runs.Find(ctx, runID)
	if err != nil {
		return err
	}
	run, dead := wiring.ConfirmDead(ctx, pr.p, pr.db.Runs, run)
	switch {
	case run.Outcome != "":
		pr.printEnd(run)
	case dead:
		fmt.Fprintf(
			pr.w.Stdout,
			"%s: the worker of this run has died; the next pass records how the run ended\n",
			text.Visible(run.Identifier),
		)
	}
	return nil
}

// printEnd prints how a run ended.
func (pr *printer) printEnd(run reconcile.Run) {
	w := pr.w
	line := render.EndLine(pr.w, run)
	colour := term.ColourStuck
	if run.Outcome.IsRegular() && run.Delivery.Code == "" {
		colour = term.ColourRuns
	}
	if w.Width > 0 {
		line = term.Hang("", line, w.Width)
	}
	fmt.Fprintln(w.Stdout, w.Paint(colour, line))
}

// printLog prints a log of a run, and with Follow goes on until the end of the run.
func (pr *printer) printLog(ctx context.Context, runID string) error {
	f := eventlog.Follower{Path: eventlog.Path(pr.p.StateDir, runID)}
	defer f.Close()
	defer pr.printStatus("")
	pr.holds = pr.o.Tail > 0
	log := &eventlog.Reader{}
	var run reconcile.Run
	show := func(line []byte) { pr.printEvent(log, run, line) }
	switch {
	case pr.o.File != "":
		f.Path = filepath.Join(host.RunDir(pr.p.StateDir, runID), pr.o.File)
		show = pr.printText
	case pr.o.Raw:
		show = pr.printRaw
	}
	for first := true; ; first = false {
		// The run is read before its log: an ended run writes no more.
		var err error
		run, err = pr.db.Runs.Find(context.WithoutCancel(ctx), runID)
		if err != nil {
			return err
		}
		ended := run.Outcome != "" || wiring.WorkerDead(pr.p, run)
		log.Workspace = run.WorkspacePath
		if first && pr.o.File == "" {
			if err := f.ReadPrevious(agent.PreviousEvents(f.Path), show); err != nil {
				return err
			}
		}
		if err := f.Read(show); err != nil {
			return err
		}
		if ended || !pr.o.Follow {
			f.Rest(show)
		}
		pr.printHeld()
		if err := pr.printRequests(ctx, run); err != nil {
			return err
		}
		if ended || !pr.o.Follow {
			pr.printRunning(log, ended)
			return nil
		}
		pr.showRunning(log)
		if !wiring.Sleep(ctx, wiring.WaitStep) {
			return nil
		}
	}
}

// hold calls print now, or after the log was read if its line is then still among the last
// lines.
func (pr *printer) hold(print func()) {
	if !pr.holds {
		print()
		return
	}
	pr.held = append(pr.held, print)
	pr.held = pr.held[max(0, len(pr.held)-pr.o.Tail):]
}

// printHeld prints the last lines.
func (pr *printer) printHeld() {
	for _, print := range pr.held {
		print()
	}
	pr.held = nil
	pr.holds = false
}

// printRequests prints how to answer the agent's requests, once for each.
func (pr *printer) printRequests(ctx context.Context, run reconcile.Run) error {
	if pr.o.Raw || pr.o.File != "" || run.Outcome != "" {
		return nil
	}
	open, err := view.OpenRequests(context.WithoutCancel(ctx), pr.p, pr.db)
	if err != nil {
		return err
	}
	for _, r := range open {
		if r.RunID != run.ID || slices.Contains(pr.asked, r.ID()) {
			continue
		}
		pr.asked = append(pr.asked, r.ID())
		pr.printStatus("")
		fmt.Fprintln(pr.w.Stdout, pr.w.Yellow("waits for you: "+text.Visible(view.HowToAnswer(r))))
	}
	return nil
}

// printRunning prints the commands that run now, however long, or that the end of the run ended.
func (pr *printer) printRunning(log *eventlog.Reader, ended bool) {
	for _, l := range log.Running(pr.w.Now(), ended) {
		if !ended || !l.At.Before(pr.o.Since) {
			pr.print(l, render.Log{})
		}
	}
}

// showRunning shows the running commands in the last line of a terminal.
func (pr *printer) showRunning(log *eventlog.Reader) {
	w := pr.w
	running := log.Running(w.Now(), false)
	if len(running) == 0 || w.Width == 0 || w.Getenv("TERM") == "dumb" {
		return
	}
	pr.printStatus(render.LogLine(w, running[len(running)-1], w.Width))
}

// printStatus replaces the status line.
func (pr *printer) printStatus(line string) {
	if line != pr.status {
		fmt.Fprint(pr.w.Stdout, "\r\x1b[K"+line)
	}
	pr.status = line
}

// print prints a line above the status line.
func (pr *printer) print(l eventlog.Line, o render.Log) {
	pr.printStatus("")
	o.Print(pr.w, l)
}

// followIssue waits for the runs after a given run, and follows each, until ctx ends.
func (pr *printer) followIssue(ctx context.Context, after string) error {
	announced := false
	pr.o.Tail = 0 // later runs are printed whole
	for ctx.Err() == nil {
		run, found, err := pr.db.Runs.Next(context.WithoutCancel(ctx), pr.id, after)
		if err != nil {
			return err
		}
		if found {
			pr.printHeadline(run)
			if err := pr.printRun(ctx, run.ID); err != nil {
				return err
			}
			after = run.ID
			announced = false
			continue
		}
		if !announced {
			fmt.Fprintf(
				pr.w.Stderr,
				"symphony: waiting for the next run of %s; Ctrl-C ends this\n",
				text.Visible(pr.identifier),
			)
			announced = true
		}
		wiring.Sleep(ctx, wiring.WaitStep)
	}
	return nil
}

// ofAnotherDay reports whether the times of day, which are all that a terminal shows, would
// not show when the run was.
func (pr *printer) ofAnotherDay(run reconcile.Run) bool {
	w := pr.w
	return w.Width > 0 && run.StartedAt.Local().Format(time.DateOnly) != w.Now().Local().Format(time.DateOnly)
}

// printHeadline prints the headline above each run's log when several runs are printed. Raw
// events get no headline, so that all lines are JSON.
func (pr *printer) printHeadline(run reconcile.Run) {
	if pr.o.Raw {
		return
	}
	started := text.Rfc3339(run.StartedAt)
	if pr.w.Width > 0 {
		started = run.StartedAt.Local().Format("2006-01-02 15:04")
	}
	line := fmt.Sprintf("=== run %s, started %s", run.ID, started)
	fmt.Fprintln(pr.w.Stdout, pr.w.Bold(text.Visible(line)))
}

// printText prints a line of a log other than the events.
func (pr *printer) printText(line []byte) {
	visible := text.Visible(string(line))
	pr.hold(func() { fmt.Fprintln(pr.w.Stdout, visible) })
}

// printRaw prints an event as it is stored. Control characters become JSON escapes. Lines
// without a time are printed always.
func (pr *printer) printRaw(line []byte) {
	var e struct {
		At time.Time `json:"at"`
	}
	if json.Unmarshal(line, &e) == nil && e.At.Before(pr.o.Since) {
		return
	}
	visible := text.VisibleJSON(string(line))
	pr.hold(func() { fmt.Fprintln(pr.w.Stdout, visible) })
}

// printEvent prints an event as its reader sees it.
func (pr *printer) printEvent(log *eventlog.Reader, run reconcile.Run, line []byte) {
	l, ok := log.Read(line)
	running := l.Status == eventlog.Running && (!pr.o.Follow || pr.w.Width > 0)
	old := l.Kind != eventlog.Unknown && l.At.Before(pr.o.Since)
	minor := l.Minor && !pr.o.Whole
	if !ok || minor || running || old {
		return
	}
	options := render.Log{Whole: pr.o.Whole, Prompt: pr.promptCommand(run, l.Turn)}
	pr.hold(func() { pr.print(l, options) })
}

// promptCommand is the command that prints the whole prompt of a turn: only for the last turn
// can it print nothing else.
func (pr *printer) promptCommand(run reconcile.Run, turn int) string {
	command := "symphony logs " + run.Identifier
	if !pr.newest || pr.o.Run != "" {
		command += " --run " + run.ID
	}
	if turn < run.Turns {
		return command + " -v"
	}
	return command + " --last prompt"
}
