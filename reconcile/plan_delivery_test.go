package reconcile

import (
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
)

func delivers(s *scene) *scene { return s.edit(func(s *Snapshot) { s.Policy.Deliver = true }) }

// The third failure in a row notifies the operator. Later ones do not.
func TestDeliveryAttention(t *testing.T) {
	d := Delivery{Due: true}
	keys := map[string]bool{}
	for tries := range 5 {
		a, tell := DeliveryAttention(Claim{IssueID: "1", Identifier: "ABC-1", Delivery: d})
		equal(t, "told", tell, tries >= 3)
		if tell {
			keys[a.Key] = true
		}
		d = d.failed("delivery_failed", "refused", noon.Add(time.Duration(tries)*time.Hour))
	}
	equal(t, "keys", len(keys), 1)
}

// undelivered makes a claim wait for its delivery, after a number of failures.
func undelivered(tries int) func(*Claim) {
	return func(c *Claim) {
		c.Kind = Delivering
		c.Delivery = Delivery{Due: true, Tries: tries}
		if tries > 0 {
			c.Kind = DeliveryFailed
			c.Delivery.Code = "delivery_failed"
			c.Delivery.FailedAt = noon.Add(-time.Hour)
		}
	}
}

// What follows the end of a run, with the commits that it may have made.
func TestSettleWithDelivery(t *testing.T) {
	one := issueNo(1)
	ends := func(o Outcome, d DeliveryResult) func(*Claim, *Run) {
		return func(_ *Claim, r *Run) {
			r.Outcome = o
			r.Turns = 1
			r.Progress = true
			r.Delivery = d
		}
	}
	refused := DeliveryResult{Code: "delivery_failed", Message: "no"}
	over := &Handover{State: "Human Review"}
	delivery := func(o Outcome, code string, edits ...func(*Claim)) func(*Claim, *Run) {
		return func(c *Claim, r *Run) {
			undelivered(1)(c)
			c.Kind = Delivering
			r.Kind = DeliveryRun
			r.Outcome = o
			r.ErrorCode = code
			for _, edit := range edits {
				edit(c)
			}
		}
	}
	for _, row := range []struct {
		rule        string
		run         func(*Claim, *Run)
		story, want string
		tries       int
	}{
		{
			"pushed",
			ends(Succeeded, DeliveryResult{Done: true}),
			"settle A-1 succeeded",
			"retry continuation #1 in 1s runs=1",
			0,
		},
		{
			"pushed after a failure",
			ends(Failed, DeliveryResult{Done: true}),
			"settle A-1 failed",
			"retry backoff #2 in 20s failures=1 runs=1",
			0,
		},
		{
			"not tried",
			ends(Lost, DeliveryResult{}),
			"settle A-1 lost; deliver A-1 delivering",
			"running #2 failures=1 runs=1",
			0,
		},
		{"refused", ends(Succeeded, refused), "settle A-1 succeeded", "retry delivery_failed #1 in 10s runs=1", 1},
		{"others have pushed", ends(Succeeded, DeliveryResult{
			OthersPushed: true,
			Handover:     over,
		}), "settle A-1 succeeded", "retry continuation #1 in 1s runs=1", 0},
		{"handed over", ends(Succeeded, DeliveryResult{
			Done:     true,
			Handover: over,
		}), "settle A-1 succeeded", "retry continuation #1 in 1s runs=1", 0},
		{
			"not handed over",
			ends(Lost, DeliveryResult{Handover: over}),
			"settle A-1 lost; deliver A-1 delivering",
			"running #2 failures=1 runs=1",
			0,
		},
		{
			"no turn, so no commits", func(_ *Claim, r *Run) { r.Outcome = Failed }, "settle A-1 failed",
			"retry backoff #2 in 20s failures=1 runs=1", 0,
		},
		{
			"held by an operator", func(c *Claim, r *Run) { ends(Canceled, DeliveryResult{})(c, r); c.HoldNext = true },
			"settle A-1 canceled", "held operator runs=1", 0,
		},

		{"delivered", delivery(Succeeded, ""), "settle A-1 succeeded", "retry continuation #1 in 0s runs=1", 0},
		{
			"delivered after a failed run", delivery(Succeeded, "", func(c *Claim) {
				c.Failures = 1
				c.Attempt = 2
			}),
			"settle A-1 succeeded", "retry backoff #2 in 20s failures=1 runs=1", 0,
		},
		{
			"others have pushed meanwhile", func(c *Claim, r *Run) {
				delivery(Canceled, CodeOthersPushed)(c, r)
				r.Delivery.OthersPushed = true
			}, "settle A-1 canceled", "retry continuation #1 in 0s runs=1", 0,
		},
		{
			"others have pushed meanwhile to that of a held claim", func(c *Claim, r *Run) {
				delivery(Canceled, CodeOthersPushed)(c, r)
				c.HoldReason = HoldMaxRuns
				c.Delivery.Handover = over
				r.Delivery.OthersPushed = true
			}, "settle A-1 canceled", "held max_runs runs=1", 2,
		},
		{
			"refused again",
			delivery(Failed, "delivery_failed"),
			"settle A-1 failed",
			"retry delivery_failed #1 in 20s runs=1",
			2,
		},
		{
			"the worker died",
			delivery(Lost, "worker_lost"),
			"settle A-1 lost",
			"retry delivery_failed #1 in 20s runs=1",
			2,
		},
		{
			"a machine's fault blocks no agent",
			delivery(Failed, "disk_full"),
			"settle A-1 failed",
			"retry delivery_failed #1 in 20s runs=1",
			2,
		},
		{
			"interrupted",
			delivery(InterruptedRun, "terminated"),
			"settle A-1 interrupted",
			"retry delivery_failed #1 in 10s runs=1",
			1,
		},
		{
			"of a held claim", delivery(Succeeded, "", func(c *Claim) { c.HoldReason = HoldMaxRuns }),
			"settle A-1 succeeded", "held max_runs runs=1", 0,
		},
		{
			"stopped by an operator", delivery(Canceled, StopOperator, func(c *Claim) { c.HoldNext = true }),
			"settle A-1 canceled", "held operator runs=1", 1,
		},
	} {
		t.Run(row.rule, func(t *testing.T) {
			p := compute(delivers(newScene().running(one, row.run)).Snapshot)
			equal(t, "plan", story(p.plan), row.story)
			equal(t, "claim", state(p, one), row.want)
			equal(t, "tries", p.claims[one.ID].Delivery.Tries, row.tries)
			equal(t, "blocked by", p.s.AgentBlock, nil)
		})
	}
}

