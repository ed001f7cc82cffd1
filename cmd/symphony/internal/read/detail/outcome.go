package detail

import (
	"slices"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// byPerson are the codes of reasons that end only when a person does something.
var byPerson = []string{
	reconcile.SkipPaused, reconcile.SkipLabel, reconcile.SkipAssignee, reconcile.SkipMalformed,
	reconcile.SkipUnsavedWork, reconcile.SkipPullRequest, reconcile.SkipUnknownState,
	"not_active", "terminal", "other_project", "archived",
	"invalid_config", "missing_workflow_file", "workflow_parse_error",
}

// A worker starts a pass at the end of its run. It may take settleTime to settle the run, and
// then decideTime to start the next run or to hold the issue.
const (
	settleTime = 30 * time.Second
	decideTime = 5 * time.Second
)

// GoesOn reports whether the issue goes on by itself: an agent works on it, its commits are
// being delivered, or a pass that the schedule runs will start it.
func (v Issue) GoesOn() bool {
	switch v.Status {
	case reconcile.StatusRunning:
		return v.Why.Code != "ended" && v.Why.Code != "worker_lost" || v.Schedule || v.endedWithin(settleTime)
	case reconcile.StatusQueued, reconcile.StatusBlocked, reconcile.StatusWaiting, reconcile.StatusUndelivered,
		reconcile.StatusSkipped, StatusReady:
		return (v.Schedule || v.endedWithin(decideTime)) && !slices.Contains(byPerson, v.Why.Code)
	default:
		return false
	}
}

// LacksPass reports whether the issue waits for a pass, and nothing runs passes.
func (v Issue) LacksPass() bool { return v.Next.NeedsPass && !v.Schedule }

// endedWithin reports whether the newest run ended so recently that its own pass still decides
// the next step.
func (v Issue) endedWithin(d time.Duration) bool {
	return len(v.Runs) > 0 && v.Runs[0].EndedAt != nil && v.GeneratedAt.Sub(*v.Runs[0].EndedAt) < d
}

// Failed reports whether the newest run failed, or its commits did not arrive.
func (v Issue) Failed() bool {
	if len(v.Runs) == 0 || v.Runs[0].Outcome == nil {
		return false
	}
	d := v.Runs[0].Delivery
	return !v.Runs[0].Outcome.IsRegular() || d != nil && d.Code != ""
}
