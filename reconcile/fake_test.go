package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"
)

// world is a database, a machine and a tracker in memory, with the conflicts of the real ones: claims are compared and
// swapped, an outcome is recorded once, a run is settled once, an issue has one live agent. Violations are noted in wrong.
type world struct {
	mu sync.Mutex
	cut

	claims       map[string]Claim
	runs         map[string]Run
	commands     map[int64]Command
	paused       bool
	readOnly     bool
	agentBlock   *Block
	trackerBlock *Block
	hostBlock    *Block
	skips        []Skip
	lastSweep    time.Time
	used         map[string]int64 // tokens of settled runs, by issue id
	settled      map[string]int   // how often, by run id

	prepared   map[string]bool
	workers    map[string]*worker
	workspaces []Workspace
	trash      bool // removed workspaces have been kept for their time
	free       int64

	issues  map[string]Issue
	refused error // by ByIDs
	hidden  error // by Candidates
	low     bool
	asked   []string

	now   time.Time
	boot  string
	ids   int
	log   []string // what was done, in order
	wrong []string
}

// worker is a process of the world.
type worker struct {
	alive, stopped, stubborn bool
	left                     []Process
}

func newWorld() *world {
	return &world{
		claims: map[string]Claim{}, runs: map[string]Run{}, commands: map[int64]Command{}, used: map[string]int64{},
		settled: map[string]int{}, prepared: map[string]bool{}, workers: map[string]*worker{}, issues: map[string]Issue{},
		free: -1, now: noon, boot: thisBoot,
	}
}

// worldOf makes the world that a snapshot was taken of.
func worldOf(s Snapshot) *world {
	w := newWorld()
	for _, c := range s.Claims {
		w.claims[c.IssueID] = c
	}
	for _, r := range s.Runs {
		w.runs[r.ID], w.prepared[r.ID] = r, true
		live := s.Liveness[r.ID]
		w.workers[r.ID] = &worker{alive: live.Alive || live.Unknown || live.Pending, left: live.Left}
	}
	for _, c := range s.Commands {
		w.commands[c.ID] = c
	}
	w.paused, w.agentBlock, w.trackerBlock, w.hostBlock, w.free = s.Paused, s.AgentBlock, s.TrackerBlock, s.HostBlock, s.FreeBytes
	w.workspaces = s.Workspaces
	for id, total := range s.Tokens {
		w.used[id] = total
	}
	if s.Tracker != nil {
		maps.Copy(w.issues, s.Tracker.ByID)
		for _, i := range s.Tracker.Candidates {
			if _, known := w.issues[i.ID]; !known {
				w.issues[i.ID] = i
			}
		}
		w.low = s.Tracker.Low
	}
	return w
}

func (w *world) deps(p Policy) Deps {
	return Deps{
		Policy: p, Store: w, Tracker: w.tracker(), Runners: w, Boot: w.boot,
		Now:  func() time.Time { return w.now },
		Mono: func() time.Duration { return w.now.Sub(noon) + 100*time.Hour },
		NewRunID: func() string {
			w.ids++
			return fmt.Sprintf("new-%03d", w.ids)
		},
	}
}

// The ways in which a step can go wrong.
type cutKind string

const (
	diesBefore cutKind = "the pass dies before step"
	diesAfter  cutKind = "the pass dies after step"
	fails      cutKind = "an error instead of step"
)

var (
	errDead   = errors.New("the pass is dead")
	errBroken = errors.New("broken")
)

// cut ends a pass, or makes one step fail. Nothing that a dead pass does has an effect.
type cut struct {
	steps int
	at    int // 1 is the first step; 0: never
	kind  cutKind
	dead  bool
}

// step is one effect on the world; w.mu is held meanwhile.
func (w *world) step(what string, effect func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return errDead
	}
	w.steps++
	if w.steps != w.at {
		return w.did(what, effect())
	}
	switch w.kind {
	case diesBefore:
	case fails:
		return errBroken
	case diesAfter:
		if err := w.did(what, effect()); err != nil {
			return err
		}
	}
	w.dead = true
	return errDead
}

func (w *world) did(what string, err error) error {
	if err == nil {
		w.log = append(w.log, what)
	}
	return err
}

func conflict(format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), ErrConflict)
}

