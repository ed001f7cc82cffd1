package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// noon is the current time in every table.
var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

const (
	thisProject  = "https://tracker.example/graphql here"
	otherProject = "https://tracker.example/graphql there"
	thisBoot     = "boot-2"
	root         = "/w"
)

func testPolicy() Policy {
	return Policy{
		Project:         thisProject,
		ActiveStates:    []string{"Todo", "In Progress"},
		TerminalStates:  []string{"Done", "Canceled"},
		WaitingStates:   []string{"todo"},
		MaxConcurrent:   10,
		MaxByState:      map[string]int{},
		MaxRetryBackoff: 5 * time.Minute,
		MaxFailures:     10,
		MaxIdleRuns:     3,
		MaxRuns:         20,
		WorkspaceRoot:   root,
		MinFreeBytes:    2 << 30,
	}
}

// issueNo makes, …: in progress, the lower number older.
func issueNo(n int, edits ...func(*Issue)) Issue {
	created := noon.Add(time.Duration(n-1000) * time.Hour)
	i := Issue{
		ID:         fmt.Sprintf("id-%d", n),
		Identifier: fmt.Sprintf("A-%d", n),
		Title:      "work",
		State:      "In Progress",
		CreatedAt:  &created,
	}
	for _, edit := range edits {
		edit(&i)
	}
	return i
}

func inState(state string) func(*Issue) { return func(i *Issue) { i.State = state } }

func priority(n int) func(*Issue) { return func(i *Issue) { i.Priority = &n } }

// blockedBy adds blockers in these states to the issue; "?" is a blocker whose state is
// unknown.
func blockedBy(states ...string) func(*Issue) {
	return func(i *Issue) {
		for n, s := range states {
			name := fmt.Sprintf("B-%d", n+1)
			ref := BlockerRef{Identifier: &name}
			if s != "?" {
				ref.State = &s
			}
			i.BlockedBy = append(i.BlockedBy, ref)
		}
	}
}

func commentedAt(at time.Time) func(*Issue) { return func(i *Issue) { i.LastCommentAt = &at } }

// scene is a snapshot under construction.
type scene struct{ Snapshot }

func newScene() *scene {
	return &scene{Snapshot{
		Now:       noon,
		Boot:      thisBoot,
		Policy:    testPolicy(),
		Liveness:  map[string]Liveness{},
		State:     State{Tokens: map[string]int64{}},
		FreeBytes: -1,
	}}
}

// claim adds a waiting claim: due now, kind backoff, attempt 1.
func (s *scene) claim(i Issue, edit func(*Claim)) *scene {
	c := Claim{
		IssueID:       i.ID,
		Identifier:    i.Identifier,
		Status:        Waiting,
		Version:       3,
		Attempt:       1,
		Kind:          Backoff,
		DueAt:         noon,
		Issue:         i,
		Project:       thisProject,
		WorkspaceRoot: root,
		ClaimedAt:     noon.Add(-time.Hour),
		UpdatedAt:     noon.Add(-time.Minute),
	}
	if edit != nil {
		edit(&c)
	}
	s.Claims = append(s.Claims, c)
	return s
}

// held adds a claim that has been held for ten minutes.
func (s *scene) held(i Issue, reason string) *scene {
	return s.claim(i, func(c *Claim) {
		c.Status = Held
		c.HoldReason = reason
		c.HeldAt = noon.Add(-10 * time.Minute)
	})
}

// running adds a running claim and its run: attempt 1, the worker alive. If the edit sets an
// outcome, the run has ended now.
func (s *scene) running(i Issue, edit func(*Claim, *Run)) *scene {
	r := Run{
		ID:          "run-" + i.Identifier,
		Kind:        AgentRun,
		IssueID:     i.ID,
		Identifier:  i.Identifier,
		Attempt:     1,
		Phase:       StreamingTurn,
		Issue:       i,
		Fingerprint: i.Fingerprint(),
		Worker:      Handle{Boot: thisBoot, PID: 100},
		StartedAt:   noon.Add(-time.Minute),
	}
	s.claim(i, func(c *Claim) {
		c.Status = Running
		c.RunID = r.ID
		c.Runs = 1
		c.DueAt = time.Time{}
		if edit != nil {
			edit(c, &r)
		}
	})
	if r.Outcome != "" && r.EndedAt.IsZero() {
		r.EndedAt = noon
	}
	s.Runs = append(s.Runs, r)
	s.Liveness[r.ID] = Liveness{Alive: r.Outcome == ""}
	return s
}

