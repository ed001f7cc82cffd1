package reconcile

import (
	"fmt"
	"testing"
	"time"
)

// The refresh table: what the tracker answers about an issue, and what happens to its claim in
// each status.
func TestRefresh(t *testing.T) {
	was := issueNo(1)
	changed := func(edit func(*Issue)) *Issue { i := issueNo(1, edit); return &i }
	for _, row := range []struct {
		tracker                            string
		issue                              *Issue // nil: not returned
		running, waiting, capped, operator string
	}{
		{"as it was", &was, "", "dispatch A-1 backoff", "", ""},
		{
			"terminal, in other letters",
			changed(inState(" DONE ")),
			"stop A-1 terminal",
			"release A-1 terminal; remove_workspace A-1 terminal",
			"release A-1 terminal; remove_workspace A-1 terminal",
			"release A-1 terminal; remove_workspace A-1 terminal",
		},
		{
			"neither active nor terminal",
			changed(inState("Human Review")),
			"stop A-1 inactive",
			"release A-1 inactive",
			"release A-1 inactive",
			"",
		},
		{
			"archived",
			changed(func(i *Issue) { i.Archived = true }),
			"stop A-1 inactive",
			"release A-1 inactive",
			"release A-1 inactive",
			"",
		},
		{"not returned", nil, "stop A-1 missing", "release A-1 missing", "release A-1 missing", ""},
		{
			"label gone",
			changed(func(i *Issue) { i.Labels = []string{"other"} }),
			"stop A-1 label",
			"release A-1 label",
			"release A-1 label",
			"",
		},
		{
			"unassigned",
			changed(func(i *Issue) { i.Assignee = nil }),
			"stop A-1 assignee",
			"release A-1 assignee",
			"release A-1 assignee",
			"",
		},
	} {
		ours := func(i *Issue) {
			if i.Labels == nil {
				i.Labels = []string{"agent"}
			}
			if i.Assignee == nil && row.tracker != "unassigned" {
				i.Assignee = &Assignee{ID: "u1", Email: "me@example.com", IsMe: true}
			}
		}
		for status, want := range map[string]string{
			"running":  row.running,
			"waiting":  row.waiting,
			"capped":   row.capped,
			"operator": row.operator,
		} {
			t.Run(row.tracker+"/"+status, func(t *testing.T) {
				s := newScene().workspace(was)
				s.Policy.RequiredLabels = []string{" Agent "}
				s.Policy.Assignee = "me"
				switch status {
				case "running":
					s.running(was, nil)
				case "waiting":
					s.claim(was, nil)
				case "capped":
					s.held(was, HoldMaxFailures)
				case "operator":
					s.held(was, HoldOperator)
				}
				s.answer()
				if row.issue != nil {
					i := *row.issue
					ours(&i)
					s.answer(i)
				}
				equal(t, "plan", story(Compute(s.Snapshot)), want)
			})
		}
	}
}

// An issue that nobody moved is not finished when WORKFLOW.md no longer lists its state: its run
// is stopped, and its claim released, for that reason. A hold stays.
func TestStateNoLongerActive(t *testing.T) {
	was := issueNo(1)
	moved := issueNo(1, inState("Human Review"))
	began := func(c *Claim) { c.StartedIn = was.State }
	for _, row := range []struct {
		what  string
		issue Issue
		scene *scene
		want  string
	}{
		{"running", was, newScene().running(was, func(c *Claim, _ *Run) { began(c) }), "stop A-1 active_states"},
		{"waiting", was, newScene().claim(was, began), "release A-1 active_states"},
		{"held", was, newScene().claim(was, func(c *Claim) { began(c); c.Status = Held; c.HoldReason = HoldMaxFailures }), ""},
		{"moved by its agent", moved, newScene().claim(was, began), "release A-1 inactive"},
	} {
		row.scene.Policy.ActiveStates = []string{"Other"}
		row.scene.answer(row.issue)
		equal(t, row.what, story(Compute(row.scene.Snapshot)), row.want)
	}
}

func TestActionAboutAnArchivedIssue(t *testing.T) {
	was := issueNo(1)
	archived := issueNo(1, func(i *Issue) { i.Archived = true })
	p := Compute(newScene().running(was, nil).answer(archived).Snapshot)
	equal(t, "plan", story(p), "stop A-1 inactive")
	equal(t, "archived", p.Actions[0].Archived, true)

	// Its agent moved it to a state in which another agent could go on: it handed nothing over.
	p = Compute(newScene().claim(was, nil).answer(archived).Snapshot)
	equal(t, "plan", story(p), "release A-1 inactive")
	release := *p.Actions[0].Change.Release
	equal(t, "release", release, Release{Reason: StopInactive, State: "In Progress", Archived: true})
	_, ready := ReadyAttention(Claim{}, release, noon)
	equal(t, "is handed over", ready, false)
}

