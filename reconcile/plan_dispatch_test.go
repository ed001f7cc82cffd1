package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
)

// The rules by which a candidate may be dispatched (specification 8.2), each with one
// candidate.
func TestEligible(t *testing.T) {
	for _, row := range []struct {
		rule  string
		issue Issue
		edit  func(*Snapshot)
		want  string
	}{
		{"active in other letters", issueNo(1, inState(" in PROGRESS ")), nil, "dispatch A-1"},
		{"not active: no candidate", issueNo(1, inState("Backlog")), nil, ""},
		{
			"active and terminal: no candidate",
			issueNo(1),
			func(s *Snapshot) { s.Policy.TerminalStates = []string{"in progress"} },
			"",
		},
		{"archived: no candidate", issueNo(1, func(i *Issue) { i.Archived = true }), nil, ""},

		{
			"one of two labels",
			issueNo(1, func(i *Issue) { i.Labels = []string{"agent"} }),
			func(s *Snapshot) { s.Policy.RequiredLabels = []string{"agent", "ok"} },
			"skip A-1 label",
		},
		{
			"assignee",
			issueNo(1, func(i *Issue) { i.Assignee = &Assignee{ID: "u1"} }),
			func(s *Snapshot) { s.Policy.Assignee = "u1" },
			"dispatch A-1",
		},
		{"unassigned", issueNo(1), func(s *Snapshot) { s.Policy.Assignee = "u1" }, "skip A-1 assignee"},

		{"Todo, blockers terminal", issueNo(1, inState("Todo"), blockedBy("Done", "canceled")), nil, "dispatch A-1"},
		{
			"Todo, a blocker open",
			issueNo(1, inState("todo"), blockedBy("Done", "In Progress")),
			nil,
			"skip A-1 blocked_by",
		},
		{"Todo, a blocker without a state", issueNo(1, inState("Todo"), blockedBy("?")), nil, "skip A-1 blocked_by"},
		{"blockers count in Todo only", issueNo(1, blockedBy("Todo", "?")), nil, "dispatch A-1"},

		{"another account's pull request", issueNo(1, pulled), nil, "skip A-1 pull_request_open"},
		{"the same, an operator asks", issueNo(1, pulled, unread), func(s *Snapshot) {
			s.Only = []string{"id-1"}
			s.AtOnce = true
		}, "dispatch A-1"},
		{"the same, a workspace", issueNo(1, pulled, unread), func(s *Snapshot) {
			s.Workspaces = []Workspace{{IssueID: "id-1", Project: thisProject}}
		}, "dispatch A-1"},
		{"the same, a workspace of another project", issueNo(1, pulled), func(s *Snapshot) {
			s.Workspaces = []Workspace{{IssueID: "id-1", Project: otherProject}}
		}, "skip A-1 pull_request_open"},
		{"pull requests not read", issueNo(1, unread), nil, "skip A-1 pull_request_open"},
		{"not read, no slot", issueNo(1, unread), func(s *Snapshot) { s.Policy.MaxConcurrent = 0 }, "skip A-1 no_slot"},

		{"disk low", issueNo(1), func(s *Snapshot) { s.FreeBytes = 2<<30 - 1 }, "skip A-1 disk_low"},
		{"disk just enough", issueNo(1), func(s *Snapshot) { s.FreeBytes = 2 << 30 }, "dispatch A-1"},
		{"its old workspace is being removed", issueNo(1), func(s *Snapshot) {
			s.Runs = []Run{{ID: "c", Kind: CleanupRun, IssueID: "id-1"}}
			s.Liveness["c"] = Liveness{Alive: true}
		}, "skip A-1 workspace_busy"},
		{"dispatch off", issueNo(1), func(s *Snapshot) { s.DispatchOff = true }, ""},
		{
			"returned twice",
			issueNo(1),
			func(s *Snapshot) { s.Tracker.Candidates = append(s.Tracker.Candidates, issueNo(1)) },
			"dispatch A-1",
		},
	} {
		t.Run(row.rule, func(t *testing.T) {
			s := newScene().candidates(row.issue)
			if row.edit != nil {
				s.edit(row.edit)
			}
			plan := Compute(s.Snapshot)
			equal(t, "plan", story(plan), row.want)
			for _, skip := range plan.Skips {
				test.Equal(t, "the skip has a message", skip.Message != "", true)
			}
			equal(t, "skips are known", plan.Skips != nil, !s.DispatchOff)
		})
	}
}

