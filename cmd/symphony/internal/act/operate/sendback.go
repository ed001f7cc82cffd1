package operate

import (
	"context"
	"fmt"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
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

// sendBack comments on the issue, moves it to an active state, and runs a pass, which starts
// an agent if a schedule is active. The comment comes first: the agent must find it.
func (o *operation) sendBack(ctx context.Context, said string) error {
	said, err := messageText(said)
	if err != nil {
		return exit.Usage("send-back: %v", err)
	}
	cfg, err := o.p.Config()
	if err != nil {
		return err
	}
	tracker, err := wiring.NewTracker(o.p, cfg, wiring.TrackerOptions{Warn: wiring.WarnOn(o.p.Env)})
	if err != nil {
		return err
	}
	found, err := tracker.ByIDs(ctx, []string{o.command.IssueID})
	if err != nil {
		return err
	}
	issue, visible := found[o.command.IssueID]
	back := wiring.Policy(cfg).BackState(cfg.Feedback)
	if err := o.staysHere(ctx, cfg, tracker, issue, visible, back); err != nil {
		return err
	}
	how := "commented on " + issue.Identifier
	if tracker.Post == nil {
		how = "told the next agent of " + issue.Identifier
	}
	if err := o.say(ctx, tracker, issue, said); err != nil {
		return err
	}
	if err := tracker.Move(ctx, issue.ID, back); err != nil {
		return withHint(err, how+", but did not move it: move it to "+back)
	}
	o.result.Applied = true
	o.result.Effect = []string{fmt.Sprintf("%s and moved it from %s to %s", how, issue.State, back)}
	return o.startAgain(ctx)
}

// staysHere returns an error if the issue can't be sent back to an agent in the state back, or
// if an agent is at work on it.
func (o *operation) staysHere(
	ctx context.Context, cfg *workflow.Config, tracker *reconcile.TrackerAdapter,
	issue reconcile.Issue, visible bool, back string,
) error {
	name := o.command.Identifier
	refuse := func(hint, format string, args ...any) error {
		return reconcile.NewError("not_sent_back", fmt.Sprintf(format, args...), hint)
	}
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
		return refuse("symphony show "+name+" shows what is known of it", "the tracker no longer returns %s", name)
	case back == "":
		return refuse("set tracker.active_states in WORKFLOW.md", "no active state is known to which %s could go", name)
	case tracker.Move == nil:
		return refuse("comment on it there, and move it to "+back, "the tracker does not let symphony move issues")
	case claimed && c.Status == reconcile.Running:
		return refuse("symphony tell "+name+" TEXT tells it", "an agent is at work on %s", name)
	case claimed && c.HoldReason == reconcile.HoldOperator:
		return refuse("symphony retry "+name+" ends the hold", "an operator holds %s", name)
	case claimed && c.Delivery.Due:
		return refuse("symphony deliver "+name+" delivers it now", "the work on %s is not delivered yet", name)
	case policy.Active(issue.State):
		return refuse("symphony tell "+name+" TEXT tells its next agent",
			"%s is in the state %q, in which agents work already", name, issue.State)
	case reason != "":
		return refuse("symphony show "+name+" explains it",
			"no agent would work on %s in the state %q (%s)", name, back, reason)
	}
	return nil
}

// say comments on the issue or, if the tracker takes no comments, leaves a message for its
// next agent.
func (o *operation) say(
	ctx context.Context, tracker *reconcile.TrackerAdapter, issue reconcile.Issue, said string,
) error {
	if tracker.Post != nil {
		_, err := tracker.Post(ctx, issue.ID, said)
		return err
	}
	_, err := o.addMessage(ctx, issue.Identifier, said)
	return err
}

// startAgain runs a pass for the issue. If another pass has the lock, a later pass starts the
// agent.
func (o *operation) startAgain(ctx context.Context) error {
	did, err := o.runPass(ctx, o.p, pass.Options{
		Trigger:     wiring.TriggerCommand,
		Only:        o.only,
		LockTimeout: wiring.CommandPatience,
		DB:          o.db,
	})
	if err != nil {
		return withHint(err, o.command.Identifier+" is sent back: the next pass starts an agent")
	}
	if did.Holder == nil {
		o.result.Pass = did
	}
	alive, err := wiring.ScheduleAlive(ctx, o.db, o.p.Env.Now())
	o.result.Unscheduled = !alive && !wiring.Looping(o.p.StateDir)
	return err
}
