package reconcile

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

// Report describes the work of a pass; after a dry run, the work that it would do.
type Report struct {
	Applied      []Applied
	Skips, Waits []Skip // of the last plan; Skips is nil if the candidates were not read
	Errors       []*Error
	Claims       []Claim // after the pass
	// NextDue is the earliest due time of a waiting claim. NextWake is the earliest time that
	// was in the future when the pass planned: it may be past by now, and then the next pass
	// finds work. Both are zero if there is none.
	NextDue, NextWake time.Time
	// Obstacle is why the pass started nothing; nil if it started runs, or did not look for
	// issues to start.
	Obstacle *Obstacle
}

// Tick runs a pass. The local half, which needs only this machine, is applied before the
// tracker is asked, so that a tracker that hangs delays no settlement. A dry run applies
// nothing, and plans both halves at once.
//
// Cancelling ctx only ends the wait for the tracker: the pass finishes the work that it began.
func Tick(ctx context.Context, d Deps, o Options) Report {
	t := &tick{Deps: d, snapshot: Snapshot{Options: o, FreeBytes: -1}, reaped: map[string]bool{}}
	if d.Accounts != nil {
		defer d.Accounts.Release()
	}
	work := context.WithoutCancel(ctx)
	if !o.DryRun {
		defer t.settleClaims(work)
	}
	isLoaded := t.load(work)
	if isLoaded && !o.DryRun {
		isApplied := t.planAndApply(work)
		if isApplied { // the snapshot is out of date
			isLoaded = t.load(work)
		}
	}
	if isLoaded {
		t.trackerHalf(ctx, work)
	}
	t.reportClaims()
	return t.report
}

// tick is the state of a pass.
type tick struct {
	Deps
	snapshot Snapshot
	report   Report
	planned  time.Time // the time of the last plan
	// the runs whose remaining processes this pass failed to end
	reaped map[string]bool
	// blocks of this machine: found by this pass, and stored in the database
	foundBlock, storedBlock *Block
	slots                   *Slots // the account's slots that this pass reserved
	// the tracker contains no issue, and for so long that the known issues are gone
	gone bool
}

// trackerHalf asks the tracker, then plans with its answer and applies the plan. Without an
// answer the pass is over, except for a dry run, whose plan is still to be made. ctx bounds
// the requests to the tracker, work everything else.
func (t *tick) trackerHalf(ctx, work context.Context) {
	tracked := t.ask(ctx)
	if tracked == nil && !t.snapshot.DryRun {
		return
	}
	if !t.catchUp(ctx, work, tracked) {
		return
	}
	t.snapshot.Tracker = tracked
	t.planAndApply(work)
}

// catchUp loads the snapshot anew after the wait for the tracker. Meanwhile an agent may have
// moved its issue, which the row of its run shows. If a run ended, the answer about its issue
// may be older than that: the tracker is asked again. It returns false if the pass can't go on.
func (t *tick) catchUp(ctx, work context.Context, tracked *Tracked) bool {
	again, cancel := context.WithTimeout(ctx, trackerBound)
	defer cancel()
	working := t.working()
	for len(working) > 0 {
		if !t.load(work) {
			return false
		}
		left := t.working()
		stillWorks := map[string]bool{}
		for _, id := range left {
			stillWorks[id] = true
		}
		ended := slices.DeleteFunc(working, func(id string) bool { return stillWorks[id] })
		if len(ended) == 0 || tracked == nil {
			return true
		}
		err := t.askAgain(again, tracked, ended)
		if err != nil && t.interrupted(ctx) {
			return false
		}
		if err != nil {
			t.trackerFailed(work, err)
			tracked.Fetched = false
			t.snapshot.DispatchOff = true
			return true
		}
		working = left
	}
	return true
}

// working returns the ids of the issues with a run that is not due to be settled.
func (t *tick) working() (ids []string) {
	s := &t.snapshot
	ends := map[string]bool{}
	for _, r := range s.Runs {
		ends[r.ID] = !s.working(r, s.Liveness[r.ID])
	}
	for _, c := range s.Claims {
		if c.Status == Running && s.concerns(c.IssueID) && !ends[c.RunID] {
			ids = append(ids, c.IssueID)
		}
	}
	return ids
}

// load fills the snapshot anew, without an answer of the tracker. It returns false if the
// database can't be read.
func (t *tick) load(ctx context.Context) bool {
	if err := t.readState(ctx); err != nil {
		_ = t.fail("state_unusable", err)
		return false
	}
	s := &t.snapshot
	s.Now = t.Now()
	s.Boot = t.Boot
	s.Mono = t.Mono()
	s.Policy = t.Policy
	s.Tracker = nil
	t.storedBlock = s.MachineBlock
	s.MachineBlock = t.foundBlock
	if t.Accounts != nil {
		s.Accounts = t.Accounts.Look(ctx, s.Now)
		s.Slots = t.slots
	}
	return t.readClaimed(ctx)
}

