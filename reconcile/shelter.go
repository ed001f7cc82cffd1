package reconcile

import (
	"context"
	"errors"
	"slices"
)

// starts reports whether the plan starts a process that must outlive the pass.
func (p Plan) starts() bool {
	return slices.ContainsFunc(p.Actions, func(a Action) bool { return a.Kind == ActDispatch || a.Kind == ActRemoveWorkspace })
}

// sheltered reports whether what the pass starts will live on. Where it would not, the snapshot says so, and the pass
// plans again; everything else goes on.
func (t *tick) sheltered(ctx context.Context) bool {
	if t.Shelter == nil {
		return true
	}
	t.asked = true
	err := t.Shelter(ctx)
	if err == nil {
		return true
	}
	known := &Error{Code: CodeWorkersWouldDie, Message: err.Error(), Err: err}
	errors.As(err, &known)
	t.fail("", known)
	t.host = &Block{Code: known.Code, Message: known.Message, Since: t.snapshot.Now}
	if old := t.recorded.HostBlock; old != nil {
		t.host.Since = old.Since
	}
	t.snapshot.HostBlock = t.host
	return false
}

// keepHostBlock remembers for ps what a pass itself has found to be in the way of all runs, and forgets it as soon as
// one could start something, or has seen that there is nothing to start.
func (t *tick) keepHostBlock(ctx context.Context) {
	old, next := t.recorded.HostBlock, t.host
	idle := t.snapshot.Tracker != nil && t.snapshot.Tracker.Fetched && !t.snapshot.DispatchOff && t.Only == ""
	switch {
	case t.DryRun, old == nil && next == nil, old != nil && next != nil && *old == *next:
		return
	case next == nil && !t.asked && !idle:
		return
	case next == nil:
		next = &Block{}
	}
	if err := t.Store.Commit(ctx, t.Now(), Change{HostBlock: next}); err != nil {
		t.fail("state_write", err)
	}
}
