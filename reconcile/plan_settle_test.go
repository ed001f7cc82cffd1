package reconcile

import (
	"fmt"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
)

// The settle table: how a run ended, and what happens to its claim. Each row starts with a
// claim whose run (attempt 1) has ended now, without the tracker's answer.
func TestSettle(t *testing.T) {
	one := issueNo(1)
	ends := func(o Outcome, code string) func(*Claim, *Run) {
		return func(_ *Claim, r *Run) {
			r.Outcome = o
			r.ErrorCode = code
			r.ErrorText = "text"
		}
	}
	stopped := func(reason string) func(*Claim, *Run) {
		return func(_ *Claim, r *Run) {
			r.Outcome = Canceled
			r.StopReason = reason
			r.ErrorCode = reason
		}
	}
	and := func(edits ...func(*Claim, *Run)) func(*Claim, *Run) {
		return func(c *Claim, r *Run) {
			for _, edit := range edits {
				edit(c, r)
			}
		}
	}
	attempt := func(n int) func(*Claim, *Run) {
		return func(c *Claim, r *Run) {
			c.Attempt = n
			r.Attempt = n
		}
	}
	before := func(edit func(*Claim)) func(*Claim, *Run) { return func(c *Claim, _ *Run) { edit(c) } }
	turns := func(n int) func(*Claim, *Run) { return func(_ *Claim, r *Run) { r.TurnsDone = n } }
	progress := func(_ *Claim, r *Run) { r.Progress = true }

	for _, row := range []struct {
		rule string
		run  func(*Claim, *Run)
		want string
	}{
		// After a success the next run is due in a second, with attempt 1.
		{"succeeded with progress", and(ends(Succeeded, ""), progress), "retry continuation #1 in 1s runs=1"},
		{"succeeded, nothing changed", ends(Succeeded, ""), "retry continuation #1 in 1s idle=1 runs=1"},
		{
			"the issue's state changed: progress",
			and(ends(Succeeded, ""), before(func(c *Claim) { c.Issue.State = "Todo"; c.IdleRuns = 2 })),
			"retry continuation #1 in 1s runs=1",
		},
		{"success resets failures and interruptions", and(ends(Succeeded, ""), attempt(4), before(func(c *Claim) {
			c.Failures = 3
			c.Interruptions = 1
			c.IdleRuns = 1
		})), "retry continuation #1 in 1s idle=2 runs=1"},
		{
			"the delay counts from the run's end",
			and(ends(Succeeded, ""), progress, func(_ *Claim, r *Run) { r.EndedAt = noon.Add(-time.Minute) }),
			"retry continuation #1 in -59s runs=1",
		},
		{
			"an end in the future is now",
			and(ends(Succeeded, ""), progress, func(_ *Claim, r *Run) { r.EndedAt = noon.Add(time.Hour) }),
			"retry continuation #1 in 1s runs=1",
		},

		// A run that ends without a handover counts like a success. If a second one ends because
		// of the same refusals, the issue is held, whatever it committed meanwhile.
		{"ended, nothing changed", ends(EndedRun, ""), "retry continuation #1 in 1s idle=1 runs=1"},
		{"refused", and(ends(EndedRun, HoldRefused), progress), "retry continuation #1 in 1s runs=1"},
		{
			"refused again",
			and(ends(EndedRun, HoldRefused), progress, before(func(c *Claim) { c.ErrorCode = HoldRefused })),
			"held hand_over_refused runs=1",
		},
		{
			"its agent needs a person",
			and(ends(EndedRun, ""), func(_ *Claim, r *Run) {
				r.MovedTo = "Human Review"
				r.Delivery = DeliveryResult{Done: true, Handover: &Handover{Blocked: "Which one?", CommentAt: noon}}
			}),
			"held needs_help idle=1 runs=1",
		},

		// A failure increments the attempt and backs off: 10 s, doubled up to
		// max_retry_backoff_ms.
		{"first run failed", and(ends(Failed, "turn_failed"), attempt(0)), "retry backoff #1 in 10s failures=1 runs=1"},
		{"second", ends(Failed, "turn_failed"), "retry backoff #2 in 20s failures=1 runs=1"},
		{"lost", ends(Lost, "worker_lost"), "retry backoff #2 in 20s failures=1 runs=1"},
		{"failures add up and reset interruptions", and(ends(Failed, "port_exit"), before(func(c *Claim) {
			c.Failures = 2
			c.Interruptions = 1
		})), "retry backoff #2 in 20s failures=3 runs=1"},

		// After a stop by a pass nothing is counted, and the tracker's next answer decides.
		{"stopped: terminal", stopped(StopTerminal), "retry continuation #1 in 0s"},
		{"stopped: inactive", stopped(StopInactive), "retry continuation #1 in 0s"},
		{"the worker found the issue no longer active", ends(Canceled, StopInactive), "retry continuation #1 in 0s"},
		{"stop --all: continues after resume", stopped(StopAll), "retry interrupted #1 in 0s"},
		{
			"stop ISSUE: held for the operator",
			and(stopped(StopOperator), before(func(c *Claim) { c.HoldNext = true })),
			"held operator runs=1",
		},
		{"stop ISSUE, then retry while it ended", stopped(StopOperator), "retry continuation #1 in 0s"},
		{
			"hold ISSUE: held after a success too",
			and(ends(Succeeded, ""), before(func(c *Claim) { c.HoldNext = true })),
			"held operator runs=1",
		},
		{"another project: released", stopped(StopProject), "unclaimed"},
		{
			"another project: released in spite of a hold",
			and(stopped(StopProject), before(func(c *Claim) { c.HoldNext = true })),
			"unclaimed",
		},
		{
			"the turn had completed before the stop",
			and(ends(Succeeded, ""), progress, func(_ *Claim, r *Run) { r.StopReason = StopInactive }),
			"retry continuation #1 in 1s runs=1",
		},

		// The first interruption in a row is not counted, the second is a failure, the third
		// is held in the tracker half.
		{"interrupted", ends(InterruptedRun, "terminated"), "retry interrupted #1 in 0s interruptions=1"},
		{
			"interrupted twice",
			and(ends(InterruptedRun, "terminated"), before(func(c *Claim) { c.Interruptions = 1 })),
			"retry backoff #2 in 20s failures=1 runs=1 interruptions=2",
		},
		{
			"interrupted three times",
			and(ends(InterruptedRun, "terminated"), before(func(c *Claim) { c.Interruptions = 2 })),
			"retry interrupted #1 in 0s interruptions=3",
		},
		{
			"a turn was completed in between",
			and(ends(InterruptedRun, "terminated"), turns(1), before(func(c *Claim) { c.Interruptions = 2 })),
			"retry interrupted #1 in 0s interruptions=1",
		},
		{
			"a turn completed in a stopped run resets interruptions too",
			and(stopped(StopInactive), turns(1), before(func(c *Claim) { c.Interruptions = 2 })),
			"retry continuation #1 in 0s",
		},

		// A busy workspace is retried without a failure, with the same attempt.
		{"workspace busy keeps the counts", and(ends(Failed, "workspace_busy"), before(func(c *Claim) {
			c.Failures = 3
			c.IdleRuns = 2
		})), "retry backoff #1 in 10s failures=3 idle=2"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			p := compute(newScene().running(one, row.run).Snapshot)
			equal(t, "claim", state(p, one), row.want)
			last := p.plan.Actions[len(p.plan.Actions)-1]
			test.Equal(
				t,
				"the last action",
				[]any{last.Kind, last.Change.Settle},
				[]any{ActSettle, "run-A-1"},
			)
			equal(t, "blocked by", p.s.AgentBlock, nil)
		})
	}
}