// tracker.assignee matches an issue's assignee by email, by id, or by "me". If empty it
// matches every issue.
func TestAssignee(t *testing.T) {
	me := &Assignee{ID: "u1", Email: "Me@Example.com", IsMe: true}
	for asked, want := range map[string]bool{
		"":               true,
		"me":             true,
		"ME":             true,
		"me@example.com": true,
		"u1":             true,
		"U1":             false,
		"u2":             false,
	} {
		equal(t, asked, Policy{Assignee: asked}.Ours(Issue{Assignee: me}), want)
		equal(t, asked+" of none", Policy{Assignee: asked}.Ours(Issue{}), asked == "")
	}
	equal(t, "me, of another", Policy{Assignee: "me"}.Ours(Issue{Assignee: &Assignee{ID: "u2"}}), false)
}

// A change of state or description is progress: it resets the counts of idle runs and of all
// runs. Other changes are stored and reset nothing. An unchanged issue is not written.
func TestUpdate(t *testing.T) {
	was := issueNo(1)
	description := "more"
	for _, row := range []struct {
		what    string
		edit    func(*Issue)
		updates int
		want    string
	}{
		{"nothing", func(*Issue) {}, 0, "running #1 failures=2 idle=2 runs=5"},
		{"state", inState("Todo"), 1, "running #1 failures=2"},
		{"case of the state", inState("in progress"), 1, "running #1 failures=2 idle=2 runs=5"},
		{"description", func(i *Issue) { i.Description = &description }, 1, "running #1 failures=2"},
		{"title", func(i *Issue) { i.Title = "other work" }, 1, "running #1 failures=2 idle=2 runs=5"},
		{"a comment", commentedAt(noon), 1, "running #1 failures=2 idle=2 runs=5"},
		{
			"a blocker, which stops no running work",
			func(i *Issue) { i.State = "Todo"; blockedBy("Todo")(i) },
			1,
			"running #1 failures=2",
		},
	} {
		s := newScene().running(was, func(c *Claim, _ *Run) {
			c.Failures = 2
			c.IdleRuns = 2
			c.Runs = 5
		}).answer(issueNo(1, row.edit))
		p := compute(s.Snapshot)
		equal(t, row.what+": claim", state(p, was), row.want)
		equal(t, row.what+": updates", len(updates(p.plan)), row.updates)
		equal(t, row.what+": actions", story(p.plan), "")
	}
}

// A cap holds a waiting claim that reaches it; 0 disables a cap.
func TestCaps(t *testing.T) {
	one := issueNo(1)
	for _, row := range []struct {
		rule  string
		claim func(*Claim)
		edit  func(*Snapshot)
		want  string
	}{
		{"10 failures", func(c *Claim) { c.Failures = 10 }, nil, "hold A-1 max_failures"},
		{
			"10 failures, no cap",
			func(c *Claim) { c.Failures = 10 },
			func(s *Snapshot) { s.Policy.MaxFailures = 0 },
			"dispatch A-1 backoff",
		},
		{"3 idle runs", func(c *Claim) { c.IdleRuns = 3 }, nil, "hold A-1 max_idle_runs"},
		{
			"3 idle runs, no cap",
			func(c *Claim) { c.IdleRuns = 3 },
			func(s *Snapshot) { s.Policy.MaxIdleRuns = 0 },
			"dispatch A-1 backoff",
		},
		{"20 runs", func(c *Claim) { c.Runs = 20 }, nil, "hold A-1 max_runs"},
		{
			"20 runs, no cap",
			func(c *Claim) { c.Runs = 20 },
			func(s *Snapshot) { s.Policy.MaxRuns = 0 },
			"dispatch A-1 backoff",
		},
		{"tokens below", nil, func(s *Snapshot) {
			s.Tokens["id-1"] = 999
			s.Policy.MaxTokens = 1000
		}, "dispatch A-1 backoff"},
		{"tokens reached", nil, func(s *Snapshot) {
			s.Tokens["id-1"] = 1000
			s.Policy.MaxTokens = 1000
		}, "hold A-1 max_tokens"},
		{"tokens since a retry", func(c *Claim) { c.TokenBase = 1 }, func(s *Snapshot) {
			s.Tokens["id-1"] = 1000
			s.Policy.MaxTokens = 1000
		}, "dispatch A-1 backoff"},
		{"3 interruptions", func(c *Claim) { c.Interruptions = 3 }, nil, "hold A-1 interrupted"},
		{"before its time", func(c *Claim) {
			c.Failures = 10
			c.DueAt = noon.Add(time.Minute)
		}, nil, "hold A-1 max_failures"},
		{"the issue was moved to another active state: the counts are reset", func(c *Claim) {
			c.Runs = 20
			c.IdleRuns = 3
			c.Issue.State = "Todo"
		}, nil, "dispatch A-1 backoff"},
		{
			"an issue that is no longer active is released, not held",
			func(c *Claim) { c.Failures = 10 },
			func(s *Snapshot) { delete(s.Tracker.ByID, "id-1") },
			"release A-1 missing",
		},
		{
			"with dispatch off too",
			func(c *Claim) { c.Failures = 10 },
			func(s *Snapshot) { s.DispatchOff = true },
			"hold A-1 max_failures",
		},
	} {
		t.Run(row.rule, func(t *testing.T) {
			s := newScene().claim(one, row.claim).answer(one)
			if row.edit != nil {
				s.edit(row.edit)
			}
			plan := Compute(s.Snapshot)
			equal(t, "plan", story(plan), row.want)
		})
	}
	t.Run("a running claim is not held", func(t *testing.T) {
		s := newScene().running(one, func(c *Claim, _ *Run) {
			c.Failures = 10
			c.Runs = 20
		}).same()
		equal(t, "plan", story(Compute(s.Snapshot)), "")
	})
}