// A held claim whose branch others have pushed to keeps its handover: no agent hands over
// again. Once the hold has ended, its delivery finds out again that an agent has to merge.
func TestOthersPushedWhileHeld(t *testing.T) {
	one := issueNo(1)
	over := &Handover{State: "Human Review", Summary: "Done.", UnverifiedBy: "Kim"}
	s := newScene().running(one, func(c *Claim, r *Run) {
		undelivered(0)(c)
		c.HoldReason = HoldMaxRuns
		c.Delivery.Handover = over
		r.Kind = DeliveryRun
		r.Outcome = Canceled
		r.ErrorCode = CodeOthersPushed
		r.Delivery.OthersPushed = true
	})
	p := compute(delivers(s).Snapshot)
	equal(t, "claim", state(p, one), "held max_runs runs=1")
	left := p.claims[one.ID].Delivery
	equal(t, "code", left.Code, CodeDeliveryConflict)
	equal(t, "waits for an agent", left.WaitsForAgent, false)
	equal(t, "handover", left.Handover, over)
	retried := newScene().held(one, HoldMaxRuns).answer(one).command(VerbRetry, one)
	retried.Claims[0].Delivery = left
	equal(t, "retry", story(Compute(delivers(retried).Snapshot)), "retry A-1 operator; deliver A-1 requested")
}

