package operate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// VerbSendBack sends an issue that was handed over back to an agent.
const VerbSendBack reconcile.Verb = "send-back"

// SendBack sends an issue that was handed over back to an agent, with a text for it.
type SendBack struct {
	single
	Issue string
	Text  string
}

// Name implements Command.
func (SendBack) Name() reconcile.Verb { return VerbSendBack }

// About implements Command.
func (c SendBack) About(name string) Command {
	c.Issue = name
	return c
}

func (c SendBack) do(ctx context.Context, p *wiring.Project, runPass passRunner) (Done, error) {
	o := newOperation(p, reconcile.Command{Verb: VerbSendBack}, runPass)
	err := o.carryOut(ctx, c.Issue, func() error { return o.sendBack(ctx, c.Text) })
	return Done{o.result, o.result.JSON()}, err
}

// sendBack stores the order to comment on the issue and to move it to an active state. A pass
// carries it out, and starts an agent if a schedule is active. A repetition of an order that no
// pass could carry out yet is the same order.
func (o *operation) sendBack(ctx context.Context, said string) error {
	said, err := messageText(said)
	if err != nil {
		return exit.Usage("send-back: %v", err)
	}
	order, err := o.orderOf(ctx, said)
	if err != nil {
		return err
	}
	o.result.stored = true
	if err := o.runPassFor(ctx); err != nil {
		return err
	}
	order, _, err = o.db.Views.SendBackByID(ctx, order.ID)
	if err != nil {
		return err
	}
	o.result.Applied = order.Moved
	switch {
	case order.Moved:
		how := "commented on " + order.Identifier
		if order.NoComment {
			how = "told the next agent of " + order.Identifier
		}
		o.result.Asked = []string{fmt.Sprintf("%s and moved it from %s to %s", how, order.From, order.To)}
	case !order.EndedAt.IsZero():
		if err := o.refuseElsewhere(ctx); err != nil { // the pass has learned that
			return err
		}
		return reconcile.NewError("not_sent_back", "someone has moved "+o.command.Identifier+" meanwhile", "").
			WithHint("%s shows where it is", reconcile.CommandFor("show", o.command.Identifier))
	}
	alive, err := wiring.ScheduleAlive(ctx, o.db, o.p.Env.Now())
	o.result.Unscheduled = !alive && !wiring.Looping(o.p.StateDir)
	return err
}

// orderOf returns the stored order to send the issue back with a text.
func (o *operation) orderOf(ctx context.Context, said string) (reconcile.SendBack, error) {
	pending, err := o.db.Views.SendBacks(ctx)
	if err != nil {
		return reconcile.SendBack{}, err
	}
	known := text.First(pending, func(s reconcile.SendBack) bool {
		return s.IssueID == o.command.IssueID && s.Text == said
	})
	if known.ID != "" {
		return known, nil
	}
	return o.newOrder(ctx, said)
}

// newOrder stores an order, unless no agent would go on with the issue.
func (o *operation) newOrder(ctx context.Context, said string) (order reconcile.SendBack, err error) {
	cfg, err := o.p.Config()
	if err != nil {
		return order, err
	}
	tracker, err := wiring.NewTracker(o.p, cfg, wiring.TrackerOptions{Warn: wiring.WarnForIssue(o.p.Env, cfg)})
	if err != nil {
		return order, err
	}
	found, err := tracker.ByIDs(ctx, []string{o.command.IssueID})
	if err != nil {
		return order, err
	}
	issue, visible := found[o.command.IssueID]
	back := wiring.Policy(cfg).BackState(cfg.Feedback)
	if err := o.refuseSendBack(ctx, cfg, tracker, issue, visible, back); err != nil {
		return order, err
	}
	order = reconcile.SendBack{
		ID:         rand.Text(),
		IssueID:    issue.ID,
		Identifier: issue.Identifier,
		At:         o.p.Env.Now().UTC(),
		Words:      reconcile.Words{By: Account(), Text: said},
		From:       issue.State,
		To:         back,
		NoComment:  tracker.Post == nil,
	}
	return order, o.db.Operator.AddSendBack(ctx, order)
}

