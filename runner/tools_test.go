package runner

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// TestCallsAtOnce: commands of an agent can make any number of calls, each of which works outside
// of the sandbox. Those that wait end with the turn.
func TestCallsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := make(chan struct{}, 100)
		end := make(chan struct{})
		tracker := &reconcile.TrackerAdapter{Tools: []reconcile.AgentTool{{
			Name:         "look",
			ChangesIssue: func(json.RawMessage) bool { return false },
			Call: func(context.Context, reconcile.Issue, json.RawMessage) reconcile.ToolAnswer {
				begun <- struct{}{}
				<-end
				return reconcile.ToolAnswer{Text: "seen", Success: true}
			},
		}}}
		p := &parts{
			Worker:        &Worker{Tracker: tracker},
			site:          &site{},
			rec:           &record{},
			agentRedactor: agent.NewRedactor(nil),
		}
		box := &toolbox{
			parts:     p,
			handovers: &handovers{parts: p},
			claim:     &claimKeeper{parts: p},
			calls:     make(chan struct{}, maxCalls),
		}
		ctx, endTurn := context.WithCancel(t.Context())
		answers := make(chan agent.ToolResult, 100)
		for range 3 * maxCalls {
			go func() { answers <- box.call(ctx, nil, "look", nil) }()
		}
		synctest.Wait()
		test.Equal(t, "calls at once", len(begun), maxCalls)
		endTurn()
		synctest.Wait()
		test.Equal(t, "answers at the end of the turn", len(answers), 2*maxCalls)
		test.Contains(t, "an answer", (<-answers).Text, "context canceled")
		close(end)
		synctest.Wait()
		test.Equal(t, "calls", len(begun), maxCalls)
	})
}

// TestHandoverHidesNothing: people read the words of an agent in comments, and in the file of an
// issue perhaps in a terminal.
func TestHandoverHidesNothing(t *testing.T) {
	h := &handovers{parts: &parts{Worker: &Worker{Redactor: agent.NewRedactor(nil), Now: time.Now}, site: &site{}}}
	wish, err := h.read([]byte(`{"summary":"one\ntwo\u001b[2J\u202e\r/close"}`))
	test.OK(t, err)
	test.Equal(t, "the summary", wish.Summary, "one\ntwo\\x1b[2J\\x202e\\x0d/close")
}
