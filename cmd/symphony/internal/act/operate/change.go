package operate

import (
	"context"
	"errors"
	"slices"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Change is a command that changes the next passes of a project: pause or resume.
type Change struct {
	single
	Verb reconcile.Verb // such as reconcile.VerbPause
}

// Name implements Command.
func (c Change) Name() reconcile.Verb { return c.Verb }

// About implements Command. A Change is about the project.
func (c Change) About(string) Command { return c }

func (c Change) do(ctx context.Context, p *wiring.Project, runPass passRunner) (Done, error) {
	o := newOperation(p, reconcile.Command{Verb: c.Verb}, runPass)
	err := o.carryOut(ctx, "", func() error {
		before, err := o.db.Views.State(ctx, nil)
		if err != nil {
			return err
		}
		o.wasPaused = before.Paused
		if o.wasPaused {
			o.only = []string{pass.NoIssue} // the next pass starts what is due
		}
		if c.Verb == reconcile.VerbResume {
			o.wasBlocked = o.isBlocked(ctx, before)
			isWaiting := func(c reconcile.Claim) bool { return c.Status == reconcile.Waiting }
			o.hasWaiting = slices.ContainsFunc(before.Claims, isWaiting)
			if err := o.forgetLimits(ctx); err != nil {
				return err
			}
		}
		return o.change(ctx)
	})
	return Done{o.result, o.result.JSON()}, err
}

// isBlocked reports whether anything waits that resume makes due: the project, an account, the
// tracker or an issue. What can't be read counts as blocked.
func (o *operation) isBlocked(ctx context.Context, before reconcile.State) bool {
	now := o.p.Env.Now()
	waits := func(c reconcile.Claim) bool { return c.Status == reconcile.Waiting && c.DueAt.After(now) }
	if wiring.BlockedBy(before) != nil || len(before.RemoteBlocks) > 0 || slices.ContainsFunc(before.Claims, waits) {
		return true
	}
	limited, err := wiring.Limited(ctx, o.p, o.db)
	if err != nil || limited {
		return true
	}
	cfg, err := o.p.ConfigWithoutKey()
	if err != nil {
		return true
	}
	isAny := false
	err = wiring.ForEachAccount(o.p, cfg, func(a *state.Account) error {
		account, err := a.Read(now)
		isAny = isAny || account.Block != nil || account.Limit != nil
		return err
	})
	return err != nil || isAny
}

// forgetLimits ends the waits after a fault of an account or a limit of the tracker. If the
// workflow is wrong, the accounts are not known, and the pass says why.
func (o *operation) forgetLimits(ctx context.Context) error {
	cfg, err := o.p.ConfigWithoutKey()
	if err != nil {
		return wiring.ForgetLimits(ctx, o.db)
	}
	forget := func(a *state.Account) error { return a.Forget(ctx, o.p.Env.Now()) }
	return errors.Join(wiring.ForEachAccount(o.p, cfg, forget), wiring.ForgetLimits(ctx, o.db))
}

// change applies the command, and finds out its effect and whether that needs another pass.
func (o *operation) change(ctx context.Context) error {
	if err := o.apply(ctx); err != nil {
		return err
	}
	unchanged := false
	o.findStarted()
	if o.result.Applied {
		var err error
		o.result.Effect, unchanged, err = o.effect(ctx)
		if err != nil {
			return err
		}
	}
	alive, err := wiring.ScheduleAlive(ctx, o.db, o.p.Env.Now())
	if err != nil {
		return err
	}
	starts := []reconcile.Verb{
		reconcile.VerbRetry,
		reconcile.VerbHostGone,
		reconcile.VerbResume,
	}
	obstacle := o.result.Pass.Obstacle
	isPaused := obstacle != nil && obstacle.Reason == reconcile.SkipPaused
	startsLater := slices.Contains(starts, o.command.Verb) && !isPaused && !o.result.Pass.Released(o.command.IssueID) &&
		o.result.RunID == ""
	needsPass := !o.result.Applied || startsLater
	o.result.Unscheduled = needsPass && !unchanged && !alive && !wiring.Looping(o.p.StateDir)
	return nil
}

// effect returns lines about the changes that no action of the pass shows. unchanged is true
// if there was nothing to change.
func (o *operation) effect(ctx context.Context) (lines []string, unchanged bool, err error) {
	const paused = "paused: no new run starts until symphony resume"
	switch o.command.Verb {
	case reconcile.VerbStopAll:
		return []string{paused}, false, nil
	case reconcile.VerbPause:
		if n := o.result.Pass.Running; n > 0 {
			return []string{paused + "; still running: " + text.Plural(n, "run")}, false, nil
		}
		return []string{paused}, false, nil
	case reconcile.VerbResume:
		switch {
		case o.wasPaused:
			return []string{"resumed: the next pass starts what is due"}, false, nil
		case o.wasBlocked:
			return []string{"resumed: every waiting issue is due"}, false, nil
		case o.hasWaiting:
			return []string{"nothing was paused or blocked: every waiting issue was due already"}, false, nil
		}
		return []string{"nothing was paused or blocked, and no issue waits"}, true, nil
	default: // the others have an issue
		return o.effectOnIssue(ctx)
	}
}

// effectOnIssue is effect for a command about an issue. For a retry the lines say why the
// issue does not start now.
func (o *operation) effectOnIssue(ctx context.Context) (lines []string, unchanged bool, err error) {
	line := ""
	if !o.shown() {
		line, unchanged, err = o.claimAfter(ctx)
		if err != nil {
			return nil, false, err
		}
	}
	lines = []string{line}
	if o.command.Verb == reconcile.VerbRetry && !unchanged {
		obstacle := o.result.Pass.ObstacleText(o.p.Env.Now())
		if obstacle == "" {
			obstacle = o.result.Pass.WaitText(o.command.IssueID)
		}
		lines = append(lines, obstacle)
	}
	return slices.DeleteFunc(lines, func(line string) bool { return line == "" }), unchanged, nil
}

// shown reports whether an action of the pass shows the effect of the command.
func (o *operation) shown() bool {
	kinds := []reconcile.ActionKind{reconcile.ActHold, reconcile.ActStop, reconcile.ActRetry}
	return slices.ContainsFunc(o.result.Pass.Applied, func(a reconcile.Applied) bool {
		return a.IssueID == o.command.IssueID && slices.Contains(kinds, a.Kind)
	})
}

// claimAfter describes the issue's claim after the command. unchanged is true if the command
// had nothing to change.
func (o *operation) claimAfter(ctx context.Context) (line string, unchanged bool, err error) {
	name := o.command.Identifier
	c, claimed, err := o.db.Views.ClaimByIssue(ctx, o.command.IssueID)
	switch {
	case err != nil:
		return "", false, err
	case o.command.Verb == reconcile.VerbHostGone:
		return name + " does not wait for a host", true, nil
	case !claimed && o.fresh:
		return name + ": nothing starts now; its next run begins a new conversation", true, nil
	case !claimed:
		return name + " is neither held nor waiting: there is nothing to retry", true, nil
	case c.NeedsHelp():
		return name + " needs help", false, nil
	case c.Status == reconcile.Held:
		return name + " is held", false, nil
	case c.HoldNext:
		return name + " will be held when its run ends", false, nil
	case c.Status == reconcile.Running:
		return name + " is running; its counters are cleared", false, nil
	}
	return name + " is due", false, nil
}
