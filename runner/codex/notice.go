package codex

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"
)

// showsProgress reports whether a notification resets the stall clock. Retries do not, because
// without a network they never end; nor does the end of a turn, which an error before it may
// explain.
func showsProgress(method string) bool {
	switch method {
	case "turn/completed", "turn/failed", "turn/cancelled":
		return false
	}
	return strings.HasPrefix(method, "item/") || strings.HasPrefix(method, "turn/") ||
		method == "thread/tokenUsage/updated"
}

// routine lists the notifications that tell an operator nothing.
var routine = []string{
	"serverRequest/resolved", "thread/started", "thread/name/updated", "thread/settings/updated",
	"thread/readState/changed", "thread/status/changed", "account/rateLimits/updated",
	"remoteControl/status/changed", "turn/started", "turn/plan/updated",
	"item/reasoning/summaryPartAdded", "item/commandExecution/terminalInteraction",
}

// needless are beginnings of warnings about which nothing needs to be done: codex brings its
// own bubblewrap, and symphony switches on the feature that lets the model ask.
var needless = []string{
	"Codex could not find bubblewrap on PATH.",
	"Under-development features enabled: default_mode_request_user_input. ",
}

// eventOf returns the event for a notification.
func eventOf(m *message, p *params) agent.Event {
	e := agent.Event{
		Name:     agent.EventNotification,
		ThreadID: p.threadID(),
		TurnID:   p.turnID(),
		Message:  describe(m.Method, p),
		Raw:      m.raw,
		Fragment: strings.HasSuffix(strings.ToLower(m.Method), "delta") || m.Method == "turn/diff/updated",
		Routine:  slices.Contains(routine, m.Method),
	}
	switch m.Method {
	case "error":
		e.Name = agent.EventError
	case "item/started", "item/completed":
		e.Item = p.Item.item(m.Method == "item/completed")
	case "configWarning", "warning":
		said := cmp.Or(p.Summary, p.Message)
		begins := func(with string) bool { return strings.HasPrefix(said, with) }
		e.Routine = slices.ContainsFunc(needless, begins)
	case "mcpServer/startupStatus/updated":
		// after a failure the agent continues without the server's tools
		e.Routine = p.statusWord() != statusFailed
	}
	return e
}

// describe returns a line about a notification for an operator.
func describe(method string, p *params) string {
	status := words(p.statusWord())
	switch method {
	case "turn/completed", "turn/failed", "turn/cancelled":
		ending, err := p.ending(method)
		return join("turn "+ending, errorText(err))
	case "error":
		line := cmp.Or(errorText(p.Error), p.Message, "error")
		if p.Error != nil {
			line = join(line, p.Error.Details)
		}
		if p.WillRetry {
			return "retrying: " + line
		}
		return line
	case "item/started", "item/completed":
		return describeItem(&p.Item, method == "item/completed")
	case "model/rerouted":
		return join("model "+p.ToModel+" instead of "+p.FromModel, words(p.Reason))
	case "mcpServer/startupStatus/updated":
		return join("MCP server "+p.Name+" is "+status, errorText(p.Error))
	}
	line := join(words(strings.TrimPrefix(method, "item/")), status)
	return join(line, cmp.Or(join(p.Summary, p.Details), p.Message))
}

func describeItem(i *wireItem, ended bool) string {
	state := "started"
	if ended {
		state = cmp.Or(i.Status, statusCompleted)
	}
	switch i.Type {
	case "agentMessage":
		if ended {
			return text.FirstLine(i.Text)
		}
	case "commandExecution":
		if ended && i.ExitCode != nil {
			state = fmt.Sprintf("exited %d", *i.ExitCode)
		}
		return "command " + state + ": " + shellText(i.Command)
	case "fileChange":
		if len(i.Changes) > 0 {
			names := text.Map(i.Changes, func(c wireChange) string { return path.Base(c.Path) })
			return join(text.Plural(len(i.Changes), "file change")+" "+state, strings.Join(names, ", "))
		}
	case "dynamicToolCall":
		return "tool " + i.Tool + " " + state
	case "mcpToolCall":
		return join("MCP tool "+i.Server+"/"+i.Tool+" "+state, errorText(i.Error))
	case "collabAgentToolCall":
		return "sub-agent " + i.Tool + " " + state
	case "userMessage":
		return "prompt"
	case "reasoning":
		return join("reasoning", strings.Join(i.Summary, " "))
	}
	return join(words(i.Type)+" "+state, cmp.Or(i.Query, i.Path, text.FirstLine(i.Text)))
}

// words turns thread/readState/changed into "thread read state changed".
func words(name string) string {
	var b strings.Builder
	for _, r := range strings.ReplaceAll(name, "/", " ") {
		if 'A' <= r && r <= 'Z' {
			b.WriteByte(' ')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}
