package operate

import (
	"context"
	"errors"
	"fmt"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/reconcile"
)

// codeNotDone is the code of a result that can't be taken.
const codeNotDone = "not_possible"

// Finish takes the result of an agent: the issue is done. With merge in the workflow, symphony
// merges its pull request, and the issue follows.
type Finish struct {
	single
	Issue string
}

// Name implements Command.
func (Finish) Name() reconcile.Verb { return VerbDone }

// About implements Command.
func (c Finish) About(name string) Command {
	c.Issue = name
	return c
}

func (c Finish) do(ctx context.Context, p *wiring.Project, runPass passRunner) (Done, error) {
	o := newOperation(p, reconcile.Command{Verb: VerbDone}, runPass)
	err := o.carryOut(ctx, c.Issue, func() error { return o.finish(ctx) })
	return Done{o.result, o.result.JSON()}, err
}

// finish takes the result of an issue.
func (o *operation) finish(ctx context.Context) error {
	c, claimed, err := o.db.Views.ClaimByIssue(ctx, o.command.IssueID)
	if err != nil {
		return err
	}
	inReview, err := isInReview(ctx, o.db, o.command.IssueID)
	if err != nil {
		return err
	}
	t, err := o.askTracker(ctx)
	if err != nil {
		return err
	}
	if !claimed && t.policy.Terminal(t.issue.State) {
		o.result.Applied = true
		o.result.Effect = []string{fmt.Sprintf("%s is done already: its state is %s", t.issue.Identifier, t.issue.State)}
		return nil
	}
	if err := o.refuseDone(c, claimed, inReview); err != nil {
		return err
	}
	w, watched, err := o.db.Views.Watch(ctx, o.command.IssueID)
	if err != nil {
		return err
	}
	switch {
	case watched && w.IsOpen() && claimed:
		words := reconcile.PullWordsOf(w.Pull.URL)
		return reconcile.NewError(codeNotDone,
			fmt.Sprintf("the agent of %s needs help, and its %s is open: %s", t.issue.Identifier, words.Name, w.Pull.URL), "").
			WithHint("%s answers its agent; or merge or close it there", tellWith(t.issue.Identifier))
	case watched && w.IsOpen():
		return o.merge(ctx, t, w)
	case watched && w.Pull.State == "" && t.cfg.Feedback.On():
		return reconcile.NewError(codeNotDone, "no pass has looked at "+w.Delivered.PullRequest+" yet", "").
			WithHint("%s does; then repeat the command", reconcile.CommandFor("tick", ""))
	}
	to := t.policy.DoneState(t.cfg.Feedback)
	if err := t.mustMove(to, codeNotDone); err != nil {
		return err
	}
	order, err := o.newMove(ctx, t.issue, to, reconcile.Words{By: Account(o.p.Env)})
	if err != nil {
		return err
	}
	if err := o.move(ctx, order); err != nil {
		return err
	}
	if page := w.Delivered.PullRequest; page != "" && !t.cfg.Feedback.On() {
		o.result.Effect = append(o.result.Effect, "without feedback symphony does not merge: "+page)
	}
	return nil
}

// refuseDone returns an error if an issue has no result that could be taken.
func (o *operation) refuseDone(c reconcile.Claim, claimed, inReview bool) error {
	name := o.command.Identifier
	refuse := func(message string) *reconcile.Error { return reconcile.NewError(codeNotDone, message, "") }
	switch {
	case claimed && c.NeedsHelp(), !claimed && inReview:
		return nil
	case claimed && c.Status == reconcile.Running:
		return refuse("an agent is at work on "+name).
			WithHint("%s waits for its result; %s ends it",
				reconcile.CommandFor("wait", name), reconcile.CommandFor("stop", name))
	case claimed && c.Delivery.Due:
		return refuse("the work on "+name+" is not delivered yet").
			WithHint("%s delivers it", reconcile.CommandFor("retry", name))
	}
	return refuse("no agent has handed over "+name+", so there is no result to take").
		WithHint("%s says what it does; move it in the tracker if it needs no work", reconcile.CommandFor("show", name))
}

// merge lets a pass merge the open pull request of an issue, by the same rules as after an approval.
func (o *operation) merge(ctx context.Context, t tracked, w reconcile.Watch) error {
	name := o.command.Identifier
	words := reconcile.PullWordsOf(w.Pull.URL)
	if !t.cfg.Feedback.Merge.On() {
		return reconcile.NewError(codeNotDone, fmt.Sprintf("the %s of %s is open: %s", words.Name, name, w.Pull.URL),
			"merge or close it there, or set merge in WORKFLOW.md, with which symphony merges it; then repeat the command")
	}
	o.takenBy = Account(o.p.Env)
	o.only = nil // a pass looks at all pull requests together
	if err := o.runPassFor(ctx); err != nil {
		return err
	}
	w, _, err := o.db.Views.Watch(ctx, o.command.IssueID)
	if err != nil {
		return err
	}
	o.result.Applied = true
	if !w.IsOpen() {
		o.result.Asked = []string{fmt.Sprintf("the %s of %s is %s: %s", words.Name, name, w.Pull.State, w.Pull.URL)}
		return nil
	}
	waits := w.WaitsFor(t.cfg.Feedback, o.p.Env.Now())
	if waits == nil {
		return errors.New("the pull request is open and waits for nothing")
	}
	o.result.Effect = []string{fmt.Sprintf("taken: the %s of %s waits for %s", words.Name, name, waits.Text)}
	return nil
}