// Incomplete commits are delivered three times, and then their issue is held: only an agent or
// a person can correct them.
func TestIncompleteDelivery(t *testing.T) {
	one := issueNo(1)
	review := issueNo(1, inState("Human Review"))
	incomplete := func(same int) func(*Claim) {
		return func(c *Claim) {
			undelivered(same)(c)
			c.Delivery.Code = CodeIncomplete
			c.Delivery.Message = "tool is missing"
			c.Delivery.Repeats = same
		}
	}
	hold := func(*Claim) {}
	after := func(same int, code, message string) string {
		run := func(c *Claim, r *Run) {
			incomplete(same)(c)
			hold(c)
			c.Kind = Delivering
			r.Kind = DeliveryRun
			r.Outcome = Failed
			r.ErrorCode = code
			r.ErrorText = message
		}
		return state(compute(delivers(newScene().running(one, run)).Snapshot), one)
	}
	equal(t, "second", after(1, CodeIncomplete, "tool is missing"), "retry delivery_failed #1 in 20s runs=1")
	equal(t, "third", after(2, CodeIncomplete, "tool is missing"), "held hand_over_refused runs=1")
	equal(
		t,
		"another file",
		after(2, CodeIncomplete, "lib is missing"),
		"retry delivery_failed #1 in 40s runs=1",
	)
	equal(
		t,
		"another fault",
		after(2, "delivery_failed", "tool is missing"),
		"retry delivery_failed #1 in 40s runs=1",
	)

	hold = func(c *Claim) { c.HoldNext = true }
	equal(t, "third, while an operator holds it", after(2, CodeIncomplete, "tool is missing"), "held operator runs=1")
	hold = func(c *Claim) { c.HoldReason = HoldOperator }
	equal(t, "third, after an operator's hold", after(2, CodeIncomplete, "tool is missing"), "held operator runs=1")

	hold = func(*Claim) {}
	const said = "the remote refuses the commits: no key here"
	equal(t, "refused by the remote", after(0, CodeDeliveryRefused, said), "retry continuation #1 in 0s runs=1")
	equal(t, "refused twice", after(1, CodeDeliveryRefused, said), "retry continuation #1 in 0s runs=1")
	equal(t, "refused after two outages", after(2, CodeDeliveryRefused, said), "retry continuation #1 in 0s runs=1")
	hold = func(c *Claim) { c.Delivery.Refusals = 2 }
	equal(t, "refused three times, in other words", after(2, CodeDeliveryRefused, said), "held delivery_refused runs=1")
	equal(t, "refused three times, with an outage", after(3, CodeDeliveryRefused, said), "held delivery_refused runs=1")
	equal(t, "an outage after two refusals", after(2, "delivery_failed", said), "retry delivery_failed #1 in 40s runs=1")
	hold = func(*Claim) {}

	// The worker died while it delivered what the agent has corrected: no other agent is needed.
	handedOver := func(c *Claim, r *Run) {
		incomplete(1)(c)
		c.Delivery.Code = CodeDeliveryRefused
		r.Turns = 1
		r.Outcome = Lost
		r.Delivery.Handover = &Handover{Summary: "No key is there any more."}
	}
	lost := compute(delivers(newScene().running(one, handedOver)).Snapshot)
	equal(t, "lost after the correction", state(lost, one), "retry delivery_failed #2 in 10s failures=1 runs=1")

	held := func(i Issue) *scene {
		s := newScene().held(i, HoldRefused)
		incomplete(3)(&s.Claims[0])
		return s
	}
	for _, row := range []struct {
		rule  string
		scene *scene
		story string
	}{
		{"held", held(one).answer(one), ""},
		{"held, and handed over", held(review).answer(review), ""},
		{
			"retry lets an agent go on",
			held(one).answer(one).command(VerbRetry, one),
			"retry A-1 operator; dispatch A-1 requested",
		},
		{
			"retry of what is in review",
			held(review).answer(review).command(VerbRetry, one),
			"retry A-1 operator; deliver A-1 delivering",
		},
		{"moved back", held(review).answer(one), "retry A-1 moved; dispatch A-1 requested"},
		{"deliver", held(one).answer(one).command(VerbDeliver, one), "retry A-1 operator; deliver A-1 delivering"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			equal(t, "plan", story(Compute(delivers(row.scene).Snapshot)), row.story)
		})
	}
	corrected := func(c *Claim, r *Run) {
		incomplete(3)(c)
		c.HoldReason = HoldRefused
		c.Kind = Delivering
		r.Kind = DeliveryRun
		r.Outcome = Succeeded
	}
	p := compute(delivers(newScene().running(one, corrected)).Snapshot)
	equal(t, "delivered", state(p, one), "retry continuation #1 in 0s runs=1")
}

