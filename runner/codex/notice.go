package codex

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/wire"
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
func eventOf(m *wire.Message, p notification) agent.Event {
	e := agent.Event{
		Name:     agent.EventNotification,
		ThreadID: p.from().threadID(),
		TurnID:   p.from().turnID(),
		Message:  p.line(m.Method),
		Raw:      bytes.Clone(m.Raw),
		Fragment: strings.HasSuffix(strings.ToLower(m.Method), "delta") || m.Method == "turn/diff/updated",
		Routine:  slices.Contains(routine, m.Method),
	}
	switch p := p.(type) {
	case *errorReported:
		e.Name = agent.EventError
	case *itemChanged:
		e.Item = p.Item.item(endsItem(m.Method))
	case *serverStarts:
		// after a failure the agent continues without the server's tools
		e.Routine = p.statusWord() != statusFailed
	case *remark:
		if m.Method == "configWarning" || m.Method == "warning" {
			said := cmp.Or(p.Summary, p.Message)
			begins := func(with string) bool { return strings.HasPrefix(said, with) }
			e.Routine = slices.ContainsFunc(needless, begins)
		}
	}
	return e
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
			return wire.Join(text.Plural(len(i.Changes), "file change")+" "+state, strings.Join(names, ", "))
		}
	case "dynamicToolCall":
		return "tool " + i.Tool + " " + state
	case "mcpToolCall":
		return wire.Join("MCP tool "+i.Server+"/"+i.Tool+" "+state, errorText(i.Error))
	case "collabAgentToolCall":
		return "sub-agent " + i.Tool + " " + state
	case "userMessage":
		return "prompt"
	case "reasoning":
		return wire.Join("reasoning", strings.Join(i.Summary, " "))
	}
	return wire.Join(words(i.Type)+" "+state, cmp.Or(i.Query, i.Path, text.FirstLine(i.Text)))
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
