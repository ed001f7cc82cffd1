package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// world is a database, a machine and a tracker in memory, with the same conflicts as the real
// ones: a claim is written by compare and swap, an outcome is recorded once, a run is settled
// once, an issue has one live agent. Violations are collected in wrong.
type world struct {
	mu sync.Mutex
	cut

	claims       map[string]Claim
	runs         map[string]Run
	commands     map[int64]Command
	paused       bool
	agentBlock   *Block
	trackerBlock *Block
	hostBlock    *Block
	remoteBlocks map[string]Block
	elsewhere    []Workspace     // on hosts
	there        map[string]bool // the runs that are at work on a host
	skips        []Skip
	pulls        []Issue
	lastSweep    time.Time
	unblocked    time.Time
	used         map[string]int64 // tokens of settled runs, by issue id
	today        []ModelUse       // used on this day
	todayRead    int              // how often it was read
	settled      map[string]int   // the number of settlements, by run id

	prepared   map[string]bool
	workers    map[string]*worker
	workspaces []Workspace
	trash      bool // removed workspaces are due for deletion
	free       int64

	issues  map[string]Issue
	refused error // the error of ByIDs
	hidden  error // the error of Candidates
	asked   []string

	now   time.Time
	boot  string
	ids   int
	log   []string // the steps, in order
	wrong []string
}

// worker is a process of the world.
type worker struct {
	alive, stopped, stubborn bool
	left                     []Process
}

func newWorld() *world {
	return &world{
		claims:   map[string]Claim{},
		runs:     map[string]Run{},
		commands: map[int64]Command{},
		used:     map[string]int64{},
		settled:  map[string]int{},
		there:    map[string]bool{},
		prepared: map[string]bool{},
		workers:  map[string]*worker{},
		issues:   map[string]Issue{},
		free:     -1,
		now:      noon,
		boot:     thisBoot,
	}
}

// worldOf returns a world of which the snapshot was taken.
func worldOf(s Snapshot) *world {
	w := newWorld()
	for _, c := range s.Claims {
		w.claims[c.IssueID] = c
	}
	for _, r := range s.Runs {
		w.runs[r.ID] = r
		w.prepared[r.ID] = true
		w.there[r.ID] = r.Remote == RemoteBegun
		live := s.Liveness[r.ID]
		w.workers[r.ID] = &worker{alive: live.Alive || live.Unknown, left: live.Left}
	}
	for _, c := range s.Commands {
		w.commands[c.ID] = c
	}
	w.paused = s.Paused
	w.agentBlock = s.AgentBlock
	w.trackerBlock = s.TrackerBlock
	w.hostBlock = s.MachineBlock
	w.free = s.FreeBytes
	w.workspaces = s.Workspaces
	w.now = s.Now
	w.boot = s.Boot
	w.remoteBlocks = maps.Clone(s.RemoteBlocks)
	w.elsewhere = s.RemoteWorkspaces
	w.today = s.Today
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
	}
	return w
}

func (w *world) deps(p Policy) Deps {
	return Deps{
		Policy: p, Store: w, Tracker: w.tracker(), Runners: w, Boot: w.boot,
		Now:   func() time.Time { return w.now },
		Sleep: func(d time.Duration) { w.now = w.now.Add(d) },
		Mono:  func() time.Duration { return w.now.Sub(noon) + 100*time.Hour },
		NewRunID: func() string {
			w.ids++
			return fmt.Sprintf("new-%03d", w.ids)
		},
	}
}

// The ways in which a step can fail.
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

// cut ends a pass at a step, or makes that step fail. Whatever a dead pass does has no effect.
type cut struct {
	steps int // so far
	at    int // the step, from 1; 0 for none
	kind  cutKind
	dead  bool
}

// step makes one effect on the world, while it holds w.mu.
func (w *world) step(what string, effect func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return errDead
	}
	w.steps++
	now := w.steps == w.at
	switch {
	case now && w.kind == fails:
		return errBroken
	case now && w.kind == diesBefore:
		w.dead = true
		return errDead
	}
	err := effect()
	if err == nil {
		w.log = append(w.log, what)
		w.dead = now
		if now {
			return errDead
		}
	}
	return err
}

func conflict(format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), ErrConflict)
}