// readClaimed reads which issues others have, as far as that is known.
func (t *tick) readClaimed(ctx context.Context) bool {
	s := &t.snapshot
	s.Claimed = Claimed{Taken: map[string]string{}}
	s.Refused = map[string]string{}
	for _, c := range t.Claims {
		known, err := c.Known(ctx)
		if err != nil {
			_ = t.fail("state_unusable", err)
			return false
		}
		s.addElsewhere(known.Elsewhere)
		maps.Copy(s.Claimed.Taken, known.Taken)
		maps.Copy(s.Refused, known.Refused)
	}
	return true
}

// readState reads the database and probes the workers. A worker may record its outcome and
// exit between the two. So if a worker is dead and its run is without an outcome, the database
// is read again.
func (t *tick) readState(ctx context.Context) error {
	stored, err := t.Store.State(ctx)
	if err != nil {
		return err
	}
	liveness := t.probe(ctx, stored.Runs)
	isDead := func(r Run) bool { return r.Outcome == "" && liveness[r.ID].dead() }
	if slices.ContainsFunc(stored.Runs, isDead) {
		stored, err = t.Store.State(ctx)
		if err != nil {
			return err
		}
	}
	var today []ModelUse
	if t.Policy.DailyBudget.Set() {
		today, err = t.Store.UsedOn(ctx, t.Now())
		if err != nil {
			return err
		}
	}
	t.snapshot.State = stored
	t.snapshot.Liveness = liveness
	t.snapshot.Today = today
	return nil
}

const (
	frozenAfter = 20 * time.Second // four heartbeats
	// before the first heartbeat: a worker may wait a minute for the database
	startFrozenAfter = 2 * time.Minute
	// long enough for a heartbeat of a worker that was only suspended
	secondProbe = 2 * time.Second
)

// probe probes the workers of the runs that concern the pass, and probes workers without a
// recent heartbeat a second time: a worker that is silent both times is frozen. Other runs
// count as unknown, because to probe a dead worker reads every process of the machine.
func (t *tick) probe(ctx context.Context, runs []Run) map[string]Liveness {
	live := make(map[string]Liveness, len(runs))
	var silent []Run
	for _, r := range runs {
		l := Liveness{Unknown: true}
		if t.snapshot.concerns(r.IssueID) && !t.reaped[r.ID] { // a single attempt in a pass is enough
			l = t.Runners.Probe(ctx, r)
		}
		live[r.ID] = l
		if t.silent(l) {
			silent = append(silent, r)
		}
	}
	if len(silent) > 0 {
		t.Sleep(secondProbe)
	}
	for _, r := range silent {
		l := t.Runners.Probe(ctx, r)
		l.Frozen = t.silent(l)
		live[r.ID] = l
	}
	return live
}

// silent reports whether a worker is alive but its last heartbeat is too long ago.
func (t *tick) silent(l Liveness) bool {
	patience := frozenAfter
	if l.Beats == 0 {
		patience = startFrozenAfter
	}
	return l.Alive && l.BeatAt > 0 && t.Mono()-l.BeatAt >= patience
}

// planAndApply makes a plan from the snapshot and applies it, but not in a dry run. It returns
// whether anything was applied.
func (t *tick) planAndApply(ctx context.Context) bool {
	defer func() {
		for _, c := range t.Claims {
			c.Release()
		}
	}()
	plan := t.plan(ctx)
	if t.snapshot.DryRun {
		for _, a := range plan.Actions {
			if a.Kind != actUpdate {
				t.report.Applied = append(t.report.Applied, Applied{Action: a})
			}
		}
		return false
	}
	t.apply(ctx, plan)
	if plan.Skips != nil && t.snapshot.all() {
		queued := slices.DeleteFunc(slices.Clone(plan.Waits), func(s Skip) bool { return s.Place == 0 })
		t.wrote(t.Store.SaveSkips(ctx, t.Now(), slices.Concat(plan.Skips, queued)))
	}
	return len(plan.Actions) > 0
}

