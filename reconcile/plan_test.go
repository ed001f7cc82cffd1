package reconcile

import (
	"fmt"
	"testing"
	"time"
)

// Each command is tested on a claim of each status. The action that follows from a command deletes it.
func TestCommands(t *testing.T) {
	one := issueNo(1)
	statuses := map[string]func(*scene){
		"unclaimed": func(*scene) {},
		"running":   func(s *scene) { s.running(one, func(c *Claim, _ *Run) { c.Failures, c.Runs, c.Attempt = 4, 9, 5 }) },
		"ended":     func(s *scene) { s.running(one, func(_ *Claim, r *Run) { r.Outcome = Failed }) },
		"stopping":  func(s *scene) { s.running(one, func(_ *Claim, r *Run) { r.StopReason = StopInactive }) },
		"holding":   func(s *scene) { s.running(one, func(c *Claim, _ *Run) { c.HoldNext = true }) },
		"waiting": func(s *scene) {
			s.claim(one, func(c *Claim) { c.Attempt, c.Failures, c.Runs, c.DueAt = 5, 4, 9, noon.Add(time.Minute) })
		},
		"capped":   func(s *scene) { s.held(one, HoldMaxFailures) },
		"operator": func(s *scene) { s.held(one, HoldOperator) },
	}
	for _, row := range []struct {
		verb         Verb
		status       string
		story, state string
	}{
		{VerbStop, "unclaimed", "hold A-1 operator", "held operator"},
		{VerbStop, "running", "stop A-1 operator", "running #5 failures=4 runs=9 then held"},
		{VerbStop, "ended", "settle A-1 failed; hold A-1 operator", "held operator failures=1 runs=1"},
		{VerbStop, "stopping", "hold A-1 operator", "running #1 runs=1 then held"},
		{VerbStop, "holding", "stop A-1 operator", "running #1 runs=1 then held"},
		{VerbStop, "waiting", "hold A-1 operator", "held operator failures=4 runs=9"},
		{VerbStop, "capped", "hold A-1 operator", "held operator"},
		{VerbStop, "operator", "hold A-1 operator", "held operator"},

		{VerbHold, "unclaimed", "hold A-1 operator", "held operator"},
		{VerbHold, "running", "hold A-1 operator", "running #5 failures=4 runs=9 then held"},
		{VerbHold, "ended", "settle A-1 failed; hold A-1 operator", "held operator failures=1 runs=1"},
		{VerbHold, "stopping", "hold A-1 operator", "running #1 runs=1 then held"},
		{VerbHold, "waiting", "hold A-1 operator", "held operator failures=4 runs=9"},
		{VerbHold, "capped", "hold A-1 operator", "held operator"},

		{VerbRetry, "unclaimed", "", "unclaimed"},
		{VerbRetry, "running", "retry A-1 operator", "running #1"},
		{VerbRetry, "ended", "settle A-1 failed; retry A-1 operator", "retry requested #1 in 0s"},
		{VerbRetry, "holding", "retry A-1 operator", "running #1"},
		{VerbRetry, "waiting", "retry A-1 operator", "retry requested #1 in 0s"},
		{VerbRetry, "capped", "retry A-1 operator", "retry requested #1 in 0s"},
		{VerbRetry, "operator", "retry A-1 operator", "retry requested #1 in 0s"},

		{VerbStopAll, "unclaimed", "", "unclaimed"},
		{VerbStopAll, "running", "stop A-1 operator_all", "running #5 failures=4 runs=9"},
		{VerbStopAll, "ended", "settle A-1 failed", "retry backoff #2 in 20s failures=1 runs=1"},
		{VerbStopAll, "stopping", "", "running #1 runs=1"},
		{VerbStopAll, "waiting", "", "retry backoff #5 in 1m0s failures=4 runs=9"},
		{VerbStopAll, "operator", "", "held operator"},
	} {
		t.Run(string(row.verb)+" "+row.status, func(t *testing.T) {
			s := newScene()
			statuses[row.status](s)
			p := compute(s.command(row.verb, one).Snapshot)
			equal(t, "plan", story(p.plan), row.story)
			equal(t, "claim", state(p, one), row.state)
			equal(t, "consumed", fmt.Sprint(consumed(p.plan)), "[1]")
			equal(t, "paused", p.s.Paused, row.verb == VerbStopAll)
		})
	}
}

func TestPauseAndResume(t *testing.T) {
	for _, row := range []struct {
		verbs  []Verb
		paused bool
		want   string
	}{
		{nil, true, "skip A-1 paused"},
		{[]Verb{VerbPause}, false, "skip A-1 paused"},
		{[]Verb{VerbResume}, true, "dispatch A-1"},
		{[]Verb{VerbPause, VerbResume}, false, "dispatch A-1"},
		{[]Verb{VerbStopAll, VerbResume}, false, "dispatch A-1"},
		{[]Verb{VerbResume, VerbPause}, true, "skip A-1 paused"},
	} {
		s := newScene().candidates(issueNo(1))
		s.Paused = row.paused
		for _, v := range row.verbs {
			s.command(v, Issue{})
		}
		plan := Compute(s.Snapshot)
		equal(t, fmt.Sprint(row.verbs), story(plan), row.want)
		equal(t, "consumed", len(consumed(plan)), len(row.verbs))
	}
	t.Run("a pause leaves due retries due and running work alone", func(t *testing.T) {
		s := newScene().running(issueNo(1), nil).claim(issueNo(2), nil).same().candidates()
		s.Paused = true
		equal(t, "plan", story(Compute(s.Snapshot)), "")
	})
}

// A pass confined to one issue changes no other, but carries out commands that concern all issues.
func TestOnly(t *testing.T) {
	scene := func() *scene {
		s := newScene().running(issueNo(1), nil).running(issueNo(2), func(_ *Claim, r *Run) { r.Outcome = Failed }).
			claim(issueNo(3), nil).claim(issueNo(4), nil).answer(issueNo(3), issueNo(4)).candidates(issueNo(5))
		s.Only = "id-3"
		return s
	}
	equal(t, "plan", story(Compute(scene().Snapshot)), "dispatch A-3 backoff")

	plan := Compute(scene().command(VerbHold, issueNo(3)).command(VerbHold, issueNo(4)).Snapshot)
	equal(t, "commands", story(plan), "hold A-3 operator")
	equal(t, "consumed", fmt.Sprint(consumed(plan)), "[1]")

	plan = Compute(scene().command(VerbStopAll, Issue{}).Snapshot)
	equal(t, "stop --all", story(plan), "stop A-1 operator_all")
	equal(t, "consumed", fmt.Sprint(consumed(plan)), "[1]")
}
