package operate

import (
	"cmp"
	"context"
	"errors"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/reconcile"
)

// Delivery pushes the commits of an issue without an agent, or verifies them first.
type Delivery struct {
	Verb  reconcile.Verb // reconcile.VerbDeliver or reconcile.VerbVerify
	Issue string
	// UnverifiedBy is the account whose user hands the issue over although verify did not
	// pass, such as "jane"; empty if that is not wanted.
	UnverifiedBy string
	NoWait       bool // Do does not wait until the delivery ends
}

// Name implements Command.
func (c Delivery) Name() reconcile.Verb { return c.Verb }

// About implements Command.
func (c Delivery) About(name string) Command {
	c.Issue = name
	return c
}

func (c Delivery) atOnce(int) int {
	if c.NoWait {
		return mostAtOnce
	}
	return 1
}

func (c Delivery) waits() bool { return !c.NoWait }

func (c Delivery) do(ctx context.Context, p *wiring.Project, runPass passRunner) (Done, error) {
	r, err := deliver(ctx, p, c, DeliveryCalls{}, runPass)
	done := Done{r.Result, r.JSON()}
	if err != nil {
		return done, err
	}
	return done, r.Undelivered()
}

// DeliveryCalls are functions that Deliver calls. Each may be nil.
type DeliveryCalls struct {
	Passed  func(Result)        // after the pass, even if it failed or started no run
	Started func(Result)        // the pass started the run that the result names
	Ended   func(reconcile.Run) // before the run is settled
}

// DeliveryResult is the outcome of a Delivery.
type DeliveryResult struct {
	Result
	Run *reconcile.Run // the delivery run after its end; nil if nothing waited for it
}

// Undelivered returns an error if the delivery run ended without delivering the commits.
func (r DeliveryResult) Undelivered() error {
	run := r.Run
	if run == nil || run.Outcome == reconcile.Succeeded && !run.Delivery.Handover.Failed() {
		return nil
	}
	return reconcile.NewError(
		cmp.Or(run.ErrorCode, run.Delivery.Code, "verify_failed"),
		run.Identifier+" was not delivered",
		"",
	).WithHint("%s explains it", reconcile.CommandFor("show", run.Identifier))
}

// Deliver starts a run without an agent that verifies and pushes the commits of an issue, and
// hands it over. It waits for the end of the run unless NoWait is set. If the pass starts no
// run, Deliver returns the pass with the error not_started.
func Deliver(
	ctx context.Context,
	p *wiring.Project,
	c Delivery,
	calls DeliveryCalls,
) (DeliveryResult, error) {
	return deliver(ctx, p, c, calls, pass.Run)
}

func deliver(
	ctx context.Context,
	p *wiring.Project,
	c Delivery,
	calls DeliveryCalls,
	runPass passRunner,
) (DeliveryResult, error) {
	o := newOperation(
		p,
		reconcile.Command{Verb: c.Verb, UnverifiedBy: c.UnverifiedBy},
		runPass,
	)
	err := o.carryOut(ctx, c.Issue, func() error { return o.startDelivery(ctx) })
	r := DeliveryResult{Result: o.result}
	orNothing(calls.Passed)(r.Result)
	if err != nil {
		return r, err
	}
	orNothing(calls.Started)(r.Result)
	if c.NoWait {
		return r, nil
	}
	run, err := pass.WaitForRun(ctx, p, r.RunID)
	if err != nil {
		return r, err
	}
	r.Run = &run
	orNothing(calls.Ended)(run)
	return r, pass.WaitSettled(ctx, p, run)
}

// startDelivery stores the command, runs a pass for it, and finds the delivery run that was
// started since. Its error is not_started if there is none.
func (o *operation) startDelivery(ctx context.Context) error {
	if err := o.claimAgain(ctx); err != nil {
		return err
	}
	if err := o.undeliverable(ctx); err != nil {
		return err
	}
	before, err := o.db.Runs.OfIssue(ctx, o.command.IssueID, 1)
	if err != nil {
		return err
	}
	o.delivers = true
	if err := o.apply(ctx); err != nil {
		return err
	}
	// Another pass may have applied the command, such as the pass of a worker that ended, and
	// a later pass may have begun another run. Five runs would be five passes meanwhile.
	const mostSince = 5
	runs, err := o.db.Runs.OfIssue(ctx, o.command.IssueID, mostSince)
	if err != nil {
		return err
	}
	for _, run := range runs {
		if len(before) > 0 && run.ID == before[0].ID {
			break
		}
		if run.Kind == reconcile.DeliveryRun {
			o.result.RunID = run.ID
			return nil
		}
	}
	return reconcile.NewError(
		"not_started",
		"the pass did not deliver "+o.command.Identifier,
		"",
	).WithHint("%s explains it", reconcile.CommandFor("show", o.command.Identifier))
}

