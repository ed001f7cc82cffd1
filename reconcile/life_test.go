package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestLife simulates a small project: issues move, workers end and die, operators give
// commands, the machine restarts, the tracker fails, passes are interrupted anywhere. The
// invariants hold between any two passes, and every plan has the properties of a plan. When
// the faults end, all work gets done.
func TestLife(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &life{world: newWorld(), policy: testPolicy(), unpushed: map[string]bool{}}
		l.choosePolicy(t)
		for n := 1; n <= 5; n++ {
			l.issues[issueNo(n).ID] = issueNo(n)
		}
		t.Repeat(map[string]func(*rapid.T){
			"":     l.check,
			"pass": func(t *rapid.T) { l.pass(t, cut{}) },
			"pass in which a run ends": func(t *rapid.T) {
				ended := l.alive(t)
				again := l.trackerError(t)
				l.pass(t, cut{}, func() {
					r := l.runs[ended]
					r.Outcome = Succeeded
					r.EndedAt = l.now
					l.unpushed[r.IssueID] = l.unpushed[r.IssueID] && r.Kind != DeliveryRun
					l.runs[ended] = r
					l.workers[ended].alive = false
					l.refused = again
				})
			},
			"cut off": func(t *rapid.T) {
				l.pass(t, cut{
					at:   rapid.IntRange(1, 30).Draw(t, "at"),
					kind: rapid.SampledFrom([]cutKind{diesBefore, diesAfter, fails}).Draw(t, "kind"),
				})
			},
			"plan": func(t *rapid.T) {
				s := l.snapshot(t)
				checkPlan(t, s)
				s.Accounts = nil
				s.Slots = nil
				applyThenNothing(t, s)
			},
			"time": func(t *rapid.T) {
				l.now = l.now.Add(time.Duration(rapid.IntRange(1, 600).Draw(t, "seconds")) * time.Second)
			},
			"issue":   l.move,
			"worker":  l.end,
			"command": l.order,
			"reboot":  l.reboot,
			"tracker": func(t *rapid.T) { l.refused = l.trackerError(t) },
			"obey":    func(*rapid.T) { l.obey() },
		})
		l.calm(t)
	})
}

type life struct {
	*world
	policy   Policy
	orders   int64
	unpushed map[string]bool // by issue id: commits of the issue were not delivered yet
}

// rarely is true once in eight times.
func rarely(t *rapid.T, label string) bool { return rapid.IntRange(0, 7).Draw(t, label) == 7 }

func upTo(t *rapid.T, n int, label string) int { return rapid.IntRange(0, n).Draw(t, label) }

func (l *life) choosePolicy(t *rapid.T) {
	p := &l.policy
	p.MaxConcurrent = 1 + upTo(t, 3, "slots")
	p.MaxFailures = upTo(t, 4, "failures")
	p.MaxIdleRuns = upTo(t, 4, "idle")
	p.MaxRuns = upTo(t, 4, "runs")
	p.Deliver = rapid.Bool().Draw(t, "deliver")
	if rapid.Bool().Draw(t, "hosts") {
		p.Hosts = []string{"near", "far"}
		p.MaxPerHost = upTo(t, 2, "slots of a host")
		p.LostAfter = 15 * time.Minute
		p.Deliver = false
	}
	p.MaxTokens = int64(upTo(t, 3, "tokens") * 10)
	if rarely(t, "limit a state") {
		p.MaxByState["todo"] = upTo(t, 3, "slots in todo")
	}
	if rarely(t, "labels") {
		p.RequiredLabels = []string{"agent"}
	}
	if rarely(t, "assignee") {
		p.Assignee = "me"
	}
}

