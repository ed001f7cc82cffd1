package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
)

// busy returns a scene in which a pass takes every kind of action.
func busy() *scene {
	s := newScene()
	s.Policy.MaxConcurrent = 20
	ended := func(o Outcome) func(*Claim, *Run) {
		return func(_ *Claim, r *Run) {
			r.Outcome = o
			r.Tokens.Total = 100
		}
	}
	s.running(issueNo(1), ended(Succeeded))
	s.running(issueNo(2), nil).dead(issueNo(2), 2)
	s.running(issueNo(3), nil).workspace(issueNo(3)) // is done
	s.claim(issueNo(4), nil)
	s.held(issueNo(5), HoldMaxFailures)                                  // has a new comment
	s.claim(issueNo(6), nil)                                             // is gone
	s.claim(issueNo(7), nil).workspace(issueNo(7))                       // is done
	s.candidates(issueNo(8))                                             // is new
	s.running(issueNo(9), nil).command(VerbStop, issueNo(9))             // runs
	s.claim(issueNo(10), nil).command(VerbHold, issueNo(10))             // waits
	s.held(issueNo(11), HoldOperator).command(VerbRetry, issueNo(11))    // is held
	s.claim(issueNo(12), func(c *Claim) { c.Failures = 10 })             // is at its cap
	s.running(issueNo(13), nil)                                          // goes on
	s.running(issueNo(14), ended(Failed)).command(VerbStop, issueNo(14)) // has ended
	s.running(issueNo(15), func(_ *Claim, r *Run) { r.StopReason = StopInactive }).
		command(VerbStop, issueNo(15))
	s.workspace(issueNo(16))                                   // unclaimed, is done
	s.command(VerbHold, issueNo(17))                           // unclaimed
	s.running(issueNo(18), nil).command(VerbHold, issueNo(18)) // runs, is to be held afterwards
	s.same().answer(issueNo(5, commentedAt(noon)))
	for _, n := range []int{3, 7, 16} {
		s.answer(issueNo(n, inState("Done")))
	}
	s.answer(issueNo(17))
	delete(s.Tracker.ByID, "id-6")
	return s
}

// passes runs passes without faults, a minute apart, until all work that is due has been done.
func passes(t *testing.T, w *world, p Policy) {
	t.Helper()
	w.revive()
	for range 15 {
		w.obey()
		w.now = w.now.Add(time.Minute)
		for _, err := range Tick(t.Context(), w.deps(p), Options{}).Errors {
			t.Errorf("undisturbed pass: %v", err)
		}
		consistent(t, w)
	}
}

// consistent checks the invariants between two passes.
func consistent(t *testing.T, w *world) {
	t.Helper()
	w.noWrong(t)
	for _, c := range w.claims {
		r, known := w.runs[c.RunID]
		if c.Status == Running && (!known || r.Settled || r.IssueID != c.IssueID) {
			t.Errorf("%s waits for the run %q, which is not under way", c.Identifier, c.RunID)
		}
	}
	for id, r := range w.runs {
		if c := w.claims[r.IssueID]; !r.Settled && r.Kind == AgentRun && c.RunID != id {
			t.Errorf("no claim waits for run %s of %s", id, r.Identifier)
		}
		if r.Settled && (w.settled[id] != 1 || r.Outcome == "") {
			t.Errorf("run %s settled %d times, outcome %q", id, w.settled[id], r.Outcome)
		}
	}
}

// cutOff interrupts a pass at every step in every way, and checks the world after the passes
// that follow.
func cutOff(t *testing.T, scene Snapshot, check func(*testing.T, *world)) {
	t.Helper()
	whole := worldOf(scene)
	Tick(t.Context(), whole.deps(scene.Policy), Options{})
	for _, kind := range []cutKind{diesBefore, diesAfter, fails} {
		for n := 0; n <= whole.steps; n++ {
			t.Run(fmt.Sprintf("%s %d", kind, n), func(t *testing.T) {
				w := worldOf(scene)
				w.cut = cut{at: n, kind: kind}
				Tick(t.Context(), w.deps(scene.Policy), Options{})
				consistent(t, w)
				passes(t, w, scene.Policy)
				check(t, w)
			})
		}
	}
}

