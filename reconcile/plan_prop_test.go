package reconcile

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestPlanProperties checks what holds for the plan of any snapshot.
func TestPlanProperties(t *testing.T) {
	for rule, check := range map[string]func(*rapid.T, Snapshot){
		"the same snapshot gives the same plan":           pure,
		"a candidate is claimed or skipped":               everyCandidateOnce,
		"a dispatch finds a slot":                         neverMoreThanTheSlots,
		"the account bounds the runs":                     neverMoreThanTheAccount,
		"an issue that runs is not dispatched":            noSecondRun,
		"nothing starts where it must not":                nothingStarts,
		"a dead run is settled once":                      everyDeadRunOnce,
		"a claim is there or released":                    noClaimLost,
		"a command is carried out once":                   everyCommandOnce,
		"an applied plan leaves nothing to do afterwards": applyThenNothing,
	} {
		t.Run(rule, func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { check(t, drawSnapshot(t)) }) })
	}
}

func asJSON(t *rapid.T, v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// actions counts the plan's actions of one kind by what key makes of them.
func actions(p Plan, kind ActionKind, key func(Action) string) map[string]int {
	found := map[string]int{}
	for _, a := range p.Actions {
		if a.Kind == kind {
			found[key(a)]++
		}
	}
	return found
}

func byIssue(a Action) string { return a.IssueID }
func byRun(a Action) string   { return a.RunID }

func pure(t *rapid.T, s Snapshot) {
	before, first := asJSON(t, s), asJSON(t, Compute(s))
	if again := asJSON(t, Compute(s)); again != first {
		t.Fatalf("two plans:\n%s\n%s", first, again)
	}
	if after := asJSON(t, s); after != before {
		t.Fatalf("the snapshot changed:\n%s\n%s", before, after)
	}
}

// Every candidate ends as exactly one of claim (old or new) and skip, and none is dispatched twice.
func everyCandidateOnce(t *rapid.T, s Snapshot) {
	if s.Tracker == nil || !s.Tracker.Fetched || s.DispatchOff || s.Only != "" {
		return
	}
	p := compute(s)
	skipped := map[string]int{}
	for _, skip := range p.plan.Skips {
		skipped[skip.IssueID]++
		if skip.Reason == "" || skip.Message == "" {
			t.Fatalf("skip without a reason: %+v", skip)
		}
	}
	dispatched := actions(p.plan, ActDispatch, byIssue)
	for _, i := range s.Tracker.Candidates {
		claimed := p.claims[i.ID] != nil
		if n := skipped[i.ID]; n > 1 || claimed == (n == 1) {
			t.Fatalf("%s: claimed %v, skipped %d times: %s", i.Identifier, claimed, n, story(p.plan))
		}
		if n := dispatched[i.ID]; n > 1 || n == 1 && p.claims[i.ID].Status != Running {
			t.Fatalf("%s: dispatched %d times", i.Identifier, n)
		}
	}
}

// Every dispatch finds a slot, globally and in the state. More runs than slots exist only if they ran before.
func neverMoreThanTheSlots(t *rapid.T, s Snapshot) {
	if s.AnySlot {
		return
	}
	p := compute(s)
	used := p.openSlots()
	for _, a := range p.plan.Actions {
		if a.Kind != ActDispatch {
			continue
		}
		if used.taken > s.Policy.MaxConcurrent {
			t.Fatalf("%d of %d slots: %s", used.taken, s.Policy.MaxConcurrent, story(p.plan))
		}
		state := NormalizeState(a.Issue.State)
		if limit, limited := s.Policy.MaxByState[state]; limited && used.byState[state] > limit {
			t.Fatalf("%d of %d slots in %s: %s", used.byState[state], limit, state, story(p.plan))
		}
	}
}

// Nothing starts while a limit is used up, at most one run under a block and none while one that probes lives, and never more
// than there are slots.
func neverMoreThanTheAccount(t *rapid.T, s Snapshot) {
	d := &draw{T: t}
	if d.rarely("used up") {
		s.Account.Limit = &Limit{Window: "primary", Until: noon.Add(time.Hour)}
	}
	if d.flag("blocked by login") {
		s.Account.Block = &Block{Code: CodeAgentAuth, Since: d.ago("account since"), NextTry: noon.Add(time.Duration(d.upTo(4, "account next")-3) * time.Minute)}
		s.Account.Probing = d.rarely("probing")
	}
	if d.flag("bounded") {
		s.Account.Slots = &Slots{Free: d.upTo(3, "free slots"), Max: 3}
	}
	plan := Compute(s)
	n := plan.dispatches()
	switch a := s.Account; {
	case a.Limit != nil && n > 0, a.Block != nil && n > 1, a.Block != nil && a.Probing && n > 0, a.Slots != nil && n > a.Slots.Free:
		t.Fatalf("%+v: %s", a, story(plan))
	}
	for _, act := range plan.Actions {
		if act.Kind == ActDispatch && (act.Probe != nil) != (s.Account.Block != nil) {
			t.Fatalf("a run under a block is its probe, and no other is: %s", story(plan))
		}
	}
}

// A running issue is not dispatched, unless this plan settles its run first.
func noSecondRun(t *rapid.T, s Snapshot) {
	runs := map[string]string{}
	for _, c := range s.Claims {
		if c.Status == Running {
			runs[c.IssueID] = c.RunID
		}
	}
	for _, a := range Compute(s).Actions {
		switch {
		case a.Kind == ActSettle && runs[a.IssueID] == a.RunID:
			delete(runs, a.IssueID)
		case a.Kind == ActDispatch && runs[a.IssueID] != "":
			t.Fatalf("%s runs already", a.Identifier)
		case a.Kind == ActDispatch:
			runs[a.IssueID] = "new"
		}
	}
}

// Nothing starts while paused, without the tracker, where dispatch is off, or when the disk or the budget is low.
func nothingStarts(t *rapid.T, s Snapshot) {
	p := compute(s)
	if len(actions(p.plan, ActDispatch, byIssue)) == 0 {
		return
	}
	if p.s.Paused || s.Tracker == nil || s.DispatchOff || s.Tracker.Low || s.FreeBytes == 1 {
		t.Fatalf("dispatched: %s", story(p.plan))
	}
	if n := len(actions(p.plan, ActDispatch, byIssue)); p.s.AgentBlock != nil && n > 1 {
		t.Fatalf("%d probes: %s", n, story(p.plan))
	}
}

// Every run with a dead worker is settled exactly once, after it was reaped if it needs that; no other run is settled.
func everyDeadRunOnce(t *rapid.T, s Snapshot) {
	plan := Compute(s)
	settled := actions(plan, ActSettle, byRun)
	for _, r := range s.Runs {
		want := 0
		if live := s.Liveness[r.ID]; !live.Alive && (s.Only == "" || s.Only == r.IssueID) {
			want = 1
		}
		if settled[r.ID] != want {
			t.Fatalf("run %s settled %d times, want %d", r.ID, settled[r.ID], want)
		}
	}
	reaped := map[string]bool{}
	for _, a := range plan.Actions {
		reaped[a.RunID] = reaped[a.RunID] || a.Kind == ActReap
		for _, r := range s.Runs {
			left := r.Outcome == "" || len(s.Liveness[r.ID].Left) > 0
			if a.Kind == ActSettle && a.RunID == r.ID && left && !reaped[r.ID] {
				t.Fatalf("run %s settled before it was reaped", r.ID)
			}
		}
	}
}

// No claim is lost: it exists after the plan, or an action releases it.
func noClaimLost(t *rapid.T, s Snapshot) {
	p := compute(s)
	gone := actions(p.plan, ActRelease, byIssue)
	for _, r := range s.Runs {
		if r.StopReason == StopProject {
			gone[r.IssueID]++
		}
	}
	for _, c := range s.Claims {
		if p.claims[c.IssueID] == nil && gone[c.IssueID] == 0 {
			t.Fatalf("%s lost: %s", c.Identifier, story(p.plan))
		}
	}
}

// Every command is deleted once. In a pass for one issue, commands for other issues stay.
func everyCommandOnce(t *rapid.T, s Snapshot) {
	times := map[int64]int{}
	for _, id := range consumed(Compute(s)) {
		times[id]++
	}
	for _, cmd := range s.Commands {
		want := 1
		if about := cmd.Verb == VerbStop || cmd.Verb == VerbHold || cmd.Verb == VerbRetry; about && s.Only != "" && s.Only != cmd.IssueID {
			want = 0
		}
		if times[cmd.ID] != want {
			t.Fatalf("%s of %s consumed %d times, want %d", cmd.Verb, cmd.Identifier, times[cmd.ID], want)
		}
	}
}

// observed takes the snapshot of the world again, with the same answer of the tracker.
func observed(t *rapid.T, w *world, s Snapshot) Snapshot {
	rec, err := w.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Claims, s.Runs, s.Commands, s.Paused, s.AgentBlock, s.Tokens = rec.Claims, rec.Runs, rec.Commands, rec.Paused, rec.AgentBlock, rec.Tokens
	s.Liveness = map[string]Liveness{}
	for _, r := range rec.Runs {
		s.Liveness[r.ID] = w.Probe(t.Context(), r)
	}
	return s
}

// A plan can be applied in its order, and once applied leaves nothing to do. Where processes of a run remain, the next plan
// gives its slot away, and the plan after that has nothing to do.
func applyThenNothing(t *rapid.T, s Snapshot) {
	w := worldOf(s)
	tokens := w.allTokens()
	rounds := 1
	for _, live := range s.Liveness {
		if len(live.Left) > 0 {
			rounds = 2
		}
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

func (w *world) allTokens() int64 {
	var n int64
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
