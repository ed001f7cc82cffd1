package reconcile

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	trackerBound = 60 * time.Second
	sweepEvery   = 10 * time.Minute
	longestReset = 24 * time.Hour
)

// Deps is all that a pass works with.
type Deps struct {
	Policy  Policy
	Store   Store
	Tracker Tracker // nil where the configuration gives no way to ask
	Runners Runners
	// Accounts is nil where the project shares nothing with others.
	Accounts Accounts
	Now      func() time.Time
	Mono     func() time.Duration // CLOCK_MONOTONIC
	Boot     string
	// Shelter says why a worker started now would not outlive the pass; nil where nothing ends workers. Only a pass
	// that has something to start asks.
	Shelter func(ctx context.Context) error
	// NewRunID gives ids that sort by time.
	NewRunID func() string
	Log      *slog.Logger
}

// Options says what kind of pass it is.
type Options struct {
	DryRun bool
	// DispatchOff, Only and AnySlot are those of the Snapshot.
	DispatchOff bool
	Only        string
	AnySlot     bool
	// TrackerLow says that less than a tenth of the tracker's allowance was left at the last answer, and that it has
	// not filled up since: only what runs is asked for.
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
	// NextWake is the earliest due time that had not come when the pass planned, zero if there is none: then another
	// pass finds something new. It may be over by now.
	NextWake time.Time
	// TrackerLow: nothing was started, because less than a tenth of the tracker's allowance is left.
	TrackerLow bool
}

// Tick runs one pass: the local half, which needs nothing but this machine, is applied before the tracker
// is asked, so that a tracker that hangs delays no settlement.
//
// A cancelled ctx cuts short the wait for the tracker and nothing else: what was begun is finished.
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
		// While the tracker was asked an agent may have handed its issue over: its row says so.
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

type tick struct {
	Deps
	Options
	recorded State
	snapshot Snapshot
	report   Report
	planned  time.Time       // the instant of the last plan
	reaped   map[string]bool // runs whose leftovers this pass has tried to end in vain
	busy     bool            // another process keeps the database
	asked    bool            // Shelter was
	host     *Block          // what it said
	slots    *Slots          // of the account, taken by this pass
	free     int64           // bytes of the workspace volume, negative where not known yet
	stale    bool            // the database is ahead of the snapshot, of which the claims alone are true
}

// concerns reports whether the pass may touch the issue.
func (t *tick) concerns(issueID string) bool { return t.Only == "" || t.Only == issueID }

// anyAtWork reports whether a run that the pass is about may have a worker: of the others the rows stay as they are.
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
	t.snapshot.Account = t.lookAtAccount(ctx)
	return true
}

// endedUnseen reports whether a run that seemed to go on has no worker any more. A worker writes its outcome before it
// lets go of its run, so that it is in the database by now, unless the worker has died.
func endedUnseen(runs []Run, live map[string]Liveness) bool {
	return slices.ContainsFunc(runs, func(r Run) bool {
		return r.Outcome == "" && live[r.ID].dead()
	})
}

// probe looks at the workers of the runs that the pass may touch. The others are left alone, as if nothing could be
// found out about them: a look at a dead one is a look at every process of the machine, and one at a living one a write.
func (t *tick) probe(ctx context.Context, runs []Run) map[string]Liveness {
	live := make(map[string]Liveness, len(runs))
	for i, r := range runs {
		if !t.concerns(r.IssueID) {
			live[r.ID] = Liveness{Unknown: true}
			continue
		}
		l := t.Runners.Probe(ctx, r)
		if t.reaped[r.ID] {
			l = Liveness{Unknown: true} // once in a pass is enough
		}
		live[r.ID] = l
		if !t.recordHeartbeat(ctx, r, l) {
			runs[i].Seen = t.lastBeat(ctx, r, l)
		}
	}
	return live
}

// recordHeartbeat remembers a heartbeat that no pass has seen before: one that stays the same is how a frozen worker
// shows itself to a later pass.
// It returns false where the database is kept by another process, for which one wait in a pass is enough.
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

