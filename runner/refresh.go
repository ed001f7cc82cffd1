package runner

import (
	"context"
	"errors"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// issueReader reads the issue of a run from the tracker.
type issueReader struct{ *parts }

// read reads the issue from the tracker. It is not visible if the tracker does not return it.
func (i *issueReader) read(ctx context.Context) (issue reconcile.Issue, visible bool, err error) {
	found, err := i.Tracker.ByIDs(ctx, []string{i.run.IssueID})
	if err != nil {
		return issue, false, err
	}
	issue, visible = found[i.run.IssueID]
	if issue.Malformed != "" {
		err = reconcile.NewError(
			"tracker_malformed",
			"the tracker's record of "+i.run.Identifier+" is malformed: "+issue.Malformed,
			"correct it in the tracker",
		)
	}
	return issue, visible, err
}

// refresh reads the issue from the tracker and stores it in the record. The error is a runEnd
// if the issue no longer qualifies.
func (i *issueReader) refresh(ctx context.Context) error {
	issue, visible, err := i.read(ctx)
	if err != nil {
		return err
	}
	if reason, _ := i.site.Config.Policy.StopReason(issue, visible); reason != "" {
		return canceled("the issue no longer qualifies", reason)
	}
	i.rec.change(func(r *reconcile.Run) { r.Issue = issue })
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
func (i *issueReader) refreshPatiently(ctx context.Context) error {
	end := time.NewTimer(refreshPatience)
	defer end.Stop()
	for {
		err := i.refresh(ctx)
		known, is := errors.AsType[*reconcile.Error](err)
		if !is || reconcile.RunClass(known.Code) != reconcile.ClassTracker {
			return err
		}
		warn(i.Log, "refresh failed, retrying", err)
		pause := refreshPause
		var limit reconcile.Limited
		if errors.As(err, &limit) {
			// an earlier request would be refused, and delay other workers
			pause = max(pause, limit.ResetAt().Sub(i.Now()))
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
