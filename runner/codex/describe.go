package codex

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"strings"
)

// messageLength is where Event.Message is cut, in characters.
const messageLength = 200

// describe says in one line what a message of codex's tells, for people.
func describe(method string, p *params) string {
	return oneLine(describeLong(method, p), messageLength)
}

func describeLong(method string, p *params) string {
	switch method {
	case "item/started", "item/completed":
		return describeItem(method == "item/completed", &p.Item)
	case "item/agentMessage/delta", "item/commandExecution/outputDelta":
		return p.Delta
	case "turn/started":
		return "turn started"
	case "turn/completed", "turn/failed", "turn/cancelled", "turn/canceled", "turn/interrupted":
		return describeEnd(endOf(method, p))
	case "error":
		return describeError(p)
	case "item/tool/call":
		return "tool " + p.Tool + " " + string(p.Arguments)
	case "item/commandExecution/requestApproval", "execCommandApproval":
		return join("approve command: "+commandText(p.Command), p.Reason)
	case "item/fileChange/requestApproval", "applyPatchApproval":
		return join("approve file changes", p.Reason)
	case "item/permissions/requestApproval":
		return join("approve permissions: "+string(p.Permissions), p.Reason)
	case "mcpServer/elicitation/request":
		return join("MCP server "+p.ServerName+" asks a person", p.Message)
	case "item/tool/requestUserInput":
		return describeQuestions(p)
	case "thread/status/changed":
		return "thread is " + statusText(p)
	case "mcpServer/startupStatus/updated":
		return "MCP server " + p.Name + " is " + p.statusWord()
	}
	return cmp.Or(p.Message, p.Summary, method)
}

// describeItem tells of an item begun or ended.
func describeItem(ended bool, i *wireItem) string {
	state := "started"
	if ended {
		state = cmp.Or(i.Status, "completed")
	}
	switch i.Type {
	case itemAgentMessage:
		if !ended {
			return "agent message started"
		}
		return firstLine(i.Text)
	case itemCommand:
		text := "command " + state + ": " + shellText(i.Command)
		if ended && i.ExitCode != nil {
			text = fmt.Sprintf("command exited %d: %s", *i.ExitCode, shellText(i.Command))
		}
		return text
	case "fileChange":
		return fmt.Sprintf("%s %s%s", count(len(i.Changes), "file change"), state, paths(i.Changes))
	case "dynamicToolCall":
		return "tool " + i.Tool + " " + state
	case "mcpToolCall":
		return "MCP tool " + i.Server + "/" + i.Tool + " " + state
	case "collabAgentToolCall":
		return "sub-agent " + i.Tool + " " + state
	case "reasoning":
		return join("reasoning", strings.Join(i.Summary, " "))
	case "webSearch":
		return join("web search", i.Query)
	case "userMessage":
		return "prompt"
	}
	return join(i.Type, state)
}

func describeEnd(end turnEnd) string {
	text := "turn " + end.status
	if end.err != nil {
		return join(text, end.err.Message)
	}
	return text
}

func describeError(p *params) string {
	if p.Error == nil {
		return cmp.Or(p.Message, "error")
	}
	text := join(p.Error.Message, p.Error.AdditionalDetails)
	if p.WillRetry {
		return "retrying: " + text
	}
	return text
}

func describeQuestions(p *params) string {
	texts := make([]string, 0, len(p.Questions))
	for _, q := range p.Questions {
		texts = append(texts, cmp.Or(q.Question, q.Header))
	}
	return cmp.Or(strings.Join(texts, " / "), "a question without text")
}

// statusText reads {"type":"active","activeFlags":["waitingOnApproval"]}.
func statusText(p *params) string {
	var status struct {
		Type        string   `json:"type"`
		ActiveFlags []string `json:"activeFlags"`
	}
	if json.Unmarshal(p.Status, &status) != nil {
		return cmp.Or(p.statusWord(), "unknown")
	}
	return join(status.Type, strings.Join(status.ActiveFlags, ", "))
}

// tokensText is the line for token usage.
func tokensText(u Usage) string {
	return fmt.Sprintf("tokens: %d in (%d cached), %d out, %d in all", u.Input, u.CachedInput, u.Output, u.Total)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ": " + b
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// paths names the first files of a change.
func paths(changes []wireChange) string {
	const shown = 3
	names := make([]string, 0, shown)
	for _, c := range changes {
		if len(names) == shown {
			names = append(names, "…")
			break
		}
		names = append(names, path.Base(c.Path))
	}
	if len(names) == 0 {
		return ""
	}
	return ": " + strings.Join(names, ", ")
}