// claimAgain claims an issue that was handed over with commits, as long as its workspace
// exists: its branch may have been deleted, and is then pushed again. It does nothing for
// other issues.
func (o *operation) claimAgain(ctx context.Context) error {
	cfg, err := o.p.ConfigWithoutKey()
	if err != nil {
		return err
	}
	if o.command.Verb != reconcile.VerbDeliver || o.command.UnverifiedBy != "" || !cfg.Repository.Delivers() {
		return nil
	}
	_, claimed, err := o.db.Views.ClaimByIssue(ctx, o.command.IssueID)
	if err != nil || claimed {
		return err
	}
	_, delivered, err := o.db.Views.Delivered(ctx, o.command.IssueID)
	if err != nil || !delivered {
		return err
	}
	last, found, err := o.db.Runs.Last(ctx, o.command.IssueID)
	if err != nil || !found || last.WorkspacePath == "" {
		return err
	}
	if last.Host == "" && !wiring.Exists(last.WorkspacePath) {
		return nil
	}
	now := o.p.Env.Now()
	claim := reconcile.DeliveryClaim(last, wiring.Policy(cfg).Project, now)
	err = o.db.Store.Commit(ctx, now, reconcile.Change{Claim: &claim})
	if errors.Is(err, reconcile.ErrConflict) { // a pass has claimed it meanwhile
		return nil
	}
	return err
}

// undeliverable returns an error if there is nothing that a delivery could push now.
func (o *operation) undeliverable(ctx context.Context) error {
	cfg, err := o.p.ConfigWithoutKey()
	if err != nil {
		return err
	}
	c, claimed, err := o.db.Views.ClaimByIssue(ctx, o.command.IssueID)
	if err != nil {
		return err
	}
	name := o.command.Identifier
	verb := o.command.Verb
	refuse := func(message string) *reconcile.Error {
		return reconcile.NewError("nothing_to_deliver", message, "")
	}
	message := ""
	switch {
	case verb == reconcile.VerbVerify && cfg.Verify.Command == "":
		return refuse("WORKFLOW.md has no verify.command").
			WithHint("set it to the command that must succeed, such as make test")
	case o.command.UnverifiedBy != "" && !c.Delivery.Handover.Asked():
		message = "no agent waits for " + name + " to be handed over"
	case verb == reconcile.VerbDeliver && !cfg.Repository.Delivers() && c.Delivery.Handover == nil:
		return refuse("this workflow delivers nothing").
			WithHint("set repository.url in WORKFLOW.md, without deliver: none")
	case !claimed || c.WorkspaceRoot == "":
		message = "no commits of " + name + " wait for delivery"
	case c.Status == reconcile.Running && !o.ended(ctx, c.RunID):
		message = name + " is running; its commits are delivered when its run has ended"
	default:
		return o.refuseUnbegun(ctx, c)
	}
	return refuse(message).WithHint("%s shows its state", reconcile.CommandFor("show", name))
}

// refuseUnbegun returns an error if no agent has worked on an issue yet, and this machine has no
// workspace of it: its runs ended before, for instance because a hook failed.
func (o *operation) refuseUnbegun(ctx context.Context, c reconcile.Claim) error {
	if c.Delivery.Due {
		return nil
	}
	worked, err := o.db.Runs.Worked(ctx, c.IssueID)
	if err != nil || worked {
		return err
	}
	last, found, err := o.db.Runs.Last(ctx, c.IssueID)
	if err != nil || !found {
		return err
	}
	if last.Host == "" && last.WorkspacePath != "" && wiring.Exists(last.WorkspacePath) {
		return nil
	}
	why := cmp.Or(last.ErrorCode, string(last.Outcome)) // its text may describe what is corrected by now
	return reconcile.NewError(
		"nothing_to_deliver",
		"no agent has worked on "+c.Identifier+" yet: its last run ended before that, "+why,
		"",
	).WithHint("%s starts a run, which looks again", reconcile.CommandFor("retry", c.Identifier))
}

// ended reports whether a run ended, even if no pass settled it yet.
func (o *operation) ended(ctx context.Context, runID string) bool {
	run, err := o.db.Runs.Find(ctx, runID)
	return err == nil && (run.Outcome != "" || wiring.WorkerDead(o.p, run))
}
