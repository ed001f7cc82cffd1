package acp

import (
	"encoding/json"
	"path"
	"strings"

	"github.com/symphony-cron/symphony/runner/wire"
)

// protocolVersion is the only version of the protocol that is offered and accepted.
const protocolVersion = 1

// The codes of errors that mean something to this client.
const codeAuthRequired = -32000

// initialized is the answer to initialize.
type initialized struct {
	ProtocolVersion   int
	AgentInfo         struct{ Name, Title, Version string }
	AgentCapabilities struct {
		LoadSession         bool
		SessionCapabilities struct{ Resume, List *struct{} }
	}
}

// resumes reports whether sessions can be resumed without a replay.
func (i *initialized) resumes() bool { return i.AgentCapabilities.SessionCapabilities.Resume != nil }

// lists reports whether the agent lists its sessions.
func (i *initialized) lists() bool { return i.AgentCapabilities.SessionCapabilities.List != nil }

// opened is the answer to session/new, session/resume and session/load, and to
// session/set_config_option, which has only options.
type opened struct {
	SessionID string
	Modes     *struct {
		CurrentModeID  string
		AvailableModes []struct{ ID string }
	}
	Models *struct {
		CurrentModelID  string
		AvailableModels []struct{ ModelID string }
	}
	ConfigOptions []configOption
}

// configOption is a setting of a session, such as {"id":"model","category":"model",
// "currentValue":"opus"}.
type configOption struct {
	ID, Category, CurrentValue string

	Options []struct{ Value string }
}

// is reports whether the option is of a category. An option without a category is known by its
// id.
func (o *configOption) is(category string) bool {
	return o.Category == category || o.Category == "" && o.ID == category
}

// listed is the answer to session/list.
type listed struct {
	Sessions   []struct{ SessionID string }
	NextCursor string
}

// updated are the parameters of session/update.
type updated struct {
	SessionID string
	Update    struct {
		toolCall

		SessionUpdate string
		MessageID     string
		CurrentModeID string
		ConfigOptions []configOption
		Entries       []struct{ Content, Status string } // of a plan
		Cost          *cost
		Meta          struct {
			ClaudeCode struct{ Kind string }
			Model      string `json:"_claude/model"`
		} `json:"_meta"`
	}
}

// chunk returns the text of a piece of a message or a thought.
func (u *updated) chunk() string {
	var block struct{ Text string }
	wire.Unmarshal(u.Update.Content, &block)
	return block.Text
}

// cost is what a session has cost so far.
type cost struct {
	Amount   float64
	Currency string
}

// toolCall is a call of a tool: in an update only with the members that changed.
type toolCall struct {
	ToolCallID string
	Name       string // Claude's own
	Title      string
	Kind       string
	Status     string
	RawInput   json.RawMessage
	RawOutput  json.RawMessage
	Content    json.RawMessage // a list of toolContent; an object in chunks of messages
	Locations  []struct{ Path string }
}

// toolContent is a text or a change of a file.
type toolContent struct {
	Type    string
	Content struct{ Text string }
	Path    string
	OldText string
	NewText string
}

// rawInput are the members of a tool's input that agents use for commands.
type rawInput struct {
	Command string
	Cwd     string
}

func (c *toolCall) input() rawInput {
	var in rawInput
	wire.Unmarshal(c.RawInput, &in)
	return in
}

func (c *toolCall) contents() []toolContent {
	var all []toolContent
	wire.Unmarshal(c.Content, &all)
	return all
}

// label returns the title, with the place if the title does not name it: OpenCode's title of a
// call that reads a file is only "read".
func (c *toolCall) label() string {
	if c.Title == "" || len(c.Locations) == 0 || c.Kind == "execute" {
		return c.Title
	}
	place := c.Locations[0].Path
	if strings.Contains(c.Title, path.Base(place)) {
		return c.Title
	}
	return c.Title + " " + place
}

// output returns what a tool printed, and the exit code of a command if the agent names it:
// Claude has a text, OpenCode {"output":"…","metadata":{"exit":3}}, others nothing.
func (c *toolCall) output() (printed string, exit *int) {
	var plain string
	if json.Unmarshal(c.RawOutput, &plain) == nil && plain != "" {
		return plain, nil
	}
	var object struct {
		Output, Error string
		Metadata      struct{ Exit *int }
	}
	wire.Unmarshal(c.RawOutput, &object)
	if object.Output != "" {
		return object.Output, object.Metadata.Exit
	}
	if object.Error != "" {
		return object.Error, object.Metadata.Exit
	}
	var texts []string
	for _, content := range c.contents() {
		if content.Content.Text != "" {
			texts = append(texts, content.Content.Text)
		}
	}
	return strings.Join(texts, "\n"), object.Metadata.Exit
}

// permissionAsked are the parameters of session/request_permission.
type permissionAsked struct {
	SessionID string
	ToolCall  toolCall
	Options   []permissionOption
}

type permissionOption struct{ OptionID, Name, Kind string }

// The kinds of options of a permission.
const (
	allowOnce    = "allow_once"
	rejectOnce   = "reject_once"
	rejectAlways = "reject_always"
)

// promptAnswer is the answer to session/prompt.
type promptAnswer struct {
	StopReason string
	Usage      struct {
		InputTokens, OutputTokens, CachedReadTokens, CachedWriteTokens int64
	}
	Meta struct {
		Quota struct {
			TokenCount struct {
				Input  int64 `json:"input_tokens"`
				Output int64 `json:"output_tokens"`
			} `json:"token_count"`
		}
	} `json:"_meta"`
}

// The reasons why a turn stops.
const (
	stopEndTurn   = "end_turn"
	stopCancelled = "cancelled"
	stopRefusal   = "refusal"
)

// authStatus are the parameters of Claude's _auth/status_update.
type authStatus struct {
	AuthStatus struct{ Kind, Label string }
}

// cancelAsked are the parameters of $/cancel_request.
type cancelAsked struct{ RequestID json.RawMessage }
