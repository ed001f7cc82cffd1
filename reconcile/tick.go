package reconcile

import (
	"context"
	"errors"
	"slices"
	"time"
)

const (
	trackerBound = 60 * time.Second
	sweepEvery   = 10 * time.Minute
	longestReset = 24 * time.Hour
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

// Options says what kind of pass it is.
type Options struct {
	DryRun bool
	// DispatchOff, Only and AnySlot are those of the Snapshot.
	DispatchOff bool
	Only        string
	AnySlot     bool
	// TrackerLow: at the last answer less than a tenth of the tracker's allowance was left, and it has not filled up
	// since. The pass asks for running claims alone.
	TrackerLow bool
}

// Report is what a pass did, or in a dry run would do.
type Report struct {
	Applied []Applied
	// Skips is nil where candidates were not asked for.
	Skips []Skip
	// Waits are due retries that could not start.
	Waits  []Skip
	Errors []*Error
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
	t := &tick{Deps: d, Options: o, free: -1, reaped: map[string]bool{}}
	work := context.WithoutCancel(ctx)
	if d.Accounts != nil {
		defer d.Accounts.Release()
	}
	if !t.load(work) {
		return t.report
	}
	if !o.DryRun {
		t.planAndApply(work)
	}
	if tracked := t.ask(ctx); tracked != nil || o.DryRun {
		// While the tracker was asked, an agent may have moved its issue on, which the row of its run says.
		if t.anyAtWork() && !t.load(work) {
			return t.report
		}
		t.snapshot.Tracker = tracked
		t.planAndApply(work)
	}
	t.keepHostBlock(work)
	t.count()
	return t.report
}

// tick is the state of one pass.
type tick struct {
	Deps
	Options
	recorded State
	snapshot Snapshot
	report   Report
	planned  time.Time // the instant of the last plan
	// reaped are the runs whose remaining processes this pass has tried to end without success.
	reaped      map[string]bool
	busy        bool   // another process keeps the database locked
	hostChecked bool   // CheckHost was called
	host        *Block // its answer
	slots       *Slots // of the account, taken by this pass
	free        int64  // bytes of the workspace volume, negative where not known yet
	// stale: the database is ahead of the snapshot, in which only the claims are up to date.
	stale bool
}

// concerns reports whether the pass may touch the issue.
func (t *tick) concerns(issueID string) bool { return t.Only == "" || t.Only == issueID }

// anyAtWork reports whether a run that the pass may touch may have a worker: the rows of other runs do not change.
func (t *tick) anyAtWork() bool {
	return slices.ContainsFunc(t.snapshot.Claims, func(c Claim) bool {
		return c.Status == Running && t.concerns(c.IssueID) && !t.snapshot.Liveness[c.RunID].dead()
	})
}

// load reads the database and looks at the processes.
func (t *tick) load(ctx context.Context) bool {
	rec, err := t.Store.State(ctx)
	if err != nil {
		t.fail("state_read", err)
		return false
	}
	live := t.probe(ctx, rec.Runs)
	if !t.busy && endedUnseen(rec.Runs, live) {
		if rec, err = t.Store.State(ctx); err != nil {
			t.fail("state_read", err)
			return false
		}
	}
	t.recorded, t.stale = rec, false
	t.snapshot = Snapshot{
		Now: t.Now(), Boot: t.Boot, Mono: t.Mono(), Policy: t.Policy,
		Claims: rec.Claims, Runs: rec.Runs, Commands: rec.Commands, Paused: rec.Paused,
		AgentBlock: rec.AgentBlock, TrackerBlock: rec.TrackerBlock, HostBlock: t.host, Tokens: rec.Tokens,
		Liveness: live, FreeBytes: t.free,
		DispatchOff: t.DispatchOff || rec.ReadOnly, Only: t.Only, AnySlot: t.AnySlot,
		Workspaces: t.snapshot.Workspaces, SweepDue: t.snapshot.SweepDue, TrashDue: t.snapshot.TrashDue,
	}
	t.snapshot.Account = t.account(ctx)
	return true
}

// endedUnseen reports whether a run without an outcome has no worker any more. A worker writes its outcome before it gives
// its run up, so that a second read finds the outcome, unless the worker died.
func endedUnseen(runs []Run, live map[string]Liveness) bool {
	return slices.ContainsFunc(runs, func(r Run) bool {
		return r.Outcome == "" && live[r.ID].dead()
	})
}

// probe looks at the workers of the runs that the pass may touch. The others count as unknown: to look at a dead one
// reads every process of the machine, and to look at a living one writes to the database.
func (t *tick) probe(ctx context.Context, runs []Run) map[string]Liveness {
	live := make(map[string]Liveness, len(runs))
	for i, r := range runs {
		if !t.concerns(r.IssueID) {
			live[r.ID] = Liveness{Unknown: true}
			continue
		}
		l := t.Runners.Probe(ctx, r)
		if t.reaped[r.ID] {
			l = Liveness{Unknown: true} // one attempt in a pass is enough
		}
		live[r.ID] = l
		if !t.recordHeartbeat(ctx, r, l) {
			runs[i].Seen = t.lastBeat(ctx, r, l)
		}
	}
	return live
}

// recordHeartbeat stores a heartbeat that no pass has seen before. By one that stays the same a later pass recognises a
// frozen worker. It returns false where another process keeps the database locked; the pass waits for that once.
func (t *tick) recordHeartbeat(ctx context.Context, r Run, l Liveness) bool {
	if !l.Alive || t.DryRun || r.Seen.Beats == l.Beats && r.Seen.At.Boot == t.Boot {
		return true
	}
	if t.busy {
		return false
	}
	err := t.Store.RecordHeartbeat(ctx, r.ID, l.Beats, Instant{t.Boot, t.Mono()})
	if err != nil {
		t.fail("state_write", err)
	}
	var known *Error
	t.busy = errors.As(err, &known) && known.Code == "state_busy"
	return !t.busy
}

// lastBeat replaces what could not be stored. The frozen worker itself may keep the database locked, in the middle of a
// write. Then the clock in the heartbeat, and a second look that finds the same heartbeat, stand for what an earlier pass
// would have stored.
func (t *tick) lastBeat(ctx context.Context, r Run, l Liveness) Pulse {
	if again := t.Runners.Probe(ctx, r); l.BeatAt == 0 || !again.Alive || again.Beats != l.Beats {
		return r.Seen
	}
	return Pulse{l.Beats, Instant{t.Boot, l.BeatAt}}
}

// planAndApply computes a plan from the snapshot and applies it. It plans again where the host or the account allows less
// than the plan wants.
func (t *tick) planAndApply(ctx context.Context) {
	t.planned = t.snapshot.Now
	planned := compute(t.snapshot)
	if planned.plan.starts() && !t.hostAllows(ctx) {
		planned = compute(t.snapshot)
	}
	if t.takeSlots(ctx, planned.plan) {
		planned = compute(t.snapshot)
	}
	plan := planned.plan
	t.report.Waits = plan.Waits
	if plan.Skips != nil {
		t.report.Skips = plan.Skips
	}
	if t.DryRun {
		for _, a := range plan.Actions {
			t.report.Applied = append(t.report.Applied, Applied{Action: a})
		}
		t.snapshot.Claims = planned.remaining()
		return
	}
	if !plan.Empty() {
		t.apply(ctx, planned)
	}
	if plan.Skips != nil && t.Only == "" {
		if err := t.Store.SaveSkips(ctx, t.Now(), plan.Skips); err != nil {
			t.fail("state_write", err)
		}
	}
}

// apply applies the plan. If everything was stored and nothing was started, the claims are as planned, and the next half
// of the pass reads the database again only if it needs to.
func (t *tick) apply(ctx context.Context, planned *planner) {
	done := apply(ctx, t.Deps, planned.plan, t.snapshot.Runs)
	t.report.Applied = append(t.report.Applied, done...)
	asPlanned := !planned.plan.starts()
	for _, a := range done {
		if a.Kind == ActReap && a.Err != nil {
			t.reaped[a.RunID] = true
		}
		if a.Err != nil && !errors.Is(a.Err, ErrConflict) {
			t.fail("action_failed", a.Err)
		}
		asPlanned = asPlanned && a.Err == nil
	}
	if asPlanned {
		t.snapshot.Claims, t.stale = planned.remaining(), true
		return
	}
	tracked := t.snapshot.Tracker
	if t.load(ctx) {
		t.snapshot.Tracker = tracked
	}
}

// starts reports whether the plan starts a process that must outlive the pass.
func (p Plan) starts() bool {
	return slices.ContainsFunc(p.Actions, func(a Action) bool { return a.Kind == ActDispatch || a.Kind == ActRemoveWorkspace })
}

// hostAllows reports whether a worker started now would outlive the pass. Where it would not, the snapshot says so, and
// everything but starting workers goes on.
func (t *tick) hostAllows(ctx context.Context) bool {
	if t.CheckHost == nil {
		return true
	}
	t.hostChecked = true
	err := t.CheckHost(ctx)
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

// keepHostBlock stores the block for ps, and clears it as soon as a worker could start or there is nothing to start.
func (t *tick) keepHostBlock(ctx context.Context) {
	old, next := t.recorded.HostBlock, t.host
	idle := t.snapshot.Tracker != nil && t.snapshot.Tracker.Fetched && !t.snapshot.DispatchOff && t.Only == ""
	switch {
	case t.DryRun, old == nil && next == nil, old != nil && next != nil && *old == *next:
		return
	case next == nil && !t.hostChecked && !idle:
		return
	case next == nil:
		next = &Block{}
	}
	if err := t.Store.Commit(ctx, t.Now(), Change{HostBlock: next}); err != nil {
		t.fail("state_write", err)
	}
}

// account reads the account, with the slots that the pass has taken.
func (t *tick) account(ctx context.Context) Account {
	if t.Accounts == nil {
		return Account{}
	}
	a := t.Accounts.Look(ctx, t.snapshot.Now)
	a.Slots = t.slots
	return a
}

// takeSlots takes slots of the account for the agents that the plan starts, and reports whether the pass must plan again
// because there are fewer. It comes after the tracker's answer, so that other projects need not wait for the tracker.
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

// fail adds an error to the report, with this code if it has none.
func (t *tick) fail(code string, err error) {
	var known *Error
	if !errors.As(err, &known) {
		known = &Error{Code: code, Message: err.Error(), Err: err}
	}
	t.report.Errors = append(t.report.Errors, known)
}

// count fills in the claims after the pass.
func (t *tick) count() {
	others := t.recorded.Others
	t.report.Held, t.report.Retrying, t.report.NextDue = others.Held, others.Waiting, others.NextDue
	if others.NextDue.After(t.planned) {
		t.report.NextWake = others.NextDue
	}
	for _, c := range t.snapshot.Claims {
		switch c.Status {
		case Running:
			t.report.Running++
		case Held:
			t.report.Held++
		case Waiting:
			t.report.Retrying++
			if t.report.NextDue.IsZero() || c.DueAt.Before(t.report.NextDue) {
				t.report.NextDue = c.DueAt
			}
			if w := t.report.NextWake; c.DueAt.After(t.planned) && (w.IsZero() || c.DueAt.Before(w)) {
				t.report.NextWake = c.DueAt
			}
		}
	}
}
