package reconcile

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// Deps are the values and interfaces that a pass works with.
type Deps struct {
	Policy  Policy
	Store   Store
	Tracker *TrackerAdapter // nil where the configuration gives no way to ask
	Runners Runners
	// Accounts is nil where the project shares nothing with others.
	Accounts Accounts
	Now      func() time.Time
	Mono     func() time.Duration // CLOCK_MONOTONIC
	Boot     string
	// CheckHost says why a worker started now would end together with the pass; nil where that can't happen. Only a pass
	// that has something to start calls it.
	CheckHost func(ctx context.Context) error
	// NewRunID gives ids that sort by time.
	NewRunID func() string
}

// Report is what a pass did, or in a dry run would do.
type Report struct {
	Applied []Applied
	// Skips and Waits are those of the last plan. Skips is nil where candidates were not asked for.
	Skips, Waits []Skip
	Errors       []*Error
	// Running, Retrying and Held count the claims after the pass.
	Running, Retrying, Held int
	// NextDue is the earliest due time of a waiting claim, zero if none waits.
	NextDue time.Time
	// NextWake is the earliest due time that had not come when the pass planned, zero if there is none. A pass at that
	// time finds something to do. It may be over by now.
	NextWake time.Time
	// TrackerLow: nothing was started, because less than a tenth of the tracker's allowance is left.
	TrackerLow bool
}

// Tick runs one pass. The local half, which needs this machine alone, is applied before the tracker is asked, so that a
// tracker that hangs delays no settlement.
//
// A cancelled ctx shortens the wait for the tracker and nothing else: the pass finishes what it has begun.
func Tick(ctx context.Context, d Deps, o Options) Report {
	t := &tick{Deps: d, snapshot: Snapshot{Options: o, FreeBytes: -1}, reaped: map[string]bool{}}
	work := context.WithoutCancel(ctx)
	if d.Accounts != nil {
		defer d.Accounts.Release()
	}
	if !t.load(work) || !o.DryRun && t.planAndApply(work) && !t.load(work) {
		return t.report
	}
	if tracked := t.ask(ctx); tracked != nil || o.DryRun {
		// While the tracker was asked, an agent may have moved its issue on, which the row of its run says.
		if t.anyAtWork() && !t.load(work) {
			return t.report
		}
		t.snapshot.Tracker = tracked
		t.planAndApply(work)
	}
	t.count()
	return t.report
}

// tick is the state of one pass.
type tick struct {
	Deps
	snapshot Snapshot
	report   Report
	planned  time.Time // the instant of the last plan
	// reaped are the runs whose remaining processes this pass has tried to end without success.
	reaped           map[string]bool
	host, hostBefore *Block // as CheckHost says in this pass, and as stored before
	slots            *Slots // of the account, taken by this pass
}

// anyAtWork reports whether a run that the pass may touch may have a worker: the rows of other runs do not change.
func (t *tick) anyAtWork() bool {
	return slices.ContainsFunc(t.snapshot.Claims, func(c Claim) bool {
		return c.Status == Running && t.snapshot.concerns(c.IssueID) && !t.snapshot.Liveness[c.RunID].dead()
	})
}

// load reads the database and looks at the processes. A worker writes its outcome before it gives its run up: if one is gone
// without an outcome, a second read finds it, unless the worker died.
func (t *tick) load(ctx context.Context) bool {
	rec, err := t.Store.State(ctx)
	if err == nil {
		t.snapshot.Liveness = t.probe(ctx, rec.Runs)
		if slices.ContainsFunc(rec.Runs, func(r Run) bool { return r.Outcome == "" && t.snapshot.Liveness[r.ID].dead() }) {
			rec, err = t.Store.State(ctx)
		}
	}
	if err != nil {
		t.fail("state_read", err)
		return false
	}
	s := &t.snapshot
	s.State, s.Now, s.Boot, s.Mono, s.Policy, s.Tracker = rec, t.Now(), t.Boot, t.Mono(), t.Policy, nil
	s.DispatchOff = s.DispatchOff || rec.ReadOnly
	t.hostBefore, s.HostBlock = rec.HostBlock, t.host
	if t.Accounts != nil {
		s.Account = t.Accounts.Look(ctx, s.Now)
		s.Account.Slots = t.slots
	}
	return true
}

const (
	// frozenAfter is four heartbeats. A worker without one for so long is looked at again.
	frozenAfter = 20 * time.Second
	// startFrozenAfter is the same for a worker without any heartbeat. It may wait a minute for the database.
	startFrozenAfter = 2 * time.Minute
	// secondLook is how much later that is, once for all silent workers. The pass sleeps for that time with the project lock.
	// A worker that was only suspended has beaten by then.
	secondLook = 2 * time.Second
)

// probe looks at the workers of the runs that the pass may touch. The others count as unknown: to look at a dead one reads
// every process of the machine.
func (t *tick) probe(ctx context.Context, runs []Run) map[string]Liveness {
	live := make(map[string]Liveness, len(runs))
	var silent []Run
	for _, r := range runs {
		l := Liveness{Unknown: true}
		if t.snapshot.concerns(r.IssueID) && !t.reaped[r.ID] { // one attempt in a pass is enough
			l = t.Runners.Probe(ctx, r)
		}
		live[r.ID] = l
		patience := frozenAfter
		if l.Beats == 0 {
			patience = startFrozenAfter
		}
		if l.Alive && l.BeatAt > 0 && t.Mono()-l.BeatAt >= patience {
			silent = append(silent, r)
		}
	}
	if len(silent) > 0 {
		time.Sleep(secondLook)
	}
	for _, r := range silent {
		l := t.Runners.Probe(ctx, r)
		l.Frozen = l.Alive && l.Beats == live[r.ID].Beats
		live[r.ID] = l
	}
	return live
}