// dead makes the issue's worker dead, with this number of remaining processes.
func (s *scene) dead(i Issue, left int) *scene {
	s.Liveness["run-"+i.Identifier] = Liveness{Left: make([]Process, left)}
	return s
}

func (s *scene) command(verb Verb, i Issue) *scene {
	s.Commands = append(s.Commands, Command{
		ID:         int64(len(s.Commands) + 1),
		Verb:       verb,
		IssueID:    i.ID,
		Identifier: i.Identifier,
		CreatedAt:  noon,
	})
	return s
}

// answer adds the tracker's answer to the refresh: these issues are visible, and the other
// claims' are not.
func (s *scene) answer(visible ...Issue) *scene {
	t := s.tracked()
	for _, c := range s.Claims {
		t.Refreshed[c.IssueID] = true
	}
	for _, w := range s.Workspaces {
		t.Refreshed[w.IssueID] = true
	}
	for _, i := range visible {
		t.Refreshed[i.ID] = true
		t.ByID[i.ID] = i
	}
	return s
}

// same adds the answer that every claimed issue is unchanged.
func (s *scene) same() *scene {
	for _, c := range s.Claims {
		s.answer(c.Issue)
	}
	return s.answer()
}

func (s *scene) candidates(list ...Issue) *scene {
	t := s.tracked()
	t.Candidates = append(t.Candidates, list...)
	t.Fetched = true
	return s
}

func (s *scene) tracked() *Tracked {
	if s.Tracker == nil {
		s.Tracker = &Tracked{Refreshed: map[string]bool{}, ByID: map[string]Issue{}}
	}
	return s.Tracker
}

func (s *scene) workspace(i Issue) *scene {
	s.Workspaces = append(s.Workspaces, Workspace{
		IssueID:    i.ID,
		Identifier: i.Identifier,
		Key:        i.Identifier,
		Root:       root,
		Path:       root + "/" + i.Identifier,
		Project:    thisProject,
	})
	return s
}

// edit changes the snapshot.
func (s *scene) edit(f func(*Snapshot)) *scene {
	f(&s.Snapshot)
	return s
}

// story summarises a plan: "action issue reason" for each action, then "skip issue reason" for
// each skip.
func story(p Plan) string {
	var lines []string
	for _, a := range p.Actions {
		if a.Kind != actUpdate {
			lines = append(lines, strings.TrimSpace(string(a.Kind)+" "+a.Identifier+" "+a.Reason))
		}
	}
	for _, s := range p.Skips {
		lines = append(lines, "skip "+s.Identifier+" "+s.Reason)
	}
	return strings.Join(lines, "; ")
}

// state summarises the issue's claim after the plan: its status, then the counters that are
// not zero.
func state(p *planner, i Issue) string { return summary(p.claims, i, p.s.Now) }

func summary(claims map[string]*Claim, i Issue, now time.Time) string {
	c := claims[i.ID]
	if c == nil {
		return "unclaimed"
	}
	words := []string{string(c.Status)}
	switch c.Status {
	case Waiting:
		words = append(words, string(c.Kind), fmt.Sprintf("#%d in %v", c.Attempt, c.DueAt.Sub(now)))
	case Held:
		words = append(words, c.HoldReason)
	case Running:
		words = append(words, fmt.Sprintf("#%d", c.Attempt))
	}
	for _, counter := range []struct {
		name string
		n    int
	}{{"failures", c.Failures}, {"idle", c.IdleRuns}, {"runs", c.Runs}, {"interruptions", c.Interruptions}} {
		if counter.n != 0 {
			words = append(words, fmt.Sprintf("%s=%d", counter.name, counter.n))
		}
	}
	if c.HoldNext {
		words = append(words, "then held")
	}
	return strings.Join(words, " ")
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s\n got %v\nwant %v", what, got, want)
	}
}

// consumed lists the ids of the commands that the plan deletes.
func consumed(p Plan) []int64 {
	var ids []int64
	for _, a := range p.Actions {
		if a.Change != nil {
			ids = append(ids, a.Change.Commands...)
		}
	}
	slices.Sort(ids)
	return ids
}

// updates lists the changes of the plan's unreported updates.
func updates(p Plan) (list []Change) {
	for _, a := range p.Actions {
		if a.Kind == actUpdate {
			list = append(list, *a.Change)
		}
	}
	return list
}
