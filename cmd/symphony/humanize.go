package main

import (
	"encoding/json"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/codex"
)

// unsaid are the notifications that tell a person nothing: the state of the connection, what the next event
// says better, and rate limits, which ps has.
var unsaid = map[string]bool{
	"account/rateLimits/updated":      true,
	"remoteControl/status/changed":    true,
	"serverRequest/resolved":          true,
	"thread/started":                  true,
	"thread/status/changed":           true,
	"thread/name/updated":             true,
	"mcpServer/startupStatus/updated": true,
}

// humanize puts an event into words for a person, or into none. What belongs below its line follows in lines of its
// own. The whole of it is in logs --raw.
func humanize(e runner.EventLine) (text string, ok bool) {
	text = e.Message
	if text == "" {
		text = e.Method
	}
	switch e.Event {
	case codex.EventNotification:
		return humanizeNotice(e, text)
	case runner.EventPrompt:
		return "prompt, " + text + below(promptLines(e)), true
	case runner.EventMutation:
		return e.Event + ": " + text + below(createdLines(e)), true
	}
	name := strings.ReplaceAll(e.Event, "_", " ")
	if text == name || text == e.Method {
		return e.Event, true
	}
	return e.Event + ": " + text, true
}

func humanizeNotice(e runner.EventLine, text string) (string, bool) {
	if unsaid[e.Method] && !failedServer(e) {
		return "", false
	}
	item := itemOf(e)
	if e.Method == "item/started" {
		return text, !item.toldAtItsEnd()
	}
	switch item.Type {
	case "userMessage":
		return "", false // turn_prompt says what it is
	case "agentMessage":
		if item.Text != "" {
			text = strings.TrimSpace(item.Text)
		}
		return "agent: " + text, true
	case "commandExecution":
		return text + item.lasted() + below(item.failure()), true
	case "fileChange":
		return text + below(item.files()), true
	case "dynamicToolCall":
		// That it was called, and with what, says the answer to the call.
		return text + below(firstLines(item.result(), resultLines)), item.failed()
	}
	return text, true
}

// failedServer reports an MCP server that could not be started: the agent goes on without its tools.
func failedServer(e runner.EventLine) bool {
	var m struct {
		Params struct {
			Status string `json:"status"`
		} `json:"params"`
	}
	return e.Method == "mcpServer/startupStatus/updated" && json.Unmarshal(e.Payload, &m) == nil && m.Params.Status == "failed"
}

// How many lines are shown of a prompt, of a failed command's output and of a failed call's result.
const (
	promptShown = 6
	outputLines = 10
	resultLines = 3
)

// below are lines under that of the event.
func below(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return "\n" + strings.Join(lines, "\n")
}

func promptLines(e runner.EventLine) []string {
	var p runner.PromptEvent
	if json.Unmarshal(e.Payload, &p) != nil {
		return nil // logs --raw shows what it is
	}
	return firstLines(p.Text, promptShown)
}

func createdLines(e runner.EventLine) (lines []string) {
	var m reconcile.Mutation
	if json.Unmarshal(e.Payload, &m) != nil {
		return nil
	}
	for _, c := range m.Created {
		lines = append(lines, "created "+c.Kind+" "+c.ID)
	}
	return lines
}

func firstLines(text string, most int) []string {
	lines := linesOf(text)
	if more := len(lines) - most; more > 0 {
		lines = append(lines[:most:most], "… "+plural(more, "more line"))
	}
	return lines
}

func lastLines(text string, most int) []string {
	lines := linesOf(text)
	if more := len(lines) - most; more > 0 {
		lines = append([]string{"… " + plural(more, "line") + " before"}, lines[more:]...)
	}
	return lines
}

// linesOf are the lines of a text without blank ones around it.
func linesOf(text string) []string {
	if text = strings.TrimSpace(text); text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