// Faults of the machine increment and count nothing, and hold no issue. Those of the agent's
// side block all dispatch; those of the tracker do not, because the next pass asks it again.
func TestMachineFaults(t *testing.T) {
	one := issueNo(1)
	for code, agents := range map[string]bool{
		"codex_not_found":              true,
		"codex_incompatible":           true,
		"agent_not_found":              true,
		"agent_incompatible":           true,
		"sandbox_unavailable":          true,
		"agent_auth":                   true,
		"agent_quota":                  true,
		"network":                      true,
		"disk_full":                    true,
		"linear_api_request":           false,
		"linear_api_status":            false,
		"linear_graphql_errors":        false,
		"linear_unknown_payload":       false,
		"linear_missing_end_cursor":    false,
		"tracker_rate_limited":         false,
		"tracker_project_not_found":    false,
		"missing_tracker_api_key":      false,
		"missing_tracker_project_slug": false,
		"unsupported_tracker_kind":     false,
	} {
		for _, outcome := range []Outcome{Failed, TimedOut, Stalled, InterruptedRun} {
			t.Run(code+" "+string(outcome), func(t *testing.T) {
				p := compute(newScene().running(one, func(c *Claim, r *Run) {
					r.Outcome = outcome
					r.ErrorCode = code
					r.ErrorText = "text"
					c.Attempt = 7
					r.Attempt = 7
					c.Failures = 9
					c.Interruptions = 2
				}).Snapshot)
				want := "retry blocked #7 in 0s failures=9 interruptions=2"
				if !agents {
					want = "retry blocked #7 in 10s failures=9 interruptions=2"
				}
				equal(t, "claim", state(p, one), want)
				equal(t, "blocks dispatch", p.s.AgentBlock != nil, agents)
				if agents {
					equal(t, "block", *p.s.AgentBlock, Block{
						Code:    code,
						Message: "text",
						Since:   noon,
						NextTry: noon.Add(10 * time.Second),
					})
					equal(
						t,
						"stored with the settlement",
						p.plan.Actions[0].Change.AgentBlock,
						p.s.AgentBlock,
					)
				}
			})
		}
	}
}

