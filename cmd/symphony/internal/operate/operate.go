// Package operate carries out an operator's commands: hold, retry, stop, take over or run an issue; pause and resume the
// project. It stores the command and runs a pass that is confined to it.
package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/logs"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/render"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// operation is a stored command and the pass that applies it.
type operation struct {
	p       *project.Project
	db      *state.DB
	cmd     reconcile.Command
	only    string // the pass's Options.Only
	result  pass.Result
	applied bool // if not, the next pass applies the command
	nothing bool // the command had nothing to change
}

// RetryFresh applies a retry, after which the agent starts a new thread.
func RetryFresh(ctx context.Context, p *project.Project, issue string) error {
	return operate(ctx, p, reconcile.VerbRetry, issue, func(o *operation) error {
		if err := o.db.Operator.EndThreads(ctx, o.cmd.IssueID); err != nil {
			return err
		}
		return o.apply(ctx)
	})
}

// Apply stores a command about an issue, or about the project where issue is empty, runs a pass for it, and prints the result.
func Apply(ctx context.Context, p *project.Project, verb reconcile.Verb, issue string) error {
	return operate(ctx, p, verb, issue, func(o *operation) error { return o.apply(ctx) })
}

func (o *operation) apply(ctx context.Context) error {
	if err := o.run(ctx); err != nil {
		return err
	}
	if o.p.Env.JSON {
		o.p.Env.PrintJSON(o.result.JSON())
	} else if err := o.print(ctx); err != nil {
		return err
	}
	return o.reportRest(ctx)
}

// operate opens the database that the command and its pass share, resolves the issue, and calls do.
func operate(ctx context.Context, p *project.Project, verb reconcile.Verb, issue string, do func(*operation) error) (err error) {
	if err := p.Nested(); err != nil {
		return err // an agent must not operate symphony
	}
	db, err := state.Open(ctx, p.StateDir)
	if err == nil {
		defer func() { err = cmp.Or(err, db.Close()) }()
		_, err = project.OwnerPath(ctx, p, db)
	}
	if err != nil {
		return project.NoState(p, err)
	}
	o := &operation{p: p, db: db, cmd: reconcile.Command{Verb: verb}, only: pass.NoIssue}
	switch {
	case issue != "":
		if o.cmd.IssueID, o.cmd.Identifier, err = project.FindIssue(ctx, p, db, issue); err != nil {
			return err
		}
		o.only = o.cmd.IssueID
	case verb == reconcile.VerbStopAll, verb == reconcile.VerbUnblock:
		o.only = ""
	}
	return do(o)
}

// Unblock ends what waits after a fault: blocks of the project and its account, limits, backoffs. Then it runs a pass.
func Unblock(ctx context.Context, p *project.Project) error {
	cfg, err := p.ConfigWithoutKey()
	if err != nil {
		return err
	}
	return operate(ctx, p, reconcile.VerbUnblock, "", func(o *operation) error {
		err := errors.Join(project.OpenAccount(p, cfg.Codex.Home).Forget(ctx, p.Env.Now()), o.db.SetMeta(ctx, project.LowKey, ""))
		if err != nil {
			return err
		}
		return o.apply(ctx)
	})
}

// run stores the command and runs a pass for it. If another pass has the lock, the command stays for the next one.
func (o *operation) run(ctx context.Context) error {
	o.cmd.CreatedAt = o.p.Env.Now()
	id, err := o.db.Operator.AddCommand(ctx, o.cmd)
	if err != nil {
		return withHint(err, "the command is not stored: repeat it then")
	}
	o.result, err = pass.Run(ctx, o.p, pass.Options{
		Trigger: project.TriggerCommand, Only: o.only, LockTimeout: project.CommandPatience, DB: o.db,
		Delivers: o.cmd.Verb == reconcile.VerbDeliver,
	})
	switch {
	case err != nil:
		return withHint(err, "the command is stored: the next pass applies it")
	case o.result.Holder != nil:
		e := project.LockedError(o.result.Holder)
		e.Hint = "the command is stored; the next pass applies it"
		return e
	}
	o.applied, err = o.db.Operator.CommandDone(ctx, id)
	return err
}

