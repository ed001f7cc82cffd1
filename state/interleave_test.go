package state

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// The tests in this file play random schedules: orders in which processes act on one state.
// They run the real reconcile.Tick and the real methods of DB, on SQLite in memory, in a model
// of everything else (interleave_world_test.go): workers, agents, a tracker, and locks that
// are released when their holder ends. interleave_rules_test.go has the rules that must hold.
//
// An actor is a process. It stops in step before each action that another actor can see or
// that depends on another actor. The schedule then decides which actor continues, is killed,
// or times out. Only one actor runs at a time. A method of DB is one step, because it writes
// in one transaction: a death before the commit has the same effect as a death before the
// step.

// actor is one process of a schedule.
type actor struct {
	*world
	name string
	op   string // the next step
	// ready is set if the next step is a wait with a timeout. It reports whether the wait is
	// over.
	ready func() bool
	gate  chan verdict
	turn  chan struct{} // receives when the actor has stopped again or ended
	dead  bool          // it was killed: its goroutines end at their next step
	over  bool
}

type verdict int

const (
	proceed verdict = iota
	timeOut
	kill
)

// enter adds an actor. It waits until the schedule lets it begin.
func (w *world) enter(name string, body func(*actor)) *actor {
	a := &actor{
		world: w,
		name:  name,
		op:    "begin",
		gate:  make(chan verdict),
		turn:  make(chan struct{}),
	}
	w.actors = append(w.actors, a)
	go func() {
		defer func() { a.over = true; a.turn <- struct{}{} }()
		if <-a.gate != kill {
			body(a)
		}
	}()
	return a
}

// step stops until the schedule lets this actor continue.
func (a *actor) step(op string) { a.await(op, nil) }

// await is a step that waits until ready; false if the wait timed out.
func (a *actor) await(op string, ready func() bool) bool {
	if a.dead {
		runtime.Goexit()
	}
	a.op = op
	a.ready = ready
	a.turn <- struct{}{}
	v := <-a.gate
	if v == kill {
		runtime.Goexit()
	}
	return v == proceed
}

// take applies a verdict to an actor, and returns when the actor has reached its next step or
// its end.
func (w *world) take(a *actor, v verdict) {
	w.steps = append(
		w.steps,
		fmt.Sprintf("%s: %s%s", a.name, a.op, [...]string{"", ", TIMED OUT", ", KILLED"}[v]),
	)
	if v != proceed {
		w.faults--
		w.undisturbed = false
	}
	a.dead = v == kill
	a.gate <- v
	<-a.turn
	if a.over {
		w.gone(a)
	}
}

// play takes random steps until all actors have ended, and returns an error for the first
// broken rule. One actor usually takes several steps in a row. Deaths and timeouts are rare.
func (l *lab) play(sc scene, dice *rand.Rand) error {
	w := l.begin(sc, dice)
	defer func() {
		for _, a := range w.actors {
			if !a.over {
				w.take(a, kill)
			}
		}
	}()
	var last *actor
	for {
		if err := w.check(); err != nil {
			return err
		}
		can, waiting := w.split()
		if len(can) == 0 && (len(waiting) == 0 || w.faults == 0) {
			return w.finish()
		}
		if len(can) > 0 && (!slices.Contains(can, last) || dice.IntN(3) == 0) {
			last = can[dice.IntN(len(can))]
		}
		next := last
		what := proceed
		if w.faults > 0 && (len(can) == 0 || dice.IntN(12) == 0) {
			what = kill
			if len(waiting) > 0 && (len(can) == 0 || dice.IntN(2) == 0) {
				next = waiting[dice.IntN(len(waiting))]
				what = timeOut
			}
		}
		w.take(next, what)
	}
}

// split returns the actors that have not ended: those that can continue, and those that wait.
func (w *world) split() (can, waiting []*actor) {
	for _, a := range w.actors {
		switch {
		case a.over:
		case a.ready == nil || a.ready():
			can = append(can, a)
		default:
			waiting = append(waiting, a)
		}
	}
	return can, waiting
}

// broken returns an error for a broken rule, with the steps that led to it and the rows.
func (w *world) broken(format string, args ...any) error {
	steps := w.steps
	is := w.rowsNow()
	for id, c := range is.claims {
		steps = append(steps, fmt.Sprintf("now %s, version %d: %s %s, run %q, attempt %d, hold next %t",
			id, c.Version, c.Status, c.HoldReason, c.RunID, c.Attempt, c.HoldNext))
	}
	for id, r := range is.runs {
		steps = append(steps, fmt.Sprintf("now %s: %s %s %s, settled %t, %d tokens",
			id, r.Phase, r.Outcome, r.ErrorCode, r.Settled, r.Tokens.Total))
	}
	return fmt.Errorf("%s\nafter:\n  %s", fmt.Sprintf(format, args...), strings.Join(steps, "\n  "))
}

