package state

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
)

// This file explores the orders in which processes may act on one state. They run the real reconcile.Tick and the real
// methods of DB, on SQLite in memory. Around them is a model (interleave_model_test.go, interleave_pass_test.go,
// interleave_worker_test.go): locks that are released when their holder ends, workers, agents, a tracker. The rules are in
// interleave_oracle_test.go.
//
// An actor is a process. Before each action that another actor can see or that depends on another, it stops in step, and
// the schedule decides which actor continues. Only one runs at a time, so a schedule is a list of choices and can be
// repeated. A method of DB is one step because its writes are one transaction: a death before its commit leaves the same
// as a death before the step.
//
// explore goes through all schedules of a scene, depth first, each from the start. It stops at a place that was reached
// before (same rows, locks, processes, and every actor with the same past), because what can follow is known.

// actor is one process of a schedule.
type actor struct {
	*schedule
	name string
	body func(*actor)
	op   string // the next step
	// patient is set where the next step is a bounded wait; it reports whether the wait is over.
	patient func() bool

	gate    chan verdict
	turn    chan struct{} // receives when the actor has stopped again or ended
	started bool
	over    bool
	dead    bool // killed: its goroutines end at their next step
	// acted reports whether the last step was visible: a death after an invisible step equals a death before it.
	acted bool
	past  maphash.Hash
}

type verdict int

const (
	goOn verdict = iota
	inVain
	die
)

// choice is one thing that may happen next.
type choice struct {
	actor *actor
	what  verdict
}

// schedule is one order of steps, and the world in which it is played.
type schedule struct {
	*model
	actors []*actor
	seed   maphash.Seed
	// faults is how many deaths and timeouts may still happen.
	faults int
	told   []string
	tape   tape
}

// tape records the answers of the database, so that a known path can be replayed without it.
type tape struct {
	answers []any
	next    int
	playing bool
}

// answered is an answer of the database or of the tape. Every access to the database goes through it.
func answered[T any](t *tape, f func() (T, error)) (T, error) {
	type both struct {
		v   T
		err error
	}
	if t.playing {
		b := t.answers[t.next].(both)
		t.next++
		return b.v, b.err
	}
	v, err := f()
	t.answers = append(t.answers, both{v, err})
	return v, err
}

// enter adds an actor, which waits until it is chosen.
func (s *schedule) enter(name string, body func(*actor)) *actor {
	a := &actor{schedule: s, name: name, body: body, op: "begin", gate: make(chan verdict), turn: make(chan struct{})}
	a.past.SetSeed(s.seed)
	s.actors = append(s.actors, a)
	return a
}

// step stops until the schedule lets this actor continue; false where a bounded wait timed out.
func (a *actor) step(op string) bool { return a.await(op, nil) }

func (a *actor) await(op string, ready func() bool) bool {
	if a.dead {
		runtime.Goexit()
	}
	a.op, a.patient = op, ready
	a.turn <- struct{}{}
	v := <-a.gate
	if v == die {
		runtime.Goexit()
	}
	a.acted = false
	a.learn(op, v)
	return v == goOn
}

// learn adds what the actor found out to its past, on which everything that it does later depends.
func (a *actor) learn(what ...any) { fmt.Fprintln(&a.past, what...) }

// forget reduces the past of an actor that starts again from what it reads now.
func (a *actor) forget(but ...any) {
	a.past.Reset()
	a.learn(but...)
}

// choices lists what may happen now: the actors in the order in which they came, then their deaths.
func (s *schedule) choices() (all []choice) {
	for _, a := range s.actors {
		if !a.over && (a.patient == nil || a.patient()) {
			all = append(all, choice{a, goOn})
		}
	}
	if s.faults == 0 {
		return all
	}
	for _, a := range s.actors {
		switch {
		case a.over:
		case a.patient != nil && !a.patient():
			all = append(all, choice{a, inVain})
		}
		if !a.over && (a.acted || !a.started) && !a.immortal() {
			all = append(all, choice{a, die})
		}
	}
	return all
}

// immortal reports actors whose death is not interesting: orphans that are about to end.
func (a *actor) immortal() bool { return strings.HasPrefix(a.name, "orphan") }

// take carries a choice out and returns when the actor has reached its next step or its end.
func (s *schedule) take(c choice) {
	a := c.actor
	s.told = append(s.told, fmt.Sprintf("%s: %s%s", a.name, a.op, [...]string{"", ", in vain", ", KILLED"}[c.what]))
	if c.what != goOn {
		s.faults--
		s.calm = false
	}
	if c.what == die {
		s.kill(a)
		return
	}
	a.resume(c.what)
	if a.over {
		s.gone(a)
	}
}

func (a *actor) resume(v verdict) {
	if a.started {
		a.gate <- v
	} else {
		a.started = true
		go func() {
			defer func() { a.over = true; a.turn <- struct{}{} }()
			a.body(a)
		}()
	}
	<-a.turn
}