// If a dead worker recorded no outcome, the pass that finds it records one.
func TestAfterDeath(t *testing.T) {
	one := issueNo(1)
	rebooted := func(r *Run) { r.Worker.Boot = "boot-1" }
	for _, row := range []struct {
		rule string
		run  func(*Run)
		want Outcome
		code string
		then string
	}{
		{"died", func(*Run) {}, Lost, "worker_lost", "retry backoff #2 in 20s failures=1 runs=1"},
		{
			"never started",
			func(r *Run) { r.Phase = Starting },
			Lost,
			"spawn_failed",
			"retry backoff #2 in 20s failures=1 runs=1",
		},
		{"reboot", rebooted, InterruptedRun, "rebooted", "retry interrupted #1 in 0s interruptions=1"},
		{
			"reboot before it had started",
			func(r *Run) { rebooted(r); r.Phase = Starting },
			InterruptedRun,
			"rebooted",
			"retry interrupted #1 in 0s interruptions=1",
		},
		{
			"died while it was stopped",
			func(r *Run) { r.StopReason = StopInactive },
			Canceled,
			"inactive",
			"retry continuation #1 in 0s",
		},
		{
			"reboot while it was stopped",
			func(r *Run) { rebooted(r); r.StopReason = StopAll },
			Canceled,
			"operator_all",
			"retry interrupted #1 in 0s",
		},
	} {
		t.Run(row.rule, func(t *testing.T) {
			p := compute(newScene().running(one, func(_ *Claim, r *Run) { row.run(r) }).dead(one, 0).Snapshot)
			reap := p.plan.Actions[0]
			equal(t, "first action", reap.Kind, ActReap)
			equal(t, "outcome", reap.Outcome, row.want)
			equal(t, "code", reap.Reason, row.code)
			equal(t, "claim", state(p, one), row.then)
		})
	}
}