// A claim with undelivered commits waits for its delivery: no agent starts, and nothing
// releases it.
func TestUndelivered(t *testing.T) {
	one := issueNo(1)
	done := issueNo(1, inState("Done"))
	review := issueNo(1, inState("Human Review"))
	unreadable := Issue{ID: one.ID, Identifier: one.Identifier, Malformed: "no title"}
	later := func(c *Claim) { undelivered(1)(c); c.DueAt = noon.Add(time.Minute) }
	busy := func(c *Claim, r *Run) {
		c.Kind = Delivering
		r.Kind = DeliveryRun
		c.Delivery.Due = true
	}
	behind := func(c *Claim) {
		c.Kind = Continuation
		c.Delivery = Delivery{}.afterOthersPushed()
	}
	for _, row := range []struct {
		rule  string
		scene *scene
		story string
	}{
		{"due, active", newScene().claim(one, undelivered(0)).answer(one), "deliver A-1 delivering"},
		{"due, without the tracker", newScene().claim(one, undelivered(2)), "deliver A-1 delivery_failed"},
		{"due, terminal", newScene().claim(one, undelivered(0)).workspace(one).answer(done), "deliver A-1 delivering"},
		{"later, active", newScene().claim(one, later).answer(one), ""},
		{"later, terminal", newScene().claim(one, later).workspace(one).answer(done), ""},
		{"later, handed over", newScene().claim(one, later).answer(review), ""},
		{"later, gone", newScene().claim(one, later).answer(), ""},
		{"a cap is reached", newScene().claim(one, func(c *Claim) { later(c); c.Failures = 10 }).answer(one), ""},
		{
			"held by an operator, terminal",
			newScene().held(one, HoldOperator).edit(func(s *Snapshot) { s.Claims[0].Delivery.Due = true }).answer(done),
			"",
		},
		{"delivery under way, terminal", newScene().running(one, busy).answer(done), ""},
		{
			"of another project",
			newScene().claim(one, func(c *Claim) { undelivered(0)(c); c.Project = otherProject }),
			"",
		},
		{"behind, active", newScene().claim(one, behind).answer(one), "dispatch A-1 continuation"},
		{"behind, without the tracker", newScene().claim(one, behind), ""},
		{"behind, with a record that can't be read", newScene().claim(one, behind).answer(unreadable), ""},
		{"behind, handed over by a person", newScene().claim(one, behind).answer(review), "deliver A-1 delivering"},
		{"behind, terminal", newScene().claim(one, behind).workspace(one).answer(done), "deliver A-1 delivering"},
		{
			"deliver, behind",
			newScene().claim(one, behind).command(VerbDeliver, one),
			"retry A-1 operator; deliver A-1 delivering",
		},
		{"paused", newScene().claim(one, undelivered(0)).edit(func(s *Snapshot) { s.Paused = true }).answer(one), ""},
		{"the day's budget is used up", newScene().claim(one, undelivered(0)).answer(one).edit(func(s *Snapshot) {
			s.Policy.DailyBudget = DailyBudget{Tokens: 1}
			s.Today = []ModelUse{{Tokens: Tokens{Total: 1}}}
		}), "deliver A-1 delivering"},
		{
			"slots do not matter",
			newScene().running(issueNo(2), nil).claim(one, undelivered(0)).edit(func(s *Snapshot) {
				s.Policy.MaxConcurrent = 1
			}),
			"deliver A-1 delivering",
		},
		{
			"and a delivery takes none",
			newScene().running(one, busy).candidates(issueNo(2)).answer(one).edit(func(s *Snapshot) {
				s.Policy.MaxConcurrent = 1
			}),
			"dispatch A-2",
		},

		{
			"deliver, later",
			newScene().claim(one, later).command(VerbDeliver, one),
			"retry A-1 operator; deliver A-1 delivering",
		},
		{
			"deliver, paused",
			newScene().claim(one, later).command(VerbDeliver, one).edit(func(s *Snapshot) { s.Paused = true }),
			"retry A-1 operator; deliver A-1 delivering",
		},
		{
			"deliver, held",
			newScene().held(one, HoldMaxRuns).command(VerbDeliver, one),
			"retry A-1 operator; deliver A-1 delivering",
		},
		{"deliver, running", newScene().running(one, nil).command(VerbDeliver, one), ""},
		{"deliver, unclaimed", newScene().command(VerbDeliver, one), ""},
		{"retry", newScene().claim(one, later).command(VerbRetry, one), "retry A-1 operator; deliver A-1 requested"},
		{
			"retry without a workspace",
			newScene().claim(one, func(c *Claim) {
				later(c)
				c.Delivery.Code = CodeWorkspaceGone
			}).answer(one).command(VerbRetry, one),
			"retry A-1 operator; dispatch A-1 requested",
		},
	} {
		t.Run(
			row.rule,
			func(t *testing.T) { equal(t, "plan", story(Compute(delivers(row.scene).Snapshot)), row.story) },
		)
	}
	far := func(c *Claim, r *Run) {
		busy(c, r)
		c.Delivery.Host = "near"
		c.Delivery.Root = "/near"
		c.Delivery.Code = CodeWorkspaceGone
	}
	during := compute(delivers(newScene().running(one, far).command(VerbRetry, one)).Snapshot)
	equal(t, "host after retry during the delivery", during.claims[one.ID].Delivery.Host, "near")
	asked := func(c *Claim) {
		undelivered(0)(c)
		c.Delivery.Handover = &Handover{Summary: "done", State: "Human Review"}
	}
	for _, now := range []Issue{one, review} { // perhaps a person has moved it
		equal(
			t,
			"to be handed over, without a repository",
			story(Compute(newScene().claim(one, asked).answer(now).Snapshot)),
			"deliver A-1 delivering",
		)
	}
	off := newScene().held(one, HoldMaxRuns).
		command(VerbDeliver, one).
		edit(func(s *Snapshot) { s.DispatchOff = true })
	equal(
		t,
		"actions of a pass that starts nothing: the command waits",
		len(Compute(delivers(off).Snapshot).Actions),
		0,
	)
	without := newScene().claim(one, undelivered(1)).answer(one)
	equal(
		t,
		"plan without repository.deliver",
		story(Compute(without.Snapshot)),
		"dispatch A-1 delivery_failed",
	)
	p := compute(
		newScene().running(one, func(c *Claim, r *Run) { undelivered(1)(c); r.Outcome = Succeeded }).Snapshot,
	)
	equal(t, "delivery due without repository.deliver", p.claims[one.ID].Delivery.Due, true)
	for state, want := range map[string]string{"Human Review": "", "Done": "release A-1 terminal"} {
		moved := one
		moved.State = state
		equal(
			t,
			"without repository.deliver, in "+state,
			story(Compute(newScene().claim(one, undelivered(1)).answer(moved).Snapshot)),
			want,
		)
	}
}

