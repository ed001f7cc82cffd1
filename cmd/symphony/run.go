package main

import (
	"context"
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/logs"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
	"github.com/urfave/cli/v2"
)

func runCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "run", Usage: "start one issue now, if every rule but the slots allows it, and follow its run",
		UsageText: usageText("run", "ISSUE [WORKFLOW]"),
		Description: "Ends with the run, and exits 1 unless that succeeded. Ctrl-C ends the command, not the run.\n\n" +
			exampleText("symphony run ABC-7"),
		Flags: workflowFlags(),
		Action: func(c *cli.Context) error {
			args, positional, err := arguments(c, "ISSUE")
			if err != nil {
				return err
			}
			p, err := openProject(w, c, positional)
			if err != nil {
				return err
			}
			return runIssue(c.Context, p, args[0])
		},
	}
}

// runIssue runs a pass confined to the issue, then follows the run until it ends. The end of this command does not end the
// run.
func runIssue(ctx context.Context, p *project.Project, ref string) error {
	issue, err := project.FetchIssue(ctx, p, ref)
	if err != nil {
		return err
	}
	r, err := pass.Run(ctx, p, pass.Options{Trigger: project.TriggerManual, Only: issue.ID, AnySlot: true, Stays: true, LockTimeout: project.CommandPatience})
	if err != nil {
		return err
	}
	if r.Holder != nil {
		return project.LockedError(r.Holder)
	}
	pass.ReportText(p, p.Env, r)
	if err := r.ExitCode(); err != nil {
		return err
	}
	// After a signal the message names the run that goes on.
	runID, err := startedRun(context.WithoutCancel(ctx), p, issue, r)
	if err != nil {
		return err
	}
	if err := logs.FollowRun(ctx, p, runID); err != nil {
		return err
	}
	return runOutcome(ctx, p, runID)
}

// startedRun returns the run that the pass started or found. Its error says why there is none.
func startedRun(ctx context.Context, p *project.Project, issue *reconcile.Issue, r pass.Result) (string, error) {
	for _, a := range r.Applied {
		if a.Kind == reconcile.ActDispatch && a.Err == nil {
			return a.RunID, nil
		}
	}
	if err := skippedBy(r.Skips, issue.ID); err != nil {
		return "", err
	}
	db, err := project.OpenForReading(ctx, p)
	if err != nil {
		return "", err
	}
	defer db.Close()
	c, claimed, err := db.Views.ClaimByIssue(ctx, issue.ID)
	switch {
	case err != nil:
		return "", err
	case claimed && c.Status == reconcile.Running:
		fmt.Fprintf(p.Env.Stderr, "symphony: %s runs already\n", issue.Identifier)
		return c.RunID, nil
	case claimed && c.Status == reconcile.Held:
		return "", &reconcile.Error{Code: "not_started", Message: issue.Identifier + " is held (" + c.HoldReason + "): " + c.HoldMessage, Hint: "symphony retry " + issue.Identifier}
	case claimed && c.Kind == reconcile.Blocked:
		return "", &reconcile.Error{
			Code: "not_started", Message: fmt.Sprintf("%s waits for the end of %s: %s", issue.Identifier, c.ErrorCode, c.ErrorMessage),
			Hint: "symphony ps says when it is tried again",
		}
	case claimed && skippedBy(r.Waits, issue.ID) != nil:
		return "", skippedBy(r.Waits, issue.ID)
	case claimed:
		return "", &reconcile.Error{Code: "not_started", Message: fmt.Sprintf("%s waits until %s (%s)", issue.Identifier, c.DueAt.UTC().Format(time.RFC3339), c.Kind), Hint: "symphony retry " + issue.Identifier}
	}
	return "", &reconcile.Error{Code: "not_started", Message: fmt.Sprintf("%s is in state %q, which is not active, or not in this project", issue.Identifier, issue.State)}
}

// skippedBy says why the pass skipped the issue; nil if it did not.
func skippedBy(list []reconcile.Skip, issueID string) error {
	for _, s := range list {
		if s.IssueID == issueID {
			return &reconcile.Error{Code: "not_started", Message: fmt.Sprintf("%s: %s (%s)", s.Identifier, s.Message, s.Reason)}
		}
	}
	return nil
}

// runOutcome prints how the run ended. The exit code is 0 only if it succeeded.
func runOutcome(ctx context.Context, p *project.Project, runID string) error {
	db, err := state.OpenReadOnly(context.WithoutCancel(ctx), p.StateDir)
	if err != nil {
		return err
	}
	defer db.Close()
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