// Wherever a pass is interrupted, later passes finish its work: every run is settled once, no
// claim, command or token is lost, and no issue ever has two live workers.
func TestCutOff(t *testing.T) { cutOff(t, busy().Snapshot, finished) }

// finished checks the end of the busy scene.
func finished(t *testing.T, w *world) {
	t.Helper()
	for n, want := range map[int]string{
		1:  "running",
		2:  "running",
		3:  "unclaimed",
		4:  "running",
		5:  "running",
		6:  "unclaimed",
		7:  "unclaimed",
		8:  "running",
		9:  "held operator",
		10: "held operator",
		11: "running",
		12: "held max_failures",
		13: "running",
		14: "held operator",
		15: "held operator",
		16: "unclaimed",
		17: "held operator",
		18: "running then held",
	} {
		got := w.summary(issueNo(n))
		first, last, _ := strings.Cut(want, " ")
		if !strings.HasPrefix(got, first) || !strings.Contains(got, last) {
			t.Errorf("A-%d is %q, want %q", n, got, want)
		}
	}
	equal(t, "commands left", len(w.commands), 0)
	equal(t, "workspaces left", len(w.workspaces), 0)
	equal(t, "the run that went on", w.claims["id-13"].RunID, "run-A-13")
	equal(t, "tokens of A-1", w.used["id-1"], 100)
	equal(t, "tokens of A-14", w.used["id-14"], 100)
	for id, r := range w.runs {
		if !r.Settled && !w.workers[id].alive {
			t.Errorf("run %s was never settled", id)
		}
	}
}

// If stop --all is interrupted anywhere, everything is stopped and paused in the end, and
// continues after resume.
func TestStopAllCutOff(t *testing.T) {
	s := newScene().running(issueNo(1), nil).
		running(issueNo(2), nil).
		running(issueNo(3), nil).
		claim(issueNo(4), nil).
		command(VerbStopAll, Issue{}).
		same().
		candidates(issueNo(5))
	cutOff(t, s.Snapshot, func(t *testing.T, w *world) {
		equal(t, "paused", w.paused, true)
		equal(t, "commands left", len(w.commands), 0)
		for n := 1; n <= 3; n++ {
			equal(t, "outcome", w.runs[fmt.Sprintf("run-A-%d", n)].Outcome, Canceled)
		}
		equal(t, "workers started", len(w.workers), 3)

		w.commands[9] = Command{ID: 9, Verb: VerbResume}
		Tick(t.Context(), w.deps(s.Policy), Options{})
		equal(t, "workers started after resume", len(w.workers), 3+5)
	})
}

// While a process cannot be ended, its run is not settled and its slot stays taken. The rest
// of the plan is applied.
func TestLeftover(t *testing.T) {
	s := newScene().running(issueNo(1), nil).
		running(issueNo(2), func(_ *Claim, r *Run) { r.Outcome = Succeeded }).
		same().
		candidates(issueNo(3), issueNo(4))
	s.Policy.MaxConcurrent = 2
	w := worldOf(s.Snapshot)
	w.dies(issueNo(1), 1, true)

	report := Tick(t.Context(), w.deps(s.Policy), Options{})
	w.mustBe(t, issueNo(1), "running #1 runs=1")
	w.mustBe(t, issueNo(2), "retry continuation #1 in 1s idle=1 runs=1")
	w.mustBe(t, issueNo(3), "running #0 runs=1")
	equal(
		t,
		"plan",
		w.story(report),
		"reap A-1 worker_lost; settle A-2 succeeded; dispatch A-3; skip A-4 no_slot",
	)
	equal(t, "errors", codes(report), "leftover_process")

	w.workers["run-A-1"].stubborn = false
	w.obey()
	w.now = w.now.Add(500 * time.Millisecond)
	Tick(t.Context(), w.deps(s.Policy), Options{})
	w.mustBe(t, issueNo(1), "retry backoff #2 in 20s failures=1 runs=1")
	w.mustBe(t, issueNo(4), "running #0 runs=1")
	consistent(t, w)
}