// planAndApply computes a plan from the snapshot and applies it. It plans again where the host or the account allows less
// than the plan wants. It returns whether there was anything to apply.
func (t *tick) planAndApply(ctx context.Context) bool {
	t.planned = t.snapshot.Now
	planned := compute(t.snapshot)
	s := t.snapshot
	switch starts := slices.ContainsFunc(planned.plan.Actions, Action.starts); {
	case starts && !t.hostAllows(ctx):
		planned = compute(t.snapshot)
	case !starts && s.Tracker != nil && s.Tracker.Fetched && !s.DispatchOff && s.Only == "":
		t.setHostBlock(ctx, nil) // there is nothing to start
	}
	if t.takeSlots(ctx, planned.plan) {
		planned = compute(t.snapshot)
	}
	plan := planned.plan
	t.snapshot.Claims, t.report.Waits = planned.remaining(), plan.Waits
	if plan.Skips != nil {
		t.report.Skips = plan.Skips
	}
	if t.snapshot.DryRun {
		for _, a := range plan.Actions {
			if a.Kind != actUpdate {
				t.report.Applied = append(t.report.Applied, Applied{Action: a})
			}
		}
		return false
	}
	done := apply(ctx, t.Deps, plan, t.snapshot.Runs)
	t.report.Applied = append(t.report.Applied, done...)
	failed := false
	for _, a := range done {
		failed = failed || a.Err != nil
		t.reaped[a.RunID] = t.reaped[a.RunID] || a.Kind == ActReap && a.Err != nil
		if a.Err != nil && !errors.Is(a.Err, ErrConflict) {
			t.fail("action_failed", a.Err)
		}
	}
	if failed { // not everything became as planned
		if rec, err := t.Store.State(ctx); err != nil {
			t.fail("state_read", err)
		} else {
			t.snapshot.Claims = rec.Claims
		}
	}
	if plan.Skips != nil && t.snapshot.Only == "" {
		if err := t.Store.SaveSkips(ctx, t.Now(), plan.Skips); err != nil {
			t.fail("state_write", err)
		}
	}
	return len(plan.Actions) > 0
}

// hostAllows reports whether a worker started now would outlive the pass. Where it would not, the snapshot says so, and
// everything but starting workers goes on.
func (t *tick) hostAllows(ctx context.Context) bool {
	if t.CheckHost == nil {
		return true
	}
	err := t.CheckHost(ctx)
	if err == nil {
		t.setHostBlock(ctx, nil)
		return true
	}
	known := withCode(CodeWorkersWouldDie, err)
	t.fail("", known)
	b := &Block{Code: known.Code, Message: known.Message, Since: t.snapshot.Now}
	if t.hostBefore != nil {
		b.Since = t.hostBefore.Since
	}
	t.setHostBlock(ctx, b)
	return false
}

// setHostBlock stores the block for ps; nil clears it.
func (t *tick) setHostBlock(ctx context.Context, b *Block) {
	t.host, t.snapshot.HostBlock = b, b
	next, old := cmp.Or(b, &Block{}), cmp.Or(t.hostBefore, &Block{})
	if !t.snapshot.DryRun && *next != *old {
		t.commit(ctx, Change{HostBlock: next})
	}
}

func (t *tick) commit(ctx context.Context, c Change) {
	if err := t.Store.Commit(ctx, t.Now(), c); err != nil {
		t.fail("state_write", err)
	}
}

// takeSlots takes slots of the account for the agents that the plan starts, and reports whether the pass must plan again
// because there are fewer. It comes after the tracker's answer, so that other projects need not wait for the tracker.
func (t *tick) takeSlots(ctx context.Context, plan Plan) bool {
	want := plan.dispatches()
	if t.Accounts == nil || want == 0 {
		return false
	}
	slots, err := t.Accounts.TakeSlots(ctx, want, t.snapshot.DryRun)
	if err != nil {
		t.fail("account_state", err)
		t.snapshot.DispatchOff = true
		return true
	}
	t.slots, t.snapshot.Account.Slots = slots, slots
	return slots != nil && slots.Free < want
}

// fail adds an error to the report, with this code if it has none.
func (t *tick) fail(code string, err error) {
	t.report.Errors = append(t.report.Errors, withCode(code, err))
}

// withCode returns the error as it is if it has a code.
func withCode(code string, err error) *Error {
	known := &Error{Code: code, Message: err.Error(), Err: err}
	errors.As(err, &known)
	return known
}

// count fills in the claims after the pass.
func (t *tick) count() {
	r := &t.report
	earliest := func(at *time.Time, due time.Time) {
		if at.IsZero() || due.Before(*at) {
			*at = due
		}
	}
	for _, c := range t.snapshot.Claims {
		switch c.Status {
		case Running:
			r.Running++
		case Held:
			r.Held++
		case Waiting:
			r.Retrying++
			earliest(&r.NextDue, c.DueAt)
			if c.DueAt.After(t.planned) {
				earliest(&r.NextWake, c.DueAt)
			}
		}
	}
}
