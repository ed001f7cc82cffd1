package reconcile

import (
	"testing"
)

// While the agent's side is blocked one run at a time is tried. An issue that meets the fault each time, because it is its
// own work that fills the disk for instance, does not keep the others from being tried, wherever it stands in the order.
func TestProbesTakeTurns(t *testing.T) {
	s := newScene()
	for n := 1; n <= 3; n++ {
		s.claim(issueNo(n, priority(n)), nil)
	}
	w := worldOf(s.same().Snapshot)
	tried := map[int]int{}
	for range 20 {
		tickOnce(t, w, s.Policy, Options{})
		for n := 1; n <= 3; n++ {
			if i := issueNo(n); w.workers[w.runOf(i).ID] != nil && w.workers[w.runOf(i).ID].alive {
				tried[n]++
				w.ends(i, Failed, "disk_full")
			}
		}
		w.now = w.now.Add(longestProbe)
	}
	if tried[1] == 0 || tried[2] < tried[1]-1 || tried[3] < tried[1]-1 {
		t.Errorf("tried: %v", tried)
	}
}