// kill ends an actor at its present step, as SIGKILL does.
func (s *schedule) kill(a *actor) {
	if a.over {
		return
	}
	a.dead = true
	if a.started {
		a.resume(die)
	}
	a.over = true
	s.gone(a)
}

// abandon ends the actors of a schedule that is over.
func (s *schedule) abandon() {
	for _, a := range s.actors {
		if a.started && !a.over {
			a.dead = true
			a.resume(die)
		}
	}
}

// place identifies a state by what can follow it.
func (s *schedule) place() uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	fmt.Fprintln(&h, s.rowsNow().text, s.String(), s.faults)
	for _, a := range s.actors {
		if !a.over {
			fmt.Fprintln(&h, a.name, a.op, a.started, a.acted, a.past.Sum64())
		}
	}
	return h.Sum64()
}

// explorer goes through the schedules of one scene.
type explorer struct {
	lab    *lab
	scene  scene
	seed   maphash.Seed
	known  map[uint64]bool
	ends   map[string]bool
	path   []fork
	tape   []any
	played int
}

// fork is a choice that was made among several.
type fork struct {
	chosen, of int
	// What there was before it.
	place   uint64
	answers int
	base    []byte // the database
}

// explore plays every schedule of the scene and returns how many it took, or the first that broke a rule.
func explore(l *lab, sc scene) (played int, err error) {
	e := &explorer{lab: l, scene: sc, seed: maphash.MakeSeed(), known: map[uint64]bool{}, ends: map[string]bool{}}
	for {
		e.played++
		if err := e.play(); err != nil {
			return e.played, err
		}
		for len(e.path) > 0 && e.path[len(e.path)-1].chosen+1 == e.path[len(e.path)-1].of {
			e.path = e.path[:len(e.path)-1]
		}
		if len(e.path) == 0 {
			return e.played, nil
		}
		e.path[len(e.path)-1].chosen++
	}
}

// play replays the path and continues from its end to a place that was explored before.
func (e *explorer) play() error {
	s := e.lab.begin(e.scene, e.seed, tape{answers: e.tape, playing: len(e.path) > 0})
	defer s.abandon()
	defer func() { e.tape = s.tape.answers }()
	for i, f := range e.path {
		if i == len(e.path)-1 {
			s.tape = tape{answers: slices.Clip(e.tape[:f.answers])}
			s.restore(f.base)
			if s.place() != f.place {
				return s.broken("played again it took another way: the explorer is broken")
			}
			if err := s.look(); err != nil {
				return err
			}
		}
		s.take(s.choices()[f.chosen])
	}
	for {
		if err := s.look(); err != nil {
			return err
		}
		here := s.place()
		if e.known[here] {
			return nil
		}
		e.known[here] = true
		all := s.choices()
		if len(all) == 0 {
			return e.end(s)
		}
		e.path = append(e.path, fork{of: len(all), place: here, answers: len(s.tape.answers), base: s.copy()})
		s.take(all[0])
	}
}

// end checks what is left when all actors are gone, once for all schedules that leave the same.
func (e *explorer) end(s *schedule) error {
	left := s.rowsNow().text + s.String()
	if e.ends[left] {
		return nil
	}
	e.ends[left] = true
	return s.settleDown()
}

// wander plays n random schedules of crowds and returns the first that broke a rule.
func wander(l *lab, seed uint64, n int) error {
	for i := range n {
		dice := rand.New(rand.NewPCG(seed, uint64(i)))
		if err := wanderOnce(l, crowd(dice), dice); err != nil {
			return fmt.Errorf("seed %d, schedule %d: %w", seed, i, err)
		}
	}
	return nil
}

func wanderOnce(l *lab, sc scene, dice *rand.Rand) error {
	s := l.begin(sc, maphash.MakeSeed(), tape{})
	defer s.abandon()
	for {
		if err := s.look(); err != nil {
			return err
		}
		all := s.choices()
		if len(all) == 0 {
			return s.settleDown()
		}
		// Deaths are rare.
		if calm := slices.DeleteFunc(slices.Clone(all), func(c choice) bool { return c.what != goOn }); len(calm) > 0 && dice.IntN(8) > 0 {
			all = calm
		}
		s.take(all[dice.IntN(len(all))])
	}
}

// broken reports a broken rule with the steps that led to it.
func (s *schedule) broken(format string, args ...any) error {
	return fmt.Errorf("%s\nafter:\n  %s\nrows:\n  %s", fmt.Sprintf(format, args...), strings.Join(s.told, "\n  "),
		strings.Join(s.rowsNow().lines(), "\n  "))
}

// scene is where schedules begin.
type scene struct {
	name   string
	faults int
	setUp  func(*schedule)
}
