package team

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// searchDepth is how many steps the state search takes at most, searchStates how many different worlds
// it visits, which takes a few seconds.
const (
	searchDepth  = 12
	searchStates = 4_000
)

// TestStateSearch takes every order of steps of two machines, breadth first: pushes that arrive, that
// are cut or whose answers are late or lost, time and boots. Never do both machines work at once,
// never does one deliver without the claim, and from every state each of them gets the issue if the
// other one is gone.
func TestStateSearch(t *testing.T) {
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
		if len(n.path) == searchDepth {
			continue
		}
		for _, s := range n.w.steps() {
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
				if next.isStuck(at) {
					t.Fatalf("machine %d alone never gets the issue:\n  %s", at, strings.Join(path, "\n  "))
				}
			}
			queue = append(queue, node{next, path})
		}
	}
	t.Logf("%d worlds, up to %d steps", len(seen), deepest)
}

// TestThreeMachines lets three machines take a hundred steps at random, with the same rules. If a person
// deletes the claim, two may work at once, but the issue is never stuck.
func TestThreeMachines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(3)
		steps := w.steps()
		if rapid.Bool().Draw(t, "a person deletes claims") {
			steps = append(steps, release)
		}
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
			if w.isStuck(at) {
				t.Fatalf("machine %d alone never gets the issue", at)
			}
		}
	})
}
