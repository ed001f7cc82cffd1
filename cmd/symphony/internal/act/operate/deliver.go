package operate

import (
	"cmp"
	"context"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/reconcile"
)

// DeliveryCalls are functions that RetryIssue calls. Each may be nil.
type DeliveryCalls struct {
	Started func(Result)        // the pass started the delivery that the result names
	Ended   func(reconcile.Run) // before the run is settled
}

// DeliveryResult is the outcome of a Retry, which may have repeated a delivery.
type DeliveryResult struct {
	Result
	IsDelivery bool           // the issue went on by a delivery
	Run        *reconcile.Run // of it, after its end; nil if nothing waited for it
}

// Undelivered returns an error if the delivery run ended without delivering the commits.
func (r DeliveryResult) Undelivered() error {
	run := r.Run
	if run == nil || run.Outcome == reconcile.Succeeded {
		return nil
	}
	return reconcile.NewError(
		cmp.Or(run.ErrorCode, run.Delivery.Code, "verify_failed"),
		run.Identifier+" was not delivered",
		"",
	).WithHint("%s explains it", reconcile.CommandFor("show", run.Identifier))
}

// awaitDelivery waits for the end of the delivery that the result names, unless noWait is set.
func awaitDelivery(
	ctx context.Context,
	p *wiring.Project,
	r DeliveryResult,
	noWait bool,
	calls DeliveryCalls,
) (DeliveryResult, error) {
	orNothing(calls.Started)(r.Result)
	if noWait {
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
func (o *operation) startDelivery(ctx context.Context, c reconcile.Claim) error {
	if err := o.undeliverable(c); err != nil {
		return err
	}
	o.command.Verb = reconcile.VerbDeliver
	before, err := o.db.Runs.OfIssue(ctx, o.command.IssueID, 1)
	if err != nil {
		return err
	}
	o.starts = true
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

// undeliverable returns an error if no delivery of the issue can start now.
func (o *operation) undeliverable(c reconcile.Claim) error {
	name := o.command.Identifier
	message := ""
	switch {
	case c.Status == reconcile.Running:
		message = name + " is running; its work is delivered when its run has ended"
	case c.Delivery.Code != reconcile.CodeBaseReplaced && !c.Delivery.Handover.Asked() &&
		o.command.UnverifiedBy != "":
		message = "no agent waits for " + name + " to be handed over"
	default:
		return nil
	}
	return reconcile.NewError("not_possible", message, "").
		WithHint("%s shows its state", reconcile.CommandFor("show", name))
}
