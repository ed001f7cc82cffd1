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
	"github.com/symphony-cron/symphony/runner/codex"
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
				holds(t, last, []string{guidanceTitle, "ended well after 1 turn", "- Attempt: 1\n"}, "Do this.", earlierWork)
				return
			}
			holds(t, last, []string{"Do this.\n", "Attempt: 1\n"}, guidanceTitle)
			if strings.Contains(last, earlierWork) != c.note {
				t.Errorf("a new thread is told\n%s", last)
			}
		})
	}
}

// Between two turns of a run a person's comment and an edited description are told, once; what our agents wrote is not.
func TestNewsBetweenTurns(t *testing.T) {
	r := newRig(t, "say hm", describedAs("One.", wroteAt(1)), describedAs("Two.", wroteAt(4)), describedAs("Two.", wroteAt(4)), in("Human Review"))
	r.tracker.post("c1", "before it began", *wroteAt(1))
	r.tracker.post("c2", "use red", *wroteAt(2))
	r.tracker.post("c3", "work log", *wroteAt(3))
	r.tracker.post("c4", "no, blue", *wroteAt(4))
	r.journal.mind.ours = map[string]bool{"c3": true}
	run := r.ends(reconcile.Succeeded, "")
	list := r.prompts(run.ThreadID)
	if len(list) != 3 {
		t.Fatalf("%d turns: %q", len(list), list)
	}
	if want, _ := r.Prompt.Render(issueIn("Todo"), 0); list[0] != want {
		t.Errorf("a new thread is told more than the prompt: %q", list[0])
	}
	holds(t, list[1], []string{"continuation turn #2 of 3", fromTracker, "Two.", "use red", "no, blue", `"Kim Poe"`}, "before it began", "work log")
	holds(t, list[2], []string{"continuation turn #3 of 3"}, fromTracker, "Two.", "red", "blue")
	if got := r.journal.mind.told[run.ThreadID]; !got.CommentAt.Equal(*wroteAt(4)) {
		t.Errorf("the thread counts as told of %+v", got)
	}
	if asked := r.tracker.wall.asked; len(asked) != 1 || !asked[0].Equal(*wroteAt(1)) {
		t.Errorf("the tracker was asked for comments since %v", asked)
	}
}

// A tracker, or a database, that does not say what is new delays the news by a turn, and nothing else.
func TestNewsThatCannotBeHad(t *testing.T) {
	for _, c := range []struct {
		name string
		cut  func(r *rig, err error)
	}{
		{"the tracker is down", func(r *rig, err error) { r.tracker.wall.down = err }},
		{"nobody knows which are ours", func(r *rig, err error) { r.journal.mind.fault = err }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, "say hm", in("Todo"))
			asked := 0
			r.tracker.answers = []answer{func() (map[string]reconcile.Issue, error) {
				asked++
				switch asked {
				case 1:
					return in("Todo")()
				case 2:
					r.tracker.post("c1", "use red", *wroteAt(1))
					c.cut(r, &reconcile.Error{Code: "linear_api_status", Message: "HTTP 503"})
				case 3:
					c.cut(r, nil)
				case 4:
					return in("Human Review")()
				}
				return with(func(i *reconcile.Issue) { i.LastCommentAt = wroteAt(1) })()
			}}
			list := r.prompts(r.ends(reconcile.Succeeded, "").ThreadID)
			if len(list) != 3 {
				t.Fatalf("%d turns", len(list))
			}
			holds(t, list[1], []string{"continuation turn #2"}, "use red")
			holds(t, list[2], []string{"continuation turn #3", "use red"})
			if !strings.Contains(r.log.String(), "HTTP 503") {
				t.Error("the log does not say why")
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

// An answer that came when its run was over is told once, to whichever thread comes next.
func TestLateAnswers(t *testing.T) {
	for _, resumed := range []bool{true, false} {
		r := newRig(t, "say hm", in("Todo"))
		r.Config.MaxTurns, r.Config.ResumeThread = 1, resumed
		first := r.ends(reconcile.Succeeded, "")
		r.journal.mind.late = []reconcile.Request{answered(3, "Red or blue?", "blue indeed")}
		r.journal.mind.lastRun = &first
		for turn, told := range []bool{true, false} {
			r.next("run-again")
			r.run.Attempt, r.journal.finished = 1, nil
			list := r.prompts(r.ends(reconcile.Succeeded, "").ThreadID)
			last := list[len(list)-1]
			if told {
				holds(t, last, []string{"ABC-1.3", "Red or blue?", "blue indeed"}, "not answered")
			} else {
				holds(t, last, nil, "blue indeed")
			}
			if strings.HasPrefix(last, guidanceTitle) != resumed {
				t.Errorf("turn %d: %s", turn, last)
			}
		}
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

// Texts of other people's reach the agent without the key, should they hold it.
func TestGuidanceHoldsNoSecret(t *testing.T) {
	r := newRig(t, "say hm", in("Todo"), describedAs("The key is "+testKey+"!", nil), in("Human Review"))
	list := r.prompts(r.ends(reconcile.Succeeded, "").ThreadID)
	holds(t, list[1], []string{"The key is "}, testKey)
}

// What an agent has written into the description itself is not told back to it, in this run or the next.
func TestOwnDescriptionIsNoNews(t *testing.T) {
	for args, told := range map[string]bool{`{"query":"description: Two."}`: false, `{"query":"state"}`: true} {
		r := newRig(t, "turn 1:\ntool linear_graphql "+args, describedAs("One.", nil), describedAs("Two.", nil), describedAs("Two.", nil), describedAs("Two.", nil))
		r.Tool = &Tool{
			Spec:         codex.Tool{Name: "linear_graphql", Description: "d", InputSchema: json.RawMessage(`{"type":"object"}`)},
			ChangesIssue: func(json.RawMessage) bool { return true },
			Call:         func(context.Context, json.RawMessage) ToolAnswer { return ToolAnswer{Success: true} },
		}
		r.Config.MaxTurns = 1
		first := r.ends(reconcile.Succeeded, "")
		r.next("run-2")
		r.run.Attempt, r.journal.finished = 1, nil
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