func pulled(i *Issue) { i.OtherPull = &OtherPull{URL: "https://forge.example/1", Author: "ada"} }

func unread(i *Issue) { i.PullsUnread = true }

// What has begun goes on in spite of a pull request of another account.
func TestOtherPullOfClaim(t *testing.T) {
	i := issueNo(1, pulled)
	for name, row := range map[string]struct {
		s    *scene
		want string
	}{
		"running":      {newScene().running(i, nil), ""},
		"due retry":    {newScene().claim(i, nil), "dispatch A-1 backoff"},
		"continuation": {newScene().claim(i, func(c *Claim) { c.Kind = Continuation }), "dispatch A-1 continuation"},
		"end of a hold": {
			newScene().held(i, HoldMaxRuns).command(VerbRetry, i),
			"retry A-1 operator; dispatch A-1 requested",
		},
	} {
		equal(t, name, story(Compute(row.s.same().candidates(i).Snapshot)), row.want)
	}
	skip := Compute(newScene().candidates(i).Snapshot).Skips[0]
	equal(t, "subject and message", skip.Subject+", "+skip.Message,
		"https://forge.example/1, its pull request https://forge.example/1 by ada is open")
}

// An issue that waits for itself is named, directly or through others; one that only waits for
// a circle is not.
func TestCircleOfBlockers(t *testing.T) {
	var issues []Issue
	for n, blocker := range []int{2, 3, 1, 1} {
		ref := fmt.Sprintf("id-%d", blocker)
		issues = append(issues, issueNo(n+1, inState("Todo"), func(i *Issue) {
			i.BlockedBy = []BlockerRef{{
				ID:         &ref,
				Identifier: &ref,
				State:      new("Todo"),
			}}
		}))
	}
	circle := " (a circle: it waits for itself until you remove one of the dependencies)"
	for n, skip := range Compute(newScene().candidates(issues...).Snapshot).Skips {
		equal(
			t,
			skip.Identifier,
			skip.Subject,
			[]string{"id-2" + circle, "id-3" + circle, "id-1" + circle, "id-1"}[n],
		)
	}
}

// An issue does not wait for itself if its blocker has begun: blockers count only before.
func TestNoCircleWithBegunIssue(t *testing.T) {
	blockedBy := func(id, state string) func(*Issue) {
		return func(i *Issue) {
			i.BlockedBy = []BlockerRef{{ID: &id, Identifier: &id, State: &state}}
		}
	}
	waits := issueNo(1, inState("Todo"), blockedBy("id-2", "In Progress"))
	begun := issueNo(2, inState("In Progress"), blockedBy("id-1", "Todo"))
	for _, skip := range Compute(newScene().candidates(waits, begun).Snapshot).Skips {
		equal(t, skip.Identifier, skip.Subject, "id-2")
	}
}

// A due retry of a blocked issue is not started: its claim is released, and the issue is a
// candidate again.
func TestRetryOfBlockedIssue(t *testing.T) {
	todo := issueNo(1, inState("Todo"), blockedBy("In Progress"))
	s := newScene().claim(issueNo(1, inState("Todo")), nil).answer(todo).candidates(todo)
	equal(t, "due", story(Compute(s.Snapshot)), "release A-1 blocked_by; skip A-1 blocked_by")

	s = newScene().claim(todo, func(c *Claim) { c.DueAt = noon.Add(time.Second) }).same().candidates(todo)
	equal(t, "not due", story(Compute(s.Snapshot)), "")

	s = newScene().running(todo, nil).same().candidates(todo)
	equal(t, "running", story(Compute(s.Snapshot)), "")
}

// The two requests of a pass may see an issue at different moments. A candidate that was also
// refreshed counts as the refresh saw it.
func TestCandidateThatTheRefreshContradicts(t *testing.T) {
	for name, row := range map[string]struct {
		refreshed *Issue // nil: not returned
		want      string
	}{
		"inactive": {new(issueNo(1, inState("Human Review"))), "release A-1 inactive"},
		"missing":  {nil, "release A-1 missing"},
		"moved":    {new(issueNo(1, func(i *Issue) { i.Elsewhere = true })), "release A-1 moved"},
		"blocked": {
			new(issueNo(1, inState("Todo"), blockedBy("Todo"))),
			"release A-1 blocked_by; skip A-1 blocked_by",
		},
	} {
		s := newScene().claim(issueNo(1), nil).answer().candidates(issueNo(1))
		if row.refreshed != nil {
			s.answer(*row.refreshed)
		}
		equal(t, name, story(Compute(s.Snapshot)), row.want)
	}
}

