package runner

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// wroteAt is when the comments of these tests were made.
func wroteAt(minute int) *time.Time {
	at := time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC)
	return &at
}

func describedAs(text string, comment *time.Time) answer {
	return with(func(i *reconcile.Issue) { i.Description, i.LastCommentAt = &text, comment })
}

// holds checks which of some texts a prompt has.
func holds(t *testing.T, prompt string, has []string, hasNot ...string) {
	t.Helper()
	for _, s := range has {
		if !strings.Contains(prompt, s) {
			t.Errorf("the turn was not told %q:\n%s", s, prompt)
		}
	}
	for _, s := range hasNot {
		if strings.Contains(prompt, s) {
			t.Errorf("the turn was told %q:\n%s", s, prompt)
		}
	}
}

// The rules by which a thread is gone on with, and what its next turn is told: where the work is, or the whole prompt.
func TestWhichThreadIsGoneOnWith(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(r *rig)
		resumed bool
		note    bool
	}{
		{"the same workspace", func(*rig) {}, true, false},
		{"one failure", func(r *rig) { r.journal.failures = 1 }, true, false},
		{"two failures", func(r *rig) { r.journal.failures = 2 }, false, true},
		{"switched off", func(r *rig) { r.Config.ResumeThread = false }, false, true},
		{"no thread yet", func(r *rig) { r.journal.last = "" }, false, false},
		{"a thread of another workspace", func(r *rig) { r.journal.lastIn = "0123" }, false, false},
		{"the workspace is new", func(r *rig) { must(r.t, os.RemoveAll(r.space())) }, false, false},
		{"no rollout", func(r *rig) { must(r.t, os.RemoveAll(filepath.Join(filepath.Dir(r.root), "codex", "threads"))) }, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, "say hm", in("Todo"))
			r.Config.MaxTurns = 1
			first := r.ends(reconcile.Succeeded, "")
			r.next("run-2")
			r.run.Attempt, r.journal.finished = 1, nil
			ended := first
			r.journal.mind.lastRun = &ended
			c.change(r)
			run := r.ends(reconcile.Succeeded, "")
			if (run.ThreadID == first.ThreadID) != c.resumed {
				t.Errorf("thread %s after %s", run.ThreadID, first.ThreadID)
			}
			list := r.prompts(run.ThreadID)
			last := list[len(list)-1]
			if c.resumed {
				holds(t, last, []string{agent.GuidanceTitle, "ended well after 1 turn", "- Attempt: 1\n"}, agent.EarlierWork)
				return
			}
			holds(t, last, []string{"Do this.\n", "Attempt: 1\n"}, agent.GuidanceTitle)
			if strings.Contains(last, agent.EarlierWork) != c.note {
				t.Errorf("a new thread is told\n%s", last)
			}
		})
	}
}

// What a turn was to tell is told again where codex did not take the turn.
func TestNewsOfATurnThatNeverWas(t *testing.T) {
	r := newRig(t, "attempt 0 turn 2:\nlate-response\ncrash\nattempt 1+:\nsay hm", describedAs("One.", nil), describedAs("One.", wroteAt(1)))
	r.tracker.post("c1", "use red", *wroteAt(1))
	r.journal.mind.late = []reconcile.Request{answered(3, "Red or blue?", "blue indeed")}
	r.Config.MaxTurns = 2
	first := r.ends(reconcile.Failed, "port_exit")
	if got := r.journal.mind.told[first.ThreadID]; got.CommentAt.Equal(*wroteAt(1)) {
		t.Errorf("the thread counts as told of %+v", got)
	}
	if list := r.prompts(first.ThreadID); len(list) != 2 {
		t.Fatalf("%d turns", len(list))
	}
	r.next("run-2")
	r.run.Attempt, r.journal.finished, r.Config.MaxTurns = 1, nil, 1
	r.journal.mind.lastRun = &first
	run := r.ends(reconcile.Succeeded, "")
	list := r.prompts(run.ThreadID)
	if run.ThreadID != first.ThreadID || len(list) != 3 {
		t.Fatalf("thread %s after %s, %d turns", run.ThreadID, first.ThreadID, len(list))
	}
	holds(t, list[2], []string{"ended unasked", "cut short", "use red"}, "blue indeed")
	if got := r.journal.mind.told[run.ThreadID]; !got.CommentAt.Equal(*wroteAt(1)) {
		t.Errorf("the thread counts as told of %+v", got)
	}
}

