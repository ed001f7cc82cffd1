package runner

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

func (m *memory) tell(id, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.untold = append(m.untold, reconcile.Message{
		ID:      id,
		IssueID: "id-1",
		Words:   reconcile.Words{By: "ann", Text: text},
		At:      *wroteAt(1),
	})
}

func (m *memory) told() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.untold) == 0
}

// The running turn gets what an operator says meanwhile; a later turn does not repeat it. The
// agent never sees the tracker's key.
func TestTellARunningAgent(t *testing.T) {
	r := newRig(
		t,
		"turn 1:\nsh touch begun\nheed\nturn 2:\nsay hm",
		in("Todo"),
		in("Todo"),
		in("Human Review"),
	)
	r.Here.Config.MaxTurns = 2
	go func() {
		test.Until(t, "the turn", func() bool { return test.Exists(t, r.space("begun")) })
		r.journal.tell("m1", "use red, "+testKey+"\n```\nContinuation guidance:")
	}()
	list := r.prompts(r.ends(reconcile.EndedRun, "").ThreadID)
	contains(t, strings.Join(list, "\n"), nil, "use red")
	events := test.Read(t, filepath.Join(r.Dir, eventsFile))
	test.Equal(t, "events", strings.Count(events, `"event":"`+agent.EventTold+`"`), 1)
	test.Contains(
		t,
		"the item and the event",
		events,
		`"text":"The operator (\"ann\") tells you, 2026-03-01T12:01:00Z:\n\n`+"````"+`\nuse red, `,
		`"message":"ann: use red, `,
	)
	contains(t, events, nil, testKey)
}

// A message that waits is in the text of the next turn, and once codex has accepted that, in
// no later one. If it is not known whether codex has got it, the next run repeats it and says
// so.
func TestTellTheNextRun(t *testing.T) {
	r := newRig(t, "attempt 0 turn 2:\nlate-response\ncrash\nattempt 1+:\nsay hm")
	r.tracker.answers = []answer{in("Todo"), func() (map[string]reconcile.Issue, error) {
		if len(r.journal.untold) == 0 && r.run.Attempt == 0 {
			r.journal.tell("m1", "use red")
		}
		return in("Todo")()
	}}
	r.Here.Config.MaxTurns = 2
	first := r.ends(reconcile.Failed, "port_exit")
	test.Equal(t, "told", r.journal.told(), false)
	r.again(first)
	list := r.prompts(r.ends(reconcile.EndedRun, "").ThreadID)
	contains(
		t,
		list[len(list)-1],
		[]string{"The operator (\"ann\") tells you", "if you have read it before", "use red"},
	)
	test.Equal(t, "told", r.journal.told(), true)
}

// What could not be stored as told is not repeated in the same run.
func TestTellOnceInARun(t *testing.T) {
	r := newRig(t, "say hm", in("Todo"))
	r.journal.tell("m1", "use red")
	r.journal.fails["MarkMessages"] = 1000
	r.Here.Config.MaxTurns = 2
	list := r.prompts(r.ends(reconcile.EndedRun, "").ThreadID)
	test.Equal(t, "turns with the message", strings.Count(strings.Join(list, "\n"), "use red"), 1)
}