// refuseSendBack returns an error if the issue can't be sent back to an agent in the state back, or
// if an agent is at work on it.
func (o *operation) refuseSendBack(
	ctx context.Context, cfg *workflow.Config, tracker *reconcile.TrackerAdapter,
	issue reconcile.Issue, visible bool, back string,
) error {
	name := o.command.Identifier
	refuse := func(format string, args ...any) *reconcile.Error {
		return reconcile.NewError("not_sent_back", fmt.Sprintf(format, args...), "")
	}
	show := reconcile.CommandFor("show", name)
	tell := reconcile.CommandLine{Verb: "tell", Name: name, Rest: "TEXT"}
	c, claimed, err := o.db.Views.ClaimByIssue(ctx, o.command.IssueID)
	if err != nil {
		return err
	}
	policy := wiring.Policy(cfg)
	there := issue
	there.State = back
	reason, _ := policy.StopReason(there, visible)
	switch {
	case !visible:
		return o.refuseGone(ctx, cfg, tracker)
	case back == "":
		return refuse("no active state is known to which %s could go", name).
			WithHint("set tracker.active_states in WORKFLOW.md")
	case tracker.Move == nil:
		return refuse("the tracker does not let symphony move issues").
			WithHint("comment on it there, and move it to %s", back)
	case claimed && c.Status == reconcile.Running:
		return refuse("an agent is at work on %s", name).
			WithHint("%s tells it", tell)
	case claimed && c.HoldReason == reconcile.HoldOperator:
		return refuse("an operator holds %s", name).
			WithHint("%s ends the hold", reconcile.CommandFor("retry", name))
	case claimed && c.Delivery.Due:
		return refuse("the work on %s is not delivered yet", name).
			WithHint("%s delivers it now", reconcile.CommandFor("deliver", name))
	case policy.Active(issue.State):
		return refuse("%s is in the state %q, in which agents work anyway", name, issue.State).
			WithHint("%s tells its next agent%s", tell, o.takenBack(ctx, cfg, issue))
	case reason != "":
		return refuse("no agent would work on %s in the state %q (%s)", name, back, reason).
			WithHint("%s explains it", show)
	}
	return nil
}

// refuseGone is the error for an issue that the tracker no longer returns.
func (o *operation) refuseGone(ctx context.Context, cfg *workflow.Config, tracker *reconcile.TrackerAdapter) error {
	name := o.command.Identifier
	refuse := func(message string) *reconcile.Error { return reconcile.NewError("not_sent_back", message, "") }
	_, err := tracker.Find(ctx, o.command.IssueID)
	if wiring.IsDeleted(cfg, err) {
		releases, err := o.db.Views.Releases(ctx, o.command.IssueID, 1)
		if err != nil {
			return err
		}
		last := ""
		if len(releases) > 0 {
			last = text.OrEmpty(releases[0].To)
		}
		return refuse("the file of "+name+" is gone from "+cfg.Tracker.Folder).
			WithHint("%s; if nobody needs the issue any more, a pass forgets it, and %s removes its workspace",
				wiring.RestoreFile(ctx, o.p, cfg, name, last), reconcile.CommandFor("prune", name))
	}
	gone := refuse("the tracker no longer returns " + name)
	why, known := errors.AsType[*reconcile.Error](err)
	if known && why.Hint != "" {
		gone.Hint = why.Hint
		return gone
	}
	return gone.WithHint("%s shows what is known of it", reconcile.CommandFor("show", name))
}

// takenBack is the end of a hint about an issue that was handed over, and is in an active state again,
// perhaps because git took its file back; empty for any other issue.
func (o *operation) takenBack(ctx context.Context, cfg *workflow.Config, issue reconcile.Issue) string {
	releases, err := o.db.Views.Releases(ctx, issue.ID, 1)
	if err != nil || len(releases) == 0 { // the hint is complete without it
		return ""
	}
	back := view.MovedBack(cfg, releases[0], issue.State, o.p.Env.Now())
	if back == "" {
		return ""
	}
	return "; " + back
}
