package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// stopBound is how long a pass waits for all stopped workers together. Later passes settle the
// rest.
const stopBound = 5 * time.Second

// Applied is an action and its result.
type Applied struct {
	Action
	Err error // nil if the action took effect
}

// applier carries out a plan. Each action is stored before it takes effect, so that after a
// crash at any line the next pass can finish it. Signals and starts come at the end,
// concurrently.
type applier struct {
	Deps
	runs map[string]Run // the unsettled runs of the snapshot
	done []Applied      // without the updates that succeeded
	// failed contains the issues with a failed action. Their later actions, which depend on
	// its success, are omitted.
	failed       map[string]bool
	keepCommands bool // a stop failed: the command that requested it stays for the next pass
	// a run could not be settled: the slot of a planned dispatch may still be in use
	slotsUnsure bool
}

func apply(ctx context.Context, d Deps, plan Plan, runs []Run) []Applied {
	a := &applier{Deps: d, failed: map[string]bool{}, runs: map[string]Run{}}
	for _, r := range runs {
		a.runs[r.ID] = r
	}
	for rest := plan.Actions; len(rest) > 0; {
		updates := leadingUpdates(rest)
		n := max(len(updates), 1)
		stored := false
		if len(updates) > 1 {
			stored = a.storeTogether(ctx, updates)
		}
		if !stored {
			for _, action := range rest[:n] {
				a.one(ctx, action)
			}
		}
		rest = rest[n:]
	}
	bounded, cancel := context.WithTimeout(ctx, stopBound)
	defer cancel()
	a.concurrently(func(action Action) bool { return action.Kind == ActStop }, func(action Action) error {
		return a.Runners.Stop(bounded, a.runs[action.RunID])
	})
	a.concurrently(Action.starts, func(action Action) error {
		run := a.runs[action.RunID]
		if action.Kind != ActEnd {
			run = *action.Change.Insert
		}
		return startError(action.Identifier, a.Runners.Start(ctx, run))
	})
	return a.done
}

// startError names the issue whose worker could not be started, unless the error already gives
// the cause and the remedy. nil stays nil.
func startError(identifier string, err error) error {
	if err == nil {
		return nil
	}
	var known *Error
	if errors.As(err, &known) {
		return err
	}
	message := MessageSpawnFailed + " for " + identifier + ": " + err.Error()
	return NewError(CodeSpawnFailed, message, "the next pass tries again").WithCause(err)
}

// leadingUpdates returns the first actions that may share a transaction: updates that delete
// no command, up to a hundred.
func leadingUpdates(actions []Action) []Action {
	n := slices.IndexFunc(
		actions,
		func(a Action) bool { return a.Kind != actUpdate || len(a.Change.Commands) > 0 },
	)
	if n < 0 {
		n = len(actions)
	}
	return actions[:min(n, 100)]
}

// storeTogether stores updates in a single transaction, because each transaction syncs the
// disk while workers wait. It returns false if nothing was stored. Then each update is stored
// separately, so that a failure does not affect the others.
func (a *applier) storeTogether(ctx context.Context, updates []Action) bool {
	var changes []Change
	for _, u := range updates {
		if !a.failed[u.IssueID] {
			changes = append(changes, *u.Change)
		}
	}
	return len(changes) == 0 || a.Store.Commit(ctx, a.Now(), changes...) == nil
}

// one carries out a single action, except for signals and starts, which come at the end.
func (a *applier) one(ctx context.Context, action Action) {
	if a.omits(action) {
		return
	}
	err := a.carryOut(ctx, &action)
	if err != nil || action.Kind != actUpdate {
		a.done = append(a.done, Applied{Action: action, Err: err})
	}
	if err != nil {
		a.omitDependents(action, err)
	}
}

// omits reports whether an action is left out, because something before it failed.
func (a *applier) omits(action Action) bool {
	switch {
	case a.failed[action.IssueID]:
		return true
	case action.Kind == ActDispatch:
		return a.slotsUnsure
	case action.Kind == actUpdate && len(action.Change.Commands) > 0:
		return a.keepCommands
	}
	return false
}

// carryOut stores an action, and ends the processes of a run that is reaped.
func (a *applier) carryOut(ctx context.Context, action *Action) error {
	switch action.Kind {
	case ActReap:
		return a.reap(ctx, *action)
	case ActStop:
		return a.requestStop(ctx, *action)
	case ActDispatch, ActRemoveWorkspace, ActDeliver:
		return a.insert(ctx, action)
	case ActEnd:
		return nil // its worker takes the run
	default:
		return a.Store.Commit(ctx, a.Now(), *action.Change)
	}
}

// omitDependents notes which later actions must not be carried out after an action failed.
func (a *applier) omitDependents(action Action, err error) {
	if action.IssueID != "" {
		a.failed[action.IssueID] = true
	}
	switch action.Kind {
	case ActStop:
		a.keepCommands = true
	case ActReap, ActSettle:
		// After codeLeftover the slots are known: the plan counted the slot of a run with
		// remaining processes as taken.
		known, is := errors.AsType[*Error](err)
		if !is || known.Code != codeLeftover {
			a.slotsUnsure = true
		}
	default: // no other issue depends on it
	}
}

// requestStop asks a worker to end, and stores the claim that was planned with it.
func (a *applier) requestStop(ctx context.Context, action Action) error {
	err := a.Store.RequestStop(ctx, action.RunID, action.Reason, Instant{a.Boot, a.Mono()})
	if err != nil || action.Change == nil {
		return err
	}
	return a.Store.Commit(ctx, a.Now(), *action.Change)
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
	leftover := NewError(
		codeLeftover,
		fmt.Sprintf("process %d (%s) of run %s could not be ended", left[0].PID, left[0].Name, run.ID),
		"the next pass tries again; inspect the process with: ps -fp "+fmt.Sprint(left[0].PID),
	)
	return errors.Join(a.Store.ReapFailed(ctx, run.ID), leftover)
}

// insert stores the run and its claim before the worker is started.
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
	action.Change = &change
	action.RunID = run.ID
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

// concurrently runs do for the selected actions that have succeeded so far.
func (a *applier) concurrently(selected func(Action) bool, do func(Action) error) {
	var wg sync.WaitGroup
	for i := range a.done {
		if done := &a.done[i]; done.Err == nil && selected(done.Action) {
			wg.Go(func() { done.Err = do(done.Action) })
		}
	}
	wg.Wait()
}
