package team

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// searchStates is how many different worlds a state search visits, which takes a few seconds: those after
// up to four or five steps.
const searchStates = 4_000

var (
	quarterTerm = pass("a quarter of a term", terms.Term/4)
	aTerm       = pass("a term", terms.Term)
	aWatch      = pass("a day", terms.Watch+Grace(terms.Watch))
)

// both are the steps of two machines.
func both(steps func(at int) []step, more ...step) []step {
	return append(append(steps(0), steps(1)...), more...)
}

// stepsOfTwo are what can happen to two machines. Everything at once would be too much to search.
var stepsOfTwo = map[string][]step{
	"links": both(func(at int) []step {
		return work(at, theIssue, arrives, unheard, cut, late)
	}, quarterTerm, aTerm),
	"hanging pushes": both(func(at int) []step {
		return work(at, theIssue, arrives, hangs)
	}, quarterTerm, aTerm, land, vanish),
	"two processes": both(func(at int) []step {
		return work(at, theIssue, arrives, unheard, beside)
	}, quarterTerm, aTerm),
	"two issues": both(func(at int) []step {
		return append(work(at, theIssue, arrives, cut), work(at, anotherIssue, arrives)...)
	}, aTerm),
	"reviews": both(func(at int) []step {
		return append(work(at, theIssue, arrives), review(at, theIssue, arrives, unheard)...)
	}, quarterTerm, aTerm, aWatch),
}

// TestStateSearch takes every order of a few steps of two machines, breadth first, until it has seen
// searchStates worlds: pushes that arrive, that are cut, that hang or whose answers are late or lost, time
// and boots. TestLongRuns takes longer ways, at random. Never do both machines work on
// an issue at once, never does one deliver without the claim, and from every state each of them gets
// each issue if the other one is gone.
func TestStateSearch(t *testing.T) {
	for name, steps := range stepsOfTwo {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			search(t, steps)
		})
	}
}

func search(t *testing.T, steps []step) {
	t.Helper()
	type node struct {
		w    *world
		path []string
	}
	first := newWorld(2)
	seen := map[string]bool{first.fingerprint(): true}
	queue := []node{{w: first}}
	deepest := 0
	for len(queue) > 0 && len(seen) < searchStates {
		n := queue[0]
		queue = queue[1:]
		deepest = len(n.path)
		for _, s := range steps {
			next := n.w.clone()
			path := append(n.path[:len(n.path):len(n.path)], s.name)
			wrong := s.do(next)
			if wrong == "" {
				wrong = next.wrong()
			}
			if wrong != "" {
				t.Fatalf("%s:\n  %s", wrong, strings.Join(path, "\n  "))
			}
			id := next.fingerprint()
			if seen[id] {
				continue
			}
			seen[id] = true
			for at := range next.machines {
				for _, i := range []Issue{theIssue, anotherIssue} {
					if next.isTouched(i) && next.isStuck(at, i) {
						t.Fatalf("machine %d alone never gets %s:\n  %s", at, i.Identifier, strings.Join(path, "\n  "))
					}
				}
			}
			queue = append(queue, node{next, path})
		}
	}
	t.Logf("%d worlds, up to %d steps", len(seen), deepest)
}

// TestLongRuns lets two machines take a hundred steps at random.
func TestLongRuns(t *testing.T) {
	for name, steps := range stepsOfTwo {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) { run(t, newWorld(2), steps) })
		})
	}
}

// TestThreeMachines does the same with three machines, two issues and all steps. If a person deletes
// the claims, two may work at once, but no issue is ever stuck.
func TestThreeMachines(t *testing.T) {
	all := []answer{arrives, unheard, cut, late, hangs, beside}
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(3)
		steps := []step{quarterTerm, aTerm, aWatch, land, vanish}
		for at := range w.machines {
			for _, i := range []Issue{theIssue, anotherIssue} {
				steps = append(steps, work(at, i, all...)...)
				steps = append(steps, review(at, i, all...)...)
			}
		}
		if rapid.Bool().Draw(t, "a person deletes claims") {
			steps = append(steps, release, releaseByCommand)
		}
		run(t, w, steps)
	})
}

// run takes steps at random.
func run(t *rapid.T, w *world, steps []step) {
	for range 100 {
		s := rapid.SampledFrom(steps).Draw(t, "step")
		wrong := s.do(w)
		if wrong == "" {
			wrong = w.wrong()
		}
		if wrong != "" {
			t.Fatal(wrong)
		}
	}
	for at := range w.machines {
		for _, i := range []Issue{theIssue, anotherIssue} {
			if w.isStuck(at, i) {
				t.Fatalf("machine %d alone never gets %s", at, i.Identifier)
			}
		}
	}
}
