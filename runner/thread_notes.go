package runner

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// ThreadNotes is the part of the database that records what threads were told.
type ThreadNotes interface {
	// LastSeen returns what a thread was told of its issue; false if that was not stored.
	LastSeen(ctx context.Context, threadID string) (reconcile.LastSeen, bool, error)
	// RecordLastSeen stores it.
	RecordLastSeen(ctx context.Context, runID, issueID string, thread reconcile.Thread, seen reconcile.LastSeen, now time.Time) error
	// LastRunOf returns the newest ended run on a thread; false if there is none.
	LastRunOf(ctx context.Context, issueID, threadID string) (reconcile.Run, bool, error)
	// Created returns which of these ids of the tracker were created by agents.
	Created(ctx context.Context, ids []string) (map[string]bool, error)
	// LateAnswers returns the answers to requests of ended runs that no run was told yet. MarkAnswersSeen records that a
	// run was told them.
	LateAnswers(ctx context.Context, issueID string) ([]reconcile.Request, error)
	MarkAnswersSeen(ctx context.Context, answered []reconcile.Request, runID string) error
}

// threadState is what the run's thread knows of its issue.
type threadState struct {
	mu      sync.Mutex
	seen    reconcile.LastSeen
	pending *pendingUpdate // what the turn that is about to begin tells it
}

// pendingUpdate becomes what the thread knows once codex has accepted the turn.
type pendingUpdate struct {
	seen    reconcile.LastSeen
	answers []reconcile.Request
}

func (s *threadState) set(seen reconcile.LastSeen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = seen
}

func (s *threadState) get() reconcile.LastSeen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

func (s *threadState) propose(p pendingUpdate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = &p
}

// accept makes the pending update known; nil if there is none.
func (s *threadState) accept() *pendingUpdate {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pending
	if p != nil {
		s.seen, s.pending = p.seen, nil
	}
	return p
}

// setDescription also changes the pending update, for the turn that is under way.
func (s *threadState) setDescription(hash string) (seen reconcile.LastSeen, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending != nil {
		s.pending.seen.Description = hash
	}
	changed = s.seen.Description != hash
	s.seen.Description = hash
	return s.seen, changed
}

// guide writes the text of each turn, and keeps what the thread knows.
type guide struct {
	*job
	state   threadState
	created *createdEntities
}

// firstInput is the text of the run's first turn: the prompt for a new thread, guidance for a resumed one. A resumed
// thread gets the prompt again if it differs from the one it was given, because the workflow's template, the attempt
// or the issue has changed.
func (g *guide) firstInput(ctx context.Context, prompt string, t openedThread) (string, error) {
	issue := g.rec.get().Issue
	if !t.resumed {
		return g.exact.Text(agent.FirstTurn(prompt, t.note(), g.updateForNewThread(ctx, issue, prompt, t))), nil
	}
	last, err := g.loadThreadState(ctx, t.id, issue)
	if err != nil {
		return "", err
	}
	r := agent.Resumption{Issue: issue, Attempt: g.run.Attempt, Policy: g.Config.Policy, Last: last, Elsewhere: t.elsewhere}
	seen := g.state.get()
	if hash := hashOf(prompt); hash != seen.Prompt {
		if seen.Prompt != "" { // threads of earlier versions have none: their prompt is taken for this one
			r.NewPrompt = prompt
		}
		seen.Prompt = hash
	}
	r.Update = g.update(ctx, seen)
	return g.exact.Text(r.Text()), nil
}

// nextInput is the text of a later turn of the run.
func (g *guide) nextInput(ctx context.Context, turn int) string {
	return g.exact.Text(agent.Continuation(g.rec.get().Issue, turn, g.Config.MaxTurns, g.update(ctx, g.state.get())))
}

// updateForNewThread returns what the prompt does not tell a new thread. The first thread of an issue gets the prompt alone. One
// that replaces another has not seen the comments, and one of them may have ended a hold; but where resuming is off the
// operator wants each run to begin anew.
func (g *guide) updateForNewThread(ctx context.Context, issue reconcile.Issue, prompt string, t openedThread) agent.Update {
	seen := reconcile.LastSeen{Description: hashOf(textOf(issue.Description)), Prompt: hashOf(prompt)}
	g.state.set(seen)
	if t.replaces && g.Config.ResumeThread {
		return g.update(ctx, seen)
	}
	u := agent.Update{Answers: g.lateAnswers(ctx)}
	if issue.LastCommentAt != nil {
		seen.CommentAt = *issue.LastCommentAt
	}
	g.state.propose(pendingUpdate{seen, u.Answers})
	return u
}

