package reconcile

import (
	"context"
	"testing"
)

// ending is a world in which a worker ends its run between two looks: at the database, where it has just written its
// outcome, and at its processes.
type ending struct {
	*world
	probes int // until then
}

func (e *ending) Probe(ctx context.Context, run Run) Liveness {
	if e.probes--; e.probes == 0 {
		r := e.runs[run.ID]
		r.Outcome, r.Phase, r.EndedAt = Succeeded, Finishing, e.now
		e.runs[run.ID] = r
		e.workers[run.ID].alive = false
	}
	return e.world.Probe(ctx, run)
}

// A run that ends while a pass looks is one that has ended, and not one whose worker was lost: it keeps nobody from
// being started.
func TestEndsWhileAPassLooks(t *testing.T) {
	for look := 1; look <= 3; look++ {
		s := newScene().running(issueNo(1), nil).same().candidates(issueNo(2))
		w := worldOf(s.Snapshot)
		deps := w.deps(s.Policy)
		deps.Runners = &ending{w, look}
		report := Tick(t.Context(), deps, Options{})
		w.noWrong(t)
		equal(t, "errors", codes(report), "")
		for _, done := range report.Applied {
			equal(t, "error of "+string(done.Kind), done.Err, nil)
			if done.Kind == ActReap {
				t.Errorf("look %d: it was reaped", look)
			}
		}
		w.mustBe(t, issueNo(2), "running #0 runs=1")
		if r := w.runs["run-A-1"]; look < 3 && (r.Outcome != Succeeded || !r.Settled) {
			t.Errorf("look %d: the run is %+v", look, r)
		}
	}
}
