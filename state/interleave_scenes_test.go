package state

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// offered adds an unclaimed issue to the tracker.
func (s *schedule) offered(i int) reconcile.Issue {
	issue := issueOf(i)
	issue.Description = nil
	s.issues[issue.ID] = issue
	return issue
}

// dispatched adds an issue whose run has its row and whose worker is about to begin.
func (s *schedule) dispatched(i int) string {
	issue := s.offered(i)
	id := "run of " + issue.ID
	claim := reconcile.Claim{
		IssueID: issue.ID, Identifier: issue.Identifier, Status: reconcile.Running, RunID: id, Issue: issue, Project: "here",
		Attempt: 2, Runs: 1, WorkspaceRoot: "/root",
	}
	run := reconcile.Run{
		ID: id, Kind: reconcile.AgentRun, Phase: reconcile.Starting, StartedAt: s.now, IssueID: issue.ID, Identifier: issue.Identifier, Attempt: 2, Issue: issue,
		Fingerprint: issue.Fingerprint(), Worker: reconcile.Handle{Boot: "boot"},
	}
	s.stored(reconcile.Change{Claim: &claim, Insert: &run})
	s.spawn(id)
	return id
}

func (s *schedule) stored(c reconcile.Change) {
	s.must(answered(&s.tape, func() (struct{}, error) {
		return nothing(s.lab.open().Store.Commit(context.Background(), s.now, c))
	}))
}

// waiting adds an issue whose next run is due.
func (s *schedule) waiting(i int) {
	issue := s.offered(i)
	claim := reconcile.Claim{
		IssueID: issue.ID, Identifier: issue.Identifier, Status: reconcile.Waiting, Kind: reconcile.Backoff, Issue: issue,
		Project: "here", Attempt: 3, Runs: 3, Failures: 2, DueAt: s.now.Add(-time.Minute), WorkspaceRoot: "/root",
	}
	s.stored(reconcile.Change{Claim: &claim})
}

func (s *schedule) tick(name string) { s.enter(name, pass(passKind{})) }

// operator adds an operator's command: it is stored, and then a pass confined to it runs.
func (s *schedule) operator(verb reconcile.Verb, i int) {
	cmd := reconcile.Command{Verb: verb}
	only := "-"
	if i > 0 {
		cmd.IssueID, cmd.Identifier = issueOf(i).ID, issueOf(i).Identifier
		only = cmd.IssueID
	} else if verb == reconcile.VerbStopAll {
		only = ""
	}
	s.enter("operator, "+string(verb), pass(passKind{
		command: &cmd, patient: true, options: reconcile.Options{Only: only, DispatchOff: !s.scheduled},
	}))
}

// ended adds an issue whose run has recorded its outcome and is not settled yet; its worker's own pass has begun.
func (s *schedule) ended(i int) {
	id := s.dispatched(i)
	ctx, db := context.Background(), s.lab.open()
	s.must(answered(&s.tape, func() (struct{}, error) {
		run, err := db.Journal.TakeRun(ctx, id, reconcile.Handle{Boot: "boot", PID: 100, Start: 1}, s.now)
		run.Outcome, run.Tokens = reconcile.Succeeded, reconcile.Tokens{Output: 5, Total: 5}
		return nothing(errors.Join(err, db.Journal.Finish(ctx, s.now, run)))
	}))
	s.actors = nil // its worker is gone
	delete(s.workers, id)
	s.enter("own pass", pass(passKind{patient: true}))
}

