package runner

import (
	"encoding/json"
	"fmt"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// The parameters of calls, as JSON. A missing value is that of the conversation, or of a run.
type (
	// ConversationCall opens a conversation, or continues the thread of an earlier one.
	ConversationCall struct {
		ThreadID              string          `json:"threadId,omitempty"`
		Cwd                   string          `json:"cwd,omitempty"`
		Model                 string          `json:"model,omitempty"`
		ApprovalPolicy        json.RawMessage `json:"approvalPolicy,omitempty"`
		SandboxPolicy         json.RawMessage `json:"sandboxPolicy,omitempty"` // of turns
		Config                map[string]any  `json:"config,omitempty"`
		BaseInstructions      string          `json:"baseInstructions,omitempty"`
		DeveloperInstructions string          `json:"developerInstructions,omitempty"`
	}
	// TurnCall is a turn, or with the items alone what is added to the running one.
	TurnCall struct {
		Items          []agent.Input   `json:"items"`
		Cwd            string          `json:"cwd,omitempty"`
		Model          string          `json:"model,omitempty"`
		Effort         string          `json:"effort,omitempty"`
		ApprovalPolicy json.RawMessage `json:"approvalPolicy,omitempty"`
		SandboxPolicy  json.RawMessage `json:"sandboxPolicy,omitempty"`
	}
	// ExecCall is one command that is run in the sandbox.
	ExecCall struct {
		Command       []string        `json:"command"`
		Cwd           string          `json:"cwd,omitempty"`
		SandboxPolicy json.RawMessage `json:"sandboxPolicy,omitempty"`
		TimeoutMS     int64           `json:"timeoutMs,omitempty"`
	}
)

// The results of calls, as JSON. That of CallExec is an agent.ExecResult.
type (
	// DiffResult is what differs from the remote repository: the newest commit that it has, too, and a diff from it.
	DiffResult struct {
		SHA  string `json:"sha"`
		Diff string `json:"diff"`
	}
	// ConversationResult is an open conversation.
	ConversationResult struct {
		ThreadID  string `json:"threadId"`
		Model     string `json:"model,omitempty"`
		UserAgent string `json:"userAgent,omitempty"`
		Resumed   bool   `json:"resumed,omitempty"`
	}
	// TurnResult is an ended turn.
	TurnResult struct {
		TurnID      string `json:"turnId,omitempty"`
		LastMessage string `json:"lastMessage,omitempty"`
	}
	// LoginResult is how codex reaches its model.
	LoginResult struct {
		agent.Login
		UserAgent string `json:"userAgent"`
	}
)

// decoded calls do with the parameters of a call.
func decoded[P any](call reconcile.Call, do func(P) (any, error)) (any, error) {
	var p P
	if err := json.Unmarshal(call.Params, &p); err != nil {
		return nil, fmt.Errorf("parameters of %s: %w", call.Verb, err)
	}
	return do(p)
}