// withHint adds to the hint of an error.
func withHint(err error, more string) error {
	e := *exit.From(err)
	e.Hint = strings.TrimPrefix(e.Hint+"; "+more, "; ")
	return &e
}

// print prints the pass of the command and, unless an action of the pass shows it, the command's effect. Errors of the pass
// are warnings once the command has had its effect.
func (o *operation) print(ctx context.Context) error {
	r := o.result
	if o.applied {
		r.Errors = nil
	}
	pass.ReportActions(o.p, r)
	if !o.applied {
		return nil
	}
	effect, err := o.effect(ctx)
	if o.cmd.Verb == reconcile.VerbRetry && !o.nothing {
		wait := cmp.Or(o.result.ObstacleText(o.p.Env.Now()), o.result.WaitText(o.cmd.IssueID))
		effect = strings.TrimPrefix(effect+"\n"+wait, "\n")
	}
	if effect != "" {
		fmt.Fprint(o.p.Env.Stdout, pass.Lines(o.p.Env, strings.Split(strings.TrimSuffix(effect, "\n"), "\n")))
	}
	for _, e := range o.result.Errors {
		warning := fmt.Sprintf("%s was applied, but its pass reported %s", o.cmd.Verb, e)
		if e.Hint != "" {
			warning += "; " + e.Hint
		}
		o.p.Env.Note(slog.LevelWarn, warning)
	}
	return err
}

// effect describes what the command changed; empty if an action of the pass shows it.
func (o *operation) effect(ctx context.Context) (string, error) {
	switch o.cmd.Verb {
	case reconcile.VerbPause, reconcile.VerbStopAll:
		going := ""
		if n := o.result.Running; n > 0 && o.cmd.Verb == reconcile.VerbPause {
			going = "; still running: " + text.Plural(n, "run")
		}
		return "paused: no new run starts until symphony resume" + going, nil
	case reconcile.VerbResume:
		return "resumed: the next pass starts what is due", nil
	case reconcile.VerbUnblock:
		return "unblocked: every waiting issue is due", nil
	default: // the others have an issue
	}
	for _, a := range o.result.Applied {
		if a.IssueID == o.cmd.IssueID && (a.Kind == reconcile.ActHold || a.Kind == reconcile.ActStop || a.Kind == reconcile.ActRetry) {
			return "", nil
		}
	}
	c, claimed, err := o.db.Views.ClaimByIssue(ctx, o.cmd.IssueID)
	switch {
	case err != nil:
		return "", err
	case !claimed:
		o.nothing = true
		return o.cmd.Identifier + " is neither held nor waiting: there is nothing to retry", nil
	case c.Status == reconcile.Held:
		return o.cmd.Identifier + " is held", nil
	case c.HoldNext:
		return o.cmd.Identifier + " will be held when its run ends", nil
	case c.Status == reconcile.Running:
		return o.cmd.Identifier + " is running; its counters are cleared", nil
	}
	return o.cmd.Identifier + " is due", nil
}

// reportRest reports on stderr a command that the next pass still has to apply, and a missing schedule where one has to follow.
func (o *operation) reportRest(ctx context.Context) error {
	alive, err := project.ScheduleAlive(ctx, o.db, o.p.Env.Now())
	if err != nil {
		return err
	}
	if !o.applied {
		fmt.Fprintf(o.p.Env.Stderr, "symphony: the next pass applies %s\n", o.cmd.Verb)
	}
	needsPass := !o.applied || slices.Contains([]reconcile.Verb{reconcile.VerbRetry, reconcile.VerbResume, reconcile.VerbUnblock}, o.cmd.Verb)
	if needsPass && !o.nothing && !alive && !project.Looping(o.p.StateDir) {
		fmt.Fprintln(o.p.Env.Stderr, "symphony: no schedule is active: run symphony tick")
	}
	if o.applied {
		return nil
	}
	return o.result.ExitCode()
}