func (w *world) State(ctx context.Context) (State, error) {
	if ctx.Err() != nil {
		return State{}, ctx.Err() // as a database does
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return State{}, errDead
	}
	rec := State{
		Paused:           w.paused,
		AgentBlock:       w.agentBlock,
		TrackerBlock:     w.trackerBlock,
		MachineBlock:     w.hostBlock,
		RemoteBlocks:     maps.Clone(w.remoteBlocks),
		RemoteWorkspaces: w.elsewhere,
		LastSweep:        w.lastSweep,
		Unblocked:        w.unblocked,
		Tokens:           map[string]int64{},
	}
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

// UsedOn implements Store. Every day has used the same.
func (w *world) UsedOn(context.Context, time.Time) ([]ModelUse, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return nil, errDead
	}
	w.todayRead++
	return w.today, nil
}

// Commit checks everything before it changes anything.
func (w *world) Commit(_ context.Context, now time.Time, changes ...Change) error {
	return w.step("commit", func() error {
		for _, c := range changes {
			if err := w.check(c); err != nil {
				return err
			}
		}
		for _, c := range changes {
			w.commit(now, c)
		}
		return nil
	})
}

// check returns why a change cannot be made.
func (w *world) check(c Change) error {
	r := w.runs[c.Settle]
	switch {
	case c.Settle != "" && (r.ID == "" || r.Settled || r.Outcome == ""):
		return conflict("settle %s", c.Settle)
	case c.Claim != nil && w.claims[c.Claim.IssueID].Version != c.Claim.Version:
		// 0 for one that is not stored
		return conflict("claim %s: version %d", c.Claim.IssueID, c.Claim.Version)
	case c.Insert == nil:
		return nil
	case !w.prepared[c.Insert.ID]:
		return fmt.Errorf("insert run %q", c.Insert.ID)
	}
	for _, r := range w.runs {
		if r.IssueID == c.Insert.IssueID && r.Kind == AgentRun && c.Insert.Kind == AgentRun &&
			r.Outcome == "" &&
			r.ID != c.Settle {
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
	setBlock(&w.hostBlock, c.MachineBlock)
	if r, known := w.runs[c.HostGone]; known && r.Remote == RemoteBegun {
		r.Remote = RemoteGone
		w.runs[r.ID] = r
	}
	for host, b := range c.RemoteBlocks {
		w.remoteBlocks = maps.Clone(w.remoteBlocks)
		if w.remoteBlocks == nil {
			w.remoteBlocks = map[string]Block{}
		}
		w.remoteBlocks[host] = b
		if b.Code == "" {
			delete(w.remoteBlocks, host)
		}
	}
	if c.Paused != nil {
		w.paused = *c.Paused
	}
	if !c.Unblocked.IsZero() {
		w.unblocked = c.Unblocked
	}
}

func setBlock(at **Block, b *Block) {
	if b != nil {
		kept := *b
		*at = &kept
		if b.Code == "" {
			*at = nil
		}
	}
}

func (w *world) RequestStop(_ context.Context, id, reason string, at Instant) error {
	return w.step("request stop", func() error {
		if r := w.runs[id]; r.Outcome == "" && r.StopReason == "" {
			r.StopReason = reason
			r.StopAt = at
			w.runs[id] = r
		}
		return nil
	})
}

func (w *world) EndDead(
	_ context.Context,
	now time.Time,
	run Run,
	outcome Outcome,
	code, message string,
) error {
	return w.step("end", func() error {
		r := w.runs[run.ID]
		if r.Outcome != "" || r.Phase != run.Phase {
			return conflict("end run %s", run.ID)
		}
		r.Outcome = outcome
		r.ErrorCode = code
		r.ErrorText = message
		r.EndedAt = now
		w.runs[run.ID] = r
		return nil
	})
}

func (w *world) SaveSkips(_ context.Context, _ time.Time, skips []Skip) error {
	return w.step("skips", func() error { w.skips = skips; return nil })
}

func (w *world) SavePullRequests(_ context.Context, _ time.Time, issues []Issue) error {
	return w.step("pull requests", func() error { w.pulls = issues; return nil })
}

func (w *world) SaveReviews(context.Context, time.Time) error { return nil }

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

// mustBe compares the claim of an issue, in the notation of the tables.
func (w *world) mustBe(t *testing.T, i Issue, want string) {
	t.Helper()
	equal(t, "claim of "+i.Identifier, w.summary(i), want)
}

// summary is the claim of an issue in the notation of the tables.
func (w *world) summary(i Issue) string {
	claims := map[string]*Claim{}
	if c, claimed := w.claims[i.ID]; claimed {
		claims[i.ID] = &c
	}
	return summary(claims, i, w.now)
}

func (w *world) Probe(_ context.Context, run Run) Liveness {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.workers[run.ID]
	switch {
	case w.dead:
		return Liveness{Unknown: true}
	case p == nil:
		return Liveness{}
	default:
		return Liveness{Alive: p.alive, Beats: w.now.UnixMilli(), Left: slices.Clone(p.left)}
	}
}

func (w *world) Prepare(_ context.Context, run Run) error {
	return w.step("prepare", func() error {
		if _, stored := w.runs[run.ID]; stored {
			w.wrong = append(w.wrong, "the row of "+run.ID+" came before its directory")
		}
		w.prepared[run.ID] = true
		return nil
	})
}

// Start: the worker takes its run by comparing and swapping the phase.
func (w *world) Start(_ context.Context, run Run) error {
	return w.step("start", func() error {
		r := w.runs[run.ID]
		// it is ended on its host
		if p := w.workers[run.ID]; r.Remote == RemoteBegun && !r.Settled && (p == nil || !p.alive) {
			r.Phase = EndingThere
			r.HeartbeatAt = w.now
			w.runs[run.ID] = r
			w.workers[run.ID] = &worker{alive: true}
			return nil
		}
		if !w.prepared[run.ID] || r.Phase != Starting || r.Outcome != "" {
			return fmt.Errorf("run %s is not to be taken", run.ID)
		}
		for id, p := range w.workers {
			// A run whose processes three passes could not end is settled and held, and may be
			// retried.
			left := len(p.left) > 0 && !w.runs[id].Settled
			if other := w.runs[id]; other.IssueID == r.IssueID && other.Kind == AgentRun &&
				r.Kind == AgentRun &&
				(p.alive || left) {
				w.wrong = append(w.wrong, "started "+run.ID+" while "+id+" lives")
			}
		}
		r.Phase = PreparingWorkspace
		r.Worker = Handle{Boot: w.boot, PID: 1000 + len(w.workers)}
		w.runs[run.ID] = r
		w.workers[run.ID] = &worker{alive: true}
		w.begins(r)
		return nil
	})
}

// begins lets a run begin on its host, if that is another machine.
func (w *world) begins(r Run) {
	for id, other := range w.runs {
		if other.IssueID == r.IssueID && id != r.ID && w.there[id] && other.Remote != RemoteGone {
			w.wrong = append(w.wrong, "started "+r.ID+" while "+id+" is at work on "+other.Host)
		}
	}
	if r.Host != "" {
		r.Remote = RemoteBegun
		r.HeardAt = w.now
		w.runs[r.ID] = r
		w.there[r.ID] = true
	}
}

// confirms lets the host of a run say that it has ended.
func (w *world) confirms(r Run) Run {
	w.there[r.ID] = false
	r.Remote = RemoteEnded
	return r
}

func (w *world) Stop(_ context.Context, run Run) error {
	return w.step("stop", func() error {
		if w.runs[run.ID].StopReason == "" {
			w.wrong = append(w.wrong, "signalled "+run.ID+" before its stop reason was stored")
		}
		if p := w.workers[run.ID]; p != nil {
			p.stopped = true
		}
		return nil
	})
}

func (w *world) Reap(_ context.Context, run Run, record func([]Process) error) ([]Process, error) {
	var left []Process
	err := w.step("reap", func() error {
		p := w.workers[run.ID]
		switch {
		case p == nil:
		case p.alive:
			return conflict("reap %s", run.ID)
		case p.stubborn:
			left = p.left
		default:
			p.left = nil
		}
		return nil
	})
	if err != nil {
		return left, err
	}
	return left, record(left)
}

func (w *world) Kill(_ context.Context, run Run) error {
	return w.step("kill", func() error {
		p := w.workers[run.ID]
		if p == nil || !p.alive {
			w.wrong = append(w.wrong, "killed "+run.ID+", whose worker is dead")
			return nil
		}
		p.alive = false
		return nil
	})
}

func (w *world) ReapFailed(_ context.Context, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.runs[id]
	r.ReapTries++
	w.runs[id] = r
	return nil
}

func (w *world) Workspaces(context.Context) ([]Workspace, error) { return w.workspaces, nil }

func (w *world) FreeBytes() int64 { return w.free }

func (w *world) TrashDue(time.Time, int64) (bool, error) { return w.trash, nil }

func (w *world) ByIDs(_ context.Context, ids []string) (map[string]Issue, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, "ids "+strings.Join(slices.Sorted(slices.Values(ids)), " "))
	if w.refused != nil {
		return nil, w.refused
	}
	found := map[string]Issue{}
	for _, id := range ids {
		if i, ok := w.issues[id]; ok {
			found[id] = i
		}
	}
	return found, nil
}

func (w *world) Candidates(_ context.Context, states []string) ([]Issue, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, "candidates "+strings.Join(states, ", "))
	if w.hidden != nil {
		return nil, w.hidden
	}
	var list []Issue
	for _, id := range slices.Sorted(maps.Keys(w.issues)) {
		if i := w.issues[id]; slices.Contains(states, i.State) && !i.Archived {
			list = append(list, i)
		}
	}
	return list, nil
}

