package codex

import (
	"cmp"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/runner/agent"
)

// params are the members that the session reads of the parameters of any message, and of results. All else stays in the
// raw line.
type params struct {
	ThreadID string   `json:"threadId"`
	TurnID   string   `json:"turnId"`
	Thread   wireID   `json:"thread"`
	Turn     wireTurn `json:"turn"`
	Model    string   `json:"model"`

	Item      wireItem        `json:"item"`
	Delta     string          `json:"delta"`
	Error     *turnError      `json:"error"`
	WillRetry bool            `json:"willRetry"`
	Status    json.RawMessage `json:"status"` // a word or an object
	Message   string          `json:"message"`
	Summary   string          `json:"summary"`
	Details   string          `json:"details"`
	Reason    string          `json:"reason"`
	Name      string          `json:"name"`
	RequestID json.RawMessage `json:"requestId"`

	TokenUsage  json.RawMessage `json:"tokenUsage"`
	RateLimits  json.RawMessage `json:"rateLimits"`
	Diff        string          `json:"diff"`
	Explanation string          `json:"explanation"`
	Plan        []wireStep      `json:"plan"`
	Goal        wireGoal        `json:"goal"`
	FromModel   string          `json:"fromModel"`
	ToModel     string          `json:"toModel"`
	Provider    string          `json:"provider"`
	Changes     []wireChange    `json:"changes"`

	ItemID      string          `json:"itemId"`
	Kind        string          `json:"kind"`
	Command     json.RawMessage `json:"command"`
	Cwd         string          `json:"cwd"`
	GrantRoot   string          `json:"grantRoot"`
	Permissions json.RawMessage `json:"permissions"`
	Additional  json.RawMessage `json:"additionalPermissions"` // of a command
	Network     *struct {
		Host     string `json:"host"`
		Protocol string `json:"protocol"`
	} `json:"networkApprovalContext"`
	Questions  []wireQuestion  `json:"questions"`
	Mode       string          `json:"mode"`
	URL        string          `json:"url"`
	Schema     json.RawMessage `json:"requestedSchema"`
	Meta       json.RawMessage `json:"_meta"`
	ServerName string          `json:"serverName"`
	Tool       string          `json:"tool"`
	Arguments  json.RawMessage `json:"arguments"`
}

type wireID struct {
	ID string `json:"id"`
}

type wireTurn struct {
	ID     string     `json:"id"`
	Status string     `json:"status"`
	Items  []wireItem `json:"items"`
	Error  *turnError `json:"error"`
}

type wireStep struct {
	Step   string `json:"step"`
	Status string `json:"status"`
}

type wireGoal struct {
	Objective string `json:"objective"`
	Status    string `json:"status"`
}

type wireQuestion struct {
	ID       string         `json:"id"`
	Header   string         `json:"header"`
	Question string         `json:"question"`
	IsOther  bool           `json:"isOther"`
	IsSecret bool           `json:"isSecret"`
	Options  []agent.Option `json:"options"`
}

type wireItem struct {
	ID           string       `json:"id"`
	Type         string       `json:"type"`
	Text         string       `json:"text"`
	Status       string       `json:"status"`
	Command      string       `json:"command"`
	Cwd          string       `json:"cwd"`
	Output       string       `json:"aggregatedOutput"`
	ExitCode     *int         `json:"exitCode"`
	DurationMS   *int64       `json:"durationMs"`
	Changes      []wireChange `json:"changes"`
	Tool         string       `json:"tool"`
	Server       string       `json:"server"`
	Query        string       `json:"query"`
	Success      *bool        `json:"success"`
	Summary      []string     `json:"summary"`
	Error        *turnError   `json:"error"`
	Path         string       `json:"path"`
	ContentItems []struct {
		Text string `json:"text"`
	} `json:"contentItems"`
}

type wireChange struct {
	Path string `json:"path"`
	Kind struct {
		Type string `json:"type"`
		Move string `json:"move_path"`
	} `json:"kind"`
	Diff string `json:"diff"`
}

func readParams(raw json.RawMessage) *params {
	var p params
	unmarshal(raw, &p)
	return &p
}

func (p *params) threadID() string { return cmp.Or(p.ThreadID, p.Thread.ID) }

func (p *params) turnID() string { return cmp.Or(p.TurnID, p.Turn.ID) }

func (p *params) reason() string { return cmp.Or(p.Reason, p.Message) }

// statusWord is status where it is a word.
func (p *params) statusWord() string {
	var word string
	unmarshal(p.Status, &word)
	return word
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

func (w *wireItem) kind() agent.ItemKind { return cmp.Or(itemKinds[w.Type], agent.ItemOther) }

// item is the item as the project knows it.
func (w *wireItem) item(ended bool) *agent.Item {
	i := &agent.Item{
		ID: w.ID, Kind: w.kind(), Ended: ended, Status: w.Status, Text: w.Text, Command: shellText(w.Command), Cwd: w.Cwd,
		ExitCode: w.ExitCode, DurationMS: w.DurationMS, Output: w.Output, Changes: fileChanges(w.Changes), Tool: w.Tool,
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
	i.Unsandboxed = i.Kind == agent.ItemCommand && ended && w.Status == statusFailed && soundsLikeSandbox(w.Output)
	return i
}

// soundsLikeSandbox reports whether a failed command's output may come from codex's sandbox. A command can print the same,
// so this is a reason to ask and no proof.
func soundsLikeSandbox(output string) bool {
	return slices.ContainsFunc([]string{"bwrap: ", "error building bubblewrap command", "error applying ", "sandbox-exec: "},
		func(first string) bool { return strings.HasPrefix(output, first) })
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

// shellText takes the usual shell off a command: codex reports all of them as /bin/bash -lc '…'. A person decides by the
// text: whatever is more than that shell stays.
func shellText(command string) string {
	shell, rest, _ := strings.Cut(command, " ")
	flag, rest, _ := strings.Cut(rest, " ")
	if !isShell(shell) || flag != "-lc" && flag != "-c" {
		return command
	}
	if word, ok := unquote(rest); ok {
		return word
	}
	return command
}

// isShell knows the shells of a system. The model may name any program as its shell, and another one is shown.
func isShell(name string) bool {
	dir, base := path.Split(name)
	return slices.Contains([]string{"", "/bin/", "/usr/bin/", "/usr/local/bin/"}, dir) &&
		slices.Contains([]string{"bash", "sh", "zsh", "dash", "ksh", "fish"}, base)
}

// unquote reads text as one word of a shell; false if it is none, or more than one.
func unquote(text string) (word string, ok bool) {
	var b strings.Builder
	for text != "" {
		switch text[0] {
		case '\'':
			inner, rest, closed := strings.Cut(text[1:], "'")
			if !closed {
				return "", false
			}
			b.WriteString(inner)
			text = rest
		case '"':
			rest, closed := unquoteDouble(text[1:], &b)
			if !closed {
				return "", false
			}
			text = rest
		case '\\':
			if len(text) < 2 {
				return "", false
			}
			b.WriteByte(text[1])
			text = text[2:]
		case ' ', '\t', '\n':
			return "", false
		default:
			b.WriteByte(text[0])
			text = text[1:]
		}
	}
	return b.String(), b.Len() > 0
}

// unquoteDouble reads up to the closing quote; a backslash stands for itself but before $, `, " and another.
func unquoteDouble(text string, b *strings.Builder) (rest string, closed bool) {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return text[i+1:], true
		case c == '\\' && i+1 < len(text) && strings.IndexByte("$`\"\\", text[i+1]) >= 0:
			i++
			b.WriteByte(text[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}
