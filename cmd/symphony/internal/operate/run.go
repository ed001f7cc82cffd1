package operate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/logs"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/render"
	"github.com/symphony-cron/symphony/reconcile"
)

// RunIssue runs a pass confined to the issue, then follows the run until it ends. The end of this command does not end the
// run.
func RunIssue(ctx context.Context, p *project.Project, ref string) error {
	issue, err := project.FetchIssue(ctx, p, ref)
	if err != nil {
		return err
	}
	r, err := pass.Run(ctx, p, pass.Options{Trigger: project.TriggerManual, Only: issue.ID, AnySlot: true, Stays: true, LockTimeout: project.CommandPatience})
	switch {
	case err != nil:
		return err
	case r.Holder != nil:
		return project.LockedError(r.Holder)
	}
	pass.ReportText(p, r)
	if err := r.ExitCode(); err != nil {
		return err
	}
	db, err := project.OpenForReading(context.WithoutCancel(ctx), p) // after a signal the message names the run that goes on
	if err != nil {
		return err
	}
	defer db.Close()
	c, claimed, err := db.Views.ClaimByIssue(context.WithoutCancel(ctx), issue.ID)
	if err != nil {
		return err
	}
	runID := c.RunID
	if i := slices.IndexFunc(r.Applied, func(a reconcile.Applied) bool { return a.Kind == reconcile.ActDispatch && a.Err == nil }); i >= 0 {
		runID = r.Applied[i].RunID
	} else if claimed && c.Status == reconcile.Running {
		fmt.Fprintf(p.Env.Stderr, "symphony: %s runs already\n", issue.Identifier)
	} else {
		return notStarted(issue, r, c, claimed)
	}
	if err := logs.FollowRun(ctx, p, runID); err != nil {
		return err
	}
	run, err := pass.WaitForRun(ctx, p, db, runID)
	if err != nil {
		return err
	}
	fmt.Fprintln(p.Env.Stdout, project.EndLine(run))
	if hint := render.Hint(run.ErrorCode); hint != "" {
		fmt.Fprintln(p.Env.Stderr, "  "+hint)
	}
	if run.Outcome != reconcile.Succeeded {
		return exit.Only(exit.Failed)
	}
	return nil
}

// notStarted is the error that says why the pass has started no run of the issue.
func notStarted(issue *reconcile.Issue, r pass.Result, c reconcile.Claim, claimed bool) error {
	e := &reconcile.Error{Code: "not_started", Message: fmt.Sprintf("%s is in state %q, which is not active, or not in this project", issue.Identifier, issue.State)}
	skips := slices.Clone(r.Skips)
	switch {
	case !claimed:
	case c.Status == reconcile.Held:
		e.Message, e.Hint = fmt.Sprintf("%s is held (%s): %s", issue.Identifier, c.HoldReason, c.HoldMessage), "symphony retry "+issue.Identifier
	case c.Kind == reconcile.Blocked:
		e.Message, e.Hint = fmt.Sprintf("%s waits for the end of %s: %s", issue.Identifier, c.ErrorCode, c.ErrorMessage), "symphony ps says when it is tried again"
	default:
		skips = append(skips, r.Waits...)
		e.Message = fmt.Sprintf("%s waits until %s (%s)", issue.Identifier, c.DueAt.UTC().Format(time.RFC3339), c.Kind)
		e.Hint = "symphony retry " + issue.Identifier
	}
	for _, s := range skips {
		if s.IssueID == issue.ID {
			return &reconcile.Error{Code: e.Code, Message: fmt.Sprintf("%s: %s (%s)", s.Identifier, s.Message, s.Reason)}
		}
	}
	return e
}
