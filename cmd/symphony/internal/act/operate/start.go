package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Start starts a run of an issue now, although the issue may wait for a slot or a retry.
type Start struct {
	single
	Issue string
	Model string // instead of the model of the workflow; empty for that
}

// Name implements Command.
func (Start) Name() reconcile.Verb { return VerbRun }

// About implements Command.
func (c Start) About(name string) Command {
	c.Issue = name
	return c
}

func (c Start) do(ctx context.Context, p *wiring.Project, _ passRunner) (Done, error) {
	r, err := StartIssue(ctx, p, c)
	return Done{r, r.JSON()}, err
}

// StartIssue runs a pass confined to the issue. The result names the run that it started, or
// that was running already. A continued run keeps its model: with another model the error is
// not_started. If the pass had errors, StartIssue returns its result with an exit.Only.
func StartIssue(ctx context.Context, p *wiring.Project, c Start) (Result, error) {
	issue, err := wiring.FetchIssue(ctx, p, c.Issue)
	if err != nil {
		return Result{}, err
	}
	for _, remark := range issue.Remarks {
		p.Env.Warn(remark)
	}
	r := Result{Verb: VerbRun}
	r.Pass, err = pass.Run(ctx, p, pass.Options{
		Trigger:     wiring.TriggerManual,
		Only:        []string{issue.ID},
		AtOnce:      true,
		Model:       c.Model,
		Stays:       true,
		LockTimeout: wiring.CommandPatience,
	})
	if err != nil {
		return Result{}, err
	}
	if r.Pass.Holder != nil {
		return r, wiring.LockedError(r.Pass.Holder)
	}
	if i := slices.IndexFunc(r.Pass.Applied, startsRun); i >= 0 {
		r.RunID = r.Pass.Applied[i].RunID
	}
	err = r.Pass.ExitCode()
	if err != nil && (r.RunID == "" || ctx.Err() == nil) { // a signal does not end the run
		return r, err
	}
	r.Applied = true
	if r.RunID != "" {
		return r, nil
	}
	r.RunID, err = runInstead(context.WithoutCancel(ctx), p, c, issue, r.Pass)
	if err != nil {
		return r, err
	}
	r.Effect = []string{issue.Identifier + " is already running"}
	return r, nil
}

// runInstead returns the run that works on the issue already, after a pass that started none.
// Its error is not_started if there is none, or if it can't have the model of the command.
func runInstead(
	ctx context.Context,
	p *wiring.Project,
	c Start,
	issue *reconcile.Issue,
	did pass.Result,
) (runID string, err error) {
	claim, err := claimOf(ctx, p, issue.ID)
	if err != nil {
		return "", err
	}
	if claim == nil || claim.Status != reconcile.Running {
		e := notStarted(issue, did, claim)
		if claim == nil {
			e = hintReview(ctx, p, issue, e)
		}
		return "", e
	}
	if c.Model != "" {
		return "", keepsModel(issue.Identifier)
	}
	return claim.RunID, nil
}

// keepsModel is the error for an issue that runs already, with another model perhaps.
func keepsModel(name string) error {
	return reconcile.NewError("not_started", name+" is already running, and a run keeps its model", "").
		WithHint("%s first", reconcile.CommandFor("stop", name))
}

// hintReview says how an agent goes on with an issue, which was not started, if it waits for a
// review.
func hintReview(ctx context.Context, p *wiring.Project, issue *reconcile.Issue, e error) error {
	failed, ok := errors.AsType[*reconcile.Error](e)
	if !ok {
		return e
	}
	db, err := wiring.OpenForReading(ctx, p)
	if err != nil {
		return e
	}
	defer db.Close()
	inReview, err := isInReview(ctx, db, issue.ID)
	if err == nil && inReview {
		failed = failed.WithHint("%s lets an agent go on with it", tellWith(issue.Identifier))
	}
	return failed
}

func startsRun(a reconcile.Applied) bool {
	return (a.Kind == reconcile.ActDispatch || a.Kind == reconcile.ActDeliver) && a.Err == nil
}

// claimOf reads the claim of an issue; nil for an unclaimed issue.
func claimOf(ctx context.Context, p *wiring.Project, issueID string) (*reconcile.Claim, error) {
	db, err := wiring.OpenForReading(ctx, p)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	c, claimed, err := db.Views.ClaimByIssue(ctx, issueID)
	if err != nil || !claimed {
		return nil, err
	}
	return &c, nil
}

