package mcpserver

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/mcpserver/calls"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
)

// add adds a call without parameters to the agent of the machine.
func (m *machine) add(call reconcile.Call) {
	m.t.Helper()
	call.RunID = m.run.ID
	call.Agent = "one"
	call.Status = reconcile.CallQueued
	call.Params = []byte("{}")
	call.CreatedAt = time.Now()
	test.Must(m.state.DB.Clients.AddCall(m.t.Context(), call))
}

// end ends a call.
func (m *machine) end(call reconcile.Call) {
	m.t.Helper()
	call.Status = reconcile.CallCompleted
	call.EndedAt = time.Now()
	test.OK(m.t, m.state.DB.Journal.EndCall(m.t.Context(), call))
}

// The mode any waits for the end of one turn, the mode all for that of the turns of all
// conversations.
func TestWaitForAllConversations(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.add(reconcile.Call{ID: "d", Verb: reconcile.CallConversation})
	m.add(reconcile.Call{ID: "u", Verb: reconcile.CallTurn, Conversation: "d"})
	h := m.host(modern, 0, nil)
	cursor := h.wait(0).Cursor
	m.end(reconcile.Call{ID: "t"})
	wait := func(mode string) (out waitAgentOut) {
		h.call("wait_agent", map[string]any{
			"agentIds":       []string{"one"},
			"timeoutSeconds": 0.2,
			"mode":           mode,
			"cursor":         cursor,
		}, "", &out)
		return out
	}
	test.Equal(t, "any", wait("any").State, stateDone)
	test.Equal(t, "all", wait("all").State, stateRunning)
	m.end(reconcile.Call{ID: "u"})
	test.Equal(t, "all, after the other turn", wait("all").State, stateDone)
}

// An input that codex would refuse is refused at once.
func TestInputThatIsTooLong(t *testing.T) {
	t.Parallel()
	h := newMachine(t).host(modern, 0, nil)
	for length, code := range map[int]string{maxPrompt: "", maxPrompt + 1: "invalid_argument"} {
		h.call("send_user_turn", map[string]any{
			"agentId":        "one",
			"conversationId": "c",
			"items": []any{map[string]any{
				"type": "text",
				"text": strings.Repeat("ä", length),
			}},
		}, code, nil)
	}
}

// Many long messages are cut until all of them fit into an answer.
func TestMessagesFit(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	for i := range 20 {
		id := fmt.Sprintf("c%d", i)
		m.add(reconcile.Call{ID: id, Verb: reconcile.CallConversation})
		m.add(reconcile.Call{ID: id + "t", Verb: reconcile.CallTurn, Conversation: id})
		result := test.Must(json.Marshal(runner.TurnResult{LastMessage: strings.Repeat("x", 1<<20)}))
		m.end(reconcile.Call{ID: id + "t", Result: result})
	}
	m.end(reconcile.Call{ID: "t"})
	size := 0
	out := m.host(modern, 0, nil).wait(0)
	for _, c := range out.Agents[0].Conversations {
		for _, turn := range c.Turns {
			if turn.LastMessage == "" { // the turn of the machine
				continue
			}
			size += len(turn.LastMessage)
			checkCut(t, turn.LastMessage, 1<<20)
		}
	}
	if answer := calls.SizeOf(out); size < resultBytes/2 || answer > calls.MaxBytes {
		t.Errorf("the messages have %d bytes, the answer %d", size, answer)
	}
}