// RunIssue starts an issue and follows its run until it ends. A signal ends this command, not the run.
// model replaces that of the workflow unless it is empty.
func RunIssue(ctx context.Context, p *project.Project, ref, model string) error {
	runID, err := StartIssue(ctx, p, ref, model)
	if err != nil {
		return err
	}
	db, err := project.OpenForReading(context.WithoutCancel(ctx), p) // after a signal the message names the run that continues
	if err != nil {
		return err
	}
	defer db.Close()
	if err := logs.FollowRun(ctx, p, runID); err != nil {
		return err
	}
	run, err := pass.WaitForRun(ctx, p, db, runID)
	if err != nil {
		return err
	}
	render.RunEnd(p, run)
	if run.Outcome != reconcile.Succeeded || run.Delivery.Code != "" {
		return exit.Only(exit.Failed)
	}
	return nil
}

// StartIssue runs a pass confined to the issue, and returns the run that it has started, or that was running already.
// A run that goes on keeps its model: with another one the error is not_started.
func StartIssue(ctx context.Context, p *project.Project, ref, model string) (runID string, err error) {
	issue, err := project.FetchIssue(ctx, p, ref)
	if err != nil {
		return "", err
	}
	r, err := pass.Run(ctx, p, pass.Options{
		Trigger: project.TriggerManual, Only: issue.ID, AtOnce: true, Model: model, Stays: true, LockTimeout: project.CommandPatience,
	})
	switch {
	case err != nil:
		return "", err
	case r.Holder != nil:
		return "", project.LockedError(r.Holder)
	}
	pass.ReportActions(p, r)
	if err := r.ExitCode(); err != nil {
		return "", err
	}
	started := func(a reconcile.Applied) bool {
		return (a.Kind == reconcile.ActDispatch || a.Kind == reconcile.ActDeliver) && a.Err == nil
	}
	if i := slices.IndexFunc(r.Applied, started); i >= 0 {
		return r.Applied[i].RunID, nil
	}
	db, err := project.OpenForReading(context.WithoutCancel(ctx), p)
	if err != nil {
		return "", err
	}
	defer db.Close()
	c, claimed, err := db.Views.ClaimByIssue(context.WithoutCancel(ctx), issue.ID)
	if err != nil {
		return "", err
	}
	if !claimed || c.Status != reconcile.Running {
		return "", notStarted(issue, r, c, claimed)
	}
	if model != "" {
		return "", &reconcile.Error{
			Code: "not_started", Message: issue.Identifier + " is already running, and a run keeps its model",
			Hint: "symphony stop " + issue.Identifier + " first",
		}
	}
	fmt.Fprintf(p.Env.Stderr, "symphony: %s is already running\n", text.Visible(issue.Identifier))
	return c.RunID, nil
}

// Deliver pushes the commits of an issue now, by a run without an agent, and with wait follows it to its end.
func Deliver(ctx context.Context, p *project.Project, ref string, wait bool) error {
	return operate(ctx, p, reconcile.VerbDeliver, ref, func(o *operation) error {
		if err := undeliverable(ctx, o); err != nil {
			return err
		}
		if err := o.run(ctx); err != nil {
			return err
		}
		i := slices.IndexFunc(o.result.Applied, func(a reconcile.Applied) bool { return a.Kind == reconcile.ActDeliver && a.Err == nil })
		switch {
		case !p.Env.JSON:
			pass.ReportActions(p, o.result)
		case i >= 0:
			p.Env.PrintJSON(o.result.JSON())
		}
		if i < 0 {
			return &reconcile.Error{
				Code: "not_started", Message: "the pass did not deliver " + o.cmd.Identifier,
				Hint: "symphony show " + o.cmd.Identifier + " explains it",
			}
		}
		if !wait {
			return nil
		}
		run, err := pass.WaitForRun(ctx, p, o.db, o.result.Applied[i].RunID)
		if err != nil {
			return err
		}
		if !p.Env.JSON {
			render.RunEnd(p, run)
		}
		if run.Outcome != reconcile.Succeeded {
			return exit.Only(exit.Failed)
		}
		return nil
	})
}

