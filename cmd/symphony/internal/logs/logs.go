// Package logs reads, follows and prints what the runs of an issue have written: the agent's events, its stderr, the
// worker's log and the output of hooks.
package logs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/state"
)

// Options say which logs of which runs to print, and how.
type Options struct {
	Follow bool // print what is written later, too
	Raw    bool // print the events as they are stored
	All    bool // all runs instead of the newest
	// File is a log other than the events: agent.stderr, worker.log or hooks.log.
	File  string
	Run   string    // the beginning of a run's id
	Since time.Time // only later events
	Last  string    // only the last event of this kind, in full; see Kinds
}

const (
	// eventsFile is the log of a run's events.
	eventsFile = "events.jsonl"
	// searchedRuns is how many of the newest runs are searched for the last event of a kind.
	searchedRuns = 20
)

// Kinds are the values of Options.Last. A command counts as soon as it has started.
func Kinds() []string { return []string{"change", "command", "message", "prompt"} }

// Print prints the logs of an issue, and with Follow what is written later. The end of ctx ends only the following.
func Print(ctx context.Context, p *project.Project, ref string, o Options) error {
	db, err := project.OpenForReading(context.WithoutCancel(ctx), p)
	if err != nil {
		return err
	}
	defer db.Close()
	pr := &printer{p: p, db: db, o: o}
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
		if p.Env.Unread() {
			return nil
		}
		if o.All || len(runs) > 1 {
			pr.printHeadline(run)
		}
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

// FollowRun prints the events of one run until it has ended.
func FollowRun(ctx context.Context, p *project.Project, runID string) error {
	db, err := project.OpenForReading(context.WithoutCancel(ctx), p)
	if err != nil {
		return err
	}
	defer db.Close()
	return (&printer{p: p, db: db, o: Options{Follow: true}}).printLog(ctx, runID)
}

// printer prints the logs of one issue.
type printer struct {
	p  *project.Project
	db *state.DB
	o  Options

	id, identifier string // of the issue
}

// findIssue finds the issue in the database. An issue without a run can be followed; findIssue then asks the tracker for it.
func (pr *printer) findIssue(ctx context.Context, ref string) (err error) {
	var known bool
	pr.id, pr.identifier, known, err = pr.db.Views.FindIssue(ctx, ref)
	switch {
	case err != nil || known:
		return err
	case !pr.o.Follow || pr.o.Run != "":
		return view.UnknownIssue(ctx, pr.db, ref, "it has had no run")
	}
	issue, err := project.FetchIssue(ctx, pr.p, ref)
	if err == nil {
		pr.id, pr.identifier = issue.ID, issue.Identifier
	}
	return err
}

// runs returns the runs that the options select, the oldest first.
func (pr *printer) runs(ctx context.Context) (runs []reconcile.Run, err error) {
	e := &reconcile.Error{
		Code: "run_not_found", Message: pr.identifier + " has had no run yet",
		Hint: "symphony show " + pr.identifier + " says why; symphony logs -f " + pr.identifier + " waits for one",
	}
	mayBeEmpty := pr.o.Follow
	switch {
	case pr.o.Run != "":
		runs, err = pr.db.Views.RunsByPrefix(ctx, pr.id, pr.o.Run, 2)
		e.Message, e.Hint = pr.identifier+" has no run "+pr.o.Run, "symphony show "+pr.identifier+" lists the latest"
		if len(runs) > 1 {
			runs, e.Message = nil, "several runs of "+pr.identifier+" begin with "+pr.o.Run
		}
		mayBeEmpty = false
	case pr.o.All || !pr.o.Since.IsZero():
		runs, err = pr.db.Views.RunsSince(ctx, pr.id, pr.o.Since)
		mayBeEmpty = mayBeEmpty || !pr.o.Since.IsZero()
	case pr.o.Last != "":
		runs, err = pr.db.Views.AgentRuns(ctx, pr.id, searchedRuns)
		slices.Reverse(runs)
	default:
		runs, err = pr.db.Views.AgentRuns(ctx, pr.id, 1)
	}
	if err != nil || len(runs) > 0 || mayBeEmpty {
		return runs, err
	}
	return nil, e
}

// printLast prints the last event of a kind, in full, from the newest run that has one.
func (pr *printer) printLast(runs []reconcile.Run) error {
	for _, run := range slices.Backward(runs) {
		path := filepath.Join(runner.RunDir(pr.p.StateDir, run.ID), eventsFile)
		for _, file := range []string{path, agent.PreviousEvents(path)} {
			line, err := lastLine(file, pr.o.Last)
			if err != nil {
				return err
			}
			if line == nil {
				continue
			}
			pr.printHeadline(run)
			if pr.o.Raw {
				pr.printRaw(line)
			} else {
				pr.printEvent(line)
			}
			return nil
		}
	}
	return &reconcile.Error{
		Code: "event_not_found", Message: fmt.Sprintf("no %s in the log of %s", pr.o.Last, pr.identifier),
		Hint: "symphony logs " + pr.identifier + " shows what there is",
	}
}

// lastLine returns the last event of a kind in a log, nil if there is none.
func lastLine(path, kind string) (last []byte, err error) {
	f := follower{path: path}
	defer f.close()
	find := func(line []byte) {
		var e agent.Event
		if json.Unmarshal(line, &e) != nil {
			return
		}
		found := kind == "prompt" && e.Name == agent.EventPrompt
		if item := e.Item; item != nil {
			found = kind == "command" && item.Kind == agent.ItemCommand ||
				kind == "change" && item.Kind == agent.ItemFileChange && item.Ended ||
				kind == "message" && item.Kind == agent.ItemMessage && item.Ended
		}
		if found {
			last = bytes.Clone(line)
		}
	}
	err = f.read(find)
	f.showRest(find)
	return last, err
}

// printRun prints one run's log and, after the events, how the run ended: a run that failed early has no events.
func (pr *printer) printRun(ctx context.Context, runID string) error {
	if err := pr.printLog(ctx, runID); err != nil || pr.o.Raw || pr.o.File != "" {
		return err
	}
	run, err := pr.db.Views.Run(context.WithoutCancel(ctx), runID)
	switch {
	case err != nil:
		return err
	case run.Outcome != "":
		fmt.Fprintln(pr.p.Env.Stdout, render.EndLine(run))
	case project.WorkerDead(pr.p, run):
		fmt.Fprintf(pr.p.Env.Stdout, "%s: the worker of this run has died; the next pass records how the run ended\n", term.Visible(run.Identifier))
	}
	return nil
}

// printLog prints one log of a run, and with Follow goes on until the run has ended.
func (pr *printer) printLog(ctx context.Context, runID string) error {
	dir := runner.RunDir(pr.p.StateDir, runID)
	path, show := filepath.Join(dir, eventsFile), pr.printEvent
	if pr.o.Raw {
		show = pr.printRaw
	}
	if !pr.o.Since.IsZero() {
		showAny := show
		show = func(line []byte) {
			var e struct {
				At time.Time `json:"at"`
			}
			if json.Unmarshal(line, &e) != nil || !e.At.Before(pr.o.Since) { // lines without a time are shown
				showAny(line)
			}
		}
	}
	if pr.o.File != "" {
		path, show = filepath.Join(dir, pr.o.File), pr.printText
	}
	f := follower{path: path}
	defer f.close()
	if pr.o.File == "" {
		if err := f.readPrevious(agent.PreviousEvents(path), show); err != nil {
			return err
		}
	}
	for {
		// The run is read before its log: a run that has ended writes no more.
		run, err := pr.db.Views.Run(context.WithoutCancel(ctx), runID)
		if err != nil {
			return err
		}
		if err := f.read(show); err != nil {
			return err
		}
		if !pr.o.Follow || run.Outcome != "" || project.WorkerDead(pr.p, run) {
			f.showRest(show)
			return nil
		}
		if !project.Sleep(ctx, project.WaitStep) {
			return nil
		}
	}
}

// followIssue waits for the runs that come after one, and follows each, until ctx ends.
func (pr *printer) followIssue(ctx context.Context, after string) error {
	announced := false
	for ctx.Err() == nil {
		run, found, err := pr.db.Views.NextRun(context.WithoutCancel(ctx), pr.id, after)
		if err != nil {
			return err
		}
		if found {
			pr.printHeadline(run)
			if err := pr.printRun(ctx, run.ID); err != nil {
				return err
			}
			after, announced = run.ID, false
			continue
		}
		if !announced {
			fmt.Fprintf(pr.p.Env.Stderr, "symphony: waiting for the next run of %s; Ctrl-C ends this\n", term.Visible(pr.identifier))
			announced = true
		}
		project.Sleep(ctx, project.WaitStep)
	}
	return nil
}

// printHeadline prints the headline above the log of one of several runs. Raw events have none, so that all lines are JSON.
func (pr *printer) printHeadline(run reconcile.Run) {
	if pr.o.Raw {
		return
	}
	line := fmt.Sprintf("=== run %s, started %s", run.ID, term.Rfc3339(run.StartedAt))
	if run.Attempt > 0 {
		line += fmt.Sprintf(", attempt %d", run.Attempt)
	}
	fmt.Fprintln(pr.p.Env.Stdout, pr.p.Env.Bold(term.Visible(line)))
}

func (pr *printer) printText(line []byte) {
	fmt.Fprintln(pr.p.Env.Stdout, term.Visible(string(line)))
}

// printRaw prints an event as it is stored. Control characters become JSON escapes.
func (pr *printer) printRaw(line []byte) {
	fmt.Fprintln(pr.p.Env.Stdout, text.VisibleJSON(string(line)))
}

func (pr *printer) printEvent(line []byte) {
	var e agent.Event
	if err := json.Unmarshal(line, &e); err != nil || e.Name == "" {
		pr.printText(line) // not an event
		return
	}
	description := describe(e, pr.o.Last != "")
	if description == "" {
		return
	}
	w := pr.p.Env
	at := term.Rfc3339(e.At)
	if w.Width > 0 {
		at = e.At.Local().Format(time.TimeOnly)
	}
	margin := w.Dim(at)
	for n, line := range strings.Split(description, "\n") {
		line = term.Visible(strings.TrimSuffix(line, "\r"))
		switch {
		case n == 0:
			kind, _, _ := strings.Cut(line, ": ")
			line = w.Paint(colourOf(e), kind) + line[len(kind):]
		case e.Item != nil && e.Item.Kind == agent.ItemFileChange:
			line = w.PaintDiff(line)
		}
		fmt.Fprintf(w.Stdout, "%s  %s\n", margin, line)
		margin = "        "
	}
}

// follower reads a growing log, which is replaced by a new file when it is full.
type follower struct {
	path string
	file *os.File // nil until the log exists
	rest []byte   // a line without its end
}

// readPrevious shows the file that was replaced by the current log, if there is one. It opens the current file first, so that a
// replacement in between loses no line.
func (f *follower) readPrevious(path string, show func([]byte)) error {
	if err := f.open(); err != nil {
		return err
	}
	previous := follower{path: path}
	defer previous.close()
	if err := previous.open(); err != nil || previous.file == nil {
		return err
	}
	if same, err := f.stillAt(path); same || err != nil {
		return err // replaced in between: read shows it
	}
	_, err := showLines(previous.file, show)
	return err
}

func (f *follower) open() error {
	if f.file != nil {
		return nil
	}
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	f.file = file
	return nil
}

// stillAt reports whether the open file is the one at the path.
func (f *follower) stillAt(path string) (bool, error) {
	if f.file == nil {
		return false, nil
	}
	mine, err := f.file.Stat()
	if err != nil {
		return false, fmt.Errorf("log: %w", err)
	}
	there, err := os.Stat(path)
	if err != nil {
		return false, fmt.Errorf("log: %w", err)
	}
	return os.SameFile(mine, there), nil
}

// read shows the lines that were written since the last read.
func (f *follower) read(show func([]byte)) error {
	for {
		if err := f.open(); err != nil || f.file == nil {
			return err
		}
		// Checked before reading: everything that was written to the old file is read below.
		same, err := f.stillAt(f.path)
		if errors.Is(err, fs.ErrNotExist) {
			same, err = true, nil // the new file is about to be created
		}
		if err != nil {
			return err
		}
		if f.rest, err = showLines(io.MultiReader(bytes.NewReader(f.rest), f.file), show); err != nil || same {
			return err
		}
		f.showRest(show)
		f.close()
	}
}

// showRest shows a last line that has no end.
func (f *follower) showRest(show func([]byte)) {
	if len(f.rest) > 0 {
		show(f.rest)
	}
	f.rest = nil
}

func (f *follower) close() {
	if f.file != nil {
		_ = f.file.Close() // it was only read
		f.file = nil
	}
}

// showLines shows whole lines and returns a last line without an end.
func showLines(r io.Reader, show func([]byte)) (rest []byte, err error) {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return line, nil
		}
		if err != nil {
			return nil, fmt.Errorf("log: %w", err)
		}
		show(bytes.TrimSuffix(line, []byte("\n")))
	}
}
