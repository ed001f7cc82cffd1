package reconcile

import "context"

// lookAtAccount reads the account; what the pass has taken of it stays known.
func (t *tick) lookAtAccount(ctx context.Context) Account {
	if t.Accounts == nil {
		return Account{}
	}
	a := t.Accounts.Look(ctx, t.snapshot.Now)
	a.Slots = t.slots
	return a
}

// takeSlots keeps slots for the agents that the plan would start, and reports whether it is to be planned again: they
// are asked for as late as this so that they are kept from nobody while the tracker takes its time.
func (t *tick) takeSlots(ctx context.Context, plan Plan) bool {
	want := plan.dispatches()
	if t.Accounts == nil || want == 0 {
		return false
	}
	slots, err := t.Accounts.TakeSlots(ctx, want, t.DryRun)
	if err != nil {
		t.fail("account_state", err)
		t.DispatchOff, t.snapshot.DispatchOff = true, true
		return true
	}
	t.slots, t.snapshot.Account.Slots = slots, slots
	return slots != nil && slots.Free < want
}