// An issue whose agent needs a person is held where its agent handed it over. It stays there
// until somebody answers, or moves it on.
func TestNeedsHelp(t *testing.T) {
	review := issueNo(1, inState("Human Review"))
	asked := newScene().claim(issueNo(1), func(c *Claim) {
		c.Kind = Continuation
		c.Delivery.Handover = &Handover{Blocked: "I need a name."}
	})
	p := compute(asked.answer(review).Snapshot)
	equal(t, "handed over", story(p.plan), "hold A-1 needs_help")
	equal(t, "status", p.claims[review.ID].OwnStatus(), StatusNeedsHelp)
	equal(t, "message", p.claims[review.ID].HoldMessage, "I need a name.")
	misspelt := issueNo(1, inState("Tood"), func(i *Issue) { i.StateMeant = "Todo" })
	equal(t, "misspelt", story(compute(asked.answer(misspelt).Snapshot).plan), "hold A-1 needs_help")

	// Its own comment is no answer; a comment of a person that came before this pass is.
	for _, row := range []struct {
		newest time.Time // as the tracker's adapter leaves it: not its own comment
		want   bool
	}{{noon.Add(-time.Millisecond), false}, {noon, true}} {
		s := newScene().claim(issueNo(1), func(c *Claim) {
			c.Kind = Continuation
			c.Delivery.Handover = &Handover{Blocked: "I need a name.", CommentAt: noon}
		})
		p := compute(s.answer(issueNo(1, inState("Human Review"), commentedAt(row.newest))).Snapshot)
		equal(t, "held", story(p.plan), "hold A-1 needs_help")
		equal(t, "is sent back", p.claims[review.ID].SentBack(), row.want)
	}

	answered := issueNo(1, inState("Human Review"), commentedAt(noon))
	for _, row := range []struct {
		tracker string
		issue   Issue
		want    string
	}{
		{"as it was", review, ""},
		{"answered by a comment", answered, ""},
		{"moved to an active state", issueNo(1), "retry A-1 answered; dispatch A-1 requested"},
		{"moved on", issueNo(1, inState("Backlog")), "release A-1 by_person"},
		{"closed", issueNo(1, inState("Done")), "release A-1 by_person"},
		{"archived", issueNo(1, inState("Human Review"), func(i *Issue) { i.Archived = true }), "release A-1 by_person"},
	} {
		t.Run(row.tracker, func(t *testing.T) {
			p := compute(newScene().held(review, HoldNeedsHelp).answer(row.issue).Snapshot)
			equal(t, "plan", story(p.plan), row.want)
			c := p.claims[review.ID]
			equal(t, "is sent back", c != nil && c.SentBack(), row.issue.LastCommentAt != nil)
		})
	}
}

