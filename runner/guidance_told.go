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
)

// Recollection is what the database keeps of what threads were told.
type Recollection interface {
	// Told gives what a thread knows of its issue; false where that was never written down.
	Told(ctx context.Context, threadID string) (reconcile.Told, bool, error)
	// Tell writes it down.
	Tell(ctx context.Context, runID, issueID string, thread reconcile.Thread, told reconcile.Told, now time.Time) error
	// LastRunOf gives the newest ended run on a thread, false where none is kept.
	LastRunOf(ctx context.Context, issueID, threadID string) (reconcile.Run, bool, error)
	// Created says which of these ids of the tracker's our agents have made.
	Created(ctx context.Context, ids []string) (map[string]bool, error)
	// LateAnswers gives the answers of a person that came after the end of the run that had asked, and that no
	// later run was told. MarkTold says that this run was.
	LateAnswers(ctx context.Context, issueID string) ([]reconcile.Request, error)
	MarkTold(ctx context.Context, told []reconcile.Request, runID string) error
}

// telling is what the run's thread knows of the issue, and what the turn that is about to begin tells it.
type telling struct {
	mu      sync.Mutex
	told    reconcile.Told
	pending *tidings
}

// tidings become what the thread knows once codex has accepted their turn.
type tidings struct {
	told    reconcile.Told
	answers []reconcile.Request
}

// commentsBound is how long a turn waits for the comments of its issue.
const commentsBound = 30 * time.Second

// opening is the text of the run's first turn.
func (a *attempt) opening(ctx context.Context, prompt string, t openedThread) (string, error) {
	issue := a.rec.get().Issue
	if !t.resumed {
		return freshStart(prompt, t.note(), a.exact.Text(a.newsForFresh(ctx, issue, t).text())), nil
	}
	last, err := a.recall(ctx, t.id, issue)
	if err != nil {
		return "", err
	}
	return a.exact.Text(resumption(issue, a.run.Attempt, last, a.Config.Policy, t.elsewhere, a.news(ctx))), nil
}

// newsForFresh is what the prompt does not tell a new thread. The first one of an issue gets the prompt alone. Where it
// takes another's place it knows nothing of the comments, and one of them may have ended a hold; not so where the
// operator wants each run to begin anew.
func (a *attempt) newsForFresh(ctx context.Context, issue reconcile.Issue, t openedThread) news {
	told := reconcile.Told{Description: descriptionHash(issue)}
	a.telling.know(told)
	if t.replaces && a.Config.ResumeThread {
		return a.news(ctx)
	}
	n := news{answers: a.lateAnswers(ctx)}
	if issue.LastCommentAt != nil {
		told.CommentAt = *issue.LastCommentAt
	}
	a.telling.begin(told, n.answers)
	return n
}

// continuation is the text of a later turn on the same thread.
func (a *attempt) continuation(ctx context.Context, turn int) string {
	return a.exact.Text(continuation(a.rec.get().Issue, turn, a.Config.MaxTurns, a.news(ctx)))
}

// recall finds out how the thread's last run ended and what the thread was told. Where nobody wrote that down it counts
// as told of what was there when that run began.
func (a *attempt) recall(ctx context.Context, thread string, issue reconcile.Issue) (*reconcile.Run, error) {
	last, found, err := a.Journal.LastRunOf(ctx, a.run.IssueID, thread)
	if err != nil {
		return nil, err
	}
	told, known, err := a.Journal.Told(ctx, thread)
	if err != nil {
		return nil, err
	}
	if !known {
		told = reconcile.Told{CommentAt: a.run.StartedAt, Description: descriptionHash(issue)}
		if found {
			told = reconcile.Told{CommentAt: last.StartedAt, Description: descriptionHash(last.Issue)}
		}
	}
	a.telling.know(told)
	if !found {
		return nil, nil //nolint:nilnil // nothing of it is kept
	}
	return &last, nil
}

// news gathers what the thread has not been told. What can't be asked for now is told by a later turn.
func (a *attempt) news(ctx context.Context) news {
	issue := a.rec.get().Issue
	told := a.telling.known()
	n := news{answers: a.lateAnswers(ctx)}
	if hash := descriptionHash(issue); hash != told.Description {
		n.described, n.description, told.Description = true, textOf(issue.Description), hash
	}
	comments, newest, err := a.newComments(ctx, issue, told.CommentAt)
	if err != nil {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "comments not read, the turn begins without them", slog.String("error", err.Error()))
	} else {
		n.comments, told.CommentAt = comments, newest
	}
	a.telling.begin(told, n.answers)
	return n
}