// notStarted returns the error that explains why the pass started no run of the issue. The
// claim of an unclaimed issue is nil.
func notStarted(issue *reconcile.Issue, r pass.Result, claim *reconcile.Claim) error {
	// The pass explains the issue more exactly than its claim does.
	skips := slices.Clone(r.Skips)
	if claim != nil && claim.Status != reconcile.Held && !waitsForDelivery(claim) {
		skips = append(skips, r.Waits...)
	}
	for _, s := range skips {
		if s.IssueID == issue.ID {
			return skippedError(s)
		}
	}
	if claim != nil {
		return claimedError(issue.Identifier, claim)
	}
	e := reconcile.NewError(
		"not_started",
		issue.Identifier+" is not in this project",
		"",
	).WithHint("%s explains it", reconcile.CommandFor("show", issue.Identifier))
	if r.Config != nil && !wiring.Policy(r.Config).Active(issue.State) {
		active := strings.Join(r.Config.Policy.ActiveStates, " or ")
		e.Message = fmt.Sprintf("%s is in the state %q; runs start only in %s",
			issue.Identifier, issue.State, active)
		e.Hint = "move it to " + active + " in the tracker; then repeat the command"
	}
	return e
}

// skippedError is the error for an issue that the pass skipped.
func skippedError(s reconcile.Skip) error {
	message := fmt.Sprintf("%s: %s (%s)", s.Identifier, s.Message, s.Reason)
	switch s.Reason {
	case reconcile.SkipPaused:
		return reconcile.NewError(
			"not_started",
			"the project is paused: no run of "+s.Identifier+" starts",
			"",
		).WithHint("%s ends the pause; then repeat the command", reconcile.CommandFor("resume", ""))
	case reconcile.SkipDiskLow:
		return reconcile.NewError(
			"not_started",
			message,
			"free space there, or lower workspace.min_free_bytes; then repeat the command",
		)
	case reconcile.SkipUnknownState:
		return reconcile.NewError("not_started", s.Identifier+": "+s.Message, s.Mend)
	case reconcile.SkipLabel, reconcile.SkipAssignee, reconcile.SkipBlockedBy:
		message = s.Identifier + ": " + s.Message
		if s.Mend != "" {
			return reconcile.NewError("not_started", message, s.Mend)
		}
	}
	return reconcile.NewError("not_started", message, "").
		WithHint("%s shows when it starts", reconcile.CommandFor("show", s.Identifier))
}

// claimedError is the error for an issue whose claim is the reason that no run of it starts.
func claimedError(name string, c *reconcile.Claim) error {
	if c.NeedsHelp() {
		return needsHelp(c)
	}
	if c.Status == reconcile.Held {
		message := name + " is held: " + c.HoldMessage
		if c.HoldReason == reconcile.HoldOperator {
			message = name + " is " + c.HoldMessage // held by an operator
		}
		return heldError(message, c)
	}
	if waitsForDelivery(c) {
		message := "the commits of " + name + ", if there are any, are delivered first"
		if c.Delivery.Code != "" {
			message = name + " has commits that were not delivered: " +
				c.Delivery.Code + ": " + c.Delivery.Message
		}
		return reconcile.NewError("not_started", message, "").
			WithHint("%s delivers them now", reconcile.CommandFor("retry", name))
	}
	if c.Kind == reconcile.Blocked {
		return reconcile.NewError(
			"not_started",
			fmt.Sprintf("%s is blocked by %s: %s", name, c.ErrorCode, c.ErrorMessage),
			"",
		).WithHint("%s shows when it is tried again", reconcile.CommandFor("ps", ""))
	}
	return reconcile.NewError(
		"not_started",
		fmt.Sprintf("%s waits until %s (%s)", name, c.DueAt.UTC().Format(time.RFC3339), c.Kind),
		"",
	).WithHint("%s", reconcile.CommandFor("retry", name))
}

// heldError is the error for an issue that is held. Its hint says what ends the hold.
func heldError(message string, c *reconcile.Claim) error {
	return reconcile.NewError("not_started", message, c.HoldEnds())
}

// needsHelp is the error for an issue whose agent needs a person: no agent works on it in the
// state in which it was handed over.
func needsHelp(c *reconcile.Claim) error {
	return heldError(
		fmt.Sprintf("the agent of %s needs help, and no agent works in the state %q: %s",
			c.Identifier, c.Issue.State, text.OneLine(c.HoldMessage)),
		c,
	)
}

// waitsForDelivery reports whether the commits of an issue are delivered before its next run.
func waitsForDelivery(c *reconcile.Claim) bool { return c.Delivery.Due && !c.Delivery.WaitsForAgent }
