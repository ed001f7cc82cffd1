package reconcile

import (
	"encoding/json"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/symphony-cron/symphony/internal/test"
)

func asJSON(t *rapid.T, v any) string {
	text, err := json.Marshal(v)
	test.OK(t, err)
	return string(text)
}

// checkPlan checks the properties of the plan of any snapshot.
func checkPlan(t *rapid.T, s Snapshot) {
	before := asJSON(t, s)
	p := compute(s)
	first := asJSON(t, p.plan)
	fail := func(format string, args ...any) {
		t.Fatalf("%s\nplan: %s", fmt.Sprintf(format, args...), story(p.plan))
	}
	if again := asJSON(t, Compute(s)); again != first {
		fail("another plan of the same snapshot: %s", story(Compute(s)))
	}
	if asJSON(t, s) != before {
		fail("the snapshot changed")
	}
	checkDispatches(s, p, fail)
	checkRuns(s, p, fail)

	// No claim is lost: it exists after the plan, or an action releases it.
	gone := map[string]bool{}
	for _, a := range p.plan.Actions {
		gone[a.IssueID] = gone[a.IssueID] || a.Change != nil && a.Change.Delete
	}
	for _, c := range s.Claims {
		if p.claims[c.IssueID] == nil && !gone[c.IssueID] {
			fail("%s lost", c.Identifier)
		}
	}
	// Every command is deleted once. In a pass for one issue, commands for other issues stay;
	// in one that starts nothing, deliveries.
	times := map[int64]int{}
	for _, id := range consumed(p.plan) {
		times[id]++
	}
	for _, cmd := range s.Commands {
		want := 1
		if cmd.Verb != VerbPause && cmd.Verb != VerbResume && cmd.Verb != VerbStopAll &&
			cmd.Verb != VerbUnblock &&
			!s.concerns(cmd.IssueID) {
			want = 0
		}
		if s.DispatchOff && cmd.Verb == VerbDeliver {
			want = 0
		}
		if times[cmd.ID] != want {
			fail("%s of %s consumed %d times, want %d", cmd.Verb, cmd.Identifier, times[cmd.ID], want)
		}
	}
}

// checkDispatches checks what is started and what is skipped.
func checkDispatches(s Snapshot, p *planner, fail func(string, ...any)) {
	if len(s.Policy.Hosts) > 0 { // agents there use other accounts
		s.Accounts = nil
	}
	used := p.newDispatch()
	started := map[string]int{}
	runs := map[string]bool{}
	wanted := map[string]bool{} // since an earlier pass, by symphony retry for example
	asked := 0                  // runs that an operator asked for, which start in spite of blocks
	for _, c := range s.Claims {
		runs[c.IssueID] = c.Status == Running
		wanted[c.IssueID] = c.Wanted
	}
	for _, a := range p.plan.Actions {
		switch a.Kind {
		case ActSettle:
			runs[a.IssueID] = false
		case ActDispatch:
			started[a.IssueID]++
			if s.atOnce(a.IssueID) || wanted[a.IssueID] || p.claims[a.IssueID].Kind == Requested {
				asked++
			}
			if runs[a.IssueID] {
				fail("%s runs already", a.Identifier)
			}
			runs[a.IssueID] = true
			state := NormalizeState(a.Change.Insert.Issue.State)
			limit, limited := s.Policy.MaxByState[state]
			if !s.AtOnce && (used.taken > s.Policy.MaxConcurrent || limited && used.byState[state] > limit) {
				fail(
					"%d of %d slots, %d of %d in %s",
					used.taken,
					s.Policy.MaxConcurrent,
					used.byState[state],
					limit,
					state,
				)
			}
			if (a.Probe != nil) != (s.account(Agent{}).Block != nil) {
				fail("a run under a block is its probe, and no other is")
			}
		default:
		}
	}
	n := len(started)
	account := s.account(Agent{})
	switch {
	case n == 0:
	case p.s.Paused,
		s.Tracker == nil,
		s.DispatchOff,
		s.FreeBytes == 1,
		account.Limit != nil,
		account.Probing && n > asked,
		s.Policy.DailyBudget.Set() && n > asked:
		fail("dispatched")
	case n > asked+1 && (p.s.AgentBlock != nil && len(s.Policy.Hosts) == 0 || account.Block != nil),
		s.Slots != nil && n > s.Slots.Free:
		fail("%d dispatched", n)
	case p.plan.Obstacle != nil:
		fail("something is started in spite of %s", p.plan.Obstacle.Reason)
	}
	// Every candidate becomes either a claim (old or new) or a skip, and none is dispatched
	// twice.
	if s.Tracker == nil || !s.Tracker.Fetched || s.DispatchOff || !s.all() {
		return
	}
	skipped := map[string]int{}
	for _, skip := range p.plan.Skips {
		skipped[skip.IssueID]++
		if skip.Reason == "" || skip.Message == "" {
			fail("skip without a reason: %+v", skip)
		}
	}
	for _, i := range s.Tracker.Candidates {
		claimed := p.claims[i.ID] != nil
		if n := skipped[i.ID]; n > 1 || claimed == (n == 1) || started[i.ID] > 1 {
			fail(
				"%s: claimed %v, skipped %d times, started %d times",
				i.Identifier,
				claimed,
				n,
				started[i.ID],
			)
		}
	}
}

