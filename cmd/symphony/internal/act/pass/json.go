package pass

import (
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// ResultJSON is the documented shape of tick --json.
type ResultJSON struct {
	// Project is the name of the folder of WORKFLOW.md. In a loop with several projects of
	// that name, the later ones have a number behind it.
	Project string    `json:"project"`
	Pass    *passJSON `json:"pass"`
	// Holder holds the lock; it is left out until it wrote its name.
	Holder  *state.Holder `json:"holder,omitempty"`
	Actions []actionJSON  `json:"actions"`
	// the candidates that get no run, or "locked" if another pass holds the lock
	Skipped any              `json:"skipped"`
	Counts  reconcile.Counts `json:"counts"`
	// Obstacle is why the pass started nothing, null if it started runs or nothing was in the
	// way.
	Obstacle *obstacleJSON      `json:"obstacle"`
	Errors   []*reconcile.Error `json:"errors"`
}

// obstacleJSON is the reason of a skip, or the code of an error for which no pass starts
// anything.
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

// JSON returns the pass as tick --json prints it. If another pass holds the lock, the document
// has no pass and no actions.
func (r Result) JSON() ResultJSON {
	out := ResultJSON{
		Project: r.Project,
		Actions: []actionJSON{},
		Counts:  r.Counts,
		Errors:  []*reconcile.Error{},
	}
	if r.Holder != nil {
		out.Skipped = "locked"
		if r.Holder.PID != 0 {
			out.Holder = r.Holder
		}
		return out
	}
	out.Pass = r.passJSON()
	for _, a := range r.Applied {
		if a.Err == nil {
			out.Actions = append(out.Actions, newActionJSON(a))
		}
	}
	out.Skipped = append([]reconcile.Skip{}, r.Skips...)
	if r.Obstacle != nil {
		out.Obstacle = newObstacleJSON(*r.Obstacle)
	}
	out.Errors = append(out.Errors, r.Errors...)
	return out
}

func (r Result) passJSON() *passJSON {
	out := &passJSON{
		Trigger:    r.Pass.Trigger,
		StartedAt:  text.Rfc3339(r.Pass.StartedAt),
		DurationMS: r.Pass.Duration.Milliseconds(),
		DryRun:     r.DryRun,
	}
	if r.Pass.ID != 0 {
		out.ID = &r.Pass.ID
	}
	return out
}

func newActionJSON(a reconcile.Applied) actionJSON {
	return actionJSON{
		Action:     string(a.Kind),
		IssueID:    a.IssueID,
		Identifier: a.Identifier,
		RunID:      text.OrNull(a.RunID),
		Reason:     a.Reason,
	}
}

func newObstacleJSON(o reconcile.Obstacle) *obstacleJSON {
	out := &obstacleJSON{
		Reason:   o.Reason,
		Message:  o.Message,
		TestedBy: text.OrNull(o.Tester),
	}
	if !o.Until.IsZero() {
		out.Until = new(text.Rfc3339(o.Until))
	}
	return out
}
