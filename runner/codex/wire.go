package codex

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/symphony-cron/symphony/runner/agent"
)

// params are the members that the session reads of the parameters of any message, and of results. All else stays in the
// raw line. Members are matched by name without regard to case.
type params struct {
	ThreadID, TurnID, ItemID string
	Thread                   struct{ ID string }
	Turn                     wireTurn
	Item                     wireItem
	Model                    string

	Error                                   *turnError
	WillRetry                               bool
	Status                                  json.RawMessage // a word or an object
	Message, Summary, Details, Reason, Name string
	RequestID, TokenUsage, RateLimits       json.RawMessage
	FromModel, ToModel                      string
	Explanation                             string
	Plan                                    []struct{ Step, Status string }
	Goal                                    struct{ Objective, Status string }
	Changes                                 []wireChange

	// Of requests.
	Kind, Cwd, GrantRoot   string
	Command, Permissions   json.RawMessage
	AdditionalPermissions  json.RawMessage // of a command
	NetworkApprovalContext *struct{ Host, Protocol string }
	Questions              []wireQuestion
	ServerName, Mode, URL  string
	RequestedSchema        json.RawMessage
	Meta                   json.RawMessage `json:"_meta"`
	Tool                   string
	Arguments              json.RawMessage
}

type wireTurn struct {
	ID, Status string
	Items      []wireItem
	Error      *turnError
}

type wireQuestion struct {
	ID, Header, Question string
	IsOther, IsSecret    bool
	Options              []agent.Option
}

type wireItem struct {
	ID, Type, Status, Text    string
	Command, Cwd              string
	AggregatedOutput          string
	ExitCode                  *int
	DurationMS                *int64
	Changes                   []wireChange
	Server, Tool, Query, Path string
	Success                   *bool
	Summary                   []string
	Error                     *turnError
	ContentItems              []struct{ Text string }
}

type wireChange struct {
	Path, Diff string
	Kind       struct {
		Type string
		Move string `json:"move_path"`
	}
}

func readParams(raw json.RawMessage) *params {
	var p params
	unmarshal(raw, &p)
	return &p
}

func (p *params) threadID() string { return cmp.Or(p.ThreadID, p.Thread.ID) }

func (p *params) turnID() string { return cmp.Or(p.TurnID, p.Turn.ID) }

func (p *params) reason() string { return cmp.Or(p.Reason, p.Message) }

// statusWord is the status, which is a word or an object such as {"type":"active","activeFlags":["waitingOnApproval"]}.
func (p *params) statusWord() string {
	var word string
	var object struct{ Type string }
	unmarshal(p.Status, &word)
	unmarshal(p.Status, &object)
	return cmp.Or(word, object.Type)
}

// itemKinds are the items that the project tells apart, by codex's type.
var itemKinds = map[string]agent.ItemKind{
	"userMessage":      agent.ItemPrompt,
	"agentMessage":     agent.ItemMessage,
	"reasoning":        agent.ItemReasoning,
	"commandExecution": agent.ItemCommand,
	"fileChange":       agent.ItemFileChange,
	"dynamicToolCall":  agent.ItemTool,
	"mcpToolCall":      agent.ItemMCPTool,
}

// item is the item as the project knows it.
func (w *wireItem) item(ended bool) *agent.Item {
	i := &agent.Item{
		ID: w.ID, Kind: cmp.Or(itemKinds[w.Type], agent.ItemOther), Ended: ended, Status: w.Status, Text: w.Text,
		Command: shellText(w.Command), Cwd: w.Cwd,
		ExitCode: w.ExitCode, DurationMS: w.DurationMS, Output: w.AggregatedOutput, Changes: fileChanges(w.Changes), Tool: w.Tool,
	}
	if w.Success != nil && !*w.Success {
		i.Status = statusFailed
	}
	if i.Kind == agent.ItemMCPTool {
		i.Tool = w.Server + "/" + w.Tool
	}
	texts := make([]string, 0, len(w.ContentItems))
	for _, c := range w.ContentItems {
		texts = append(texts, c.Text)
	}
	i.Result = strings.Join(texts, "\n")
	return i
}

// movedTo stands between the two paths of a file that is moved.
const movedTo = " → "

func fileChanges(changes []wireChange) []agent.FileChange {
	var out []agent.FileChange
	for _, c := range changes {
		f := agent.FileChange{Path: c.Path, Kind: c.Kind.Type, Diff: c.Diff}
		if c.Kind.Move != "" {
			f.Path += movedTo + c.Kind.Move
		}
		out = append(out, f)
	}
	return out
}

// codex reports commands as one word of a shell: /bin/bash -lc '…'. The model may name any program as its shell, and
// another one than those of a system is shown.
var (
	shellCommand = regexp.MustCompile(`(?s)^(?:/bin/|/usr/bin/|/usr/local/bin/)?(?:bash|sh|zsh|dash|ksh|fish) -l?c ` +
		`((?:'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^\s'"\\])+)$`)
	wordPart = regexp.MustCompile(`(?s)'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|([^'"\\]+)`)
	escaped  = regexp.MustCompile("\\\\([$`\"\\\\])") // within double quotes a backslash before another character stands for itself
)

// shellText takes the usual shell off a command. A person decides by the text: whatever is more than that shell stays.
func shellText(command string) string {
	m := shellCommand.FindStringSubmatch(command)
	if m == nil {
		return command
	}
	word := ""
	for _, part := range wordPart.FindAllStringSubmatch(m[1], -1) {
		word += part[1] + escaped.ReplaceAllString(part[2], "$1") + part[3] + part[4]
	}
	return cmp.Or(word, command)
}
