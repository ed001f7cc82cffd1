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

// The tests of this file play orders in which processes may act on one state. They run the real reconcile.Tick and the real
// methods of DB, on SQLite in memory. Around them is a model (interleave_world_test.go): locks that are released when their
// holder ends, workers, agents, a tracker. The rules are in interleave_rules_test.go.
//
// An actor is a process. Before each action that another actor can see or that depends on another, it stops in step, and the
// schedule decides which actor continues, is killed, or waits in vain. Only one runs at a time. A method of DB is one step,
// because its writes are one transaction: a death before its commit leaves the same as a death before the step.

// actor is one process of a schedule.
type actor struct {
	*world
	name string
	op   string // the next step
	// ready is set where the next step is a bounded wait; it reports whether the wait is over.
	ready func() bool
	gate  chan verdict
	turn  chan struct{} // receives when the actor has stopped again or ended
	dead  bool          // killed: its goroutines end at their next step
	over  bool
}

type verdict int

const (
	goOn verdict = iota
	inVain
	die
)

// enter adds an actor, which waits until it is chosen.
func (w *world) enter(name string, body func(*actor)) *actor {
	a := &actor{world: w, name: name, op: "begin", gate: make(chan verdict), turn: make(chan struct{})}
	w.actors = append(w.actors, a)
	go func() {
		defer func() { a.over = true; a.turn <- struct{}{} }()
		if <-a.gate != die {
			body(a)
		}
	}()
	return a
}

// step stops until the schedule lets this actor continue.
func (a *actor) step(op string) { a.await(op, nil) }

// await is a step that can only be taken when it is ready; false where the wait timed out.
func (a *actor) await(op string, ready func() bool) bool {
	if a.dead {
		runtime.Goexit()
	}
	a.op, a.ready = op, ready
	a.turn <- struct{}{}
	v := <-a.gate
	if v == die {
		runtime.Goexit()
	}
	return v == goOn
}

// take lets an actor continue, or ends it, and returns when it has reached its next step or its end.
func (w *world) take(a *actor, v verdict) {
	w.told = append(w.told, fmt.Sprintf("%s: %s%s", a.name, a.op, [...]string{"", ", in vain", ", KILLED"}[v]))
	if v != goOn {
		w.faults--
		w.calm = false
	}
	a.dead = v == die
	a.gate <- v
	<-a.turn
	if a.over {
		w.gone(a)
	}
}

// play takes random steps until all actors are gone, and returns the first rule that is broken. An actor usually goes on for
// a while. Deaths and timeouts are rare.
func (l *lab) play(sc scene, dice *rand.Rand) error {
	w := l.begin(sc, dice)
	defer func() {
		for _, a := range w.actors {
			if !a.over {
				w.take(a, die)
			}
		}
	}()
	var last *actor
	for {
		if err := w.look(); err != nil {
			return err
		}
		can, waiting := w.living()
		if len(can) == 0 && (len(waiting) == 0 || w.faults == 0) {
			return w.settleDown()
		}
		if len(can) > 0 && (!slices.Contains(can, last) || dice.IntN(3) == 0) {
			last = can[dice.IntN(len(can))]
		}
		next, what := last, goOn
		if w.faults > 0 && (len(can) == 0 || dice.IntN(12) == 0) {
			what = die
			if len(waiting) > 0 && (len(can) == 0 || dice.IntN(2) == 0) {
				next, what = waiting[dice.IntN(len(waiting))], inVain
			}
		}
		w.take(next, what)
	}
}