// tracker returns the world as a tracker.
func (w *world) tracker() *TrackerAdapter { return &TrackerAdapter{Tracker: w} }

// ends lets the worker of the issue's unsettled run record an outcome and end.
func (w *world) ends(i Issue, outcome Outcome, code string) {
	r := w.runOf(i)
	r.Outcome = outcome
	r.ErrorCode = code
	r.EndedAt = w.now
	w.runs[r.ID] = r
	w.workers[r.ID].alive = false
}

// dies lets the worker die without an outcome. Its remaining processes are stubborn if they
// cannot be ended.
func (w *world) dies(i Issue, left int, stubborn bool) {
	p := w.workers[w.runOf(i).ID]
	p.alive = false
	p.left = make([]Process, left)
	p.stubborn = stubborn
}

func (w *world) runOf(i Issue) Run {
	for _, r := range w.runs {
		if r.IssueID == i.ID && !r.Settled {
			return r
		}
	}
	return Run{}
}

// obey lets every worker end that was asked to stop, by a signal or in its row, and completes
// every removal of a workspace.
func (w *world) obey() {
	for id, p := range w.workers {
		r := w.runs[id]
		switch {
		case !p.alive:
			continue
		case r.Phase == EndingThere:
			p.alive = false
			w.runs[id] = w.confirms(r)
			continue
		case r.Kind == CleanupRun:
			r.Outcome = Succeeded
			w.workspaces = slices.DeleteFunc(
				slices.Clone(w.workspaces),
				func(s Workspace) bool { return s.IssueID == r.IssueID },
			)
		case p.stopped || r.StopReason != "":
			r.Outcome = Canceled
			r.ErrorCode = r.StopReason
		default:
			continue
		}
		p.alive = false
		r.EndedAt = w.now
		if r.Host != "" {
			r = w.confirms(r)
		}
		w.runs[id] = r
	}
}

// revive lets the next pass run without a fault.
func (w *world) revive() { w.cut = cut{} }

// dump prints everything that is stored, to compare before and after.
func (w *world) dump() string {
	return fmt.Sprintln(
		w.claims,
		w.runs,
		w.commands,
		w.paused,
		w.agentBlock,
		w.trackerBlock,
		w.hostBlock,
		w.remoteBlocks,
		w.skips,
		w.lastSweep,
		w.used,
		w.prepared,
		len(w.workers),
	)
}

// limitErr is the error of a tracker whose allowance is used up.
type limitErr struct{ reset time.Time }

func (e limitErr) Error() string      { return "allowance used up" }
func (e limitErr) ResetAt() time.Time { return e.reset }

func rateLimited(reset time.Time) error {
	return &Error{Code: "tracker_rate_limited", Message: "used up", Err: limitErr{reset}}
}

var errTracker = &Error{Code: "linear_api_request", Message: "no route", Err: errors.New("dial")}