// A comment ends a hold by a cap if it is newer than those that the holding pass saw. It does
// not end an operator's hold.
func TestComments(t *testing.T) {
	seen := noon.Add(-20 * time.Minute)
	for _, row := range []struct {
		rule, reason string
		seen         time.Time
		comment      *time.Time
		want         string
	}{
		{"none", HoldMaxFailures, time.Time{}, nil, ""},
		{"one that was seen", HoldMaxFailures, seen, &seen, ""},
		{"a newer one", HoldMaxFailures, seen, &noon, "retry A-1 comment; dispatch A-1 requested"},
		{"the first of all", HoldMaxRuns, time.Time{}, &seen, "retry A-1 comment; dispatch A-1 requested"},
		{"a newer one, after interruptions", HoldInterrupted, seen, &noon, "retry A-1 comment; dispatch A-1 requested"},
		{"operator's hold", HoldOperator, seen, &noon, ""},
	} {
		t.Run(row.rule, func(t *testing.T) {
			one := issueNo(1)
			s := newScene().held(one, row.reason)
			s.Claims[0].HoldCommentAt = row.seen
			s.Claims[0].Failures = 10
			s.Claims[0].Attempt = 11
			s.Tokens[one.ID] = 700
			one.LastCommentAt = row.comment
			p := compute(s.answer(one).Snapshot)
			equal(t, "plan", story(p.plan), row.want)
			if row.want != "" {
				equal(t, "claim", state(p, one), "running #1 runs=1")
				equal(t, "tokens count from now", p.claims[one.ID].TokenBase, 700)
			}
		})
	}
}

// A comment that the agent wrote during its last run does not end the hold that follows from
// that run.
func TestAgentsOwnCommentEndsNoHold(t *testing.T) {
	for _, row := range []struct {
		reason string
		edit   func(*Claim, *Run)
	}{
		{HoldInterrupted, func(c *Claim, r *Run) {
			r.Outcome = InterruptedRun
			c.Interruptions = 2
		}},
		{HoldMaxFailures, func(c *Claim, r *Run) {
			r.Outcome = Failed
			c.Failures = 9
		}},
		{HoldMaxIdleRuns, func(c *Claim, r *Run) {
			r.Outcome = Succeeded
			c.IdleRuns = 2
		}},
	} {
		s := newScene().running(issueNo(1), row.edit).answer(issueNo(1, commentedAt(noon.Add(-time.Second))))
		p := compute(s.Snapshot)
		equal(t, "claim", p.claims["id-1"].HoldReason, row.reason)
		s.Claims = p.remaining()
		s.Runs = nil
		equal(t, "next pass", story(Compute(s.Snapshot)), "")
	}
}

// The claims of another project are released once the tracker has answered, and their
// workspaces stay (design 4).
func TestProjectChange(t *testing.T) {
	s := newScene().running(issueNo(1), nil).claim(issueNo(2), nil).held(issueNo(3), HoldOperator).
		running(issueNo(4), func(_ *Claim, r *Run) { r.Outcome = Succeeded }).
		claim(issueNo(5), nil).claim(issueNo(6), nil)
	for i := range s.Claims[:5] {
		s.Claims[i].Project = otherProject
	}
	equal(t, "no answer: the project may be mistyped", story(Compute(s.Snapshot)), "settle A-4 succeeded")

	const want = "settle A-4 succeeded; stop A-1 project_change; release A-2 project_change; release " +
		"A-3 project_change; " +
		"release A-4 project_change; dispatch A-6 backoff"
	s.same()
	delete(s.Tracker.Refreshed, "id-5") // the allowance was low
	equal(t, "plan", story(Compute(s.Snapshot)), want)
}