// checkRuns checks that every run with a dead worker is settled exactly once, after it was
// reaped if necessary, and that no other run is settled.
func checkRuns(s Snapshot, p *planner, fail func(string, ...any)) {
	settled := map[string]int{}
	reaped := map[string]bool{}
	for _, a := range p.plan.Actions {
		switch a.Kind {
		case ActReap:
			reaped[a.RunID] = true
		case ActSettle:
			settled[a.RunID]++
		default:
		}
		for _, r := range s.Runs {
			left := r.Outcome == "" || len(s.Liveness[r.ID].Left) > 0
			if settled[r.ID] > 0 && left && !reaped[r.ID] {
				fail("run %s settled before it was reaped", r.ID)
			}
		}
	}
	for _, r := range s.Runs {
		want := 0
		over := !s.Liveness[r.ID].Alive || p.s.overdue(r) || r.Remote == RemoteGone
		// that one only its host may end
		if over && s.concerns(r.IssueID) && r.Remote != RemoteBegun {
			want = 1
		}
		if settled[r.ID] != want {
			fail("run %s settled %d times, want %d", r.ID, settled[r.ID], want)
		}
	}
}

// observed takes a new snapshot of the world, with the same answer of the tracker.
func observed(t *rapid.T, w *world, s Snapshot) Snapshot {
	host := s.MachineBlock
	rec, err := w.State(t.Context())
	test.OK(t, err)
	s.State = rec
	s.Liveness = map[string]Liveness{}
	s.MachineBlock = host
	for _, r := range rec.Runs {
		s.Liveness[r.ID] = w.Probe(t.Context(), r)
	}
	return s
}

// applyThenNothing checks that a plan can be applied, and that the next plan is then empty. If
// a run has remaining processes, the next plan may use its slot, and the plan after that is
// empty.
func applyThenNothing(t *rapid.T, s Snapshot) {
	w := worldOf(s)
	w.ids = 900 // apart from the runs of the snapshot
	for _, r := range s.Runs {
		w.used[r.IssueID] -= r.Tokens.Total // which the snapshot has counted
	}
	tokens := w.allTokens()
	rounds := 1
	for _, live := range s.Liveness {
		if len(live.Left) > 0 {
			rounds = 2
		}
	}
	if slices.ContainsFunc(s.Commands, func(c Command) bool { return c.Verb == VerbHostGone }) {
		rounds++ // the next plan settles the run
	}
	if slices.ContainsFunc(s.Runs, func(r Run) bool { return r.Remote == RemoteBegun }) {
		rounds++ // a worker that is killed is followed by one that ends the run on its host
	}
	for range rounds {
		plan := Compute(s)
		for _, a := range apply(t.Context(), w.deps(s.Policy), plan, s.Runs) {
			if a.Err != nil {
				t.Fatalf("%v: %v\nplan: %s", a.Action, a.Err, story(plan))
			}
		}
		w.noWrong(t)
		s = observed(t, w, s)
	}
	if again := Compute(s); len(again.Actions) > 0 {
		t.Fatalf("again: %s, updates %s", story(again), asJSON(t, updates(again)))
	}
	if after := w.allTokens(); after != tokens {
		t.Fatalf("%d tokens before, %d after", tokens, after)
	}
}

func (w *world) allTokens() (n int64) {
	for _, used := range w.used {
		n += used
	}
	for _, r := range w.runs {
		if !r.Settled {
			n += r.Tokens.Total
		}
	}
	return n
}