// lastBeat gives what no pass could store. It may be the frozen worker itself that stands still in the middle of a
// write and keeps the database from all others: then the beat's own clock, and a look after the wait that shows no
// other beat, are what an earlier pass would have seen.
func (t *tick) lastBeat(ctx context.Context, r Run, l Liveness) Pulse {
	if again := t.Runners.Probe(ctx, r); l.BeatAt == 0 || !again.Alive || again.Beats != l.Beats {
		return r.Seen
	}
	return Pulse{l.Beats, Instant{t.Boot, l.BeatAt}}
}

// planAndApply plans on the present snapshot and carries it out.
func (t *tick) planAndApply(ctx context.Context) {
	t.planned = t.snapshot.Now
	planned := compute(t.snapshot)
	if planned.plan.starts() && !t.sheltered(ctx) {
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

// apply carries out what was planned. Where all of it was stored and nothing was started the claims are as planned, and
// reading them again is left to a half that still follows.
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

// ask puts the tracker's two questions at once (specification 8.1). It returns nil where the answer can't
// be used, after which nothing is stopped, released or dispatched.
func (t *tick) ask(ctx context.Context) *Tracked {
	work := context.WithoutCancel(ctx)
	if t.Tracker == nil || t.limited() || t.stale && !t.load(work) {
		return nil
	}
	t.lookAtWorkspaces(work)
	// What is asked depends on the claims as the local half leaves them. A dry run has not stored those.
	local := t.snapshot
	local.Tracker = nil
	claims := compute(local).remaining()
	ids := t.idsToAsk(claims)
	tracked := &Tracked{Asked: make(map[string]bool, len(ids)), Fetched: t.wantCandidates(claims)}
	bounded, cancel := context.WithTimeout(ctx, trackerBound)
	defer cancel()

	var wg sync.WaitGroup
	var refreshErr, candidatesErr error
	if len(ids) > 0 {
		wg.Go(func() { tracked.ByID, refreshErr = t.Tracker.ByIDs(bounded, ids) })
	}
	if tracked.Fetched {
		// On this goroutine, for most passes ask nothing else: another would first have to grow a stack of its own.
		tracked.Candidates, candidatesErr = t.Tracker.Candidates(bounded, t.Policy.ActiveStates)
	}
	wg.Wait()
	if ctx.Err() != nil {
		// Somebody broke the pass off: that is no fault of the tracker's.
		t.fail("", &Error{
			Code: "canceled", Message: "a signal ended the wait for the tracker", Err: context.Cause(ctx),
			Hint: "what the pass has done is kept, and the next one goes on from there",
		})
		return nil
	}
	return t.answer(work, tracked, ids, refreshErr, candidatesErr)
}

func (t *tick) answer(ctx context.Context, tracked *Tracked, ids []string, refreshErr, candidatesErr error) *Tracked {
	err := cmp.Or(refreshErr, candidatesErr)
	if resetOf(err).IsZero() && !resetOf(candidatesErr).IsZero() {
		err = candidatesErr // of two errors the one that forbids the next request counts
	}
	switch {
	case err != nil:
		t.blockTracker(ctx, err)
		t.fail("tracker_error", err)
	case len(ids) > 0 || tracked.Fetched: // else it was not asked, and nothing is known
		t.unblockTracker(ctx)
	}
	if refreshErr != nil {
		return nil
	}
	t.swept(ctx)
	for _, id := range ids {
		tracked.Asked[id] = true
	}
	if candidatesErr != nil {
		tracked.Fetched, t.snapshot.DispatchOff = false, true
		t.DispatchOff = true
	}
	tracked.Low = t.TrackerLow || t.Tracker.Low()
	t.report.TrackerLow = tracked.Low
	return tracked
}

// limited reports a rate limit that the tracker has not lifted yet.
func (t *tick) limited() bool {
	b := t.snapshot.TrackerBlock
	if b == nil || b.Code != "tracker_rate_limited" || !t.snapshot.Now.Before(b.NextTry) {
		return false
	}
	if b.NextTry.After(t.snapshot.Now.Add(longestReset)) || b.Since.After(t.snapshot.Now) {
		return false // the clock was stepped since, and only the tracker knows how long it still is
	}
	t.fail("", &Error{Code: b.Code, Message: b.Message, Hint: "the next request is made after " + b.NextTry.UTC().Format(time.RFC3339)})
	return true
}

// Limited is implemented by tracker errors that say when the next request may be made.
type Limited interface{ ResetAt() time.Time }

func (t *tick) blockTracker(ctx context.Context, err error) {
	b := Block{Code: "tracker_error", Message: err.Error(), Since: t.snapshot.Now, NextTry: t.snapshot.Now}
	var known *Error
	if errors.As(err, &known) {
		b.Code, b.Message = known.Code, known.Message
	}
	if old := t.snapshot.TrackerBlock; old != nil && old.Since.Before(b.Since) {
		b.Since = old.Since
	}
	if at := resetOf(err); !at.IsZero() {
		b.NextTry = at
	}
	t.setTrackerBlock(ctx, b)
}

// resetOf is when the error lets the next request be made, zero where it says nothing.
func resetOf(err error) time.Time {
	var limit Limited
	if errors.As(err, &limit) {
		return limit.ResetAt()
	}
	return time.Time{}
}

func (t *tick) unblockTracker(ctx context.Context) {
	if t.snapshot.TrackerBlock != nil {
		t.setTrackerBlock(ctx, Block{})
	}
}

func (t *tick) setTrackerBlock(ctx context.Context, b Block) {
	if t.DryRun {
		return
	}
	if err := t.Store.Commit(ctx, t.Now(), Change{TrackerBlock: &b}); err != nil {
		t.fail("state_write", err)
		return
	}
	t.snapshot.TrackerBlock = nil
	if b.Code != "" {
		t.snapshot.TrackerBlock = &b
	}
}

func (t *tick) lookAtWorkspaces(ctx context.Context) {
	list, err := t.Runners.Workspaces(ctx)
	if err != nil {
		t.fail("workspace_list", err)
	}
	t.free = t.Runners.FreeBytes()
	t.snapshot.Workspaces, t.snapshot.FreeBytes = list, t.free
	// A sweep that lies ahead is the mark of a clock that was set back.
	if since := t.snapshot.Now.Sub(t.recorded.LastSweep); since >= 0 && since < sweepEvery {
		return
	}
	if t.snapshot.TrashDue, err = t.Runners.TrashDue(t.snapshot.Now, t.free, t.Policy.MinFreeBytes); err != nil {
		t.fail("trash", err)
	}
	t.snapshot.SweepDue = len(list) > 0 || t.snapshot.TrashDue
}

// swept remembers a sweep that the tracker has answered.
func (t *tick) swept(ctx context.Context) {
	if !t.snapshot.SweepDue || t.DryRun || t.Only != "" {
		return
	}
	if err := t.Store.SaveSweep(ctx, t.snapshot.Now); err != nil {
		t.fail("state_write", err)
	}
}

// idsToAsk lists the claims, and in a sweep the issues of unclaimed workspaces.
func (t *tick) idsToAsk(claims []Claim) []string {
	var ids []string
	claimed := map[string]bool{}
	for _, c := range claims {
		if t.concerns(c.IssueID) && (!t.TrackerLow || c.Status == Running) {
			ids = append(ids, c.IssueID)
		}
		claimed[c.IssueID] = true
	}
	if t.snapshot.SweepDue && t.Only == "" {
		for _, w := range t.snapshot.Workspaces {
			if !claimed[w.IssueID] && w.Project == t.Policy.Project {
				ids = append(ids, w.IssueID)
				claimed[w.IssueID] = true
			}
		}
	}
	return ids
}

// wantCandidates leaves the list of candidates out where nothing could start.
func (t *tick) wantCandidates(claims []Claim) bool {
	if t.snapshot.DispatchOff || t.TrackerLow {
		return false
	}
	running := 0
	for _, c := range claims {
		switch {
		case c.Status == Running:
			running++
		case c.Status == Waiting && !c.DueAt.After(t.snapshot.Now):
			return true
		}
	}
	return running < t.Policy.MaxConcurrent || t.AnySlot
}

func (t *tick) fail(code string, err error) {
	var known *Error
	if !errors.As(err, &known) {
		known = &Error{Code: code, Message: err.Error(), Err: err}
	}
	t.report.Errors = append(t.report.Errors, known)
}

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