// plan computes a plan from the snapshot, and adds it to the report. It plans again if the
// machine, the account or others allow less than the plan starts.
func (t *tick) plan(ctx context.Context) Plan {
	s := &t.snapshot
	t.planned = s.Now
	t.endClaimsBlock(ctx)
	planned := compute(*s)
	for _, allows := range []func(context.Context, Plan) bool{t.machineAllows, t.accountAllows} {
		if !allows(ctx, planned.plan) {
			planned = compute(*s) // the snapshot now contains the reason
		}
	}
	for _, c := range t.Claims {
		planned = t.take(ctx, c, planned)
	}
	plan := planned.plan
	s.Claims = planned.remaining()
	t.report.Waits = plan.Waits
	t.report.Obstacle = cmp.Or(t.report.Obstacle, plan.Obstacle)
	if plan.Skips != nil {
		t.report.Skips = plan.Skips
	}
	return plan
}

// apply applies a plan, and adds the results to the report.
func (t *tick) apply(ctx context.Context, plan Plan) {
	s := &t.snapshot
	failed := false
	for _, a := range apply(ctx, t.Deps, plan, s.Runs) {
		t.report.Applied = append(t.report.Applied, a)
		if a.Err == nil {
			continue
		}
		failed = true
		t.reaped[a.RunID] = t.reaped[a.RunID] || a.Kind == ActReap
		if !errors.Is(a.Err, ErrConflict) {
			_ = t.fail("failed", a.Err)
		}
	}
	if !failed {
		return
	}
	stored, err := t.Store.State(ctx) // the claims are not as planned
	if err != nil {
		_ = t.fail("state_unusable", err)
		return
	}
	s.Claims = stored.Claims
}

// machineAllows reports whether the workers that a plan starts would outlive the pass. If not,
// it blocks the machine in the snapshot, so that the pass continues without starting workers.
func (t *tick) machineAllows(ctx context.Context, plan Plan) bool {
	s := &t.snapshot
	if !slices.ContainsFunc(plan.Actions, Action.starts) {
		isCurrent := s.Tracker != nil && s.Tracker.Fetched && !s.DispatchOff && s.all()
		if isCurrent && t.foundBlock == nil {
			t.setMachineBlock(ctx, nil) // there is nothing to start
		}
		return true
	}
	if t.CheckMachine == nil {
		return true
	}
	if err := t.CheckMachine(ctx); err != nil {
		known := t.fail(CodeWorkersWouldDie, err)
		b := &Block{Code: known.Code, Message: known.Message, Since: s.Now}
		if t.storedBlock != nil {
			b.Since = t.storedBlock.Since
		}
		t.setMachineBlock(ctx, b)
		return false
	}
	t.setMachineBlock(ctx, nil)
	return true
}

// setMachineBlock sets the block in the snapshot, and stores it for ps; nil clears it.
func (t *tick) setMachineBlock(ctx context.Context, b *Block) {
	t.foundBlock = b
	t.snapshot.MachineBlock = b
	next := cmp.Or(b, &Block{})
	old := cmp.Or(t.storedBlock, &Block{})
	if *next != *old {
		t.store(ctx, Change{MachineBlock: next})
	}
}

// endClaimsBlock ends the block of a remote that could not be asked about claims, once it answers about the
// first issue that would start.
func (t *tick) endClaimsBlock(ctx context.Context) {
	s := &t.snapshot
	if s.AgentBlock == nil || s.AgentBlock.Code != codeClaimsUnavailable || s.DryRun {
		return
	}
	free := *s
	free.AgentBlock = nil
	starts := compute(free).starts()
	if len(starts) == 0 {
		return
	}
	for _, c := range t.Claims {
		if _, err := c.Take(ctx, starts[:1], false); err != nil {
			return // as before, which the block says
		}
	}
	s.AgentBlock = nil
	t.store(ctx, Change{AgentBlock: &Block{}})
}

// takeRounds is how often a pass plans anew because others have issues that it is about to start. Each
// time it learns of all the issues that they have.
const takeRounds = 4

// take claims the issues that a plan starts. It plans without those that it did not get, and takes what
// the new plan starts in their place. After the last round it starts what it has got. If the remote has
// refused claims, in this pass or in one a few minutes ago, and took none in their place, the pass says so
// and starts nothing.
func (t *tick) take(ctx context.Context, claims IssueClaims, planned *planner) *planner {
	s := &t.snapshot
	refused := t.refusedBefore(planned)
	got := map[string]bool{}
	for range takeRounds {
		starts := planned.starts()
		if len(starts) == 0 && refused == nil {
			return planned
		}
		if len(starts) == 0 {
			break
		}
		not, err := claims.Take(ctx, starts, s.DryRun)
		if err != nil {
			_ = t.startNothing(err)
			return compute(*s)
		}
		isMissing := func(i Issue) bool { return not.Has(i.ID) }
		if !slices.ContainsFunc(starts, isMissing) {
			return planned
		}
		for _, i := range starts {
			if err := not.Refused[i.ID]; err != nil {
				refused = err
			}
			got[i.ID] = !not.Has(i.ID)
		}
		s.addElsewhere(not.Elsewhere)
		s.addRefused(not.Refused)
		planned = compute(*s)
	}
	if slices.ContainsFunc(planned.starts(), func(i Issue) bool { return got[i.ID] }) {
		s.Got = got // the next pass goes on
		return compute(*s)
	}
	if refused != nil {
		_ = t.startNothing(refused)
	}
	s.DispatchOff = true // the next pass goes on
	return compute(*s)
}