// snapshot returns a snapshot that a pass could take now, with any options and any state of
// disk and account.
func (l *life) snapshot(t *rapid.T) Snapshot {
	s := observed(t, l.world, Snapshot{
		Now:        l.now,
		Boot:       l.boot,
		Mono:       l.now.Sub(noon) + 100*time.Hour,
		Policy:     l.policy,
		Workspaces: l.workspaces,
		FreeBytes:  rapid.SampledFrom([]int64{-1, -1, 1 << 40, 1}).Draw(t, "free"),
	})
	s.DispatchOff = rarely(t, "dispatch off")
	if rarely(t, "only") {
		s.Only = []string{issueNo(1 + upTo(t, 4, "this")).ID}
		s.AtOnce = rapid.Bool().Draw(t, "at once")
	}
	account := Account{}
	if rarely(t, "used up") {
		account.Limit = &Limit{Window: "primary", Until: l.now.Add(time.Hour)}
	}
	if rarely(t, "budget used up") {
		s.Policy.DailyBudget = DailyBudget{Tokens: 1}
		s.Today = []ModelUse{{Tokens: Tokens{Total: 1}}}
	}
	if rarely(t, "login fails") {
		next := l.now.Add(time.Duration(upTo(t, 4, "next try")-3) * time.Minute)
		account.Block = &Block{Code: CodeAgentAuth, Since: l.now.Add(-time.Hour), NextTry: next}
		account.Probing = rarely(t, "probing")
	}
	s.Accounts = []Account{account}
	if rarely(t, "bounded") {
		s.Slots = &Slots{Free: upTo(t, 3, "free slots"), Max: 3}
	}
	if rarely(t, "no answer") {
		return s
	}
	s.SweepDue = rarely(t, "sweep")
	s.Tracker = &Tracked{
		Refreshed: map[string]bool{},
		ByID:      map[string]Issue{},
		Fetched:   !s.DispatchOff && !rarely(t, "not fetched"),
	}
	for _, c := range s.Claims {
		s.Tracker.Refreshed[c.IssueID] = true
	}
	for _, w := range s.Workspaces {
		s.Tracker.Refreshed[w.IssueID] = s.Tracker.Refreshed[w.IssueID] || s.SweepDue
	}
	for _, id := range slices.Sorted(maps.Keys(l.issues)) {
		i := l.issues[id]
		if s.Tracker.Refreshed[id] {
			s.Tracker.ByID[id] = i
		}
		if s.Tracker.Fetched && s.Policy.Active(i.State) {
			s.Tracker.Candidates = append(s.Tracker.Candidates, i)
		}
	}
	return s
}

func (l *life) trackerError(t *rapid.T) error {
	return rapid.SampledFrom([]error{nil, errTracker, rateLimited(l.now.Add(time.Minute))}).Draw(t, "error")
}

// alive returns the run of a worker that works on this machine.
func (l *life) alive(t *rapid.T) string {
	var alive []string
	for _, id := range slices.Sorted(maps.Keys(l.workers)) {
		if r := l.runs[id]; l.workers[id].alive && r.Host == "" && r.Outcome == "" && r.StopReason == "" {
			alive = append(alive, id)
		}
	}
	if len(alive) == 0 {
		t.Skip("no worker lives")
	}
	return rapid.SampledFrom(alive).Draw(t, "run")
}

// pass runs a pass. The functions are called after the tracker has read the issues.
func (l *life) pass(t *rapid.T, c cut, after ...func()) {
	l.cut = c
	deps := l.deps(l.policy)
	for _, do := range after {
		deps.Tracker.Tracker = &late{world: l.world, after: do, before: func() {}}
	}
	Tick(t.Context(), deps, Options{})
	l.revive()
	for _, id := range slices.Sorted(maps.Keys(l.claims)) { // their workers make workspaces
		if !slices.ContainsFunc(l.workspaces, func(w Workspace) bool { return w.IssueID == id }) {
			l.workspaces = append(l.workspaces, newScene().workspace(l.claims[id].Issue).Workspaces...)
		}
	}
}

// move changes an issue, deletes it or restores it.
func (l *life) move(t *rapid.T) {
	i := issueNo(
		1+upTo(t, 4, "issue"),
		inState(
			rapid.SampledFrom([]string{"Todo", "In Progress", "Done", "Human Review", "gone"}).
				Draw(t, "state"),
		),
	)
	if !rarely(t, "no label") {
		i.Labels = []string{"agent"}
		i.Assignee = &Assignee{ID: "u", IsMe: true}
	}
	if rarely(t, "blocked by") {
		blockedBy(rapid.SampledFrom([]string{"Todo", "Done", "?"}).Draw(t, "blocker"))(&i)
	}
	if rarely(t, "comment") {
		commentedAt(l.now)(&i)
	}
	l.issues[i.ID] = i
	if i.State == "gone" {
		delete(l.issues, i.ID)
	}
}