// Of a thread of which nobody wrote down what it was told, all counts as told that was there when its last run began.
func TestThreadOfAnEarlierVersion(t *testing.T) {
	r := newRig(t, "say hm", describedAs("One.", nil), describedAs("One.", nil), describedAs("Two.", wroteAt(9)))
	r.Config.MaxTurns = 1
	first := r.ends(reconcile.Succeeded, "")
	r.journal.mind.told = nil
	one := "One."
	first.StartedAt, first.Issue.Description = *wroteAt(5), &one
	r.journal.mind.lastRun = &first
	r.tracker.post("c1", "old news", *wroteAt(4))
	r.tracker.post("c2", "use red", *wroteAt(9))
	r.next("run-2")
	r.run.Attempt, r.journal.finished = 1, nil
	list := r.prompts(r.ends(reconcile.Succeeded, "").ThreadID)
	holds(t, list[1], []string{"Two.", "use red"}, "old news")
}

// What an agent has written into the description itself is not told back to it, in this run or the next.
func TestOwnDescriptionIsNoNews(t *testing.T) {
	for args, told := range map[string]bool{
		`{"query":"mutation { issueUpdate(id: \"id-1\", input: {description: \"Two.\"}) { success } }"}`:             false,
		`{"query":"mutation($i: X!) { issueUpdate(id: \"ABC-1\", input: $i) }","variables":{"i":{"description":1}}}`: false,
		`{"query":"mutation { issueUpdate(id: \"id-1\", input: {stateId: \"s\"}) { success } }"}`:                    true,
		// Of another issue: what a person has written into this one meanwhile is still to be told.
		`{"query":"mutation { issueCreate(input: {parentId: \"id-1\", description: \"Rest.\"}) { success } }"}`: true,
		`{"query":"mutation { issueUpdate(id: \"id-2\", input: {description: \"Rest.\"}) { success } }"}`:       true,
	} {
		r := newRig(t, "turn 1:\ntool linear_graphql "+args, describedAs("One.", nil), describedAs("Two.", nil), describedAs("Two.", nil), describedAs("Two.", nil))
		r.Tracker.Tool = &reconcile.AgentTool{
			Name: "linear_graphql", Description: "d", InputSchema: json.RawMessage(`{"type":"object"}`),
			ChangesIssue: func(json.RawMessage) bool { return true },
			Call: func(context.Context, json.RawMessage) reconcile.ToolAnswer {
				return reconcile.ToolAnswer{Success: true}
			},
		}
		r.Config.MaxTurns = 1
		first := r.ends(reconcile.Succeeded, "")
		r.next("run-2")
		r.journal.finished = nil
		r.journal.mind.lastRun = &first
		run := r.ends(reconcile.Succeeded, "")
		list := r.prompts(run.ThreadID)
		if len(list) != 2 {
			t.Fatalf("%d turns", len(list))
		}
		if strings.Contains(list[1], "Two.") != told {
			t.Errorf("after %s: %s", args, list[1])
		}
	}
}