// newComments are those of other people's since then, the newest first, and the time of the newest of all. What tells ours from
// theirs is only that we have written down what our agents made: the user of the key may be a person who comments
// by hand.
func (a *attempt) newComments(ctx context.Context, issue reconcile.Issue, since time.Time) ([]reconcile.Comment, time.Time, error) {
	if issue.LastCommentAt == nil || !issue.LastCommentAt.After(since) {
		return nil, since, nil
	}
	ctx, cancel := context.WithTimeout(ctx, commentsBound)
	defer cancel()
	all, err := a.Tracker.Comments(ctx, issue.ID, since)
	if err != nil {
		return nil, since, err
	}
	if err := a.saveCreated(ctx, nil); err != nil {
		return nil, since, err
	}
	ids := make([]string, 0, len(all))
	for _, c := range all {
		ids = append(ids, c.ID)
	}
	ours, err := a.Journal.Created(ctx, ids)
	if err != nil {
		return nil, since, err
	}
	var theirs []reconcile.Comment
	newest := since
	for _, c := range all {
		if c.CreatedAt.After(newest) {
			newest = c.CreatedAt
		}
		if !ours[c.ID] {
			theirs = append(theirs, c)
		}
	}
	return theirs, newest, nil
}

// lateAnswers are none where they can't be read: they stay where they are for a later turn.
func (a *attempt) lateAnswers(ctx context.Context) []reconcile.Request {
	answers, err := a.Journal.LateAnswers(ctx, a.run.IssueID)
	if err != nil {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "late answers not read, the turn begins without them", slog.String("error", err.Error()))
		return nil
	}
	return answers
}

// accepted writes down that codex has taken the turn: from here on its text is in the thread, and a crash before that
// makes it told once more.
func (a *attempt) accepted(ctx context.Context) {
	t := a.telling.accept()
	if t == nil {
		return
	}
	a.store(ctx, *t)
}

func (a *attempt) store(ctx context.Context, t tidings) {
	run := a.rec.get()
	ctx = context.WithoutCancel(ctx)
	warn := func(err error) {
		if err != nil {
			a.Log.LogAttrs(ctx, slog.LevelWarn, "what the thread was told is not stored, it may be told again", slog.String("error", err.Error()))
		}
	}
	thread := reconcile.Thread{ID: run.ThreadID, WorkspaceID: run.WorkspaceID, CodexHome: a.codexHome}
	warn(a.Journal.Tell(ctx, run.ID, run.IssueID, thread, t.told, a.Now()))
	warn(a.Journal.MarkTold(ctx, t.answers, run.ID))
}

// described notes that the agent has itself written the description, or was answered with it: no turn needs to tell
// it. Issue is as the agent's call left it. A call about another issue says nothing of this one.
func (a *attempt) described(ctx context.Context, args json.RawMessage, issue reconcile.Issue) {
	has := func(word string) bool { return word != "" && bytes.Contains(args, []byte(word)) }
	if !has("description") || !has("issueUpdate") && !has("issueBatchUpdate") || !has(issue.ID) && !has(issue.Identifier) {
		return
	}
	if told, changed := a.telling.describe(descriptionHash(issue)); changed {
		a.store(ctx, tidings{told: told})
	}
}

func (t *telling) know(told reconcile.Told) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told = told
}

func (t *telling) known() reconcile.Told {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.told
}

// describe is what the thread knows once it knows the description, also from the turn that is under way.
func (t *telling) describe(hash string) (told reconcile.Told, changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending != nil {
		t.pending.told.Description = hash
	}
	changed = t.told.Description != hash
	t.told.Description = hash
	return t.told, changed
}

func (t *telling) begin(told reconcile.Told, answers []reconcile.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending = &tidings{told: told, answers: answers}
}

func (t *telling) accept() *tidings {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.pending
	if p != nil {
		t.told, t.pending = p.told, nil
	}
	return p
}

// descriptionHash is never empty: no description is one, too.
func descriptionHash(issue reconcile.Issue) string {
	h := sha256.Sum256([]byte(textOf(issue.Description)))
	return hex.EncodeToString(h[:12])
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