// scene is the start of a schedule.
type scene struct {
	name   string
	faults int // how many deaths and timeouts may happen
	setUp  func(*world)
}

// scenes returns scenes of two actors and the workers that they start, and a last one of many
// actors.
func scenes() []scene {
	list := []scene{
		{"pass and pass", 1, func(w *world) {
			w.waiting(1)
			w.tick("pass 1")
			w.enter("pass 2", pass(passKind{options: reconcile.Options{DispatchOff: true}}))
		}},
		{
			"pass and pass, nothing claimed",
			0,
			func(w *world) { w.offered(1); w.tick("pass 1"); w.tick("pass 2") },
		},
		{"pass and own pass", 1, func(w *world) { w.ended(1); w.tick("pass") }},
		{"own pass and operator", 1, func(w *world) { w.ended(1); w.operator(reconcile.VerbHold, 1) }},
		// the pass that started it was killed
		{"pass and worker", 1, func(w *world) { w.undisturbed = false; w.dispatched(1); w.tick("pass") }},
		{"pass and late worker", 1, func(w *world) {
			w.undisturbed = false
			w.dispatched(1)
			w.tick("pass")
			for range 4 { // until the pass has seen that there is no worker
				w.take(w.actors[1], proceed)
			}
		}},
		{"pass and worker, its agent moves the issue", 1, func(w *world) {
			w.conduct.handoff = "Human Review"
			w.undisturbed = false
			w.dispatched(1)
			w.tick("pass")
		}},
		// If a start through systemd is given up too early there may be a second worker.
		{"two workers of one run", 1, func(w *world) {
			id := w.dispatched(1)
			w.enter("second worker", w.worker(id, w.workers[id], w.conduct))
		}},
		{
			"pass and operator, stop all",
			0,
			func(w *world) { w.waiting(1); w.tick("pass"); w.operator(reconcile.VerbStopAll, 0) },
		},
		{"operators, retry and hold, nothing claimed", 1, func(w *world) {
			w.offered(1)
			w.operator(reconcile.VerbRetry, 1)
			w.operator(reconcile.VerbHold, 1)
		}},
	}
	for _, verb := range []reconcile.Verb{reconcile.VerbStop, reconcile.VerbHold, reconcile.VerbRetry} {
		list = append(
			list,
			scene{
				"worker and operator, " + string(verb),
				1,
				func(w *world) { w.undisturbed = false; w.dispatched(1); w.operator(verb, 1) },
			},
			scene{
				"pass and operator, " + string(verb),
				1,
				func(w *world) { w.waiting(1); w.tick("pass"); w.operator(verb, 1) },
			},
		)
	}
	for _, c := range []struct {
		one, two reconcile.Verb
		issue    int
	}{
		{reconcile.VerbStop, reconcile.VerbHold, 1},
		{reconcile.VerbPause, reconcile.VerbResume, 0},
		{reconcile.VerbHold, reconcile.VerbRetry, 1},
	} {
		list = append(list, scene{fmt.Sprintf("operators, %s and %s", c.one, c.two), 1, func(w *world) {
			w.waiting(1)
			w.operator(c.one, c.issue)
			w.operator(c.two, c.issue)
		}})
	}
	return append(list, scene{"crowd", 3, func(w *world) {
		w.undisturbed = false
		w.scheduled = true
		w.conduct = conduct{
			tokens: 10, follow: true, fails: w.dice.IntN(3) == 0,
			handoff: []string{"", "", "Human Review", "Done"}[w.dice.IntN(4)],
		}
		w.waiting(1)
		w.dispatched(2)
		w.tick("pass 1")
		w.tick("pass 2")
		verbs := []reconcile.Verb{
			reconcile.VerbStop,
			reconcile.VerbHold,
			reconcile.VerbRetry,
			reconcile.VerbPause,
			reconcile.VerbResume,
			reconcile.VerbStopAll,
		}
		for range 2 {
			n := w.dice.IntN(len(verbs))
			w.operator(verbs[n], []int{1 + w.dice.IntN(2), 0}[n/3])
		}
	}})
}

