package runner

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/agent"
)

// toolCalls serves the tracker's tool to the agent (specification 10.5).
type toolCalls struct {
	*job
	created *createdEntities
	guide   *guide
}

// call runs the agent's call. A call that changes the issue is announced in the run's row before it is sent, and the state
// that it led to is stored after, so that a pass can tell a handoff from a move by a person.
func (t *toolCalls) call(ctx context.Context, args json.RawMessage) reconcile.ToolAnswer {
	if !t.Tracker.Tool.ChangesIssue(args) {
		return t.callAndNote(ctx, args)
	}
	t.rec.handsOver()
	t.rec.flush(ctx)
	answer := t.callAndNote(ctx, args)
	found, err := t.Tracker.ByIDs(ctx, []string{t.run.IssueID})
	if err != nil {
		t.Log.LogAttrs(ctx, slog.LevelInfo, "handoff not confirmed", slog.String("error", err.Error()))
		return answer
	}
	t.rec.change(func(r *reconcile.Run) { r.HandoffState = found[t.run.IssueID].State })
	t.rec.flush(ctx)
	if issue, visible := found[t.run.IssueID]; visible && answer.Success {
		t.guide.noteDescription(ctx, args, issue)
	}
	return answer
}

// callAndNote calls the tool, and stores what it has changed before anything else happens.
func (t *toolCalls) callAndNote(ctx context.Context, args json.RawMessage) reconcile.ToolAnswer {
	answer := t.Tracker.Tool.Call(ctx, args)
	m := answer.Mutation
	if m == nil {
		return answer
	}
	message := strings.Join(m.Fields, ", ")
	if !m.Success {
		message += " failed"
	}
	t.note(agent.EventMutation, message, m)
	t.keepLinks(linksInMutation(*m))
	if err := t.created.save(ctx, m.Created); err != nil {
		// If it never is stored, the next run takes the agent's own comment for a person's.
		t.Log.LogAttrs(ctx, slog.LevelWarn, "creations of the agent not stored yet", slog.String("error", err.Error()))
	}
	crash.At("runner.mutation.after")
	return answer
}

// createdEntities stores what the agent created in the tracker.
type createdEntities struct {
	*job
	mu   sync.Mutex
	left []reconcile.Created // not stored yet
}

// save stores these entities, and those that could not be stored before.
func (c *createdEntities) save(ctx context.Context, more []reconcile.Created) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = append(c.left, more...)
	if len(c.left) == 0 {
		return nil
	}
	err := c.Journal.SaveCreated(context.WithoutCancel(ctx), c.run.ID, c.run.IssueID, c.left, c.Now())
	if err == nil {
		c.left = nil
	}
	return err
}