// The order of dispatch: priority 1 to 4, then the rest; oldest first; identifier.
func TestOrder(t *testing.T) {
	sameAge := func(i *Issue) { at := noon; i.CreatedAt = &at }
	noAge := func(i *Issue) { i.CreatedAt = nil }
	s := newScene().candidates(
		issueNo(
			9,
			noAge,
		), issueNo(8, sameAge), issueNo(7, sameAge), issueNo(6), issueNo(5, priority(0)), issueNo(4, priority(5)),
		issueNo(3, priority(4)), issueNo(2, priority(1)), issueNo(1, priority(2)),
	)
	const want = "dispatch A-2; dispatch A-1; dispatch A-3; dispatch A-4; dispatch A-5; dispatch A-6; " +
		"dispatch A-7; dispatch A-8; dispatch A-9"
	equal(t, "plan", story(Compute(s.Snapshot)), want)
}

// Due retries and candidates are one list in one order, with one set of slots.
func TestOneList(t *testing.T) {
	urgent := issueNo(5, priority(1))
	old := issueNo(1)
	claimed := issueNo(3)
	scene := func(slots int) *scene {
		s := newScene().claim(claimed, nil).
			claim(issueNo(2), func(c *Claim) { c.DueAt = noon.Add(time.Millisecond) }).
			same()
		s.Policy.MaxConcurrent = slots
		return s.candidates(issueNo(4), old, urgent, claimed, issueNo(2))
	}
	equal(
		t,
		"2 slots",
		story(Compute(scene(2).Snapshot)),
		"dispatch A-5; dispatch A-1; retry A-3 no_slot; skip A-4 no_slot",
	)
	equal(
		t,
		"3 slots",
		story(Compute(scene(3).Snapshot)),
		"dispatch A-5; dispatch A-1; dispatch A-3 backoff; skip A-4 no_slot",
	)
}

// What a dispatch stores, for an unclaimed issue and for a due retry.
func TestDispatchStores(t *testing.T) {
	one := issueNo(1)
	first := Compute(newScene().candidates(one).Snapshot).Actions[0]
	equal(t, "first: version", first.Change.Claim.Version, 0)
	equal(t, "first: attempt", first.Change.Insert.Attempt, 0)
	equal(t, "first: root", first.Change.Insert.WorkspaceRoot, root)
	equal(t, "first: status", first.Change.Claim.Status, Running)
	equal(t, "first: fingerprint", first.Change.Insert.Fingerprint, one.Fingerprint())

	s := newScene().claim(one, func(c *Claim) {
		c.Attempt = 4
		c.WorkspaceRoot = "/old"
		c.Runs = 6
		c.Failures = 3
	}).same()
	again := Compute(s.Snapshot).Actions[0]
	equal(t, "again: version", again.Change.Claim.Version, 3)
	equal(t, "again: attempt", again.Change.Insert.Attempt, 4)
	equal(t, "again: the root that the claim was made with", again.Change.Insert.WorkspaceRoot, "/old")
	equal(t, "again: runs", again.Change.Claim.Runs, 7)
	equal(t, "again: failures", again.Change.Claim.Failures, 3)
}

