package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// wroteAt returns the time of a comment.
func wroteAt(minute int) *time.Time {
	at := time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC)
	return &at
}

func describedAs(text string, comment *time.Time) answer {
	return with(func(i *reconcile.Issue) {
		i.Description = &text
		i.LastCommentAt = comment
	})
}

// contains checks that a prompt contains some texts and not others.
func contains(t *testing.T, prompt string, has []string, hasNot ...string) {
	t.Helper()
	test.Contains(t, "the turn's text", prompt, has...)
	test.Lacks(t, "the turn's text", prompt, hasNot...)
}

// again prepares another run of the issue after this one.
func (r *rig) again(first reconcile.Run) {
	r.next("run-2")
	r.run.Attempt = 1
	r.journal.finished = nil
	r.journal.lastRun = &first
	r.Here.Config.MaxTurns = 1
}

// Which threads are resumed, and the text of the next turn: guidance and what is new, or the
// whole prompt. A new thread that replaces another gets all comments, because one of them may
// have ended a hold. The first thread of an issue gets only the prompt, and so does one that
// is new because agent.resume_thread is off.
func TestWhichThreadIsResumed(t *testing.T) {
	for _, c := range []struct {
		name     string
		change   func(r *rig)
		resumed  bool
		note     bool // of earlier work in the workspace
		comments bool // also the old ones
	}{
		{"the same workspace, one failure", func(r *rig) { r.journal.failures = 1 }, true, false, false},
		{"two failures", func(r *rig) { r.journal.failures = 2 }, false, true, true},
		{"switched off", func(r *rig) { r.Here.Config.ResumeThread = false }, false, true, false},
		{"no thread yet", func(r *rig) { r.journal.last = "" }, false, false, false},
		{"a thread of another workspace", func(r *rig) { r.journal.lastIn = "0123" }, false, false, true},
		{"the workspace is new", func(r *rig) { test.OK(r.t, os.RemoveAll(r.space())) }, false, false, true},
		{
			"no rollout",
			func(r *rig) { test.OK(r.t, os.RemoveAll(filepath.Join(filepath.Dir(r.root), "codex", "threads"))) },
			false,
			true,
			true,
		},
		{
			"nothing stored of the thread",
			func(r *rig) { clear(r.journal.seen); r.journal.lastRun.StartedAt = *wroteAt(2) },
			true,
			false,
			false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(
				t,
				"say hm",
				describedAs("One.", wroteAt(1)),
				describedAs("One.", wroteAt(1)),
				describedAs("One.", wroteAt(4)),
			)
			r.Here.Config.MaxTurns = 1
			r.tracker.post("c1", "begin with the tests", *wroteAt(1))
			first := r.ends(reconcile.EndedRun, "")
			contains(t, r.prompts(first.ThreadID)[0], nil, "begin with", agent.FromTracker)
			r.again(first)
			r.tracker.post("c2", "work log", *wroteAt(3))
			r.tracker.post("c3", "use red, "+testKey, *wroteAt(4))
			r.journal.ours = map[string]bool{"c2": true}
			c.change(r)
			run := r.ends(reconcile.EndedRun, "")
			test.Equal(t, "resumed", run.ThreadID == first.ThreadID, c.resumed)
			list := r.prompts(run.ThreadID)
			last := list[len(list)-1]
			contains(t, last, nil, "work log", testKey, "was edited")
			if c.resumed {
				contains(
					t,
					last,
					[]string{agent.GuidanceTitle, "ended after 1 turn", "- Attempt: 1\n", "use red"},
					agent.EarlierWork(nil),
					"begin with the tests",
				)
			} else {
				contains(t, last, []string{"Do this.\n", "Attempt: 1\n"}, agent.GuidanceTitle)
			}
			if strings.Contains(last, agent.EarlierWork(nil)) != c.note ||
				strings.Contains(last, "begin with the tests") != c.comments {
				t.Errorf("the turn's text is\n%s", last)
			}
			test.Equal(
				t,
				"the last comment that the thread has seen",
				r.journal.seen[run.ThreadID].CommentAt,
				*wroteAt(4),
			)
		})
	}
}