// pairs are the scenes of two actors and the workers that they start. In most of them one actor may die, or wait in vain,
// at any step.
func pairs() []scene {
	list := []scene{
		{name: "pass and pass", faults: 1, setUp: func(s *schedule) {
			s.waiting(1)
			s.tick("pass 1")
			s.enter("pass 2", pass(passKind{options: reconcile.Options{DispatchOff: true}}))
		}},
		{name: "pass and pass, nothing claimed", setUp: func(s *schedule) { s.offered(1); s.tick("pass 1"); s.tick("pass 2") }},
		{name: "pass and own pass", faults: 1, setUp: func(s *schedule) { s.ended(1); s.tick("pass") }},
		{name: "own pass and operator", faults: 1, setUp: func(s *schedule) { s.ended(1); s.operator(reconcile.VerbHold, 1) }},
		{name: "pass and worker", faults: 1, setUp: func(s *schedule) {
			s.conduct.brief, s.calm = false, false // the pass that started it was killed
			s.dispatched(1)
			s.tick("pass")
		}},
		{name: "pass and worker, its agent moves the issue", faults: 1, setUp: func(s *schedule) {
			s.conduct.handoff, s.calm = "Human Review", false
			s.dispatched(1)
			s.tick("pass")
		}},
		// A start through systemd that is given up too early may lead to a second worker.
		{name: "two workers of one run", faults: 1, setUp: func(s *schedule) {
			id := s.dispatched(1)
			s.enter("second worker", s.worker(id, s.workers[id], s.conduct))
		}},
	}
	deaths := map[reconcile.Verb]int{reconcile.VerbHold: 1}
	for _, verb := range []reconcile.Verb{reconcile.VerbStop, reconcile.VerbHold, reconcile.VerbRetry} {
		list = append(list, scene{name: "worker and operator, " + string(verb), faults: deaths[verb], setUp: func(s *schedule) {
			s.calm = false
			s.dispatched(1)
			s.operator(verb, 1)
		}}, scene{name: "pass and operator, " + string(verb), faults: deaths[verb], setUp: func(s *schedule) {
			s.waiting(1)
			s.tick("pass")
			s.operator(verb, 1)
		}})
	}
	return append(list,
		scene{name: "operators, stop and hold", faults: 1, setUp: operators(reconcile.VerbStop, reconcile.VerbHold, 1)},
		scene{name: "operators, pause and resume", faults: 1, setUp: operators(reconcile.VerbPause, reconcile.VerbResume, 0)},
		scene{name: "operators, hold and retry", faults: 1, setUp: operators(reconcile.VerbHold, reconcile.VerbRetry, 1)},
		scene{name: "operators, retry and hold, nothing claimed", faults: 1, setUp: func(s *schedule) {
			s.offered(1)
			s.operator(reconcile.VerbRetry, 1)
			s.operator(reconcile.VerbHold, 1)
		}},
		scene{name: "pass and operator, stop all", setUp: func(s *schedule) {
			s.waiting(1)
			s.tick("pass")
			s.operator(reconcile.VerbStopAll, 0)
		}})
}

func operators(one, two reconcile.Verb, issue int) func(*schedule) {
	return func(s *schedule) { s.waiting(1); s.operator(one, issue); s.operator(two, issue) }
}

// crowd is a random scene of many actors.
func crowd(dice *rand.Rand) scene {
	return scene{name: "crowd", faults: 3, setUp: func(s *schedule) {
		s.calm, s.scheduled = false, true
		s.conduct = conduct{tokens: 10, follow: true, brief: dice.IntN(2) == 0, fails: dice.IntN(3) == 0}
		if dice.IntN(3) == 0 {
			s.conduct.handoff = []string{"Human Review", "Done"}[dice.IntN(2)]
		}
		for i := 1; i <= 2; i++ {
			[]func(){func() { s.offered(i) }, func() { s.waiting(i) }, func() { s.dispatched(i) }}[dice.IntN(3)]()
		}
		s.tick("pass 1")
		s.tick("pass 2")
		verbs := []reconcile.Verb{
			reconcile.VerbStop, reconcile.VerbHold, reconcile.VerbRetry, reconcile.VerbPause, reconcile.VerbResume, reconcile.VerbStopAll,
		}
		for range 2 {
			verb := verbs[dice.IntN(len(verbs))]
			issue := 1 + dice.IntN(2)
			if verb == reconcile.VerbPause || verb == reconcile.VerbResume || verb == reconcile.VerbStopAll {
				issue = 0
			}
			s.operator(verb, issue)
		}
	}}
}

// tooLongForRaces skips what takes minutes under the race detector, which finds nothing here: only one actor runs at a
// time.
func tooLongForRaces(t *testing.T, sc scene) {
	t.Helper()
	if raceDetector && !strings.Contains(sc.name, "own pass") && !strings.Contains(sc.name, "two workers") {
		t.Skip("too long with -race")
	}
}