// Slots are limited globally and per state. A running issue counts in its current state
// (specification 8.3).
func TestSlots(t *testing.T) {
	todo := inState("Todo")
	for _, row := range []struct {
		rule string
		edit func(*scene)
		want string
	}{
		{"two are free", func(s *scene) { s.Policy.MaxConcurrent = 4 }, "dispatch A-3; dispatch A-4; skip A-5 no_slot"},
		{
			"none is free",
			func(s *scene) { s.Policy.MaxConcurrent = 2 },
			"skip A-3 no_slot; skip A-4 no_slot; skip A-5 no_slot",
		},
		{
			"one of a state",
			func(s *scene) { s.Policy.MaxByState["todo"] = 2 },
			"dispatch A-3; dispatch A-5; skip A-4 no_slot_in_state",
		},
		{"a running issue changed its state", func(s *scene) {
			s.Policy.MaxByState["todo"] = 1
			s.answer(issueNo(1))
		}, "dispatch A-3; dispatch A-5; skip A-4 no_slot_in_state"},
		{"a held or waiting claim takes none", func(s *scene) {
			s.Policy.MaxConcurrent = 3
			s.held(issueNo(6), HoldMaxRuns).claim(issueNo(7), func(c *Claim) { c.DueAt = noon.Add(time.Hour) })
		}, "dispatch A-3; skip A-4 no_slot; skip A-5 no_slot"},
		{"a cleanup takes none", func(s *scene) {
			s.Policy.MaxConcurrent = 3
			s.Runs = append(s.Runs, Run{ID: "c", Kind: CleanupRun, IssueID: "id-9"})
			s.Liveness["c"] = Liveness{Alive: true}
		}, "dispatch A-3; skip A-4 no_slot; skip A-5 no_slot"},
		{"a run that is settled frees its slot in the same plan", func(s *scene) {
			s.Policy.MaxConcurrent = 2
			s.Runs[0].Outcome = Succeeded
			s.Liveness["run-A-1"] = Liveness{}
		}, "settle A-1 succeeded; dispatch A-3; skip A-4 no_slot; skip A-5 no_slot"},
		{"a run with a remaining process does not: it may not be possible to end the process", func(s *scene) {
			s.Policy.MaxConcurrent = 2
			s.dead(issueNo(1), 1)
		}, "reap A-1 worker_lost; settle A-1 lost; skip A-3 no_slot; skip A-4 no_slot; skip A-5 no_slot"},
		{"at once, this issue", func(s *scene) {
			s.Policy.MaxConcurrent = 1
			s.Policy.MaxByState["todo"] = 1
			s.Only = []string{"id-4"}
			s.AtOnce = true
		}, "dispatch A-4"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			s := newScene().running(issueNo(1, todo), nil).running(issueNo(2), nil).same()
			s.candidates(issueNo(3, todo), issueNo(4, todo), issueNo(5))
			row.edit(s)
			equal(t, "plan", story(Compute(s.Snapshot)), row.want)
		})
	}
}

// A due retry without a slot stays due, keeps its attempt and is marked once.
func TestNoSlotIsMarkedOnce(t *testing.T) {
	one := issueNo(1)
	for _, perState := range []bool{false, true} {
		s := newScene().claim(one, func(c *Claim) {
			c.Attempt = 6
			c.ErrorCode = "turn_failed"
			c.DueAt = noon.Add(-time.Hour)
		}).same()
		if perState {
			s.Policy.MaxByState["in progress"] = 0
		} else {
			s.Policy.MaxConcurrent = 0
		}
		p := compute(s.Snapshot)
		equal(t, "first pass", story(p.plan), "retry A-1 no_slot")
		equal(t, "claim", state(p, one), "retry no_slot #6 in -1h0m0s")
		equal(
			t,
			"error",
			p.claims[one.ID].ErrorCode+"|"+p.claims[one.ID].ErrorMessage,
			"|no available orchestrator slots",
		)
		s.Claims = p.remaining()
		equal(t, "next pass", len(Compute(s.Snapshot).Actions), 0)
	}
}

// After a fault of the agent's machine running workers continue, and dispatch starts one probe
// at a time, with a backoff of up to ten minutes. The first completed turn ends the block.
func TestBlock(t *testing.T) {
	block := func(tries int, next time.Duration) *Block {
		return &Block{
			Code:    "agent_auth",
			Message: "log in",
			Since:   noon.Add(-time.Hour),
			NextTry: noon.Add(next),
			Tries:   tries,
		}
	}
	startedBefore := func(_ *Claim, r *Run) {
		r.StartedAt = noon.Add(-2 * time.Hour)
		r.TurnsDone = 3
	}
	probing := func(turns int) func(*Claim, *Run) {
		return func(_ *Claim, r *Run) {
			r.StartedAt = noon.Add(-time.Minute)
			r.TurnsDone = turns
		}
	}
	for _, row := range []struct {
		rule  string
		block *Block
		run   func(*Claim, *Run) // of A-1; nil: none
		want  string
	}{
		{"wait for the next try", block(0, time.Millisecond), nil, "skip A-2 blocked"},
		{"one probe, the first in order", block(0, 0), nil, "dispatch A-2 probe"},
		{"a run from before the block proves nothing", block(0, time.Second), startedBefore, "skip A-2 blocked"},
		{"a run from before the block is no probe", block(0, 0), startedBefore, "dispatch A-2 probe"},
		{"one at a time", block(1, 0), probing(0), "skip A-2 blocked"},
		{"the probe completed a turn", block(1, 5*time.Minute), probing(1), "dispatch A-2; dispatch A-3 backoff"},
		{
			"the probe succeeded",
			block(1, 5*time.Minute),
			func(c *Claim, r *Run) { probing(1)(c, r); r.Outcome = Succeeded },
			"settle A-1 succeeded; dispatch A-2; dispatch A-3 backoff",
		},
		{"the probe failed by the issue's fault before a turn", block(1, 5*time.Minute), func(c *Claim, r *Run) {
			probing(0)(c, r)
			r.Outcome = Failed
			r.ErrorCode = "hook_failed"
		}, "settle A-1 failed; skip A-2 blocked"},
		{"the probe completed a turn, then met a fault: blocked again", block(1, 0), func(c *Claim, r *Run) {
			probing(1)(c, r)
			r.Outcome = Failed
			r.ErrorCode = "network"
		}, "settle A-1 failed; skip A-2 blocked"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			s := newScene().claim(issueNo(3), nil)
			if row.run != nil {
				s.running(issueNo(1), row.run)
			}
			s.same().candidates(issueNo(2))
			s.AgentBlock = row.block
			equal(t, "plan", story(Compute(s.Snapshot)), row.want)
		})
	}
}

