package logs

import (
	"context"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/state"
)

// logOptions say which logs of which runs, and how.
type LogOptions struct {
	Follow, Raw, All bool
	// file is another log than the events: agent.stderr, worker.log, hooks.log.
	File string
	// run is the beginning of a run's id, empty for the newest.
	Run string
	// since is zero where the time of an event does not matter.
	Since time.Time
	// last names the only thing that is wanted, whole; see lastKinds.
	Last string
}

// logs prints what is there of the runs that are asked for, and follows.
func ShowLogs(ctx context.Context, p *project.Project, ref string, o LogOptions) error {
	reading := context.WithoutCancel(ctx) // a signal ends the following, not the reading
	db, err := project.OpenForReading(reading, p)
	if err != nil {
		return err
	}
	defer db.Close()
	issue, err := logIssue(ctx, p, db, ref, o)
	if err != nil {
		return err
	}
	runs, err := issue.runs(reading, db, o)
	if err != nil {
		return err
	}
	if o.Last != "" {
		return printLast(p, runs, o)
	}
	last := ""
	for _, run := range runs {
		if p.Env.Unread() {
			return nil
		}
		if o.All || len(runs) > 1 {
			printHeadline(p, run, o)
		}
		if err := printRun(ctx, p, db, run.ID, o); err != nil {
			return err
		}
		last = run.ID
	}
	if o.Follow && o.Run == "" {
		return followIssue(ctx, p, db, issue, last, o)
	}
	return nil
}

// printRun is the log of one run, to its end where that is known.
func printRun(ctx context.Context, p *project.Project, db *state.DB, runID string, o LogOptions) error {
	if err := printLogFrom(ctx, p, db, runID, o); err != nil {
		return err
	}
	return printEnd(ctx, p, db, runID, o)
}