// A run is settled if its worker is dead, is frozen, or did not end in time after a stop;
// first its remaining processes are reaped. The time is measured on the monotonic clock, so
// that a suspend or a step of the wall clock does not end a healthy run.
func TestWhichRunsAreSettled(t *testing.T) {
	one := issueNo(1)
	alive := Liveness{Alive: true}
	asked := func(ago time.Duration) Instant { return Instant{thisBoot, 100*time.Hour - ago} }
	for _, row := range []struct {
		rule   string
		live   Liveness
		end    Outcome
		stopAt Instant
		grace  time.Duration
		want   string
	}{
		{"alive", alive, "", Instant{}, 0, ""},
		{"alive although it has recorded its outcome", alive, Succeeded, Instant{}, 0, ""},
		{"unknown", Liveness{Unknown: true}, "", Instant{}, 0, ""},
		{"frozen", Liveness{
			Alive:  true,
			Frozen: true,
		}, "", Instant{}, 0, "reap A-1 worker_frozen; settle A-1 lost"},
		{"frozen after it has recorded its outcome", Liveness{
			Alive:  true,
			Frozen: true,
		}, Succeeded, Instant{}, 0, "reap A-1; settle A-1 succeeded"},
		{"stopping", alive, "", asked(10 * time.Second), 0, ""},
		{"stopping for too long", alive, "", asked(11 * time.Second), 0, "reap A-1 inactive; settle A-1 canceled"},
		{"stopping with after_run", alive, "", asked(11 * time.Second), time.Minute, ""},
		{"asked before a reboot", alive, "", Instant{"boot-1", 0}, 0, ""},
		{"dead with an outcome", Liveness{}, Succeeded, Instant{}, 0, "settle A-1 succeeded"},
		{"dead without", Liveness{}, "", Instant{}, 0, "reap A-1 worker_lost; settle A-1 lost"},
		{
			"processes left",
			Liveness{Left: make([]Process, 2)},
			Succeeded,
			Instant{},
			0,
			"reap A-1; settle A-1 succeeded",
		},
	} {
		t.Run(row.rule, func(t *testing.T) {
			s := newScene().running(one, func(_ *Claim, r *Run) {
				r.Outcome = row.end
				r.StopAt = row.stopAt
				if r.StopAt != (Instant{}) {
					r.StopReason = StopInactive
				}
			})
			s.Liveness["run-A-1"] = row.live
			s.Mono = 100 * time.Hour
			s.Policy.StopGrace = row.grace
			plan := Compute(s.Snapshot)
			equal(t, "plan", story(plan), row.want)
			for _, a := range plan.Actions {
				equal(t, "killed first", a.Kill, a.Kind == ActReap && row.live.Alive)
			}
		})
	}
}

// A run that no claim waits for is settled without a claim: its tokens are counted, and later
// passes do not see it.
func TestSettleWithoutClaim(t *testing.T) {
	one := issueNo(1)
	for rule, edit := range map[string]func(*Snapshot){
		"no claim":                func(s *Snapshot) { s.Claims = nil },
		"another run's claim":     func(s *Snapshot) { s.Claims[0].RunID = "run-2" },
		"claim does not run":      func(s *Snapshot) { s.Claims[0].Status = Held },
		"a workspace was removed": func(s *Snapshot) { s.Runs[0].Kind = CleanupRun },
	} {
		t.Run(rule, func(t *testing.T) {
			s := newScene().running(one, func(_ *Claim, r *Run) { r.Outcome = Succeeded }).edit(edit)
			plan := Compute(s.Snapshot)
			equal(t, "plan", story(plan), "settle A-1 succeeded")
			equal(t, "settles", plan.Actions[0].Change.Settle, "run-A-1")
			equal(t, "touches the claim", plan.Actions[0].Change.Claim != nil, false)
		})
	}
}