// living are the actors that have not ended: those that can go on, and those that wait.
func (w *world) living() (can, waiting []*actor) {
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

// broken reports a broken rule with the steps that led to it.
func (w *world) broken(format string, args ...any) error {
	told, is := w.told, w.rowsNow()
	for id, c := range is.claims {
		told = append(told, fmt.Sprintf("now %s, version %d: %s %s, run %q, attempt %d, hold next %t", id, c.Version, c.Status, c.HoldReason, c.RunID, c.Attempt, c.HoldNext))
	}
	for id, r := range is.runs {
		told = append(told, fmt.Sprintf("now %s: %s %s %s, settled %t, %d tokens", id, r.Phase, r.Outcome, r.ErrorCode, r.Settled, r.Tokens.Total))
	}
	return fmt.Errorf("%s\nafter:\n  %s", fmt.Sprintf(format, args...), strings.Join(told, "\n  "))
}

// scene is where schedules begin.
type scene struct {
	name   string
	faults int // how many deaths and timeouts may happen
	setUp  func(*world)
}

// scenes are those of two actors and the workers that they start, and one of many.
func scenes() []scene {
	list := []scene{
		{"pass and pass", 1, func(w *world) {
			w.waiting(1)
			w.tick("pass 1")
			w.enter("pass 2", pass(passKind{options: reconcile.Options{DispatchOff: true}}))
		}},
		{"pass and pass, nothing claimed", 0, func(w *world) { w.offered(1); w.tick("pass 1"); w.tick("pass 2") }},
		{"pass and own pass", 1, func(w *world) { w.ended(1); w.tick("pass") }},
		{"own pass and operator", 1, func(w *world) { w.ended(1); w.operator(reconcile.VerbHold, 1) }},
		{"pass and worker", 1, func(w *world) { w.calm = false; w.dispatched(1); w.tick("pass") }}, // the pass that started it was killed
		{"pass and late worker", 1, func(w *world) {
			w.calm = false
			w.dispatched(1)
			w.tick("pass")
			for range 4 { // until it has found no worker
				w.take(w.actors[1], goOn)
			}
		}},
		{"pass and worker, its agent moves the issue", 1, func(w *world) {
			w.conduct.handoff, w.calm = "Human Review", false
			w.dispatched(1)
			w.tick("pass")
		}},
		// A start through systemd that is given up too early may lead to a second worker.
		{"two workers of one run", 1, func(w *world) {
			id := w.dispatched(1)
			w.enter("second worker", w.worker(id, w.workers[id], w.conduct))
		}},
		{"pass and operator, stop all", 0, func(w *world) { w.waiting(1); w.tick("pass"); w.operator(reconcile.VerbStopAll, 0) }},
		{"operators, retry and hold, nothing claimed", 1, func(w *world) {
			w.offered(1)
			w.operator(reconcile.VerbRetry, 1)
			w.operator(reconcile.VerbHold, 1)
		}},
	}
	for _, verb := range []reconcile.Verb{reconcile.VerbStop, reconcile.VerbHold, reconcile.VerbRetry} {
		list = append(list,
			scene{"worker and operator, " + string(verb), 1, func(w *world) { w.calm = false; w.dispatched(1); w.operator(verb, 1) }},
			scene{"pass and operator, " + string(verb), 1, func(w *world) { w.waiting(1); w.tick("pass"); w.operator(verb, 1) }})
	}
	for _, c := range []struct {
		one, two reconcile.Verb
		issue    int
	}{{reconcile.VerbStop, reconcile.VerbHold, 1}, {reconcile.VerbPause, reconcile.VerbResume, 0}, {reconcile.VerbHold, reconcile.VerbRetry, 1}} {
		list = append(list, scene{fmt.Sprintf("operators, %s and %s", c.one, c.two), 1, func(w *world) {
			w.waiting(1)
			w.operator(c.one, c.issue)
			w.operator(c.two, c.issue)
		}})
	}
	return append(list, scene{"crowd", 3, func(w *world) {
		w.calm, w.scheduled = false, true
		w.conduct = conduct{tokens: 10, follow: true, fails: w.dice.IntN(3) == 0, handoff: []string{"", "", "Human Review", "Done"}[w.dice.IntN(4)]}
		w.waiting(1)
		w.dispatched(2)
		w.tick("pass 1")
		w.tick("pass 2")
		verbs := []reconcile.Verb{
			reconcile.VerbStop, reconcile.VerbHold, reconcile.VerbRetry, reconcile.VerbPause, reconcile.VerbResume, reconcile.VerbStopAll,
		}
		for range 2 {
			n := w.dice.IntN(len(verbs))
			w.operator(verbs[n], []int{1 + w.dice.IntN(2), 0}[n/3])
		}
	}})
}

// TestInterleavings plays random schedules of every scene. SYMPHONY_SEED repeats a failed run.
func TestInterleavings(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SYMPHONY_SEED"); text != "" {
		seed = test.Must(strconv.ParseUint(text, 10, 64))
	}
	t.Logf("SYMPHONY_SEED=%d", seed)
	for _, sc := range scenes() {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, without{})
			for i := range 100 {
				test.OK(t, l.play(sc, rand.New(rand.NewPCG(seed, uint64(i)))))
			}
		})
	}
}