// undeliverable returns an error if there is nothing that a delivery could push now.
func undeliverable(ctx context.Context, o *operation) error {
	identifier := o.cmd.Identifier
	e := &reconcile.Error{Code: "nothing_to_deliver", Hint: "symphony show " + identifier + " shows its state"}
	cfg, err := o.p.ConfigWithoutKey()
	if err != nil {
		return err
	}
	c, claimed, err := o.db.Views.ClaimByIssue(ctx, o.cmd.IssueID)
	switch {
	case err != nil:
		return err
	case !cfg.Repository.Delivers():
		e.Message, e.Hint = "this workflow delivers nothing", "set repository.url in WORKFLOW.md, without deliver: none"
	case !claimed:
		e.Message = identifier + " is not claimed: no commits of it wait for delivery"
	case c.WorkspaceRoot == "":
		e.Message = identifier + " has no workspace: none of its runs has started"
	case c.Status == reconcile.Running && !o.ended(ctx, c.RunID):
		e.Message = identifier + " is running; its commits are delivered when its run has ended"
	default:
		return nil
	}
	return e
}

// ended reports whether a run has ended, though no pass has settled it yet.
func (o *operation) ended(ctx context.Context, runID string) bool {
	run, err := o.db.Views.Run(ctx, runID)
	return err == nil && (run.Outcome != "" || project.WorkerDead(o.p, run))
}

// notStarted returns the error that explains why the pass started no run of the issue.
func notStarted(issue *reconcile.Issue, r pass.Result, c reconcile.Claim, claimed bool) error {
	e := &reconcile.Error{
		Code:    "not_started",
		Message: issue.Identifier + " is not in this project",
		Hint:    "symphony show " + issue.Identifier + " explains it",
	}
	if r.Config != nil && !project.Policy(r.Config).Active(issue.State) {
		e.Message = fmt.Sprintf("%s is in the state %q; runs start only in %s", issue.Identifier, issue.State, strings.Join(r.Config.Policy.ActiveStates, " or "))
	}
	skips := slices.Clone(r.Skips)
	switch {
	case !claimed:
	case c.Status == reconcile.Held:
		e.Message, e.Hint = fmt.Sprintf("%s is held (%s): %s", issue.Identifier, c.HoldReason, c.HoldMessage), "symphony retry "+issue.Identifier
	case c.Delivery.Due:
		e.Message = "the commits of " + issue.Identifier + ", if there are any, are delivered first"
		e.Hint = "symphony deliver " + issue.Identifier + " delivers them now"
		if c.Delivery.Code != "" {
			e.Message = issue.Identifier + " has commits that were not delivered: " + c.Delivery.Code + ": " + c.Delivery.Message
		}
	case c.Kind == reconcile.Blocked:
		skips = append(skips, r.Waits...)
		e.Message, e.Hint = fmt.Sprintf("%s is blocked by %s: %s", issue.Identifier, c.ErrorCode, c.ErrorMessage), "symphony ps shows when it is tried again"
	default:
		skips = append(skips, r.Waits...)
		e.Message = fmt.Sprintf("%s waits until %s (%s)", issue.Identifier, c.DueAt.UTC().Format(time.RFC3339), c.Kind)
		e.Hint = "symphony retry " + issue.Identifier
	}
	for _, s := range skips {
		if s.IssueID == issue.ID {
			e.Message, e.Hint = fmt.Sprintf("%s: %s (%s)", s.Identifier, s.Message, s.Reason), "symphony show "+s.Identifier+" says when it starts"
			if s.Reason == reconcile.SkipLabel || s.Reason == reconcile.SkipAssignee || s.Reason == reconcile.SkipBlockedBy {
				e.Message = s.Identifier + " " + s.Message
			}
			return e
		}
	}
	return e
}
