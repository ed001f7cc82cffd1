package runner

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// recollection is what a database would hold of what threads were told.
type recollection struct {
	mind struct {
		sync.Mutex
		told    map[string]reconcile.LastSeen
		lastRun *reconcile.Run
		ours    map[string]bool // comments of our agents
		late    []reconcile.Request
		fault   error // of the questions about comments and answers
	}
}

func (m *recollection) LastSeen(_ context.Context, thread string) (reconcile.LastSeen, bool, error) {
	m.mind.Lock()
	defer m.mind.Unlock()
	told, known := m.mind.told[thread]
	return told, known, nil
}

func (m *recollection) RecordLastSeen(_ context.Context, _, _ string, thread reconcile.Thread, told reconcile.LastSeen, _ time.Time) error {
	m.mind.Lock()
	defer m.mind.Unlock()
	if m.mind.told == nil {
		m.mind.told = map[string]reconcile.LastSeen{}
	}
	m.mind.told[thread.ID] = told
	return nil
}

func (m *recollection) LastRunOf(context.Context, string, string) (reconcile.Run, bool, error) {
	m.mind.Lock()
	defer m.mind.Unlock()
	if m.mind.lastRun == nil {
		return reconcile.Run{}, false, nil
	}
	return *m.mind.lastRun, true, nil
}

func (m *recollection) Created(_ context.Context, ids []string) (map[string]bool, error) {
	m.mind.Lock()
	defer m.mind.Unlock()
	return m.mind.ours, m.mind.fault
}

func (m *recollection) LateAnswers(context.Context, string) ([]reconcile.Request, error) {
	m.mind.Lock()
	defer m.mind.Unlock()
	return slices.Clone(m.mind.late), m.mind.fault
}

func (m *recollection) MarkAnswersSeen(_ context.Context, told []reconcile.Request, _ string) error {
	m.mind.Lock()
	defer m.mind.Unlock()
	m.mind.late = slices.DeleteFunc(m.mind.late, func(r reconcile.Request) bool {
		return slices.ContainsFunc(told, func(t reconcile.Request) bool { return t.Number == r.Number })
	})
	return nil
}

// board is what is written below the issue.
type board struct {
	wall struct {
		sync.Mutex
		comments []reconcile.Comment // the newest first
	}
}

func (b *board) Comments(_ context.Context, issueID string, since time.Time) ([]reconcile.Comment, error) {
	b.wall.Lock()
	defer b.wall.Unlock()
	if issueID != "id-1" {
		return nil, errors.New("a worker asked for the comments of " + issueID)
	}
	var newer []reconcile.Comment
	for _, c := range b.wall.comments {
		if c.CreatedAt.After(since) {
			newer = append(newer, c)
		}
	}
	return newer, nil
}

// post writes a comment.
func (b *board) post(id, body string, at time.Time) {
	b.wall.Lock()
	defer b.wall.Unlock()
	b.wall.comments = slices.Insert(b.wall.comments, 0, reconcile.Comment{ID: id, Author: "Kim Poe", Body: body, CreatedAt: at})
}

// prompts are what the agent was told on a thread, turn by turn.
func (r *rig) prompts(thread string) []string {
	r.t.Helper()
	data, err := os.ReadFile(filepath.Join(filepath.Dir(r.root), "codex", "threads", thread+".json"))
	must(r.t, err)
	var stored struct {
		History []struct {
			Prompt string `json:"prompt"`
		} `json:"history"`
	}
	must(r.t, json.Unmarshal(data, &stored))
	var list []string
	for _, e := range stored.History {
		list = append(list, e.Prompt)
	}
	return list
}

// answered is a question whose run ended before its answer came.
func answered(number int, text, answer string) reconcile.Request {
	return reconcile.Request{
		IssueID: "id-1", Identifier: "ABC-1", Number: number, Kind: reconcile.QuestionRequest,
		Detail: reconcile.RequestDetail{Questions: []reconcile.RequestQuestion{{ID: "q1", Text: text}, {ID: "q2", Text: "not answered"}}},
		Answer: reconcile.RequestAnswer{Answers: map[string][]string{"q1": {answer}}},
	}
}
