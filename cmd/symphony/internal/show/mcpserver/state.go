package mcpserver

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
)

// The states of agents.
const (
	stateIdle    = "idle"
	stateActive  = "active"
	stateWaiting = "waiting for approval"
	stateEnded   = "ended"
)

const (
	maxMessage   = 16 << 10 // bytes of a message in a result
	leastMessage = 200      // bytes of a message in a result with many
)

// agentState describes an agent, its conversations and its open requests.
type agentState struct {
	AgentID       string              `json:"agentId"`
	State         string              `json:"state" jsonschema:"idle, active, waiting for approval or ended"`
	Activity      string              `json:"activity,omitempty" jsonschema:"what it does now"`
	Conversations []conversationState `json:"conversations"`
	Requests      []requestState      `json:"requests" jsonschema:"what it asks that is not decided yet"`
	Tokens        reconcile.Tokens    `json:"tokens"`
	Outcome       string              `json:"outcome,omitempty" jsonschema:"how the agent ended"`
	Error         string              `json:"error,omitempty" jsonschema:"why the agent ended"`
}

// conversationState is a conversation with its open turns, and the turns that ended since the
// cursor.
type conversationState struct {
	ConversationID string      `json:"conversationId"`
	Turns          []turnState `json:"turns"`
}

type turnState struct {
	TurnID      string     `json:"turnId"`
	Status      string     `json:"status" jsonschema:"queued, running, completed, failed or interrupted"`
	LastMessage string     `json:"lastMessage,omitempty"`
	Error       *turnError `json:"error,omitempty"`
}

type turnError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// newAgentState describes an agent with these conversations and turns, and its open requests.
// byPerson is as in howToDecide.
func newAgentState(a agents.Agent, sent []reconcile.Call, requests []reconcile.Request, byPerson bool) agentState {
	s := agentState{
		AgentID:       a.Identifier,
		State:         stateIdle,
		Tokens:        a.Tokens,
		Conversations: []conversationState{},
		Requests:      []requestState{},
	}
	if slices.ContainsFunc(sent, isOpenTurn) {
		s.State = stateActive
		s.Activity = a.Activity
	}
	for _, r := range requests {
		s.State = stateWaiting
		s.Requests = append(s.Requests, newRequestState(r, byPerson))
	}
	if a.Settled { // before, the worker may still store how a turn ended
		s.State = stateEnded
		s.Activity = ""
		s.Outcome = string(a.Outcome)
		s.Error = a.ErrorText
	}
	for _, c := range sent {
		if c.Verb != reconcile.CallConversation {
			continue
		}
		turns := turnsOf(sent, c.ID)
		if c.Status == reconcile.CallFailed && len(turns) == 0 {
			continue
		}
		s.Conversations = append(s.Conversations, conversationState{
			ConversationID: cmp.Or(c.ThreadID, c.ID),
			Turns:          turns,
		})
	}
	return s
}

// turnsOf describes the turns of a conversation.
func turnsOf(sent []reconcile.Call, conversation string) []turnState {
	turns := []turnState{}
	for _, c := range sent {
		if c.Verb != reconcile.CallTurn || c.Conversation != conversation {
			continue
		}
		t := turnState{TurnID: c.ID, Status: string(c.Status)}
		var result runner.TurnResult
		if len(c.Result) > 0 && json.Unmarshal(c.Result, &result) == nil {
			t.LastMessage = result.LastMessage
		}
		if c.ErrorCode != "" {
			t.Error = &turnError{Code: c.ErrorCode, Message: c.ErrorText}
		}
		turns = append(turns, t)
	}
	return turns
}

func isOpenTurn(c reconcile.Call) bool { return c.Verb == reconcile.CallTurn && !c.Ended() }

func isEndedTurn(c reconcile.Call) bool { return c.Verb == reconcile.CallTurn && c.Ended() }

// lastEnd returns the place of the last ended turn in the order of ends, at least last.
func lastEnd(sent []reconcile.Call, last int64) int64 {
	for _, c := range sent {
		if isEndedTurn(c) {
			last = max(last, c.EndedNo)
		}
	}
	return last
}

// lastTurns leaves the last ended turn of each conversation.
func lastTurns(sent []reconcile.Call) []reconcile.Call {
	last := map[string]int64{}
	for _, c := range sent {
		last[c.Conversation] = max(last[c.Conversation], c.EndedNo)
	}
	return slices.DeleteFunc(sent, func(c reconcile.Call) bool {
		return isEndedTurn(c) && c.EndedNo != last[c.Conversation]
	})
}