// The commits are delivered from the machine on which the last run has worked, even if it is
// not in the workflow any more.
func TestDeliveryFromHost(t *testing.T) {
	one := issueNo(1)
	for _, row := range []struct {
		rule       string
		host, root string // of the claim
		edit       func(*Snapshot)
		want       bool // there is a delivery
	}{
		{"of this machine", "", "/spaces", nil, true},
		{"of a host", "near", "/near", nil, true},
		{"the host is not in the workflow", "old", "/old", nil, true},
		{"this machine has a newer workspace than a host", "", "/spaces", func(s *Snapshot) {
			s.RemoteWorkspaces = []Workspace{{
				IssueID: one.ID,
				Project: thisProject,
				Host:    "near",
				Root:    "/near",
			}}
		}, true},
		{"the host is blocked", "near", "/near", func(s *Snapshot) {
			s.RemoteBlocks = map[string]Block{"near": {
				Code:    "host_unreachable",
				NextTry: noon.Add(time.Minute),
			}}
		}, false},
		{"its block is tested", "near", "/near", func(s *Snapshot) {
			s.RemoteBlocks = map[string]Block{"near": {Code: "host_unreachable", NextTry: noon}}
		}, true},
		{"the last run may still be at work", "near", "/near", func(s *Snapshot) {
			s.Runs = []Run{{
				ID:          "r",
				IssueID:     one.ID,
				Kind:        CleanupRun,
				Host:        "near",
				Remote:      RemoteBegun,
				Outcome:     Lost,
				StartedAt:   noon,
				HeartbeatAt: noon,
				Phase:       EndingThere,
			}}
		}, false},
		{"an operator gives the host up", "old", "/old", func(s *Snapshot) {
			s.Commands = []Command{{
				ID:         1,
				Verb:       VerbHostGone,
				IssueID:    one.ID,
				Identifier: one.Identifier,
			}}
		}, false},
	} {
		t.Run(row.rule, func(t *testing.T) {
			s := newScene().hosted().claim(one, func(c *Claim) {
				undelivered(0)(c)
				c.Delivery.Host = row.host
				c.Delivery.Root = row.root
			})
			if row.edit != nil {
				s.edit(row.edit)
			}
			got := ""
			want := ""
			plan := Compute(delivers(s).Snapshot)
			for _, a := range plan.Actions {
				if a.Kind == ActDeliver {
					got = a.Change.Insert.Host + " " + a.Change.Insert.WorkspaceRoot
				}
			}
			if row.want {
				want = row.host + " " + row.root
			}
			equal(t, "delivery", got, want)
			told := ""
			reasons := map[string]string{
				"the host is blocked":               SkipBlocked,
				"the last run may still be at work": SkipUnverified,
			}
			for _, skip := range plan.Waits {
				told += skip.Reason
			}
			equal(t, "what the plan waits for", told, reasons[row.rule])
			equal(t, "what views say", s.DeliveryWait(s.Claims[0], noon).Reason, reasons[row.rule])
		})
	}
	ended := newScene().hosted().running(one, func(_ *Claim, r *Run) {
		r.Host = "near"
		r.WorkspaceRoot = "/near"
		r.Outcome = Failed
		r.Turns = 1
		r.EndedAt = noon
	})
	p := compute(delivers(ended).Snapshot)
	equal(
		t,
		"host and root of the claim",
		p.claims[one.ID].Delivery.Host+" "+p.claims[one.ID].Delivery.Root,
		"near /near",
	)
}