// TestInterleavingsWithout disables mechanisms. Without the only one of its kind some schedule must break a rule. Where a
// second mechanism covers the first none may, until that is disabled, too.
func TestInterleavingsWithout(t *testing.T) {
	const (
		noOutcome  = "outcome IS NULL AND phase = ?"
		version    = "AND version = ?"
		anyVersion = "AND (version = ? OR 1)"
		starting   = "WHERE id = ? AND phase = ? AND outcome IS NULL"
		unended    = "WHERE id = :id AND outcome IS NULL AND phase <> 'starting'"
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
		{"no outcome yet", without{sql: []string{noOutcome, "phase = ?"}}, "pass and late worker", "had ended as"},
		{"taking only what starts", without{sql: []string{starting, "WHERE id = ? AND (phase = ? OR 1) AND outcome IS NULL"}}, "two workers of one run", "taken twice"},
		{"the project lock", without{projectLock: true}, "pass and pass, nothing claimed", "lost although no process died"},
		{"the project lock, for the project's commands", without{projectLock: true}, "operators, pause and resume", "that is not how it stands"},

		{"taking only what has not ended: the next write is refused", without{sql: []string{starting, "WHERE id = ? AND phase = ?"}}, "pass and worker", ""},
		{"both", without{sql: []string{starting, "WHERE id = ? AND phase = ?", unended, "WHERE id = :id AND phase <> 'starting'"}}, "pass and worker", "its agent lives"},
		{"the version of a claim: there is the lock", without{sql: []string{version, anyVersion}}, "operators, hold and retry", ""},
		{"the lock: there is the version", without{projectLock: true}, "operators, hold and retry", ""},
		{"version and lock", without{projectLock: true, sql: []string{version, anyVersion}}, "operators, hold and retry", "changed without its version"},
		{"lock and version: a run is settled once", without{projectLock: true, sql: []string{version, anyVersion}}, "pass and own pass", ""},
		{"all three", without{projectLock: true, sql: []string{version, anyVersion, unsettled, "outcome IS NOT NULL"}}, "pass and own pass", "total"},
	} {
		t.Run(test.missing, func(t *testing.T) {
			t.Parallel()
			list := scenes()
			sc := list[slices.IndexFunc(list, func(sc scene) bool { return sc.name == test.scene })]
			l, tries := newLab(t, test.without), 100
			if test.broken != "" {
				tries = 2000
			}
			for i := range tries {
				err := l.play(sc, rand.New(rand.NewPCG(1, uint64(i))))
				switch {
				case err == nil:
				case test.broken == "" || !strings.Contains(err.Error(), test.broken):
					t.Fatalf("want a schedule that breaks %q, got: %v", test.broken, err)
				default:
					t.Logf("broken by schedule %d", i)
					return
				}
			}
			if test.broken != "" {
				t.Error("no rule was broken")
			}
			if l.changed == 0 && len(test.sql) > 0 {
				t.Error("no statement has this condition any more")
			}
		})
	}
}