// loadThreadState finds out how the thread's last run ended and what the thread was told. If that was not stored, the
// thread counts as told of everything that was there when its last run began.
func (g *guide) loadThreadState(ctx context.Context, thread string, issue reconcile.Issue) (*reconcile.Run, error) {
	last, found, err := g.Journal.LastRunOf(ctx, g.run.IssueID, thread)
	if err != nil {
		return nil, err
	}
	seen, known, err := g.Journal.LastSeen(ctx, thread)
	if err != nil {
		return nil, err
	}
	if !known {
		began, described := g.run.StartedAt, issue
		if found {
			began, described = last.StartedAt, last.Issue
		}
		seen = reconcile.LastSeen{CommentAt: began, Description: hashOf(textOf(described.Description))}
	}
	g.state.set(seen)
	if !found {
		return nil, nil //nolint:nilnil // the run is no longer stored
	}
	return &last, nil
}

// update gathers what a thread that has seen this has not been told. What cannot be read now is left to a later turn.
func (g *guide) update(ctx context.Context, seen reconcile.LastSeen) agent.Update {
	issue := g.rec.get().Issue
	u := agent.Update{Answers: g.lateAnswers(ctx)}
	if hash := hashOf(textOf(issue.Description)); hash != seen.Description {
		description := textOf(issue.Description)
		u.Description, seen.Description = &description, hash
	}
	comments, newest, err := g.newComments(ctx, issue, seen.CommentAt)
	if err != nil {
		g.Log.LogAttrs(ctx, slog.LevelWarn, "comments not read, the turn begins without them", slog.String("error", err.Error()))
	} else {
		u.Comments, seen.CommentAt = comments, newest
	}
	g.state.propose(pendingUpdate{seen, u.Answers})
	return u
}

// commentsBound is how long a turn waits for the comments of its issue.
const commentsBound = 30 * time.Second

// newComments returns the comments since then that no agent wrote, the newest first, and the time of the newest of all.
// Agents' comments are known by their ids only: the tracker's user may be a person who comments by hand.
func (g *guide) newComments(ctx context.Context, issue reconcile.Issue, since time.Time) (fromPeople []reconcile.Comment, newest time.Time, err error) {
	if g.Tracker.Comments == nil || issue.LastCommentAt == nil || !issue.LastCommentAt.After(since) {
		return nil, since, nil
	}
	ctx, cancel := context.WithTimeout(ctx, commentsBound)
	defer cancel()
	all, err := g.Tracker.Comments(ctx, issue.ID, since)
	if err != nil {
		return nil, since, err
	}
	if err := g.created.save(ctx, nil); err != nil {
		return nil, since, err
	}
	ids := make([]string, 0, len(all))
	for _, c := range all {
		ids = append(ids, c.ID)
	}
	byAgents, err := g.Journal.Created(ctx, ids)
	if err != nil {
		return nil, since, err
	}
	newest = since
	for _, c := range all {
		if c.CreatedAt.After(newest) {
			newest = c.CreatedAt
		}
		if !byAgents[c.ID] {
			fromPeople = append(fromPeople, c)
		}
	}
	return fromPeople, newest, nil
}

func (g *guide) lateAnswers(ctx context.Context) []reconcile.Request {
	answers, err := g.Journal.LateAnswers(ctx, g.run.IssueID)
	if err != nil {
		g.Log.LogAttrs(ctx, slog.LevelWarn, "late answers not read, the turn begins without them", slog.String("error", err.Error()))
	}
	return answers
}

// turnAccepted stores that the thread contains the text of the turn. After a crash before that, the text is sent again.
func (g *guide) turnAccepted(ctx context.Context) {
	if p := g.state.accept(); p != nil {
		g.storeThreadState(ctx, *p)
	}
}

func (g *guide) storeThreadState(ctx context.Context, p pendingUpdate) {
	run := g.rec.get()
	ctx = context.WithoutCancel(ctx)
	thread := reconcile.Thread{ID: run.ThreadID, WorkspaceID: run.WorkspaceID, CodexHome: g.codexHome}
	for _, err := range []error{
		g.Journal.RecordLastSeen(ctx, run.ID, run.IssueID, thread, p.seen, g.Now()), g.Journal.MarkAnswersSeen(ctx, p.answers, run.ID),
	} {
		if err != nil {
			g.Log.LogAttrs(ctx, slog.LevelWarn, "what the thread was told is not stored, it may be told again", slog.String("error", err.Error()))
		}
	}
}

// noteDescription notes a tool call by which the agent itself wrote the description of its issue: no turn has to tell it. The
// issue is as the call left it.
func (g *guide) noteDescription(ctx context.Context, args json.RawMessage, issue reconcile.Issue) {
	has := func(word string) bool { return word != "" && bytes.Contains(args, []byte(word)) }
	if !has("description") || !has("issueUpdate") && !has("issueBatchUpdate") || !has(issue.ID) && !has(issue.Identifier) {
		return
	}
	if seen, changed := g.state.setDescription(hashOf(textOf(issue.Description))); changed {
		g.storeThreadState(ctx, pendingUpdate{seen: seen})
	}
}

// hashOf is never empty: an empty text has a hash, too.
func hashOf(text string) string {
	h := sha256.Sum256([]byte(text))
	return hex.EncodeToString(h[:12])
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
