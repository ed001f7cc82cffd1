package logs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/state"
)

// printLog prints a run's log, and with follow goes on until the run has ended.
func PrintLog(ctx context.Context, p *project.Project, runID string, o LogOptions) error {
	db, err := project.OpenForReading(context.WithoutCancel(ctx), p) // a signal ends the following, not the reading
	if err != nil {
		return err
	}
	defer db.Close()
	return printLogFrom(ctx, p, db, runID, o)
}

func printLogFrom(ctx context.Context, p *project.Project, db *state.DB, runID string, o LogOptions) error {
	dir := runner.RunDir(p.StateDir, runID)
	path := filepath.Join(dir, eventsName)
	show := func(a0 []byte) { ShowEvent(p, a0) }
	if o.Raw {
		show = func(a0 []byte) { ShowRaw(p, a0) }
	}
	if !o.Since.IsZero() {
		show = only(o.Since, show)
	}
	if o.File != "" {
		path, show = filepath.Join(dir, o.File), func(a0 []byte) { showText(p, a0) }
	}
	f := Follower{Path: path}
	defer f.Close()
	if o.File == "" {
		if err := f.ReadPrevious(agent.PreviousEvents(path), show); err != nil {
			return err
		}
	}
	return followFile(ctx, p, db, runID, &f, o.Follow, show)
}

// eventsName is the file of a run's events.
const eventsName = "events.jsonl"

// only leaves out the events before a time. One whose time can't be read is shown.
func only(since time.Time, show func([]byte)) func([]byte) {
	return func(line []byte) {
		var e struct {
			At time.Time `json:"at"`
		}
		if json.Unmarshal(line, &e) != nil || !e.At.Before(since) {
			show(line)
		}
	}
}

// printHeadline stands over the log of one of several runs. Events as they are stored have none: each names its thread.
func printHeadline(p *project.Project, run reconcile.Run, o LogOptions) {
	if o.Raw {
		return
	}
	text := fmt.Sprintf("=== run %s, started %s", run.ID, term.Rfc3339(run.StartedAt))
	if run.Attempt > 0 {
		text += fmt.Sprintf(", attempt %d", run.Attempt)
	}
	fmt.Fprintln(p.Env.Stdout, p.Env.Bold(term.Visible(text)))
}

// printEnd closes the events of a run that has ended with its outcome: one that never came to an agent has no events.
func printEnd(ctx context.Context, p *project.Project, db *state.DB, runID string, o LogOptions) error {
	if o.Raw || o.File != "" {
		return nil
	}
	// A signal has ended the following, and there is nothing to wait for here.
	run, err := db.Run(context.WithoutCancel(ctx), runID)
	switch {
	case err != nil:
		return err
	case run.Outcome != "":
		fmt.Fprintln(p.Env.Stdout, project.EndLine(run))
	case project.WorkerDead(p, run):
		fmt.Fprintf(p.Env.Stdout, "%s: the worker of this run is gone; the next pass says what became of it\n", term.Visible(run.Identifier))
	}
	return nil
}

// followFile prints what is there, and while the run goes on what comes.
func followFile(ctx context.Context, p *project.Project, db *state.DB, runID string, f *Follower, follow bool, show func([]byte)) error {
	for {
		run, err := db.Run(context.WithoutCancel(ctx), runID)
		if err != nil {
			return err
		}
		ended := run.Outcome != "" || project.WorkerDead(p, run)
		if err := f.Read(show); err != nil {
			return err
		}
		if !follow || ended {
			f.ShowRest(show)
			return nil
		}
		if !project.Sleep(ctx, project.WaitStep) {
			return nil
		}
	}
}

// followIssue waits for the runs that come after one, and follows each. A signal ends it.
func followIssue(ctx context.Context, p *project.Project, db *state.DB, issue loggedIssue, after string, o LogOptions) error {
	told := false
	for ctx.Err() == nil {
		run, ok, err := db.NextRun(context.WithoutCancel(ctx), issue.id, after)
		if err != nil {
			return err
		}
		if ok {
			printHeadline(p, run, o)
			if err := printRun(ctx, p, db, run.ID, o); err != nil {
				return err
			}
			after, told = run.ID, false
			continue
		}
		if !told {
			fmt.Fprintf(p.Env.Stderr, "symphony: waiting for the next run of %s; SIGINT (Ctrl-C) ends this\n", term.Visible(issue.identifier))
			told = true
		}
		project.Sleep(ctx, project.WaitStep)
	}
	return nil
}

// showLines shows whole lines and returns the unfinished last one.
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

func showText(p *project.Project, line []byte) {
	fmt.Fprintln(p.Env.Stdout, term.Visible(string(line)))
}

// showRaw prints an event as it is stored, but that JSON's own escapes stand for what a terminal would obey.
func ShowRaw(p *project.Project, line []byte) {
	var b strings.Builder
	for _, r := range string(line) {
		if term.Control(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	fmt.Fprintln(p.Env.Stdout, b.String())
}

// showEvent prints one event for a person.
func ShowEvent(p *project.Project, line []byte) { showEventIn(p, line, InShort) }

func showEventIn(p *project.Project, line []byte, n extent) {
	var e agent.EventLine
	if err := json.Unmarshal(line, &e); err != nil || e.Event == "" {
		showText(p, line) // whatever wrote it: it is no event
		return
	}
	text, ok := Humanize(e, n)
	if !ok {
		return
	}
	margin := p.Env.Dim(EventTime(p.Env, e.At))
	paint := linePainter(p.Env, e)
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintf(p.Env.Stdout, "%s  %s\n", margin, paint(term.Visible(strings.TrimSuffix(line, "\r"))))
		margin = "        "
	}
}

// eventTime is the time of day here on a terminal, exact in a pipe.
func EventTime(w *term.Env, at time.Time) string {
	if w.Width == 0 {
		return term.Rfc3339(at)
	}
	return at.Local().Format(time.TimeOnly)
}