// TestInterleavings plays random schedules of every scene, more of them with
// SYMPHONY_TEST=each. To repeat a failure set SYMPHONY_SEED to the logged seed.
func TestInterleavings(t *testing.T) {
	test.Expensive(t)
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SYMPHONY_SEED"); text != "" {
		seed = test.Must(strconv.ParseUint(text, 10, 64))
	}
	t.Logf("SYMPHONY_SEED=%d", seed)
	schedules := 40
	if test.Each() {
		schedules = 200
	}
	for _, sc := range scenes() {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, without{})
			for i := range schedules {
				test.OK(t, l.play(sc, rand.New(rand.NewPCG(seed, uint64(i)))))
			}
		})
	}
}

// TestInterleavingsWithout disables mechanisms, to show that the rules detect it: some
// schedule must then break a rule. If a second mechanism covers the first, no schedule may
// break a rule until both are disabled.
func TestInterleavingsWithout(t *testing.T) {
	test.Expensive(t)
	const (
		noOutcome  = "outcome IS NULL AND phase = ?"
		version    = "AND version = ?"
		anyVersion = "AND (version = ? OR 1)"
		starting   = "WHERE id = ? AND phase = 'starting' AND outcome IS NULL"
		ended      = "WHERE id = ? AND phase = 'starting'"
		unended    = "WHERE id = :id AND outcome IS NULL AND phase <> 'starting'"
		unsettled  = "settled = 0 AND outcome IS NOT NULL"
	)
	for _, c := range []struct {
		missing string
		without
		scene  string
		broken string // a part of the error, empty if no rule may break
	}{
		{
			"the row before the worker",
			without{rowBeforeSpawn: true},
			"pass and pass, nothing claimed",
			"lost although no process died",
		},
		{
			"alive, held while a dead run is ended",
			without{exclusiveReap: true},
			"pass and worker",
			"killed the healthy worker",
		},
		{
			"the phase that was seen",
			without{sql: []string{noOutcome, "outcome IS NULL AND (phase = ? OR 1)"}},
			"pass and worker", "counts as never started",
		},
		{"no outcome yet", without{sql: []string{noOutcome, "phase = ?"}}, "pass and late worker", "had ended as"},
		{
			"taking only what starts",
			without{sql: []string{starting, "WHERE id = ? AND outcome IS NULL"}},
			"two workers of one run", "taken twice",
		},
		{
			"the project lock",
			without{projectLock: true},
			"pass and pass, nothing claimed",
			"lost although no process died",
		},
		{
			"the project lock, for the project's commands",
			without{projectLock: true},
			"operators, pause and resume",
			"but has no effect",
		},

		{
			"taking only what has not ended: the next write is refused",
			without{sql: []string{starting, ended}},
			"pass and worker", "",
		},
		{
			"both",
			without{sql: []string{starting, ended, unended, "WHERE id = :id AND phase <> 'starting'"}},
			"pass and worker", "its agent lives on",
		},
		{
			"the version of a claim: there is the lock",
			without{sql: []string{version, anyVersion}},
			"operators, hold and retry",
			"",
		},
		{"the lock: there is the version", without{projectLock: true}, "operators, hold and retry", ""},
		{
			"version and lock",
			without{projectLock: true, sql: []string{version, anyVersion}},
			"operators, hold and retry", "changed without its version",
		},
		{"lock and version: a run is settled once", without{
			projectLock: true,
			sql:         []string{version, anyVersion},
		}, "pass and own pass", ""},
		{
			"all three",
			without{
				projectLock: true,
				sql:         []string{version, anyVersion, unsettled, "outcome IS NOT NULL"},
			},
			"pass and own pass", "total",
		},
	} {
		t.Run(c.missing, func(t *testing.T) {
			t.Parallel()
			list := scenes()
			sc := list[slices.IndexFunc(list, func(sc scene) bool { return sc.name == c.scene })]
			l := newLab(t, c.without)
			tries := 100
			if c.broken != "" {
				tries = 2000
			}
			for i := range tries {
				err := l.play(sc, rand.New(rand.NewPCG(1, uint64(i))))
				switch {
				case err == nil:
				case c.broken == "" || !strings.Contains(err.Error(), c.broken):
					t.Fatalf("want a schedule that breaks %q, got: %v", c.broken, err)
				default:
					t.Logf("broken by schedule %d", i)
					return
				}
			}
			if c.broken != "" {
				t.Error("no rule was broken")
			}
			if l.changed == 0 && len(c.sql) > 0 {
				t.Error("no statement has this condition any more")
			}
		})
	}
}