// refusedBefore returns why the first of the issues does not start that a plan would start if their claims
// had not been refused in an earlier pass; nil if there is none, or if the plan starts others.
func (t *tick) refusedBefore(planned *planner) error {
	before := t.snapshot.Refused
	if len(before) == 0 || len(planned.starts()) > 0 {
		return nil
	}
	without := t.snapshot
	without.Refused = nil
	for _, i := range compute(without).starts() {
		if why := before[i.ID]; why != "" {
			return NewError(SkipClaimRefused, why, "it is tried again in a few minutes; symphony doctor tries a claim")
		}
	}
	return nil
}

// addRefused notes issues whose claims were refused.
func (s *Snapshot) addRefused(issues map[string]error) {
	if s.Refused == nil {
		s.Refused = map[string]string{}
	}
	for id, err := range issues {
		s.Refused[id] = coded(SkipClaimRefused, err).Message
	}
}

// addElsewhere notes issues that others have.
func (s *Snapshot) addElsewhere(issues map[string]string) {
	if s.Claimed.Elsewhere == nil {
		s.Claimed.Elsewhere = map[string]string{}
	}
	maps.Copy(s.Claimed.Elsewhere, issues)
}

// starts returns the issues whose runs of agents a plan starts.
func (p *planner) starts() (issues []Issue) {
	for _, a := range p.plan.Actions {
		if a.Kind == ActDispatch {
			issues = append(issues, a.Change.Insert.Issue)
		}
	}
	return issues
}

// settleClaims gives back the claims of issues that need no more work here.
func (t *tick) settleClaims(ctx context.Context) {
	for _, c := range t.Claims {
		if err := c.Settle(ctx, t.snapshot.Tracker); err != nil {
			_ = t.fail(codeClaimsUnavailable, err)
		}
	}
}

// startNothing lets the pass continue without starting agents after an error about state that
// projects share. It returns false.
func (t *tick) startNothing(err error) bool {
	known := t.fail("account_state", err)
	t.report.Obstacle = cmp.Or(t.report.Obstacle, &Obstacle{Reason: known.Code, Message: known.Message})
	t.snapshot.DispatchOff = true
	return false
}

// accountAllows reserves slots of the account for the agents that a plan starts, and reports
// whether there are enough. It is called after the tracker's answer, so that the slots are not
// reserved while the pass waits.
func (t *tick) accountAllows(ctx context.Context, plan Plan) bool {
	want := 0
	for _, a := range plan.Actions {
		if a.Kind == ActDispatch {
			want++
		}
	}
	if t.Accounts == nil || want == 0 {
		return true
	}
	slots, err := t.Accounts.TakeSlots(ctx, want, t.snapshot.DryRun)
	if err != nil {
		return t.startNothing(err)
	}
	t.slots = slots
	t.snapshot.Slots = slots
	return slots == nil || slots.Free >= want
}

// fail adds an error to the report, with this code if the error is without a code.
func (t *tick) fail(code string, err error) *Error {
	known := coded(code, err)
	t.report.Errors = append(t.report.Errors, known)
	return known
}

// coded is an error with a code: its own, or this one if it has none.
func coded(code string, err error) *Error {
	known := &Error{Code: code, Message: err.Error(), Err: err}
	errors.As(err, &known)
	return known
}

// store commits a change, but not in a dry run.
func (t *tick) store(ctx context.Context, c Change) {
	if !t.snapshot.DryRun {
		t.wrote(t.Store.Commit(ctx, t.Now(), c))
	}
}

// wrote adds the error of a write to the database, if any, to the report.
func (t *tick) wrote(err error) {
	if err != nil {
		_ = t.fail("state_unusable", err)
	}
}

// reportClaims adds the claims after the pass, and their due times, to the report.
func (t *tick) reportClaims() {
	r := &t.report
	earliest := func(at *time.Time, due time.Time) {
		if at.IsZero() || due.Before(*at) {
			*at = due
		}
	}
	r.Claims = t.snapshot.Claims
	for _, c := range r.Claims {
		if c.Status != Waiting {
			continue
		}
		earliest(&r.NextDue, c.DueAt)
		if c.DueAt.After(t.planned) {
			earliest(&r.NextWake, c.DueAt)
		}
	}
}
