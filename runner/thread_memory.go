package runner

import (
	"context"
	"errors"
	"sync"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// threadMemory records which part of its issue the thread knows. The loop of turns uses it,
// and the handler of the agent's events.
type threadMemory struct {
	*parts
	messages *operatorMessages

	home string // where the agent stores the thread

	mu      sync.Mutex
	seen    reconcile.LastSeen // the part of the issue that the thread knows
	pending *pendingUpdate     // replaces seen once the agent accepts the next turn
}

// pendingUpdate is a thread's knowledge of its issue after the text of a turn. It is stored
// when the agent accepts the turn.
type pendingUpdate struct {
	seen     reconcile.LastSeen
	answers  []reconcile.Request
	messages []reconcile.Message
}

// lastRun returns the part of the issue that the thread knows, and the thread's last run, nil
// if it is no longer stored. If the known part is not stored, it is everything up to the start
// of the last run.
func (m *threadMemory) lastRun(
	ctx context.Context,
	thread string,
	issue reconcile.Issue,
) (reconcile.LastSeen, *reconcile.Run, error) {
	last, found, err := m.Journal.LastRunOf(ctx, m.run.IssueID, thread)
	if err != nil {
		return reconcile.LastSeen{}, nil, err
	}
	seen, known, err := m.Journal.LastSeen(ctx, thread)
	if !found {
		last.StartedAt = m.run.StartedAt
		last.Issue = issue
	}
	if !known {
		seen = reconcile.LastSeen{
			CommentAt:   last.StartedAt,
			Description: hashOf(text.OrEmpty(last.Issue.Description)),
		}
	}
	if !found {
		return seen, nil, err
	}
	return seen, &last, err
}

// knows returns the part of the issue that the thread knows.
func (m *threadMemory) knows() reconcile.LastSeen {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen
}

// isAccepted reports whether the agent accepted the text of the turn.
func (m *threadMemory) isAccepted() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pending == nil
}

// propose notes what the thread knows once the agent accepts the next turn.
func (m *threadMemory) propose(seen reconcile.LastSeen, u agent.Update) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pending = &pendingUpdate{seen, u.Answers, u.Messages}
}

// accept stores that the thread knows the text of the turn. After a crash before that, the
// text is sent again.
func (m *threadMemory) accept(ctx context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pending != nil {
		m.store(ctx, *m.pending)
		m.pending = nil
	}
}

// store stores the thread's knowledge of its issue. The caller holds mu.
func (m *threadMemory) store(ctx context.Context, p pendingUpdate) {
	m.seen = p.seen
	run := m.rec.get()
	ctx = context.WithoutCancel(ctx)
	thread := reconcile.Thread{
		ID:          run.ThreadID,
		WorkspaceID: run.WorkspaceID,
		Home:        m.home,
	}
	seenErr := m.Journal.RecordLastSeen(ctx, run.ID, run.IssueID, thread, p.seen, m.Now())
	answersErr := m.Journal.MarkAnswersSeen(ctx, p.answers, run.ID)
	err := errors.Join(seenErr, answersErr)
	warn(m.Log, "what the thread has seen is not stored", err)
	m.messages.reached(ctx, p.messages)
}