// If codex does not accept a turn, the next one repeats its text.
func TestUpdateOfARefusedTurn(t *testing.T) {
	r := newRig(
		t,
		"attempt 0 turn 2:\nlate-response\ncrash\nattempt 1+:\nsay hm",
		describedAs("One.", nil),
		describedAs("One.", wroteAt(1)),
	)
	r.tracker.post("c1", "use red", *wroteAt(1))
	r.journal.late = []reconcile.Request{answered(3, "Red or blue?", "blue indeed")}
	r.Here.Config.MaxTurns = 2
	first := r.ends(reconcile.Failed, "port_exit")
	test.Equal(
		t,
		"the thread has seen the comment",
		r.journal.seen[first.ThreadID].CommentAt.Equal(*wroteAt(1)),
		false,
	)
	r.again(first)
	run := r.ends(reconcile.EndedRun, "")
	list := r.prompts(run.ThreadID)
	if run.ThreadID != first.ThreadID || len(list) != 3 {
		t.Fatalf("thread %s after %s, %d turns", run.ThreadID, first.ThreadID, len(list))
	}
	contains(t, list[2], []string{"failed (port_exit)", "cut short", "use red"}, "blue indeed")
}

// What an agent created while the database refused writes is stored later. Until then turns
// get no comments, because the agent's own would be among them.
func TestCreationsStoredLater(t *testing.T) {
	for _, refuse := range []int{1, 2} { // turns without comments
		r := newRig(
			t,
			"turn 1:\ntool linear_graphql {}\nturn 2+:\nsay hm",
			in("Todo"),
			describedAs("One.", wroteAt(2)),
			describedAs("One.", wroteAt(2)),
			in("Human Review"),
		)
		r.journal.fails["SaveCreated"] = refuse
		r.Tracker.Tools = changing(func(string) reconcile.ToolAnswer {
			return reconcile.ToolAnswer{
				Success: true,
				Mutation: &reconcile.Mutation{
					Success: true,
					Created: []reconcile.Created{{Kind: "comment", ID: "c1"}},
				},
			}
		})
		r.tracker.post("c1", "work log", *wroteAt(1))
		r.tracker.post("c2", "use red", *wroteAt(2))
		r.journal.ours = map[string]bool{"c1": true}
		list := r.prompts(r.ends(reconcile.EndedRun, "").ThreadID)
		if len(list) != 3 {
			t.Fatalf("%d turns", len(list))
		}
		for i, text := range list {
			test.Equal(
				t,
				fmt.Sprintf("the comment is in turn %d after %d refusals", i+1, refuse),
				strings.Contains(text, "use red"),
				i == refuse,
			)
		}
		test.Equal(t, "stored", r.journal.created, []reconcile.Created{{Kind: "comment", ID: "c1"}})
	}
}

// Some trackers cut off the parts of a second of a comment's time, so that it may lie before the run
// during which the comment was made.
func TestCommentInTheSecondOfTheStart(t *testing.T) {
	r := newRig(t, "sh true", in("Todo"), in("Todo"), in("Human Review"))
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	r.Now = func() time.Time { return noon.Add(900 * time.Millisecond) }
	r.Tracker.LastComments = func(context.Context, []string) (map[string]time.Time, error) {
		return nil, errors.New("a worker must not ask for the times of comments")
	}
	r.tracker.post("c1", "use red", noon)
	list := r.prompts(r.ends(reconcile.EndedRun, "").ThreadID)
	test.Equal(t, "turns", len(list), 2)
	test.Contains(t, "second turn", list[1], "use red")
}

func (m *memory) LastSeen(_ context.Context, thread string) (reconcile.LastSeen, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	told, known := m.seen[thread]
	return told, known, nil
}

func (m *memory) RecordLastSeen(
	_ context.Context,
	_, _ string,
	thread reconcile.Thread,
	told reconcile.LastSeen,
	_ time.Time,
) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen[thread.ID] = told
	return nil
}

