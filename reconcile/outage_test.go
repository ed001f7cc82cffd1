package reconcile

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A tracker that is dead for 8 hours costs nothing but time: no failure, no attempt, no hold. The first pass that gets an
// answer sets everything going again. That it happens time after time changes nothing.
func TestTrackerDeadForHours(t *testing.T) {
	const claims = 20
	s := newScene()
	s.Policy.MaxConcurrent = claims
	for n := 1; n <= claims; n++ {
		if i := issueNo(n); n <= claims/2 {
			s.running(i, nil)
		} else {
			s.claim(i, func(c *Claim) { c.DueAt = noon.Add(time.Duration(n) * time.Second) })
		}
	}
	w := worldOf(s.same().Snapshot)
	for outage := range 4 {
		began := w.now
		w.refused, w.hidden = errTracker, errTracker
		for ; w.now.Sub(began) < 8*time.Hour; w.now = w.now.Add(time.Minute) {
			for n := 1; n <= claims; n++ {
				i := issueNo(n)
				r := w.runOf(i)
				switch since := w.now.Sub(began); {
				case r.ID == "" || !w.workers[r.ID].alive:
				case n%4 == 0 && since >= time.Minute: // had just begun, and can't know whether the issue is still to be worked on
					w.ends(i, Failed, "linear_api_request")
				case since >= 16*time.Minute: // ends between two turns
					w.ends(i, InterruptedRun, "tracker_unavailable")
				}
			}
			report := tickOnce(t, w, s.Policy, Options{})
			equal(t, "errors", codes(report), "linear_api_request")
			for _, a := range report.Applied {
				if a.Kind != ActSettle {
					t.Fatalf("outage %d, after %v: %v", outage, w.now.Sub(began), a)
				}
			}
			equal(t, "held", report.Held, 0)
		}
		equal(t, "blocked", w.trackerBlock != nil, true)
		w.refused, w.hidden = nil, nil
		report := tickOnce(t, w, s.Policy, Options{})
		equal(t, "errors", codes(report), "")
		equal(t, "running", report.Running, claims)
		equal(t, "blocked", w.trackerBlock != nil, false)
		for n := 1; n <= claims; n++ {
			w.mustBe(t, issueNo(n), "running #1 runs=1")
		}
		w.now = w.now.Add(time.Minute)
	}
}

// Two late answers cost a pass the time of one, and nothing else: what runs goes on, what is due starts.
func TestTrackerAnswersLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene().running(issueNo(1), nil).claim(issueNo(2), nil).held(issueNo(3), HoldMaxRuns).same()
		w := worldOf(s.Snapshot)
		w.issues[issueNo(4).ID] = issueNo(4)
		deps := w.deps(s.Policy)
		deps.Tracker.Tracker = late{w, 29 * time.Second}
		began := time.Now()
		report := Tick(t.Context(), deps, Options{})
		equal(t, "took", time.Since(began), 29*time.Second)
		equal(t, "plan", w.story(report), "dispatch A-2 backoff; dispatch A-4")
		equal(t, "errors", codes(report), "")
	})
}

// late is a tracker that takes its time.
type late struct {
	*world
	after time.Duration
}

func (l late) ByIDs(ctx context.Context, ids []string) (map[string]Issue, error) {
	time.Sleep(l.after)
	return l.world.ByIDs(ctx, ids)
}

func (l late) Candidates(ctx context.Context, states []string) ([]Issue, error) {
	time.Sleep(l.after)
	return l.world.Candidates(ctx, states)
}

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
