package operate

import (
	"cmp"
	"context"
	"fmt"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Retry lets an issue go on. Its status decides how: its hold ends, its wait ends, or its delivery
// or its proof is repeated without an agent.
type Retry struct {
	Issue    string
	Fresh    bool // an agent starts a new thread, also if commits wait for their delivery
	HostGone bool // the host of the last run is gone for good: another host starts anew
	// Model is that of the run that starts now; empty for the workflow's. It fails if none starts.
	Model string
	// UnverifiedBy is the account whose user hands the issue over although verify did not
	// pass, such as "jane"; empty if that is not wanted.
	UnverifiedBy string
	NoWait       bool // Do does not wait until a delivery ends
}

// Name implements Command.
func (c Retry) Name() reconcile.Verb {
	if c.HostGone {
		return reconcile.VerbHostGone
	}
	return reconcile.VerbRetry
}

// About implements Command.
func (c Retry) About(name string) Command {
	c.Issue = name
	return c
}

func (Retry) atOnce(int) int { return mostAtOnce }
func (Retry) waits() bool    { return false }

func (c Retry) do(ctx context.Context, p *wiring.Project, runPass passRunner) (Done, error) {
	r, err := retry(ctx, p, c, DeliveryCalls{}, runPass)
	done := Done{r.Result, r.JSON()}
	if err != nil {
		return done, err
	}
	return done, r.Undelivered()
}

// RetryIssue lets an issue go on. If that repeats its delivery, it waits for the end of that run
// unless NoWait is set. If the pass starts no run for it, the error is not_started.
func RetryIssue(ctx context.Context, p *wiring.Project, c Retry, calls DeliveryCalls) (DeliveryResult, error) {
	return retry(ctx, p, c, calls, pass.Run)
}

func retry(
	ctx context.Context,
	p *wiring.Project,
	c Retry,
	calls DeliveryCalls,
	runPass passRunner,
) (DeliveryResult, error) {
	o := newOperation(p, reconcile.Command{Verb: c.Name(), UnverifiedBy: c.UnverifiedBy}, runPass)
	o.fresh = c.Fresh
	o.model = c.Model
	isDelivery := false
	err := o.carryOut(ctx, c.Issue, func() (err error) {
		claim, claimed, err := o.settledClaim(ctx)
		if err != nil {
			return err
		}
		if !claimed && !c.Fresh {
			accepted, err := o.acceptBase(ctx)
			if accepted || err != nil {
				return err
			}
		}
		if err := o.refuseRetry(ctx, claim, claimed); err != nil {
			return err
		}
		if c.Fresh {
			if err := o.db.Operator.EndThreads(ctx, o.command.IssueID); err != nil {
				return err
			}
		}
		switch {
		case c.HostGone:
			return o.change(ctx)
		case c.UnverifiedBy != "" || !c.Fresh && o.waitsToDeliver(claim):
			isDelivery = true
			return o.startDelivery(ctx, claim)
		case claimed && claim.Status == reconcile.Running && c.Model != "":
			return keepsModel(claim.Identifier)
		case claimed && claim.Status == reconcile.Running:
			o.result.RunID = claim.RunID
		case claimed && claim.Status == reconcile.Waiting:
			o.starts = true
		case !claimed && !c.Fresh:
			return o.startReady(ctx)
		}
		o.starts = o.starts || c.Model != ""
		return o.change(ctx)
	})
	if err == nil && c.Model != "" && o.result.RunID == "" {
		err = reconcile.NewError("not_started", "no run of "+o.command.Identifier+" has started with the model "+c.Model, "").
			WithHint("%s explains it", reconcile.CommandFor("show", o.command.Identifier))
	}
	r := DeliveryResult{Result: o.result, IsDelivery: isDelivery}
	if err != nil || !isDelivery {
		return r, err
	}
	return awaitDelivery(ctx, p, r, c.NoWait, calls)
}

// codeNeedsWords is the code of a retry of an issue whose agent waits for the words of a person.
const codeNeedsWords = "needs_words"

// NeedsWords reports whether an issue can only go on if a person tells its agent something.
func NeedsWords(err error) bool { return err != nil && exit.From(err).Code == codeNeedsWords }

// waitsToDeliver reports whether the work on an issue waits for its delivery, or its proof failed: a
// retry repeats that without an agent, unless its agent is to start afresh.
func (o *operation) waitsToDeliver(c reconcile.Claim) bool {
	if c.Status == reconcile.Held {
		return c.HoldReason == reconcile.HoldVerifyFailed
	}
	if c.Status != reconcile.Waiting || !waitsForDelivery(&c) {
		return false
	}
	cfg, err := o.p.ConfigWithoutKey()
	// with repository.deliver: none an agent is next, unless the issue is still to be handed over
	return err != nil || wiring.Policy(cfg).Deliver || c.Delivery.Handover.Waits()
}

// settledClaim returns the claim of the issue. If its run has ended, a pass settles that first: only
// then it is known whether the issue waits, is held, or has work to deliver.
func (o *operation) settledClaim(ctx context.Context) (c reconcile.Claim, claimed bool, err error) {
	c, claimed, err = o.db.Views.ClaimByIssue(ctx, o.command.IssueID)
	if err != nil || c.Status != reconcile.Running {
		return c, claimed, err
	}
	run, err := o.db.Runs.Find(ctx, c.RunID)
	if err != nil || run.Outcome == "" && !wiring.WorkerDead(o.p, run) {
		return c, claimed, err
	}
	err = o.runPassFor(ctx)
	if err != nil && o.result.Pass.Holder == nil { // otherwise the pass that has the lock settles it
		return c, claimed, err
	}
	return o.db.Views.ClaimByIssue(ctx, o.command.IssueID)
}

// refuseRetry returns an error if a retry can't let the issue go on.
func (o *operation) refuseRetry(ctx context.Context, c reconcile.Claim, claimed bool) error {
	if claimed && c.NeedsHelp() {
		return reconcile.NewError(codeNeedsWords, c.Identifier+" needs help: "+text.OneLine(c.HoldMessage), "").
			WithHint("%s answers its agent", tellWith(c.Identifier))
	}
	if claimed && c.Status == reconcile.Running {
		return o.refuseAsking(ctx, c)
	}
	if claimed {
		return nil
	}
	inReview, err := isInReview(ctx, o.db, o.command.IssueID)
	if err != nil || !inReview && !o.fresh {
		return err
	}
	t, err := o.askTracker(ctx)
	if err != nil || t.policy.Active(t.issue.State) { // someone has moved it back
		return err
	}
	name := o.command.Identifier
	switch {
	case t.policy.Terminal(t.issue.State):
		return t.inactive()
	case o.fresh:
		return nil
	}
	return reconcile.NewError(codeNeedsWords, name+" was handed over and waits for your review", "").
		WithHint("%s lets an agent go on with it, and %s takes its result",
			tellWith(name), reconcile.CommandFor("done", name))
}

// acceptBase accepts the base of the pull request of an issue if that is not the one that the work was
// delivered for. The next pass looks at the pull request again.
func (o *operation) acceptBase(ctx context.Context) (accepted bool, err error) {
	w, found, err := o.db.Views.Watch(ctx, o.command.IssueID)
	if err != nil || !found || w.Ended || !w.OtherBase() {
		return false, err
	}
	w, err = o.db.Operator.AcceptBase(ctx, o.command.IssueID, Account(o.p.Env))
	if err != nil {
		return false, err
	}
	o.result.Applied = true
	o.result.Effect = []string{fmt.Sprintf("accepted for %s: the %s goes into %s, and the work was delivered for %s",
		o.command.Identifier, reconcile.PullWordsOf(w.Pull.URL).Name, w.Pull.Base, w.Delivered.Base)}
	return true, nil
}

// refuseAsking returns an error if the agent of a run waits for a person.
func (o *operation) refuseAsking(ctx context.Context, c reconcile.Claim) error {
	asked, err := o.asked(ctx, c.RunID)
	if err != nil || asked.RunID == "" {
		return err
	}
	message := c.Identifier + " runs, and its agent waits for you: " + text.OneLine(asked.Summary)
	return reconcile.NewError("not_started", message, view.HowToAnswer(asked))
}

// asked returns an open request of a run; the zero value if there is none.
func (o *operation) asked(ctx context.Context, runID string) (reconcile.Request, error) {
	open, err := view.OpenRequests(ctx, o.p, o.db)
	return text.First(open, func(r reconcile.Request) bool { return r.RunID == runID }), err
}

// startReady starts a run of an issue without a claim, as far as there is a free slot.
func (o *operation) startReady(ctx context.Context) error {
	t, err := o.askTracker(ctx)
	if err != nil {
		return err
	}
	if !t.policy.Active(t.issue.State) {
		return t.inactive()
	}
	o.starts = true
	if err := o.runPassFor(ctx); err != nil {
		return err
	}
	if err := o.result.Pass.ExitCode(); err != nil {
		return err
	}
	o.result.Applied = true
	o.findStarted()
	if o.result.RunID != "" {
		return nil
	}
	c, claimed, err := o.db.Views.ClaimByIssue(ctx, t.issue.ID)
	if err != nil {
		return err
	}
	claim := &c
	if !claimed {
		claim = nil
	}
	return notStarted(&t.issue, o.result.Pass, claim)
}

// findStarted finds the run that the pass has started.
func (o *operation) findStarted() {
	started := text.First(o.result.Pass.Applied, func(a reconcile.Applied) bool {
		return a.IssueID == o.command.IssueID && startsRun(a)
	})
	o.result.RunID = cmp.Or(started.RunID, o.result.RunID)
}

// isInReview reports whether an issue was handed over and waits for a person's review.
func isInReview(ctx context.Context, db *state.DB, issueID string) (bool, error) {
	last, err := db.Views.Releases(ctx, issueID, 1)
	return len(last) > 0 && last[0].InReview, err
}

// tellWith is the command that says something to the agent of an issue.
func tellWith(name string) reconcile.CommandLine {
	return reconcile.CommandLine{Verb: "tell", Name: name, Rest: "TEXT"}
}