// end lets a worker end or die, perhaps with remaining processes.
func (l *life) end(t *rapid.T) {
	var alive []string
	for _, id := range slices.Sorted(maps.Keys(l.workers)) {
		if l.workers[id].alive {
			alive = append(alive, id)
		}
	}
	if len(alive) == 0 {
		t.Skip("no worker lives")
	}
	id := rapid.SampledFrom(alive).Draw(t, "run")
	r := l.runs[id]
	p := l.workers[id]
	p.alive = false
	if r.Phase == EndingThere {
		r.HeartbeatAt = l.now
		if rapid.Bool().Draw(t, "confirmed") {
			r = l.confirms(r)
		}
		l.runs[id] = r
		return
	}
	r.Tokens.Total += 10
	r.Outcome = rapid.SampledFrom([]Outcome{"", Succeeded, Failed, InterruptedRun}).Draw(t, "outcome")
	if r.Outcome != "" {
		if r.Host != "" && !rarely(t, "lost") {
			r = l.confirms(r)
		}
		r.EndedAt = l.now
		r.ErrorCode = rapid.SampledFrom([]string{"", "network", "workspace_busy"}).Draw(t, "code")
	}
	pushed := rapid.Bool().Draw(t, "pushed")
	switch {
	case r.Kind == DeliveryRun && r.Outcome == Succeeded:
		l.unpushed[r.IssueID] = false
	case r.Kind == AgentRun && rapid.Bool().Draw(t, "commits"):
		r.Turns = 1
		r.Delivery.Done = pushed && r.Outcome != ""
		if !r.Delivery.Done &&
			rapid.Bool().Draw(t, "push failed") &&
			r.Outcome != "" {
			r.Delivery.Code = "delivery_failed"
		}
		l.unpushed[r.IssueID] = !r.Delivery.Done
	default: // without commits
	}
	p.left = make([]Process, rapid.IntRange(0, 1).Draw(t, "left"))
	p.stubborn = rapid.Bool().Draw(t, "stubborn")
	l.runs[id] = r
}

func (l *life) order(t *rapid.T) {
	l.orders++
	i := issueNo(1 + upTo(t, 4, "issue"))
	verb := rapid.SampledFrom([]Verb{
		VerbStop,
		VerbHold,
		VerbRetry,
		VerbPause,
		VerbResume,
		VerbStopAll,
		VerbUnblock,
		VerbDeliver,
		VerbHostGone,
	}).
		Draw(t, "verb")
	l.commands[l.orders] = Command{
		ID:         l.orders,
		Verb:       verb,
		IssueID:    i.ID,
		Identifier: i.Identifier,
	}
}

func (l *life) reboot(*rapid.T) {
	l.boot += "'"
	for _, p := range l.workers {
		*p = worker{}
	}
}

// check checks what is true at any time.
func (l *life) check(t *rapid.T) {
	l.noWrong(t)
	live := 0
	for id, p := range l.workers {
		// A run that three passes could not end is settled, and its claim is held.
		if l.runs[id].Kind == AgentRun && !l.runs[id].Settled && l.runs[id].Phase != EndingThere &&
			(p.alive || len(p.left) > 0) {
			live++
		}
	}
	if live > l.policy.MaxConcurrent {
		t.Fatalf("%d live agents in %d slots", live, l.policy.MaxConcurrent)
	}
	for id, r := range l.runs {
		if c := l.claims[r.IssueID]; !r.Settled && r.Kind != CleanupRun && r.Remote == "" &&
			(c.Status != Running || c.RunID != id) {
			t.Fatalf("no claim waits for run %s of %s", id, r.Identifier)
		}
		if l.policy.Deliver && l.unpushed[r.IssueID] && r.Kind == AgentRun && l.workers[id] != nil &&
			l.workers[id].alive {
			t.Fatalf("an agent works on %s, whose commits were not delivered", r.Identifier)
		}
	}
	for id, unpushed := range l.unpushed {
		if _, claimed := l.claims[id]; l.policy.Deliver && unpushed && !claimed {
			t.Fatalf("%s was released although its commits were not delivered", id)
		}
	}
}

// calm ends all faults and runs a few passes. Afterwards no command and no dead run is left,
// and all tokens are counted.
func (l *life) calm(t *rapid.T) {
	l.refused = nil
	for range 3 {
		for _, p := range l.workers {
			p.stubborn = false
		}
		l.obey()
		l.now = l.now.Add(10 * time.Minute)
		l.pass(t, cut{})
		l.check(t)
	}
	var tokens, used int64
	for id, r := range l.runs {
		tokens += r.Tokens.Total
		if p := l.workers[id]; !r.Settled && (p == nil || !p.alive) {
			t.Fatalf("run %s was never settled", id)
		}
	}
	for _, n := range l.used {
		used += n
	}
	for id, r := range l.runs {
		if !r.Settled {
			used += l.runs[id].Tokens.Total
		}
	}
	if used != tokens || len(l.commands) > 0 {
		t.Fatalf("%d of %d tokens, commands left: %s", used, tokens, fmt.Sprint(l.commands))
	}
	for id, c := range l.claims {
		if i, visible := l.issues[id]; c.Status != Running && c.HoldReason != HoldOperator &&
			!c.Delivery.Due &&
			(!visible || !l.policy.Active(i.State)) {
			t.Fatalf("%s is still claimed although it is %q", c.Identifier, i.State)
		}
	}
}
