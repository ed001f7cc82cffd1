package runner

import (
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/agent"
)

// notePrompt keeps what a turn is begun with.
func (a *attempt) notePrompt(text string, turn int) {
	a.note(agent.EventPrompt, "turn "+strconv.Itoa(turn)+", "+strconv.Itoa(utf8.RuneCountInString(text))+" characters", agent.PromptEvent{Turn: turn, Text: text})
}

// callAndNote calls the tool, and keeps what it has changed before anything else is done.
func (a *attempt) callAndNote(ctx context.Context, args json.RawMessage) reconcile.ToolAnswer {
	answer := a.Tracker.Tool.Call(ctx, args)
	m := answer.Mutation
	if m == nil {
		return answer
	}
	message := strings.Join(m.Fields, ", ")
	if !m.Success {
		message += " failed"
	}
	a.note(agent.EventMutation, message, m)
	a.keepLinks(linksMade(*m))
	if err := a.saveCreated(ctx, m.Created); err != nil {
		// If it never is, it is taken for a person's: the next run reads its own comment.
		a.Log.LogAttrs(ctx, slog.LevelWarn, "creations of the agent not stored yet", slog.String("error", err.Error()))
	}
	crash.At("runner.mutation.after")
	return answer
}

// createdEntities are what the agent created in the tracker and the database has not stored yet.
type createdEntities struct {
	mu   sync.Mutex
	left []reconcile.Created
}

// saveCreated keeps what the agent has made now, and what could not be kept before.
func (a *attempt) saveCreated(ctx context.Context, made []reconcile.Created) error {
	a.created.mu.Lock()
	defer a.created.mu.Unlock()
	a.created.left = append(a.created.left, made...)
	if len(a.created.left) == 0 {
		return nil
	}
	err := a.Journal.SaveCreated(context.WithoutCancel(ctx), a.run.ID, a.run.IssueID, a.created.left, a.Now())
	if err == nil {
		a.created.left = nil
	}
	return err
}

// eventLine is the line that an event of the agent becomes.
func eventLine(e agent.Event) agent.EventLine {
	return e.Line()
}
