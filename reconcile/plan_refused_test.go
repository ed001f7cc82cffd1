package reconcile

import "testing"

// A dead worker that left word why it did not begin, or could not store how it ended: that is the machine's fault. Only
// where nothing could be begun is dispatch blocked, for the rest is over by the time that it is settled.
func TestRefused(t *testing.T) {
	one := issueNo(1)
	for _, row := range []struct {
		rule    string
		run     func(*Run)
		code    string
		message string
		blocks  bool
		due     string // with nothing blocked a run that is lost time after time must not be started without a pause
	}{
		{"did not begin", func(r *Run) { r.Phase = Starting }, "disk_full", "failed to spawn agent", true, "0s"},
		{"no process for it", func(r *Run) { r.Phase = Starting }, CodeResourceLimit, "failed to spawn agent", true, "0s"},
		{"could not store its outcome", func(*Run) {}, "state_replaced", "its worker could not store how it ended", false, "10s"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			s := newScene().running(one, func(c *Claim, r *Run) {
				row.run(r)
				c.Failures, c.Interruptions = 9, 2
			}).dead(one, 0)
			s.Liveness["run-"+one.Identifier] = Liveness{Refused: row.code}
			p := compute(s.Snapshot)
			reap := p.plan.Actions[0]
			equal(t, "outcome", reap.Outcome, Lost)
			equal(t, "code", reap.Reason, row.code)
			equal(t, "message", p.claims[one.ID].ErrorMessage, row.message)
			equal(t, "claim", state(p, one), "retry blocked #1 in "+row.due+" failures=9 interruptions=2")
			equal(t, "blocks dispatch", p.s.AgentBlock != nil, row.blocks)
		})
	}
	t.Run("a reboot explains more", func(t *testing.T) {
		s := newScene().running(one, func(_ *Claim, r *Run) { r.Worker.Boot = "boot-1" }).dead(one, 0)
		s.Liveness["run-"+one.Identifier] = Liveness{Refused: "disk_full"}
		equal(t, "code", compute(s.Snapshot).plan.Actions[0].Reason, CodeRebooted)
	})
}
