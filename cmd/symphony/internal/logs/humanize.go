package logs

import (
	"cmp"
	"encoding/json"
	"math"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/codex"
)

// unsaid reports the notifications that tell a person nothing: the state of the connection, what the next event
// says better, and rate limits, which ps has.
func unsaid(method string) bool {
	switch method {
	case "account/rateLimits/updated",
		"remoteControl/status/changed",
		"serverRequest/resolved",
		"thread/started",
		"thread/status/changed",
		"thread/name/updated",
		"thread/settings/updated",
		"thread/readState/changed",
		"mcpServer/startupStatus/updated",
		// The same of older releases.
		"codex/event/mcp_startup_update",
		"codex/event/mcp_startup_complete",
		"codex/event/item_started",
		"codex/event/item_completed",
		"codex/event/exec_approval_request",
		"codex/event/apply_patch_approval_request":
		return true
	}
	return false
}

// extent is how many lines are shown below that of an event: of a prompt, of a command's output, of a failed call's
// result, and of the diff of one file.
type extent struct{ prompt, output, result, diff int }

var (
	InShort = extent{prompt: 6, output: 10, result: 3, diff: 40}
	whole   = extent{prompt: math.MaxInt, output: math.MaxInt, result: math.MaxInt, diff: math.MaxInt}
)

// humanize puts an event into words for a person, or into none. What belongs below its line follows in lines of its
// own. The whole of it is in logs --raw.
func Humanize(e agent.EventLine, n extent) (text string, ok bool) {
	text = cmp.Or(e.Message, e.Method, e.Event)
	switch e.Event {
	case codex.EventNotification:
		return humanizeNotice(e, text, n)
	case agent.EventGitUndone:
		return "git configuration undone: " + text, true
	case agent.EventPrompt:
		return "prompt, " + text + below(promptLines(e, n.prompt)), true
	case agent.EventMutation:
		return e.Event + ": " + text + below(createdLines(e)), true
	}
	name := strings.ReplaceAll(e.Event, "_", " ")
	if text == name || text == e.Method {
		return e.Event, true
	}
	return e.Event + ": " + text, true
}

func humanizeNotice(e agent.EventLine, text string, n extent) (string, bool) {
	if unsaid(e.Method) && !failedServer(e) {
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
		return text + item.lasted() + below(item.output(n)), true
	case "fileChange":
		return text + below(item.files(n.diff)), true
	case "dynamicToolCall":
		// That it was called, and with what, says the answer to the call.
		return text + below(firstLines(item.result(), n.result)), item.failed()
	}
	return text, true
}

// failedServer reports an MCP server that could not be started: the agent goes on without its tools.
func failedServer(e agent.EventLine) bool {
	var m struct {
		Params struct {
			Status string `json:"status"`
			Msg    struct {
				Status struct {
					State string `json:"state"`
				} `json:"status"`
			} `json:"msg"`
		} `json:"params"`
	}
	if json.Unmarshal(e.Payload, &m) != nil {
		return false
	}
	switch e.Method {
	case "mcpServer/startupStatus/updated":
		return m.Params.Status == "failed"
	case "codex/event/mcp_startup_update":
		return m.Params.Msg.Status.State == "failed"
	}
	return false
}

// below are lines under that of the event.
func below(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return "\n" + strings.Join(lines, "\n")
}

func promptLines(e agent.EventLine, most int) []string {
	var p agent.PromptEvent
	if json.Unmarshal(e.Payload, &p) != nil {
		return nil // logs --raw shows what it is
	}
	return firstLines(p.Text, most)
}

func createdLines(e agent.EventLine) (lines []string) {
	var m reconcile.Mutation
	if json.Unmarshal(e.Payload, &m) != nil {
		return nil
	}
	for _, c := range m.Created {
		lines = append(lines, "created "+c.Kind+" "+c.ID)
	}
	return lines
}

func firstLines(s string, most int) []string {
	lines := linesOf(s)
	if more := len(lines) - most; more > 0 {
		lines = append(lines[:most:most], "… "+text.Plural(more, "more line"))
	}
	return lines
}

func lastLines(s string, most int) []string {
	lines := linesOf(s)
	if more := len(lines) - most; more > 0 {
		lines = append([]string{"… " + text.Plural(more, "line") + " before"}, lines[more:]...)
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
