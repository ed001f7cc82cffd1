package operate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// move stores an order to move an issue, and runs a pass that carries it out. If no pass can now,
// the next one does. A repetition of an order that no pass could carry out yet is the same order.
func (o *operation) move(ctx context.Context, order reconcile.MoveOrder) error {
	pending, err := o.db.Views.Moves(ctx)
	if err != nil {
		return err
	}
	known := text.First(pending, func(m reconcile.MoveOrder) bool {
		return m.IssueID == order.IssueID && m.Text == order.Text && m.To == order.To
	})
	if known.ID == "" {
		known = order
		if err := o.db.Operator.AddMove(ctx, order); err != nil {
			return err
		}
	}
	o.result.stored = true
	if err := o.runPassFor(ctx); err != nil {
		return err
	}
	known, _, err = o.db.Views.MoveByID(ctx, known.ID)
	if err != nil {
		return err
	}
	o.result.Applied = known.Moved
	if !known.Moved && !known.EndedAt.IsZero() {
		if err := o.refuseElsewhere(ctx); err != nil { // the pass has learned that
			return err
		}
		return statusChanged(known)
	}
	if known.Moved {
		o.result.Asked = []string{moved(known)}
	}
	return nil
}

// moved says what a pass has done for an order.
func moved(m reconcile.MoveOrder) string {
	line := ""
	switch {
	case m.GoesBack() && m.NoComment:
		line = "told the next agent of " + m.Identifier + ", because its tracker takes no comments, and "
	case m.GoesBack():
		line = "commented on " + m.Identifier + " and "
	}
	switch {
	case line == "":
		return fmt.Sprintf("moved %s from %s to %s", m.Identifier, m.From, m.To)
	case reconcile.SameState(m.From, m.To):
		return line + "ended its hold"
	}
	return fmt.Sprintf("%smoved it from %s to %s", line, m.From, m.To)
}

// statusChanged is the error of an order about an issue whose status has changed since.
func statusChanged(m reconcile.MoveOrder) error {
	name := m.Identifier
	if m.Commented {
		message := "commented on " + name + ", whose status has changed meanwhile: it was not moved"
		return reconcile.NewError("status_changed", message, "").
			WithHint("%s shows where it is", reconcile.CommandFor("show", name))
	}
	message := "the status of " + name + " has changed meanwhile: nothing was written or moved"
	return reconcile.NewError("status_changed", message, "").
		WithHint("%s shows where it is; then repeat the command", reconcile.CommandFor("show", name))
}

// newMove is an order about an issue as it is now.
func (o *operation) newMove(
	ctx context.Context, issue reconcile.Issue, to string, words reconcile.Words,
) (reconcile.MoveOrder, error) {
	hold, since, err := pass.HeldSince(ctx, o.db, issue.ID)
	return reconcile.MoveOrder{
		ID:         rand.Text(),
		IssueID:    issue.ID,
		Identifier: issue.Identifier,
		At:         o.p.Env.Now().UTC(),
		Words:      words,
		From:       issue.State,
		To:         to,
		Hold:       hold,
		Since:      since,
	}, err
}

// tracked is the issue of a command, as its tracker describes it now.
type tracked struct {
	cfg     *workflow.Config
	policy  reconcile.Policy
	tracker *reconcile.TrackerAdapter
	issue   reconcile.Issue
}

// askTracker reads the issue in its tracker. Error: issue_not_found if that does not have it any more.
func (o *operation) askTracker(ctx context.Context) (t tracked, err error) {
	t.cfg, err = o.p.Config()
	if err != nil {
		return t, err
	}
	t.policy = wiring.Policy(t.cfg)
	t.tracker, err = wiring.NewTracker(o.p, t.cfg, wiring.TrackerOptions{Warn: wiring.WarnForIssue(o.p.Env, t.cfg)})
	if err != nil {
		return t, err
	}
	found, err := t.tracker.ByIDs(ctx, []string{o.command.IssueID})
	if err != nil {
		return t, err
	}
	issue, visible := found[o.command.IssueID]
	if !visible {
		return t, o.gone(ctx, t)
	}
	t.issue = issue
	return t, nil
}

// gone is the error for an issue that the tracker no longer returns.
func (o *operation) gone(ctx context.Context, t tracked) error {
	name := o.command.Identifier
	_, err := t.tracker.Find(ctx, o.command.IssueID)
	if wiring.IsDeleted(t.cfg, err) {
		releases, err := o.db.Views.Releases(ctx, o.command.IssueID, 1)
		if err != nil {
			return err
		}
		last := ""
		if len(releases) > 0 {
			last = text.OrEmpty(releases[0].To)
		}
		return reconcile.NewError("issue_not_found", "the file of "+name+" is gone from "+t.cfg.Tracker.Folder, "").
			WithHint("%s; if nobody needs the issue any more, a pass forgets it, and %s removes its workspace",
				wiring.RestoreFile(ctx, o.p, t.cfg, name, last), reconcile.CommandFor("prune", name))
	}
	gone := reconcile.NewError("issue_not_found", "the tracker no longer returns "+name, "")
	why, known := errors.AsType[*reconcile.Error](err)
	if known && why.Hint != "" {
		gone.Hint = why.Hint
		return gone
	}
	return gone.WithHint("%s shows what is known of it", reconcile.CommandFor("show", name))
}

// mustMove returns an error with a code if the tracker can't move the issue to a state.
func (t tracked) mustMove(to, code string) error {
	name := t.issue.Identifier
	switch {
	case to == "":
		return reconcile.NewError(code, "the workflow has no state to which "+name+" could go",
			"set tracker.active_states and tracker.terminal_states in WORKFLOW.md")
	case t.tracker.Move == nil:
		return reconcile.NewError(code, "the tracker does not let symphony move issues",
			"comment on "+name+" there, and move it to "+to)
	}
	return nil
}

// mayWork returns an error if no agent would work on the issue in a state, for instance because of its
// labels.
func (t tracked) mayWork(there string) error {
	issue := t.issue
	issue.State = there
	reason, _ := t.policy.StopReason(issue, true)
	if reason == "" {
		return nil
	}
	return reconcile.NewError("not_possible",
		fmt.Sprintf("no agent would work on %s in the state %q (%s)", issue.Identifier, there, reason), "").
		WithHint("%s explains it", reconcile.CommandFor("show", issue.Identifier))
}

// inactive is the error for an issue on which no agent works in its state.
func (t tracked) inactive() error {
	return reconcile.NewError(
		"not_possible",
		fmt.Sprintf("no agent works on %s in the state %q", t.issue.Identifier, t.issue.State),
		"move it to "+strings.Join(t.cfg.Policy.ActiveStates, " or ")+" in the tracker, which reopens it",
	)
}
