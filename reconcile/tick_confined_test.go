package reconcile

import (
	"context"
	"slices"
	"strings"
	"testing"
)

// counting counts what a pass reads and lists whose workers it looks at.
type counting struct {
	*world
	reads  int
	probed []string
}

func (c *counting) State(ctx context.Context) (State, error) {
	c.reads++
	return c.world.State(ctx)
}

func (c *counting) Probe(ctx context.Context, run Run) Liveness {
	if !slices.Contains(c.probed, run.ID) {
		c.probed = append(c.probed, run.ID)
	}
	return c.world.Probe(ctx, run)
}

func (c *counting) tick(t *testing.T, p Policy, o Options) Report {
	t.Helper()
	deps := c.deps(p)
	deps.Store, deps.Runners = c, c
	report := Tick(t.Context(), deps, o)
	c.noWrong(t)
	equal(t, "errors", codes(report), "")
	return report
}

// A pass confined to one issue looks at that one's worker only: what else has died is another pass's business.
func TestConfinedLooksAtItsOwn(t *testing.T) {
	for only, want := range map[string]string{"id-2": "run-A-2", "nothing": "", "": "run-A-1 run-A-2"} {
		s := newScene().running(issueNo(1), nil).running(issueNo(2), nil).same()
		c := &counting{world: worldOf(s.Snapshot)}
		c.workers["run-A-1"].alive = false
		report := c.tick(t, s.Policy, Options{Only: only})
		equal(t, only+": looked at", strings.Join(c.probed, " "), want)
		equal(t, only+": reaped", len(report.Applied) > 0, only == "")
	}
}

// What is stored is read again after it was changed, and after a wait during which a worker may have changed it.
func TestReadsOnce(t *testing.T) {
	for name, row := range map[string]struct {
		s    *scene
		o    Options
		deaf bool // there is no tracker
		want int
	}{
		"nothing to do":                        {newScene().held(issueNo(1), HoldOperator).same(), Options{}, false, 1},
		"a command, no tracker":                {newScene().held(issueNo(1), HoldOperator).command(VerbPause, issueNo(1)), Options{}, true, 2},
		"a command, and the tracker":           {newScene().held(issueNo(1), HoldOperator).same().command(VerbRetry, issueNo(1)), Options{DispatchOff: true}, false, 2},
		"a worker, and the tracker":            {newScene().running(issueNo(1), nil).same(), Options{}, false, 2},
		"a worker of another issue":            {newScene().running(issueNo(1), nil).held(issueNo(2), HoldOperator).same(), Options{Only: "id-2"}, false, 1},
		"a worker that has died, in a dry run": {newScene().running(issueNo(1), nil).same().dead(issueNo(1), 0), Options{DryRun: true}, false, 2},
		"a release by the tracker's answer":    {newScene().held(issueNo(1), HoldOperator).answer(issueNo(1, inState("Done"))), Options{}, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := &counting{world: worldOf(row.s.Snapshot)}
			deps := c.deps(row.s.Policy)
			deps.Store, deps.Runners = c, c
			if row.deaf {
				deps.Tracker = nil
			}
			Tick(t.Context(), deps, row.o)
			c.noWrong(t)
			equal(t, "reads", c.reads, row.want)
		})
	}
}
