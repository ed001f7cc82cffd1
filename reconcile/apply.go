package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	updates []Change // still to be stored
	failed  map[string]bool
	runs    map[string]Run // unsettled, as observed
	starts  []int          // indexes into done
	stops   []int
	done    []Applied
	// keepCommands: a stop failed, so that the command that asked for it must stay for the next pass.
	keepCommands bool
	// slotsUnsure: a run could not be settled, so that the slot of a planned dispatch may still be in use.
	slotsUnsure bool
}

func apply(ctx context.Context, d Deps, plan Plan, runs []Run) []Applied {
	a := &applier{Deps: d, updates: slices.Clone(plan.Updates), failed: map[string]bool{}, runs: map[string]Run{}}
	for _, r := range runs {
		a.runs[r.ID] = r
	}
	// A command without an effect goes first: found again after a crash, it would follow a later command.
	a.update(ctx, func(u Change) bool { return u.Claim == nil && (len(u.Commands) == 0 || u.Paused == nil) })
	for _, action := range plan.Actions {
		a.update(ctx, func(u Change) bool { return precedes(u, action) })
		a.one(ctx, action)
	}
	// An update that deletes a command comes last: before that, a crash must leave the command.
	a.update(ctx, func(u Change) bool { return len(u.Commands) == 0 || !a.keepCommands })
	a.signalStops(ctx)
	a.startWorkers(ctx)
	return a.done
}

// precedes reports whether the action was planned on the update, by the versions of the claim: actions and updates of one
// issue may alternate. (The versions of a claim that was released and made again start at 0.)
func precedes(u Change, action Action) bool {
	if u.Claim == nil || action.Change == nil || action.Change.Claim == nil {
		return false
	}
	next := action.Change.Claim
	return u.Claim.IssueID == next.IssueID && u.Claim.ClaimedAt.Equal(next.ClaimedAt) && u.Claim.Version < next.Version
}

// storedAtOnce is how many claims share a transaction. Each transaction syncs the disk, and workers wait for it.
const storedAtOnce = 100

// update stores, once, the updates that are due.
func (a *applier) update(ctx context.Context, due func(Change) bool) {
	var now []Change
	a.updates = slices.DeleteFunc(a.updates, func(u Change) bool {
		if !due(u) {
			return false
		}
		now = append(now, u)
		return true
	})
	for len(now) > 0 {
		n := 1
		for n < min(len(now), storedAtOnce) && now[n-1].onlyClaim() && now[n].onlyClaim() {
			n++
		}
		if n == 1 || !a.storeTogether(ctx, now[:n]) {
			for _, u := range now[:n] {
				a.store(ctx, u)
			}
		}
		now = now[n:]
	}
}

// storeTogether stores all of them or none. If it fails, each is stored by itself, so that one does not hinder the others.
func (a *applier) storeTogether(ctx context.Context, batch []Change) bool {
	if slices.ContainsFunc(batch, func(u Change) bool { return a.failed[u.Claim.IssueID] }) {
		return false
	}
	return a.Store.Commit(ctx, a.Now(), batch...) == nil
}

// store stores one update, unless an earlier change of its issue failed.
func (a *applier) store(ctx context.Context, u Change) {
	id := ""
	if u.Claim != nil {
		id = u.Claim.IssueID
	}
	if a.failed[id] && id != "" {
		return
	}
	if err := a.Store.Commit(ctx, a.Now(), u); err != nil {
		a.failed[id] = true
		a.done = append(a.done, Applied{Action: Action{Kind: ActRetry, IssueID: id, Reason: "update"}, Err: err})
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
	if err != nil {
		a.failed[action.IssueID] = true
	}
	a.done = append(a.done, Applied{Action: action, Err: err})
	if err != nil {
		a.keepCommands = a.keepCommands || action.Kind == ActStop
		a.slotsUnsure = a.slotsUnsure || (action.Kind == ActReap || action.Kind == ActSettle) && !isLeftover(err)
		return
	}
	switch last := len(a.done) - 1; action.Kind {
	case ActStop:
		a.stops = append(a.stops, last)
	case ActDispatch, ActRemoveWorkspace:
		a.starts = append(a.starts, last)
	default: // done
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

// isLeftover reports whether processes of a run remain. The plan has counted its slot as taken.
func isLeftover(err error) bool {
	var known *Error
	return errors.As(err, &known) && known.Code == codeLeftover
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

func (a *applier) signalStops(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopBound)
	defer cancel()
	a.sideBySide(a.stops, func(action Action) error { return a.Runners.Stop(ctx, a.runs[action.RunID]) })
}

func (a *applier) startWorkers(ctx context.Context) {
	a.sideBySide(a.starts, func(action Action) error {
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
}

func (a *applier) sideBySide(list []int, do func(Action) error) {
	var wg sync.WaitGroup
	for _, i := range list {
		wg.Add(1)
		go func() {
			defer wg.Done()
			a.done[i].Err = do(a.done[i].Action)
		}()
	}
	wg.Wait()
}
