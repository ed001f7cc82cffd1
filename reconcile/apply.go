package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// stopBound is how long a pass waits for all its stops together. Later passes continue.
const stopBound = 5 * time.Second

// Applied is an action and its result.
type Applied struct {
	Action
	// Err is nil where the action took effect.
	Err error
}

// applier carries out a plan. Each action is stored before it takes effect, so that after a crash at any line the next
// pass can finish it. After an action fails, the later ones of the same issue are not tried, because they were planned on
// its success.
//
// At the end all workers are started, and all runs asked to stop, side by side.
type applier struct {
	Deps
	failed map[string]bool
	runs   map[string]Run // unsettled, as observed
	done   []Applied
	// keepCommands: a stop failed, so that the command that asked for it must stay for the next pass.
	keepCommands bool
	// slotsUnsure: a run could not be settled, so that the slot of a planned dispatch may still be in use.
	slotsUnsure bool
}

func apply(ctx context.Context, d Deps, plan Plan, runs []Run) []Applied {
	a := &applier{Deps: d, failed: map[string]bool{}, runs: map[string]Run{}}
	for _, r := range runs {
		a.runs[r.ID] = r
	}
	for rest := plan.Actions; len(rest) > 0; {
		n := 0
		for n < min(len(rest), storedAtOnce) && rest[n].Kind == actUpdate && len(rest[n].Change.Commands) == 0 {
			n++
		}
		n = max(n, 1)
		if rest[0].Kind == actUpdate {
			a.update(ctx, rest[:n])
		} else {
			a.one(ctx, rest[0])
		}
		rest = rest[n:]
	}
	bounded, cancel := context.WithTimeout(ctx, stopBound)
	defer cancel()
	a.sideBySide(func(action Action) bool { return action.Kind == ActStop }, func(action Action) error {
		return a.Runners.Stop(bounded, a.runs[action.RunID])
	})
	a.sideBySide(Action.starts, func(action Action) error {
		err := a.Runners.Start(ctx, *action.Change.Insert)
		var known *Error
		if err == nil || errors.As(err, &known) {
			return err
		}
		return &Error{
			Code: CodeSpawnFailed, Message: MessageSpawnFailed + " for " + action.Identifier + ": " + err.Error(),
			Hint: "the next pass tries again", Err: err,
		}
	})
	return a.done
}

// storedAtOnce is how many updates share a transaction. Each transaction syncs the disk, and workers wait for it.
const storedAtOnce = 100

// update stores changes that decide nothing. After a failure each is stored by itself, so that one does not hinder the others.
func (a *applier) update(ctx context.Context, list []Action) {
	var changes []Change
	for _, u := range list {
		if !a.failed[u.IssueID] && (len(u.Change.Commands) == 0 || !a.keepCommands) {
			changes = append(changes, *u.Change)
		}
	}
	if len(changes) == 0 {
		return
	}
	switch err := a.Store.Commit(ctx, a.Now(), changes...); {
	case err == nil:
	case len(list) == 1:
		a.failed[list[0].IssueID] = list[0].IssueID != ""
		a.done = append(a.done, Applied{Action: list[0], Err: err})
	default:
		for i := range list {
			a.update(ctx, list[i:i+1])
		}
	}
}

// one carries out an action, but for the signals and starts that come at the end.
func (a *applier) one(ctx context.Context, action Action) {
	if a.failed[action.IssueID] || action.Kind == ActDispatch && a.slotsUnsure {
		return
	}
	var err error
	switch action.Kind {
	case ActReap:
		err = a.reap(ctx, action)
	case ActStop:
		err = a.stop(ctx, action)
	case ActDispatch, ActRemoveWorkspace:
		err = a.insert(ctx, &action)
	default:
		err = a.Store.Commit(ctx, a.Now(), *action.Change)
	}
	a.done = append(a.done, Applied{Action: action, Err: err})
	if err != nil {
		a.failed[action.IssueID] = true
		a.keepCommands = a.keepCommands || action.Kind == ActStop
		// Of a run with remaining processes the plan has counted the slot as taken.
		var known *Error
		leftover := errors.As(err, &known) && known.Code == codeLeftover
		a.slotsUnsure = a.slotsUnsure || (action.Kind == ActReap || action.Kind == ActSettle) && !leftover
	}
}

func (a *applier) reap(ctx context.Context, action Action) error {
	run := a.runs[action.RunID]
	if action.Kill {
		if err := a.Runners.Kill(ctx, run); err != nil {
			return err
		}
	}
	left, err := a.Runners.Reap(ctx, run, func(left []Process) error {
		if action.Outcome == "" || len(left) > 0 && !action.GiveUp {
			return nil
		}
		return a.Store.EndDead(ctx, a.Now(), run, action.Outcome, action.Reason, action.Message)
	})
	if err != nil || len(left) == 0 || action.GiveUp {
		return err
	}
	return errors.Join(a.Store.ReapFailed(ctx, run.ID), &Error{
		Code: codeLeftover, Message: fmt.Sprintf("process %d (%s) of run %s could not be ended", left[0].PID, left[0].Name, run.ID),
		Hint: "the next pass tries again; see what it is with: ps -fp " + fmt.Sprint(left[0].PID),
	})
}

func (a *applier) stop(ctx context.Context, action Action) error {
	if err := a.Store.RequestStop(ctx, action.RunID, action.Reason, Instant{a.Boot, a.Mono()}); err != nil {
		return err
	}
	if action.Change != nil {
		return a.Store.Commit(ctx, a.Now(), *action.Change)
	}
	return nil
}

// insert stores the run and its claim before anything is started.
func (a *applier) insert(ctx context.Context, action *Action) error {
	change := *action.Change
	run := *change.Insert
	run.ID = a.NewRunID()
	run.Worker.Boot = a.Boot
	change.Insert = &run
	if change.Claim != nil {
		claim := *change.Claim
		claim.RunID = run.ID
		change.Claim = &claim
	}
	action.Change, action.RunID = &change, run.ID
	if err := a.Runners.Prepare(ctx, run); err != nil {
		return err
	}
	if action.Probe != nil {
		if err := a.Accounts.Probe(ctx, *action.Probe, run); err != nil {
			return err
		}
	}
	return a.Store.Commit(ctx, a.Now(), change)
}

// sideBySide does something with all actions that have succeeded so far.
func (a *applier) sideBySide(with func(Action) bool, do func(Action) error) {
	var wg sync.WaitGroup
	for i := range a.done {
		if done := &a.done[i]; done.Err == nil && with(done.Action) {
			wg.Go(func() { done.Err = do(done.Action) })
		}
	}
	wg.Wait()
}