// The sweep removes only workspaces of unclaimed issues that are terminal.
func TestSweep(t *testing.T) {
	done := inState("Done")
	scene := func() *scene {
		s := newScene().held(issueNo(2), HoldMaxRuns)
		for n := 1; n <= 6; n++ {
			s.workspace(issueNo(n))
		}
		s.Workspaces[4].Project = otherProject
		s.Runs = append(s.Runs, Run{
			ID:         "run-A-6",
			Kind:       CleanupRun,
			IssueID:    "id-6",
			Identifier: "A-6",
		})
		s.Liveness["run-A-6"] = Liveness{Alive: true}
		s.SweepDue = true
		// A-1 done; A-2 claimed; A-3 active; A-4 not returned; A-5 another project's; A-6
		// being removed.
		return s.answer(issueNo(1, done), issueNo(2), issueNo(3), issueNo(5, done), issueNo(6, done))
	}
	plan := Compute(scene().Snapshot)
	equal(t, "due", story(plan), "remove_workspace A-1 terminal")
	run := plan.Actions[0].Change.Insert
	equal(
		t,
		"run",
		fmt.Sprintln(
			run.Kind,
			run.IssueID,
			run.Identifier,
			run.Phase,
			run.WorkspaceRoot,
			run.WorkspacePath,
			run.Issue.State,
		),
		"cleanup id-1 A-1 starting /w /w/A-1 Done\n",
	)
	equal(t, "not due", story(Compute(scene().edit(func(s *Snapshot) { s.SweepDue = false }).Snapshot)), "")

	// Removed workspaces that are due are deleted by one cleanup run without an issue.
	trash := newScene().answer().edit(func(s *Snapshot) {
		s.SweepDue = true
		s.TrashDue = true
	})
	equal(t, "trash", story(Compute(trash.Snapshot)), "remove_workspace  trash")
	trash.Runs = []Run{{ID: "r", Kind: CleanupRun, Phase: PreparingWorkspace}}
	trash.Liveness["r"] = Liveness{Alive: true}
	equal(t, "trash is being emptied", story(Compute(trash.Snapshot)), "")
	equal(
		t,
		"one issue only",
		story(Compute(scene().edit(func(s *Snapshot) { s.Only = []string{"id-1"} }).Snapshot)),
		"",
	)
}

// A claim that waited for the tracker is due as soon as the tracker answers. A claim that
// waits for something else, such as the worker's key, keeps its delay.
func TestDueWhenTheTrackerAnswers(t *testing.T) {
	one := issueNo(1)
	for code, want := range map[string]string{
		"linear_api_status": "dispatch A-1 blocked", "tracker_unavailable": "dispatch A-1 blocked",
		"missing_tracker_api_key": "", "state_replaced": "",
	} {
		waits := func() *scene {
			return newScene().claim(one, func(c *Claim) {
				c.Kind = Blocked
				c.ErrorCode = code
				c.DueAt = noon.Add(8 * time.Second)
			})
		}
		equal(t, code, story(Compute(waits().answer(one).Snapshot)), want)
		equal(t, code+" without an answer", story(Compute(waits().Snapshot)), "")
	}
}

// A run whose own agent has moved the issue gets two minutes to finish its turn. If someone
// else moved the issue, the run is stopped at once. The two minutes are measured up to the
// worker's last heartbeat, so that a suspend or a step of the clock since then does not use
// them up.
func TestHandoff(t *testing.T) {
	review := issueNo(1, inState("Human Review"))
	done := issueNo(1, inState("Done"))
	for _, row := range []struct {
		rule  string
		at    time.Duration // of the agent's change, from the pass's present
		beat  time.Duration // of the last heartbeat
		found string        // the state that the worker read after the change
		now   *Issue
		want  string
	}{
		{"moved by the agent", -time.Minute, 0, "human review", &review, ""},
		{"just within the grace", -2*time.Minute + 1, 0, "Human Review", &review, ""},
		{"the grace is over", -2 * time.Minute, 0, "Human Review", &review, "stop A-1 inactive"},
		{"moved otherwise", -time.Second, 0, "Human Review", &done, "stop A-1 terminal"},
		{"the change is under way", -time.Minute, 0, "", &review, ""},
		{"under way for too long", -2 * time.Minute, 0, "", &review, "stop A-1 inactive"},
		{
			"suspended for 8 hours since the last heartbeat",
			-8*time.Hour - time.Minute,
			-8 * time.Hour,
			"Human Review",
			&review,
			"",
		},
		{"set back an hour since", time.Hour - time.Minute, time.Hour, "Human Review", &review, ""},
		{"set on a year, and a heartbeat since", -time.Minute, -time.Second, "Human Review", &review, ""},
		{
			"over, whatever the clock says",
			time.Hour - 2*time.Minute,
			time.Hour,
			"Human Review",
			&review,
			"stop A-1 inactive",
		},
	} {
		t.Run(row.rule, func(t *testing.T) {
			s := newScene().running(issueNo(1), func(_ *Claim, r *Run) {
				r.MovedAt = noon.Add(row.at)
				r.MovedTo = row.found
				r.HeartbeatAt = noon.Add(row.beat)
			}).answer()
			if row.now != nil {
				s.answer(*row.now)
			}
			equal(t, "plan", story(Compute(s.Snapshot)), row.want)
		})
	}
}
