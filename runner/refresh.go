package runner

import (
	"context"
	"errors"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// readIssue reads the issue from the tracker. It is not visible if the tracker does not return
// it.
func (j *job) readIssue(ctx context.Context) (issue reconcile.Issue, visible bool, err error) {
	found, err := j.Tracker.ByIDs(ctx, []string{j.run.IssueID})
	if err != nil {
		return issue, false, err
	}
	issue, visible = found[j.run.IssueID]
	if issue.Malformed != "" {
		err = reconcile.NewError(
			"tracker_malformed",
			"the tracker's record of "+j.run.Identifier+" is malformed: "+issue.Malformed,
			"correct it in the tracker",
		)
	}
	return issue, visible, err
}

// refresh reads the issue from the tracker and stores it in the record. The error is a runEnd
// if the issue no longer qualifies.
func (j *job) refresh(ctx context.Context) error {
	issue, visible, err := j.readIssue(ctx)
	if err != nil {
		return err
	}
	if reason, _ := j.Config.Policy.StopReason(issue, visible); reason != "" {
		return canceled("the issue no longer qualifies", reason)
	}
	j.rec.change(func(r *reconcile.Run) { r.Issue = issue })
	return nil
}

// How long and how often to retry a refresh between two turns, when the work of the agent may
// be half done.
const (
	refreshPatience = 15 * time.Minute
	refreshPause    = 10 * time.Second
)

// refreshPatiently retries a refresh, so that a short outage of the tracker does not waste the
// work of the last turn.
func (j *job) refreshPatiently(ctx context.Context) error {
	end := time.NewTimer(refreshPatience)
	defer end.Stop()
	for {
		err := j.refresh(ctx)
		var known *reconcile.Error
		if !errors.As(err, &known) || reconcile.RunClass(known.Code) != reconcile.ClassTracker {
			return err
		}
		j.warn("refresh failed, retrying", err)
		pause := refreshPause
		var limit reconcile.Limited
		if errors.As(err, &limit) {
			// an earlier request would be refused, and delay other workers
			pause = max(pause, limit.ResetAt().Sub(j.Now()))
		}
		select {
		case <-time.After(pause):
		case <-end.C:
			return runEnd{
				reconcile.InterruptedRun,
				"tracker_unavailable",
				"no answer from the tracker: " + err.Error(),
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