// A due time that is too far ahead, because the clock was set back since, is corrected (design
// 3).
func TestDueTimes(t *testing.T) {
	one := issueNo(1)
	for _, row := range []struct {
		due, longest, want time.Duration
	}{
		{5 * time.Minute, 5 * time.Minute, 5 * time.Minute},
		{5*time.Minute + time.Millisecond, 5 * time.Minute, 5 * time.Minute},
		{365 * 24 * time.Hour, 5 * time.Minute, 5 * time.Minute},
		// the delay of workspace_busy, which no key shortens
		{10 * time.Second, time.Second, 10 * time.Second},
		{-time.Hour, 5 * time.Minute, -time.Hour},
	} {
		s := newScene().claim(one, func(c *Claim) { c.DueAt = noon.Add(row.due) })
		s.Policy.MaxRetryBackoff = row.longest
		p := compute(s.Snapshot)
		equal(t, row.due.String(), p.claims[one.ID].DueAt.Sub(noon), row.want)
		equal(t, row.due.String()+" is stored", len(updates(p.plan)) == 1, row.want != row.due)
	}
}

func TestDelay(t *testing.T) {
	const s = time.Second
	for longest, want := range map[time.Duration]map[int]time.Duration{ // by attempt
		300 * s: {
			0:    10 * s,
			1:    10 * s,
			2:    20 * s,
			3:    40 * s,
			5:    160 * s,
			6:    300 * s,
			1000: 300 * s,
		},
		5 * s: {1: 5 * s}, 15 * s: {2: 15 * s}, 20 * s: {2: 20 * s},
		1<<63 - 1: {1000: 1<<63 - 1}, // no overflow
	} {
		for attempt, delay := range want {
			equal(t, fmt.Sprint(attempt, " of ", longest), BackoffDelay(attempt, longest), delay)
		}
	}
}

// If a dead worker has recorded outside the database why it did not begin, or could not store
// its outcome, that is a fault of the machine. Only the first blocks dispatch, because the
// second is over when the run is settled.
func TestRefused(t *testing.T) {
	one := issueNo(1)
	for _, row := range []struct {
		rule    string
		run     func(*Run)
		code    string
		message string
		blocks  bool
		// without a block there must be a delay, or runs that are lost repeatedly would start
		// without a pause
		due string
	}{
		{"did not begin", func(r *Run) { r.Phase = Starting }, "disk_full", "failed to spawn agent", true, "0s"},
		{
			"no process for it",
			func(r *Run) { r.Phase = Starting },
			CodeResourceLimit,
			"failed to spawn agent",
			true,
			"0s",
		},
		{
			"could not store its outcome",
			func(*Run) {},
			"state_replaced",
			"its worker could not store how it ended",
			false,
			"10s",
		},
	} {
		t.Run(row.rule, func(t *testing.T) {
			s := newScene().running(one, func(c *Claim, r *Run) {
				row.run(r)
				c.Failures = 9
				c.Interruptions = 2
			}).dead(one, 0)
			s.Liveness["run-"+one.Identifier] = Liveness{Fault: row.code}
			p := compute(s.Snapshot)
			reap := p.plan.Actions[0]
			equal(t, "outcome", reap.Outcome, Lost)
			equal(t, "code", reap.Reason, row.code)
			equal(t, "message", p.claims[one.ID].ErrorMessage, row.message)
			equal(t, "claim", state(p, one), "retry blocked #1 in "+row.due+" failures=9 interruptions=2")
			equal(t, "blocks dispatch", p.s.AgentBlock != nil, row.blocks)
		})
	}
	t.Run("a reboot takes precedence", func(t *testing.T) {
		s := newScene().running(one, func(_ *Claim, r *Run) { r.Worker.Boot = "boot-1" }).dead(one, 0)
		s.Liveness["run-"+one.Identifier] = Liveness{Fault: "disk_full"}
		equal(t, "code", compute(s.Snapshot).plan.Actions[0].Reason, CodeRebooted)
	})
}