// State implements Store.
func (w *world) State(ctx context.Context) (State, error) {
	if ctx.Err() != nil {
		return State{}, ctx.Err() // as a database does
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return State{}, errDead
	}
	rec := State{Paused: w.paused, ReadOnly: w.readOnly, AgentBlock: w.agentBlock, TrackerBlock: w.trackerBlock, HostBlock: w.hostBlock, LastSweep: w.lastSweep, Tokens: map[string]int64{}}
	for _, id := range slices.Sorted(maps.Keys(w.claims)) {
		rec.Claims = append(rec.Claims, w.claims[id])
		rec.Tokens[id] = w.used[id]
	}
	for _, id := range slices.Sorted(maps.Keys(w.runs)) {
		if r := w.runs[id]; !r.Settled {
			rec.Runs = append(rec.Runs, r)
			if _, claimed := rec.Tokens[r.IssueID]; claimed {
				rec.Tokens[r.IssueID] += r.Tokens.Total
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.commands)) {
		rec.Commands = append(rec.Commands, w.commands[id])
	}
	return rec, nil
}

// Commit implements Store: it checks everything before it changes anything.
func (w *world) Commit(_ context.Context, now time.Time, changes ...Change) error {
	return w.step("commit", func() error {
		for _, c := range changes {
			for _, check := range []func(Change) error{w.canSettle, w.canClaim, w.canInsert} {
				if err := check(c); err != nil {
					return err
				}
			}
		}
		for _, c := range changes {
			w.commit(now, c)
		}
		return nil
	})
}

func (w *world) canSettle(c Change) error {
	if r := w.runs[c.Settle]; c.Settle != "" && (r.ID == "" || r.Settled || r.Outcome == "") {
		return conflict("settle %s", c.Settle)
	}
	return nil
}

func (w *world) canClaim(c Change) error {
	if c.Claim == nil {
		return nil
	}
	// A claim that is not stored has version 0, as one that is to be inserted.
	if old := w.claims[c.Claim.IssueID]; old.Version != c.Claim.Version {
		return conflict("claim %s: version %d, not %d", c.Claim.IssueID, old.Version, c.Claim.Version)
	}
	return nil
}

func (w *world) canInsert(c Change) error {
	if c.Insert == nil {
		return nil
	}
	if _, taken := w.runs[c.Insert.ID]; taken || c.Insert.ID == "" || !w.prepared[c.Insert.ID] {
		return fmt.Errorf("insert run %q", c.Insert.ID)
	}
	for _, r := range w.runs {
		if r.IssueID == c.Insert.IssueID && r.Kind == AgentRun && c.Insert.Kind == AgentRun && r.Outcome == "" && r.ID != c.Settle {
			return conflict("insert run %s", c.Insert.ID)
		}
	}
	return nil
}

func (w *world) commit(now time.Time, c Change) {
	if c.Settle != "" {
		r := w.runs[c.Settle]
		r.Settled = true
		w.runs[r.ID] = r
		w.used[r.IssueID] += r.Tokens.Total
		w.settled[r.ID]++
	}
	switch {
	case c.Claim == nil:
	case c.Delete:
		delete(w.claims, c.Claim.IssueID)
	default:
		next := *c.Claim
		next.Version++
		next.UpdatedAt = now
		w.claims[next.IssueID] = next
	}
	if c.Insert != nil {
		w.runs[c.Insert.ID] = *c.Insert
	}
	for _, id := range c.Commands {
		delete(w.commands, id)
	}
	setBlock(&w.agentBlock, c.AgentBlock)
	setBlock(&w.trackerBlock, c.TrackerBlock)
	setBlock(&w.hostBlock, c.HostBlock)
	if c.Paused != nil {
		w.paused = *c.Paused
	}
}

func setBlock(at **Block, b *Block) {
	switch {
	case b == nil:
	case b.Code == "":
		*at = nil
	default:
		kept := *b
		*at = &kept
	}
}

// RequestStop implements Store.
func (w *world) RequestStop(_ context.Context, id, reason string, at Instant) error {
	return w.step("request stop", func() error {
		if r := w.runs[id]; r.Outcome == "" && r.StopReason == "" {
			r.StopReason, r.StopAt = reason, at
			w.runs[id] = r
		}
		return nil
	})
}

// EndDead implements Store.
func (w *world) EndDead(_ context.Context, now time.Time, run Run, outcome Outcome, code, message string) error {
	return w.step("end", func() error {
		r := w.runs[run.ID]
		if r.Outcome != "" || r.Phase != run.Phase {
			return conflict("end run %s", run.ID)
		}
		r.Outcome, r.ErrorCode, r.ErrorText, r.EndedAt = outcome, code, message, now
		w.runs[run.ID] = r
		return nil
	})
}

// SaveSkips implements Store.
func (w *world) SaveSkips(_ context.Context, _ time.Time, skips []Skip) error {
	return w.step("skips", func() error { w.skips = skips; return nil })
}

// SaveSweep implements Store.
func (w *world) SaveSweep(_ context.Context, now time.Time) error {
	return w.step("sweep", func() error { w.lastSweep = now; return nil })
}

// noWrong fails the test for every violation.
func (w *world) noWrong(t interface{ Errorf(string, ...any) }) {
	for _, what := range w.wrong {
		t.Errorf("%s", what)
	}
	for id, n := range w.settled {
		if n > 1 {
			t.Errorf("run %s was settled %d times", id, n)
		}
	}
}

func (w *world) story(report Report) string {
	var plan Plan
	for _, a := range report.Applied {
		plan.Actions = append(plan.Actions, a.Action)
	}
	plan.Skips = report.Skips
	return story(plan)
}

var (
	_ Store   = (*world)(nil)
	_ Runners = (*world)(nil)
	_ Tracker = (*world)(nil)
)

// mustBe compares the claim of an issue, in the notation of the tables.
func (w *world) mustBe(t *testing.T, i Issue, want string) {
	t.Helper()
	equal(t, "claim of "+i.Identifier, w.told(i), want)
}

// told is the claim of an issue in the notation of the tables.
func (w *world) told(i Issue) string {
	claims := map[string]*Claim{}
	if c, claimed := w.claims[i.ID]; claimed {
		claims[i.ID] = &c
	}
	return told(claims, i, w.now)
}