// What verify has refused waits for an agent, which is told, or for an operator.
func TestVerifyRefuses(t *testing.T) {
	one := issueNo(1)
	refused := &Handover{
		Summary:      "done",
		Verifies:     true,
		Verification: &Verification{Commit: "a", Exit: 1},
	}
	plan := Compute(newScene().claim(one, func(c *Claim) {
		c.Kind = Continuation
		c.Delivery.Handover = refused
	}).answer(one).Snapshot)
	equal(t, "refused", story(plan), "dispatch A-1 continuation")
	equal(t, "what its agent is told", plan.Actions[0].Change.Insert.Delivery.Handover == refused, true)
	idle := compute(newScene().claim(one, func(c *Claim) {
		c.Kind = Continuation
		c.IdleRuns = 3
		c.Delivery.Refusal = refused.Verification
	}).answer(one).Snapshot)
	equal(
		t,
		"a later hold says why the runs did not end",
		idle.claims[one.ID].HoldMessage,
		"3 runs in a row changed nothing; not verified a: , 0s, exit code 1",
	)
	worksOn := compute(newScene().running(one, func(c *Claim, r *Run) {
		c.Delivery.Refusal = refused.Verification
		r.Outcome = Succeeded
		r.Turns = 1
		r.Delivery.Done = true
	}).Snapshot)
	equal(t, "when its agent works on", worksOn.claims[one.ID].Delivery.Refusal.Commit, "a")
	failed := func(c *Claim, r *Run) {
		r.Outcome = Failed
		r.ErrorCode = HoldVerifyFailed
		r.Delivery.Handover = refused
	}
	equal(
		t,
		"after the last round",
		state(compute(newScene().running(one, failed).Snapshot), one),
		"held verify_failed runs=1",
	)
	for _, want := range []Handover{
		{Summary: "done", Verifies: true},
		{Summary: "done", Verifies: true, UnverifiedBy: "me"},
	} {
		held := newScene().held(one, HoldVerifyFailed).command(VerbDeliver, one).edit(func(s *Snapshot) {
			s.Claims[0].Delivery.Handover = refused
			s.Commands[0].UnverifiedBy = want.UnverifiedBy
		})
		plan := Compute(held.Snapshot)
		equal(t, "held", story(plan), "retry A-1 operator; deliver A-1 delivering")
		test.Equal(t, "what is delivered", *plan.Actions[1].Change.Insert.Delivery.Handover, want)
	}
	again := newScene().running(one, func(c *Claim, r *Run) {
		c.Kind = Delivering
		c.HoldReason = HoldVerifyFailed
		r.Kind = DeliveryRun
		r.Outcome = Succeeded
		r.Delivery.Handover = refused
	})
	p := compute(again.Snapshot)
	equal(t, "refused again", state(p, one), "held verify_failed runs=1")
	kept := p.claims[one.ID].Delivery
	equal(t, "the refusal", kept.Refusal.Commit, "a")
	kept.Refusal = nil
	equal(t, "kept", kept, Delivery{Handover: refused})
}