// TestInterleavingsOfTwo plays every schedule of every pair.
func TestInterleavingsOfTwo(t *testing.T) {
	for _, sc := range pairs() {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			tooLongForRaces(t, sc)
			played, err := explore(newLab(t, without{}), sc)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d schedules", played)
		})
	}
}

// TestInterleavingsOfMany plays random schedules. SYMPHONY_SEED repeats a failed run.
func TestInterleavingsOfMany(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SYMPHONY_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		check(t, err)
	}
	t.Logf("SYMPHONY_SEED=%d", seed)
	n := 200
	if raceDetector {
		n = 20
	}
	check(t, wander(newLab(t, without{}), seed, n))
}

// TestInterleavingsWithout disables mechanisms. Without the only one of its kind some schedule must break a rule. Where a
// second mechanism covers the first none may, until that is disabled, too.
func TestInterleavingsWithout(t *testing.T) {
	const (
		noOutcome  = "outcome IS NULL AND phase = ?"
		version    = "AND version = ?"
		anyVersion = "AND (version = ? OR 1)"
		starting   = "WHERE id = ? AND phase = ? AND outcome IS NULL"
		unended    = "WHERE id = ? AND outcome IS NULL AND phase <> 'starting'"
		unsettled  = "settled = 0 AND outcome IS NOT NULL"
	)
	for _, test := range []struct {
		missing string
		without
		scene  string
		broken string // a part of the rule, empty where all hold
	}{
		{"the row before the worker", without{rowBeforeSpawn: true}, "pass and pass, nothing claimed", "lost although no process died"},
		{"alive, held while a dead run is ended", without{exclusiveReap: true}, "pass and worker", "killed the healthy worker"},
		{"the phase that was seen", without{sql: []string{noOutcome, "outcome IS NULL AND (phase = ? OR 1)"}}, "pass and worker", "counts as never started"},
		{"no outcome yet", without{sql: []string{noOutcome, "phase = ?"}}, "pass and worker", "had ended as"},
		{"taking only what starts", without{sql: []string{starting, "WHERE id = ? AND (phase = ? OR 1) AND outcome IS NULL"}}, "two workers of one run", "taken twice"},
		{"the project lock", without{projectLock: true}, "pass and pass, nothing claimed", "lost although no process died"},
		{"the project lock, for the project's commands", without{projectLock: true}, "operators, pause and resume", "that is not how it stands"},

		{"taking only what has not ended: the next write is refused", without{sql: []string{starting, "WHERE id = ? AND phase = ?"}}, "pass and worker", ""},
		{"both", without{sql: []string{starting, "WHERE id = ? AND phase = ?", unended, "WHERE id = ? AND phase <> 'starting'"}}, "pass and worker", "its agent lives"},
		{"the version of a claim: there is the lock", without{sql: []string{version, anyVersion}}, "operators, hold and retry", ""},
		{"the lock: there is the version", without{projectLock: true}, "operators, hold and retry", ""},
		{"version and lock", without{projectLock: true, sql: []string{version, anyVersion}}, "operators, hold and retry", "changed without its version"},
		{"lock and version: a run is settled once", without{projectLock: true, sql: []string{version, anyVersion}}, "pass and own pass", ""},
		{"all three", without{projectLock: true, sql: []string{version, anyVersion, unsettled, "outcome IS NOT NULL"}}, "pass and own pass", "total"},
	} {
		t.Run(test.missing, func(t *testing.T) {
			t.Parallel()
			list := pairs()
			i := slices.IndexFunc(list, func(sc scene) bool { return sc.name == test.scene })
			tooLongForRaces(t, list[i])
			l := newLab(t, test.without)
			_, err := explore(l, list[i])
			switch {
			case l.changed == 0 && len(test.sql) > 0:
				t.Error("no statement has this condition any more")
			case test.broken == "":
				check(t, err)
			case err == nil:
				t.Error("no rule was broken")
			case !strings.Contains(err.Error(), test.broken):
				t.Errorf("want a schedule that breaks %q, got: %v", test.broken, err)
			}
		})
	}
}