// A new thread that follows another knows nothing of what people have written below the issue, and maybe it is their
// comment that ended a hold. So it is told; the first thread of all gets the prompt alone, and one that begins because
// agent.resume_thread is off, too.
func TestNewThreadIsToldOfComments(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(r *rig)
		told   bool
	}{
		{"two failures", func(r *rig) { r.journal.failures = 2 }, true},
		{"the workspace is new", func(r *rig) { must(r.t, os.RemoveAll(r.space())) }, true},
		{"no thread yet", func(r *rig) { r.journal.last = "" }, false},
		{"switched off", func(r *rig) { r.Config.ResumeThread = false }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, "say hm", describedAs("One.", wroteAt(1)), describedAs("One.", wroteAt(1)), describedAs("One.", wroteAt(4)))
			r.Config.MaxTurns = 1
			r.tracker.post("c1", "begin with the tests", *wroteAt(1))
			first := r.ends(reconcile.Succeeded, "")
			holds(t, r.prompts(first.ThreadID)[0], nil, "begin with", agent.FromTracker)
			r.next("run-2")
			r.run.Attempt, r.journal.finished = 1, nil
			r.journal.mind.lastRun = &first
			r.tracker.post("c2", "work log", *wroteAt(3))
			r.tracker.post("c3", "use red, "+testKey, *wroteAt(4))
			r.journal.mind.ours = map[string]bool{"c2": true}
			c.change(r)
			run := r.ends(reconcile.Succeeded, "")
			last := r.prompts(run.ThreadID)[0]
			holds(t, last, []string{"Do this.\n"}, agent.GuidanceTitle, "work log", testKey, "was edited")
			if news := []string{agent.FromTracker, "begin with the tests", "use red"}; c.told {
				holds(t, last, news)
			} else {
				holds(t, last, nil, news...)
			}
			if got := r.journal.mind.told[run.ThreadID]; run.ThreadID == first.ThreadID || !got.CommentAt.Equal(*wroteAt(4)) {
				t.Errorf("thread %s counts as told of %+v", run.ThreadID, got)
			}
		})
	}
}

// fullDisk keeps no creations for a while.
type fullDisk struct {
	*memory
	times int
}

func (f *fullDisk) SaveCreated(ctx context.Context, run, issue string, made []reconcile.Created, now time.Time) error {
	if f.times > 0 {
		f.times--
		return &reconcile.Error{Code: "disk_full", Message: "no room"}
	}
	return f.memory.SaveCreated(ctx, run, issue, made, now)
}

// What an agent made while the database took nothing is kept once it takes something again, and until then nobody's
// comments are told: its own would be among them.
func TestCreationsThatCouldNotBeKept(t *testing.T) {
	for refuse, turn := range map[int]int{1: 1, 2: 2} {
		r := newRig(t, "turn 1:\ntool linear_graphql {}\nturn 2+:\nsay hm", in("Todo"), describedAs("One.", wroteAt(2)), describedAs("One.", wroteAt(2)), in("Human Review"))
		r.Journal = &fullDisk{r.journal, refuse}
		r.Tracker.Tool = &reconcile.AgentTool{
			Name: "linear_graphql", Description: "d", InputSchema: json.RawMessage(`{"type":"object"}`),
			ChangesIssue: func(json.RawMessage) bool { return false },
			Call: func(context.Context, json.RawMessage) reconcile.ToolAnswer {
				return reconcile.ToolAnswer{Success: true, Mutation: &reconcile.Mutation{Success: true, Created: []reconcile.Created{{Kind: "comment", ID: "c1"}}}}
			},
		}
		r.tracker.post("c1", "work log", *wroteAt(1))
		r.tracker.post("c2", "use red", *wroteAt(2))
		r.journal.mind.ours = map[string]bool{"c1": true}
		list := r.prompts(r.ends(reconcile.Succeeded, "").ThreadID)
		if len(list) != 3 {
			t.Fatalf("%d turns", len(list))
		}
		for i, text := range list {
			if strings.Contains(text, "use red") != (i == turn) {
				t.Errorf("refused %d times, turn %d: %s", refuse, i+1, text)
			}
		}
		if made := r.journal.created; len(made) != 1 || made[0].ID != "c1" {
			t.Errorf("kept are %v", made)
		}
	}
}
