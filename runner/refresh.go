package runner

import (
	"context"
	"errors"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// errMovedOn: the issue is no longer to be worked on.
type errMovedOn struct{ reason string }

func (e errMovedOn) Error() string { return "the issue is no longer ours: " + e.reason }

// errTrackerGone: the tracker did not answer for so long that the run can't know whether to go on.
type errTrackerGone struct{ err error }

func (e errTrackerGone) Error() string { return "no answer from the tracker: " + e.err.Error() }
func (e errTrackerGone) Unwrap() error { return e.err }

// refresh asks the tracker for the issue and keeps the answer. The error is errMovedOn if it is no longer active.
func (j *job) refresh(ctx context.Context) error {
	found, err := j.Tracker.ByIDs(ctx, []string{j.run.IssueID})
	if err != nil {
		return err
	}
	issue, visible := found[j.run.IssueID]
	switch p := j.Config.Policy; {
	case !visible:
		return errMovedOn{reconcile.StopMissing}
	case p.Terminal(issue.State):
		return errMovedOn{reconcile.StopTerminal}
	case issue.Elsewhere:
		return errMovedOn{reconcile.StopMoved}
	case issue.Archived || !p.Active(issue.State):
		return errMovedOn{reconcile.StopInactive}
	case !p.Labelled(issue):
		return errMovedOn{reconcile.StopLabel}
	case !p.Ours(issue):
		return errMovedOn{reconcile.StopAssignee}
	}
	j.rec.change(func(r *reconcile.Run) { r.Issue = issue })
	return nil
}

// The patience of a refresh between two turns, when the agent waits with its work half done.
const (
	refreshPatience = 15 * time.Minute
	refreshPause    = 10 * time.Second
)

// refreshPatiently repeats a refresh that fails, so that the work of the last turn is not lost to a short outage of the
// tracker.
func (j *job) refreshPatiently(ctx context.Context) error {
	end := time.NewTimer(refreshPatience)
	defer end.Stop()
	for {
		err := j.refresh(ctx)
		var known *reconcile.Error
		if !errors.As(err, &known) || !reconcile.TrackerFault(known.Code) {
			return err
		}
		j.warn("refresh failed, trying again", err)
		pause := refreshPause
		var limit reconcile.Limited
		if errors.As(err, &limit) {
			pause = max(pause, limit.ResetAt().Sub(j.Now())) // an earlier request is refused and costs other workers theirs
		}
		select {
		case <-time.After(pause):
		case <-end.C:
			return errTrackerGone{err}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
