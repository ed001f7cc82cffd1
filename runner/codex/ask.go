package codex

import (
	"context"
	"encoding/json"
)

// AskKind says what an agent asks a person for.
type AskKind string

// The kinds of Ask.
const (
	AskCommand     AskKind = "command"
	AskFileChange  AskKind = "file_change"
	AskPermissions AskKind = "permissions" // also that a tool of an MCP server may run
	AskQuestion    AskKind = "question"    // also an MCP server's form
)

// Ask is a request of codex's that is left to a person (design 9).
type Ask struct {
	Kind     AskKind
	ThreadID string // may be a sub-agent's
	TurnID   string
	ItemID   string
	// Summary is one line: the command and the questions, cut if they are long, or the files, the permissions, the tool.
	Summary string
	Reason  string // the agent's own, "" if it gave none
	// Command and Cwd belong to AskCommand, Changes and GrantRoot to AskFileChange, Permissions to AskPermissions as
	// codex sent them (for a tool of an MCP server what it says of the tool; for a command those that it would get
	// besides), Server and Questions to AskQuestion.
	Command     string
	Cwd         string
	Changes     []FileChange
	GrantRoot   string
	Permissions json.RawMessage
	Server      string // of the MCP server that asks, or whose tool it is; "" for all else
	Questions   []Question
	// OutsideSandbox: what is granted runs without a sandbox, or nothing says that it does not (the package's decisions).
	OutsideSandbox bool
}

// FileChange is one file of a patch.
type FileChange struct {
	Path string `json:"path"`
	Kind string `json:"kind"` // add, update, delete
	Diff string `json:"diff"`
}

// Question is one of those that are asked together.
type Question struct {
	ID      string   `json:"id"`
	Header  string   `json:"header,omitempty"`
	Text    string   `json:"text"`
	Options []Option `json:"options,omitempty"` // none: any text
	// Other: text beside the options is welcome; Secret: the answer is not to be shown.
	Other  bool `json:"other,omitempty"`
	Secret bool `json:"secret,omitempty"`
	// Optional: it may be left without an answer; Several: more than one option may be chosen; Type: what a text must be,
	// "integer" or "number".
	Optional bool   `json:"optional,omitempty"`
	Several  bool   `json:"several,omitempty"`
	Type     string `json:"type,omitempty"`
}

// Option is one answer that is offered.
type Option struct {
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
}

// Decision is a person's answer to an Ask. The zero value declines, and answers nothing.
type Decision struct {
	Approve    bool
	ForSession bool // with Approve: also the next ones like it in this process
	// Reason of a refusal, for the event; codex takes none.
	Reason string
	// Answers by the questions' ids.
	Answers map[string][]string
	// Expired: nobody decided in time.
	Expired bool
	// By names who decided, for the event: "operator", "" where nobody did.
	By string
	// Sent, where it is set, is called once codex has been told; never where it was not, because it or the turn ended first.
	Sent func()
}

// AskPerson decides an Ask. ctx ends with the turn, with the request (codex withdrew it) and with the session.
type AskPerson func(ctx context.Context, a Ask) Decision
