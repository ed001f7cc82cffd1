package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
)

// trackerAnswer is the tracker's reply to the check of the workflow's names.
type trackerAnswer struct {
	name   string // the tracker's
	found  reconcile.TrackerFindings
	err    error
	budget reconcile.Budget // with the times of the answer
}

// trackerBound limits the wait for the tracker.
const trackerBound = 30 * time.Second

func (at *place) askTracker(ctx context.Context) *trackerAnswer {
	ctx, cancel := context.WithTimeout(ctx, trackerBound)
	defer cancel()
	tracker, err := project.NewTracker(at.cfg, at.p.Env.Now, nil)
	if at.as != asCalled {
		tracker, err = project.NewTrackerWithoutProxy(at.cfg, at.p.Env.Now)
	}
	if err != nil {
		return &trackerAnswer{err: err}
	}
	answer := &trackerAnswer{name: tracker.Name}
	answer.found, answer.err = tracker.Verify(ctx, project.TrackerNames(at.cfg))
	if tracker.Budget != nil {
		answer.budget = tracker.Budget()
	}
	return answer
}

// checkTracker asks the tracker whether the names in the workflow exist.
func checkTracker(_ context.Context, at *place) []finding {
	t := at.cfg.Tracker
	if t.APIKey == "" {
		return nil // the check of the key reports it
	}
	answer := at.tracker()
	switch {
	case errors.Is(answer.err, reconcile.ErrRejected):
		return []finding{wary(t.Endpoint+" answers, but did not check the project, states and labels: "+answer.err.Error(),
			"a pass works without this check: compare the names in WORKFLOW.md with the tracker yourself")}
	case answer.err != nil:
		return failed(answer.err)
	}
	found := answer.found
	list := []finding{well("%s answers %s for the project %s (%s)", t.Endpoint, found.User, found.Project.Name, found.Project.Slug)}
	return append(list, unknownNames(answer.name, t.NamedStates, found)...)
}

// unknownNames warns about names that do not exist. A default state that does not exist is no mistake.
func unknownNames(tracker string, named []string, found reconcile.TrackerFindings) []finding {
	var list []finding
	for _, u := range found.States {
		if slices.Contains(named, u.Name) {
			list = append(list, wary("the project has no state "+u.String(), "correct tracker.active_states or terminal_states, or add the state to the team"))
		}
	}
	for _, u := range found.Labels {
		list = append(list, wary(tracker+" has no label "+u.String(), "create it, or correct tracker.required_labels: until then no issue is started"))
	}
	if u := found.Assignee; u != nil {
		list = append(list, wary(tracker+" has no user "+u.String(), "correct tracker.assignee: until then no issue is started"))
	}
	return list
}

// clockSlack is how far a clock may be off without an effect on comments and due times.
const clockSlack = time.Minute

// checkClock compares this machine's clock with the tracker's.
func checkClock(_ context.Context, at *place) []finding {
	if at.cfg.Tracker.APIKey == "" {
		return nil
	}
	answer := at.tracker()
	if answer.budget.ServerTime.IsZero() {
		return nil // there is no answer: the tracker's check reports it
	}
	off, side := answer.budget.At.Sub(answer.budget.ServerTime), "ahead of"
	if off < 0 {
		off, side = -off, "behind"
	}
	if off < clockSlack {
		return []finding{well("as the tracker's")}
	}
	return []finding{wary(fmt.Sprintf("it is %s %s the tracker's", strings.TrimSpace(term.Duration(off)), side),
		"set it (timedatectl set-ntp true): by it is judged which comments are new")}
}
