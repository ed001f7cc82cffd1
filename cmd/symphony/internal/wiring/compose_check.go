package wiring

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/tracker/contract"
)

// TrackerReport is the result of checking a tracker.
type TrackerReport struct {
	Issues     int                  `json:"issues"`  // in the active states
	Longest    time.Duration        `json:"-"`       // of the calls
	LongestMS  int64                `json:"call_ms"` // the same in milliseconds
	Violations []contract.Violation `json:"violations"`
	Errors     []*reconcile.Error   `json:"-"` // the violations for people, in the same order
	code       int                  // the exit code of the violations
}

// CheckTracker checks whether the tracker of the workflow keeps the contract of trackers. It
// only reads. It returns an error if a call failed or the tracker could not be checked.
func CheckTracker(ctx context.Context, p *Project) (*TrackerReport, error) {
	cfg, err := p.Config()
	if err != nil {
		return nil, err
	}
	warn := WarnOn(p.Env)
	warnOfNames := warn
	if cfg.Tracker.Folder != "" { // CheckFile has read it
		warnOfNames = func(string) {}
	}
	tracker, err := NewTracker(p, cfg, TrackerOptions{Warn: warnOfNames})
	if err != nil {
		return nil, err
	}
	if err := checkNames(ctx, tracker, cfg, warnOfNames); err != nil {
		return nil, err
	}
	found := contract.Check(ctx, tracker, cfg.Policy.ActiveStates, p.Env.Now())
	if found.Issues == 0 && len(found.Violations) == 0 {
		states := strings.Join(cfg.Policy.ActiveStates, ", ")
		warn("no issue is in an active state (" + states + "), so that little was checked: create one")
	}
	r := &TrackerReport{
		Issues:     found.Issues,
		Longest:    found.Longest,
		LongestMS:  found.Longest.Milliseconds(),
		Violations: append([]contract.Violation{}, found.Violations...),
	}
	for _, v := range found.Violations {
		r.addError(v)
	}
	return r, nil
}

// addError adds a violation for people. The error of a call that failed is shown as it is if
// the rule says only that calls succeed.
func (r *TrackerReport) addError(v contract.Violation) {
	shown := reconcile.NewError("tracker_contract", v.Rule+": "+v.Message, v.Why)
	r.code = max(r.code, exit.Failed)
	known, ok := errors.AsType[*reconcile.Error](v.Err)
	if ok {
		r.code = max(r.code, exit.Code(known))
		if known.Hint != "" {
			shown.Hint += "; " + known.Hint
		}
		if v.Rule == contract.RuleReads.Name {
			shown = known
		}
	}
	r.Errors = append(r.Errors, shown)
}

// checkNames warns about the names in the workflow that the tracker does not have.
func checkNames(
	ctx context.Context,
	t *reconcile.TrackerAdapter,
	cfg *workflow.Config,
	warn func(string),
) error {
	if t.Verify == nil {
		return nil
	}
	found, err := t.Verify(ctx, TrackerNames(cfg))
	if errors.Is(err, reconcile.ErrRejected) {
		warn("the tracker refused to check the project, states and labels: " + err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range WrongNames(cfg, t.Name, found) {
		warn(e.Message + ": " + e.Hint)
	}
	return nil
}

// String is the result in a line.
func (r *TrackerReport) String() string {
	if len(r.Violations) > 0 {
		return fmt.Sprintf(
			"%s in what the tracker answers; docs/trackers.md explains what it has to answer",
			text.Plural(len(r.Violations), "fault"),
		)
	}
	return fmt.Sprintf("the tracker answers as it has to: %s in the active states, longest call %s",
		text.Plural(r.Issues, "issue"), text.Duration(r.Longest))
}
