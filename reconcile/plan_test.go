package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Each command is tested on a claim of each status. The action that follows from a command
// deletes it.
func TestCommands(t *testing.T) {
	one := issueNo(1)
	statuses := map[string]func(*scene){
		"unclaimed": func(*scene) {},
		"running": func(s *scene) {
			s.running(one, func(c *Claim, _ *Run) {
				c.Failures = 4
				c.Runs = 9
				c.Attempt = 5
			})
		},
		"ended":    func(s *scene) { s.running(one, func(_ *Claim, r *Run) { r.Outcome = Failed }) },
		"stopping": func(s *scene) { s.running(one, func(_ *Claim, r *Run) { r.StopReason = StopInactive }) },
		"holding":  func(s *scene) { s.running(one, func(c *Claim, _ *Run) { c.HoldNext = true }) },
		"waiting": func(s *scene) {
			s.claim(one, func(c *Claim) {
				c.Attempt = 5
				c.Failures = 4
				c.Runs = 9
				c.DueAt = noon.Add(time.Minute)
			})
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
		{VerbStop, "operator", "hold A-1 operator", "held operator"},

		{VerbHold, "unclaimed", "hold A-1 operator", "held operator"},
		{VerbHold, "running", "hold A-1 operator", "running #5 failures=4 runs=9 then held"},
		{VerbHold, "waiting", "hold A-1 operator", "held operator failures=4 runs=9"},

		{VerbRetry, "unclaimed", "", "unclaimed"},
		{VerbRetry, "running", "retry A-1 operator", "running #1"},
		{VerbRetry, "ended", "settle A-1 failed; retry A-1 operator", "retry requested #1 in 0s"},
		{VerbRetry, "holding", "retry A-1 operator", "running #1"},
		{VerbRetry, "waiting", "retry A-1 operator", "retry requested #1 in 0s"},
		{VerbRetry, "operator", "retry A-1 operator", "retry requested #1 in 0s"},

		{VerbStopAll, "running", "stop A-1 operator_all", "running #5 failures=4 runs=9"},
		{VerbStopAll, "stopping", "", "running #1 runs=1"},
		{VerbStopAll, "waiting", "", "retry backoff #5 in 1m0s failures=4 runs=9"},

		{VerbUnblock, "running", "", "running #5 failures=4 runs=9"},
		{VerbUnblock, "ended", "settle A-1 failed", "retry backoff #2 in 0s failures=1 runs=1"},
		{VerbUnblock, "waiting", "", "retry backoff #5 in 0s failures=4 runs=9"},
		{VerbUnblock, "capped", "", "held max_failures"},

		{VerbResume, "waiting", "", "retry backoff #5 in 0s failures=4 runs=9"},
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

// After a repair nothing has to wait: resume and a changed workflow end a block, and a fault
// of a run that began earlier does not block again. The commands retry and run start their own
// issue in spite of a block, but no other one.
func TestRepaired(t *testing.T) {
	const wait = 9 * time.Minute
	blocked := func() *scene {
		s := newScene().candidates(issueNo(3))
		s.AgentBlock = &Block{
			Code:    "codex_not_found",
			Message: "old",
			Since:   noon.Add(-time.Hour),
			NextTry: noon.Add(wait),
			Tries:   7,
		}
		s.TrackerBlock = &Block{Code: "tracker_rate_limited", NextTry: noon.Add(wait)}
		return s
	}
	asked := func(c *Claim) {
		c.Kind = Requested
		c.Wanted = true
	}
	spent := func(s *Snapshot) {
		s.Policy.DailyBudget = DailyBudget{Tokens: 1000, Written: "1k tokens"}
		s.Today = []ModelUse{{"m", Tokens{Total: 600}}, {"n", Tokens{Total: 400}}}
	}
	for _, row := range []struct {
		rule string
		s    *scene
		want string
	}{
		{"blocked", blocked().claim(issueNo(2), nil).same(), "skip A-3 blocked"},
		{
			"unblock",
			blocked().claim(issueNo(2), nil).same().command(VerbUnblock, Issue{}),
			"dispatch A-2 backoff; dispatch A-3",
		},
		{
			"resume",
			blocked().claim(issueNo(2), nil).same().command(VerbResume, Issue{}).edit(func(s *Snapshot) {
				s.Paused = true
			}),
			"dispatch A-2 backoff; dispatch A-3",
		},
		{
			"unblock in a pause",
			newScene().candidates(issueNo(3)).command(VerbUnblock, Issue{}).edit(func(s *Snapshot) {
				s.Paused = true
			}),
			"skip A-3 paused",
		},
		{"retry", blocked().claim(issueNo(2), asked).same(), "dispatch A-2 probe; skip A-3 blocked"},
		{
			"retry of two",
			blocked().claim(issueNo(1), asked).claim(issueNo(2), asked).same(),
			"dispatch A-1 probe; dispatch A-2 probe; skip A-3 blocked",
		},
		{"run", blocked().edit(func(s *Snapshot) {
			s.Only = []string{"id-3"}
			s.AtOnce = true
		}), "dispatch A-3 probe"},
		{
			"run in a backoff",
			newScene().claim(issueNo(2), func(c *Claim) { c.DueAt = noon.Add(wait) }).same().candidates().
				edit(func(s *Snapshot) {
					s.Only = []string{"id-2"}
					s.AtOnce = true
				}),
			"dispatch A-2 backoff",
		},
		{
			"the day's budget is used up",
			newScene().claim(issueNo(2), nil).same().candidates(issueNo(3)).edit(spent),
			"skip A-3 budget",
		},
		{
			"retry in spite of the budget",
			newScene().claim(issueNo(2), asked).same().candidates(issueNo(3)).edit(spent),
			"dispatch A-2 requested; skip A-3 budget",
		},
		{"run in spite of the budget", newScene().candidates(issueNo(3)).edit(spent).
			edit(func(s *Snapshot) {
				s.Only = []string{"id-3"}
				s.AtOnce = true
			}), "dispatch A-3"},
		{"run while the project is paused", blocked().edit(func(s *Snapshot) {
			s.Only = []string{"id-3"}
			s.AtOnce = true
			s.Paused = true
		}), "skip A-3 paused"},
	} {
		p := compute(row.s.Snapshot)
		equal(t, row.rule, story(p.plan), row.want)
		equal(t, row.rule+": an obstacle", p.plan.Obstacle != nil, !strings.Contains(row.want, "dispatch"))
		if row.rule == "unblock" || row.rule == "resume" {
			equal(t, "blocks", p.s.AgentBlock == nil && p.s.TrackerBlock == nil, true)
		}
	}
	// A run that met the fault before it was repaired does not block again; a later one does.
	for began, want := range map[time.Duration]bool{-time.Minute: false, 0: true} {
		s := newScene().running(issueNo(1), func(_ *Claim, r *Run) {
			r.Outcome = Failed
			r.ErrorCode = "codex_not_found"
			r.StartedAt = noon.Add(-time.Second).Add(began)
		})
		s.Unblocked = noon.Add(-time.Second)
		equal(t, fmt.Sprint("blocked by a run of ", began), compute(s.Snapshot).s.AgentBlock != nil, want)
	}
}

// A retry starts in spite of a used-up budget, also if it first has to wait for a slot.
func TestRetryWithoutSlot(t *testing.T) {
	one := issueNo(1)
	s := newScene().held(one, HoldMaxRuns).running(issueNo(2), nil).same().command(VerbRetry, one).candidates()
	s.Policy.MaxConcurrent = 1
	s.Policy.DailyBudget = DailyBudget{Tokens: 1000, Written: "1k tokens"}
	s.Today = []ModelUse{{"m", Tokens{Total: 1000}}}
	first := compute(s.Snapshot)
	equal(t, "all slots are taken", story(first.plan), "retry A-1 operator; retry A-1 no_slot")
	s.Claims = first.remaining()
	s.Commands = nil
	s.Policy.MaxConcurrent = 2
	next := compute(s.Snapshot)
	equal(t, "a slot is free", story(next.plan), "dispatch A-1 no_slot")
	equal(t, "wanted again", next.claims[one.ID].Wanted, false)
}

// A pass that starts nothing reports why, until when, and what tests whether it is over.
func TestObstacle(t *testing.T) {
	block := func(s *Snapshot) {
		s.AgentBlock = &Block{
			Code:    "network",
			Message: "x",
			Since:   noon.Add(-time.Hour),
			NextTry: noon.Add(time.Minute),
		}
	}
	for want, edit := range map[string]func(*Snapshot){
		"": func(s *Snapshot) {
			s.Policy.DailyBudget = DailyBudget{Tokens: 1000}
			s.Today = []ModelUse{{Tokens: Tokens{Total: 999}}}
		},
		"paused: the project is paused":   func(s *Snapshot) { s.Paused = true },
		"blocked: network: x until 12:01": block,
		"blocked: network: x until 12:00, A-7": func(s *Snapshot) {
			block(s)
			s.AgentBlock.NextTry = noon
			probe := newScene().running(issueNo(7), nil)
			s.Claims = probe.Claims
			s.Runs = probe.Runs
			s.Liveness = probe.Liveness
		},
		"rate_limited: the primary limit of  is used up until 13:00 until 13:00": func(s *Snapshot) {
			s.Accounts = []Account{{Limit: &Limit{Window: "primary", Until: noon.Add(time.Hour)}}}
		},
		"budget: budget of 1k tokens a day used up until 3 Mar 00:00 until 00:00": func(s *Snapshot) {
			s.Policy.DailyBudget = DailyBudget{Tokens: 1000, Written: "1k tokens"}
			s.Today = []ModelUse{{Tokens: Tokens{Total: 1000}}}
		},
		"disk_low: /w has 1.0 MiB free, less than workspace.min_free_bytes (2.0 GiB)": func(s *Snapshot) { s.FreeBytes = 1 << 20 },
	} {
		for _, off := range []bool{false, true} {
			s := newScene().candidates().edit(edit)
			s.DispatchOff = off
			got := ""
			if o := Compute(s.Snapshot).Obstacle; o != nil {
				got = o.Reason + ": " + o.Message
				if !o.Until.IsZero() {
					got += " until " + o.Until.Format("15:04")
				}
				if o.Tester != "" {
					got += ", " + o.Tester
				}
			}
			equal(t, "obstacle", got, want)
		}
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

// A pass confined to one issue changes no other, but carries out commands that concern all
// issues.
func TestOnly(t *testing.T) {
	scene := func() *scene {
		s := newScene().running(issueNo(1), nil).
			running(issueNo(2), func(_ *Claim, r *Run) { r.Outcome = Failed }).
			claim(issueNo(3), nil).
			claim(issueNo(4), nil).
			answer(issueNo(3), issueNo(4)).
			candidates(issueNo(5))
		s.Only = []string{"id-3"}
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