func (m *memory) LastRunOf(context.Context, string, string) (reconcile.Run, bool, error) {
	if m.lastRun == nil {
		return reconcile.Run{}, false, nil
	}
	return *m.lastRun, true, nil
}

func (m *memory) Created(context.Context, []string) (map[string]bool, error) { return m.ours, nil }

func (m *memory) SaveRemoteWorkspace(context.Context, reconcile.Run, *reconcile.Workspace) error {
	return nil
}

func (m *memory) SaveRemote(context.Context, reconcile.Run, time.Time) error {
	return nil
}

func (m *memory) LateAnswers(context.Context, string) ([]reconcile.Request, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.late), nil
}

func (m *memory) UntoldMessages(context.Context, string, int) ([]reconcile.Message, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := slices.Clone(m.untold)
	slices.Reverse(list)
	return list, nil
}

func (m *memory) MarkMessages(
	_ context.Context,
	list []reconcile.Message,
	runID string,
	told time.Time,
) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.failure("MarkMessages"); err != nil && !told.IsZero() {
		return err
	}
	is := func(of reconcile.Message) bool {
		return slices.ContainsFunc(list, func(m reconcile.Message) bool { return m.ID == of.ID })
	}
	for i := range m.untold {
		if is(m.untold[i]) {
			m.untold[i].RunID = runID
		}
	}
	if !told.IsZero() {
		m.untold = slices.DeleteFunc(m.untold, is)
	}
	return nil
}

func (m *memory) MarkAnswersSeen(_ context.Context, told []reconcile.Request, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.late = slices.DeleteFunc(m.late, func(r reconcile.Request) bool {
		return slices.ContainsFunc(told, func(t reconcile.Request) bool { return t.Number == r.Number })
	})
	return nil
}

// Comments implements the tracker's optional part.
func (k *tracker) Comments(
	_ context.Context,
	issueID string,
	since time.Time,
) (newer []reconcile.Comment, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if issueID != "id-1" {
		return nil, errors.New("a worker asked for the comments of " + issueID)
	}
	for _, c := range k.comments {
		if c.CreatedAt.After(since) {
			newer = append(newer, c)
		}
	}
	return newer, nil
}

// post adds a comment.
func (k *tracker) post(id, body string, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.comments = slices.Insert(k.comments, 0, reconcile.Comment{
		ID:        id,
		Author:    "Kim Poe",
		Body:      body,
		CreatedAt: at,
	})
}

// prompts returns the texts of the turns of a thread.
func (r *rig) prompts(thread string) []string {
	r.t.Helper()
	data := test.Must(os.ReadFile(filepath.Join(filepath.Dir(r.root), "codex", "threads", thread+".json")))
	var stored struct {
		History []struct {
			Prompt string `json:"prompt"`
		} `json:"history"`
	}
	test.OK(r.t, json.Unmarshal(data, &stored))
	var list []string
	for _, e := range stored.History {
		list = append(list, e.Prompt)
	}
	return list
}

// answered returns a question that was answered after its run had ended.
func answered(number int, text, answer string) reconcile.Request {
	return reconcile.Request{
		IssueID: "id-1", Identifier: "ABC-1", Number: number, Kind: reconcile.QuestionRequest,
		Detail: reconcile.RequestDetail{Questions: []reconcile.RequestQuestion{{
			ID:   "q1",
			Text: text,
		}, {
			ID:   "q2",
			Text: "not answered",
		}}},
		Answer: reconcile.RequestAnswer{Answers: map[string][]string{"q1": {answer}}},
	}
}

func (m *memory) Delivered(context.Context, string) (reconcile.Delivered, bool, error) {
	return m.delivered, m.delivered.Commit != "", nil
}

func (m *memory) RecordDelivered(_ context.Context, _ string, d reconcile.Delivered) error {
	m.delivered = d
	return nil
}

func (m *memory) Watch(context.Context, string) (reconcile.Watch, bool, error) {
	return reconcile.Watch{}, false, nil
}

func (m *memory) EndRework(context.Context, string) error { return nil }

func (m *memory) BeginDisarm(context.Context, string) error { return nil }

func (m *memory) EndMerge(context.Context, string) error { return nil }