// If the settlement of a run could not be stored, its slot is not given to another run.
func TestSettlementThatFails(t *testing.T) {
	s := newScene().running(issueNo(1), func(_ *Claim, r *Run) { r.Outcome = Succeeded }).
		same().
		candidates(issueNo(2))
	s.Policy.MaxConcurrent = 1
	w := worldOf(s.Snapshot)
	w.cut = cut{at: 1, kind: fails}
	done := apply(t.Context(), w.deps(s.Policy), Compute(s.Snapshot), s.Runs)
	equal(t, "done", len(done), 1)
	equal(t, "settlement failed", done[0].Err, errBroken)
	equal(t, "workers started", len(w.workers), 1)
	w.revive()
	Tick(t.Context(), w.deps(s.Policy), Options{})
	w.mustBe(t, issueNo(2), "running #0 runs=1")
}

// A claim that changed since the plan: nothing is written, nothing started, no error reported;
// the next pass sees the change.
func TestConflict(t *testing.T) {
	s := newScene().claim(issueNo(1), nil).same().candidates(issueNo(2))
	w := worldOf(s.Snapshot)
	plan := Compute(s.Snapshot)
	other := w.claims["id-1"]
	other.Version++
	w.claims["id-1"] = other
	done := apply(t.Context(), w.deps(s.Policy), plan, s.Runs)
	equal(t, "actions", len(done), 2)
	test.Equal(t, "a conflict of A-1 alone", []any{done[0].Err != nil, done[1].Err}, []any{true, nil})
	w.mustBe(t, issueNo(1), "retry backoff #1 in 0s")
	equal(t, "workers started", len(w.workers), 1)
}

// A worker that did not start: the pass reports it, and the next pass counts it with the text
// of the specification.
func TestSpawnFailure(t *testing.T) {
	s := newScene().candidates(issueNo(1))
	w := worldOf(s.Snapshot)
	w.cut = cut{at: 3, kind: fails} // after prepare and commit comes the start
	report := Tick(t.Context(), w.deps(s.Policy), Options{})
	equal(t, "errors", codes(report), CodeSpawnFailed)
	equal(t, "steps", strings.Join(w.log, ", "), "prepare, commit, skips")
	w.mustBe(t, issueNo(1), "running #0 runs=1")
	Tick(t.Context(), w.deps(s.Policy), Options{})
	w.mustBe(t, issueNo(1), "retry backoff #1 in 10s failures=1 runs=1")
	equal(t, "message", w.claims["id-1"].ErrorMessage, "failed to spawn agent")
}

// The counts of a pass are those of the stored claims, even if an action failed.
func TestCountsAfterAFailure(t *testing.T) {
	s := newScene().candidates(issueNo(1))
	w := worldOf(s.Snapshot)
	w.cut = cut{at: 1, kind: fails}
	report := Tick(t.Context(), w.deps(s.Policy), Options{})
	equal(t, "actions that failed", len(report.Errors), 1)
	equal(t, "claims", len(w.claims), 0)
	equal(t, "running", Count(report.Claims, nil, nil, false).Running, 0)
}

// Updates share transactions. A conflict of one update does not affect the others.
func TestUpdatesShareTransactions(t *testing.T) {
	s := newScene()
	var plan Plan
	for n := range 250 {
		s.claim(issueNo(n+1), nil)
		next := s.Claims[n]
		next.Issue.Title = "changed"
		plan.Actions = append(plan.Actions, Action{
			Kind:    actUpdate,
			IssueID: next.IssueID,
			Change:  &Change{Claim: &next},
		})
	}
	for _, conflicts := range []int{0, 1} {
		w := worldOf(s.Snapshot)
		if conflicts > 0 {
			plan.Actions[120].Change.Claim.Version--
		}
		done := apply(t.Context(), w.deps(s.Policy), plan, nil)
		equal(t, "faults", len(done), conflicts)
		changed := 0
		for _, c := range w.claims {
			if c.Issue.Title == "changed" {
				changed++
			}
		}
		equal(t, "claims changed", changed, 250-conflicts)
		equal(t, "transactions", len(w.log), 3+conflicts*98)
	}
}
