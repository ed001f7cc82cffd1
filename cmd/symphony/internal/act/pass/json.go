package pass

import (
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// ResultJSON is the documented shape of tick --json.
type ResultJSON struct {
	// Project is the name of the folder of WORKFLOW.md. In a loop with several projects of that name, the later ones have a number behind it.
	Project string    `json:"project"`
	Pass    *passJSON `json:"pass"`
	// Holder has the lock; it is left out until it has written its name.
	Holder  *state.Holder    `json:"holder,omitempty"`
	Actions []actionJSON     `json:"actions"`
	Skipped any              `json:"skipped"` // the candidates that get no run, or "locked" if another pass has the lock
	Counts  reconcile.Counts `json:"counts"`
	// Obstacle is why the pass started nothing, null if it started runs or nothing was in the way.
	Obstacle *obstacleJSON      `json:"obstacle"`
	Errors   []*reconcile.Error `json:"errors"`
}

// obstacleJSON has the reason of a skip, or the code of an error for which no pass starts anything.
type obstacleJSON struct {
	Reason   string  `json:"reason"`
	Message  string  `json:"message"`
	Until    *string `json:"until"`     // when it ends or is tested again
	TestedBy *string `json:"tested_by"` // the issue whose run tests whether it is over
}

type passJSON struct {
	ID         *int64 `json:"id"` // null in a dry run, and if the pass could not be recorded
	Trigger    string `json:"trigger"`
	StartedAt  string `json:"started_at"`
	DurationMS int64  `json:"duration_ms"`
	DryRun     bool   `json:"dry_run"`
}

type actionJSON struct {
	Action     string  `json:"action"`
	IssueID    string  `json:"issue_id"`
	Identifier string  `json:"issue_identifier"`
	RunID      *string `json:"run_id"`
	Reason     string  `json:"reason"`
}

// JSON returns the pass as tick --json prints it.
func (r Result) JSON() ResultJSON {
	out := ResultJSON{
		Project: r.Project, Actions: []actionJSON{}, Errors: []*reconcile.Error{},
		Counts: r.Counts,
	}
	if r.Holder != nil {
		out.Skipped = "locked"
		if r.Holder.PID != 0 {
			out.Holder = r.Holder
		}
		return out
	}
	out.Pass = &passJSON{&r.Pass.ID, r.Pass.Trigger, text.Rfc3339(r.Pass.StartedAt), r.Pass.Duration.Milliseconds(), r.DryRun}
	if r.Pass.ID == 0 {
		out.Pass.ID = nil
	}
	for _, a := range r.Applied {
		if a.Err == nil {
			out.Actions = append(out.Actions, actionJSON{string(a.Kind), a.IssueID, a.Identifier, text.OrNull(a.RunID), a.Reason})
		}
	}
	if o := r.Obstacle; o != nil {
		out.Obstacle = &obstacleJSON{Reason: o.Reason, Message: o.Message, TestedBy: text.OrNull(o.Tester)}
		if !o.Until.IsZero() {
			out.Obstacle.Until = new(text.Rfc3339(o.Until))
		}
	}
	out.Skipped = append([]reconcile.Skip{}, r.Skips...)
	out.Errors = append(out.Errors, r.Errors...)
	return out
}