// Probes back off: 10 s after the fault, then 20 s, doubled up to 10 minutes, whether or not
// the last probe has ended.
func TestProbeBackoff(t *testing.T) {
	s := newScene().candidates(issueNo(1))
	s.AgentBlock = &Block{Code: "network", Since: noon.Add(-time.Hour), NextTry: noon}
	var gaps []string
	for range 8 {
		p := compute(s.Snapshot)
		gaps = append(gaps, p.s.AgentBlock.NextTry.Sub(s.Now).String())
		equal(t, "stored with the dispatch", p.plan.Actions[0].Change.AgentBlock, p.s.AgentBlock)
		s.AgentBlock = p.s.AgentBlock
		s.Now = p.s.AgentBlock.NextTry
	}
	equal(t, "gaps", strings.Join(gaps, " "), "20s 40s 1m20s 2m40s 5m20s 10m0s 10m0s 10m0s")

	// The fault of a probe counts from the probe's end. The block keeps its start.
	s = newScene().running(issueNo(1), func(_ *Claim, r *Run) {
		r.Outcome = Failed
		r.ErrorCode = "agent_quota"
		r.ErrorText = "none left"
	})
	s.AgentBlock = &Block{
		Code:    "network",
		Since:   noon.Add(-time.Hour),
		NextTry: noon.Add(-time.Second),
		Tries:   2,
	}
	equal(t, "block", *compute(s.Snapshot).s.AgentBlock, Block{
		Code:    "agent_quota",
		Message: "none left",
		Since:   noon.Add(-time.Hour),
		NextTry: noon.Add(40 * time.Second),
		Tries:   2,
	})
}

// A step of the clock leaves no block that would last too long.
func TestBlockFromTheFuture(t *testing.T) {
	s := newScene().candidates(issueNo(1))
	s.AgentBlock = &Block{
		Code:    "network",
		Since:   noon.Add(365 * 24 * time.Hour),
		NextTry: noon.Add(366 * 24 * time.Hour),
	}
	plan := Compute(s.Snapshot)
	equal(t, "stored", *updates(plan)[0].AgentBlock, Block{
		Code:    "network",
		Since:   noon,
		NextTry: noon,
	})
	equal(t, "plan", story(plan), "dispatch A-1 probe")
}

// If a run meets a fault while another run, started later, completes turns, the fault is over.
func TestFaultThatIsOver(t *testing.T) {
	s := newScene().
		running(issueNo(1), func(_ *Claim, r *Run) {
			r.Outcome = Failed
			r.ErrorCode = "network"
			r.EndedAt = noon.Add(-30 * time.Second)
		}).
		running(issueNo(2), func(_ *Claim, r *Run) {
			r.StartedAt = noon.Add(-20 * time.Second)
			r.TurnsDone = 1
		})
	p := compute(s.Snapshot)
	equal(t, "blocked", p.s.AgentBlock != nil, false)
	equal(t, "stored", p.plan.Actions[0].Change.AgentBlock != nil, false)

	s.Runs[1].TurnsDone = 0
	equal(t, "without a turn it proves nothing", compute(s.Snapshot).s.AgentBlock != nil, true)
}
