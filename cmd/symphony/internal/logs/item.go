package logs

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/runner/agent"
)

// codex's names of notifications and items.
const (
	methodStarted   = "item/started"
	methodCompleted = "item/completed"
	methodError     = "error"

	itemUserMessage = "userMessage"
	itemMessage     = "agentMessage"
	itemReasoning   = "reasoning"
	itemCommand     = "commandExecution"
	itemFileChange  = "fileChange"
	itemToolCall    = "dynamicToolCall"
)

// isSilent reports notifications that say nothing to a reader: the state of the connection, and what a later event repeats.
func isSilent(method string) bool {
	switch method {
	case "account/rateLimits/updated", "remoteControl/status/changed", "serverRequest/resolved", "thread/started",
		"thread/status/changed", "thread/name/updated", "thread/settings/updated", "thread/readState/changed",
		"mcpServer/startupStatus/updated":
		return true
	}
	return false
}

// serverFailed reports an MCP server that did not start: the agent goes on without its tools.
func serverFailed(e agent.EventLine) bool {
	var m struct {
		Params struct {
			Status string `json:"status"`
		} `json:"params"`
	}
	return e.Method == "mcpServer/startupStatus/updated" && json.Unmarshal(e.Payload, &m) == nil && m.Params.Status == "failed"
}

// item is what is shown of an item of codex.
type item struct {
	Type             string   `json:"type"`
	Text             string   `json:"text"`
	Status           string   `json:"status"`
	ExitCode         *int     `json:"exitCode"`
	DurationMS       *float64 `json:"durationMs"`
	AggregatedOutput string   `json:"aggregatedOutput"`
	Changes          []struct {
		Path string          `json:"path"`
		Kind json.RawMessage `json:"kind"` // {"type": "add"}, or the word alone
		Diff string          `json:"diff"`
	} `json:"changes"`
	ContentItems []struct {
		Text string `json:"text"`
	} `json:"contentItems"`
	Success *bool `json:"success"`
}

// itemOf is the item that an event is about, otherwise the zero value. Members of another shape stay empty.
func itemOf(e agent.EventLine) (i item) {
	var m struct {
		Params struct {
			Item json.RawMessage `json:"item"`
		} `json:"params"`
	}
	if strings.HasPrefix(e.Method, "item/") && json.Unmarshal(e.Payload, &m) == nil {
		_ = json.Unmarshal(m.Params.Item, &i)
	}
	return i
}

// startSaysMore reports whether the start of an item says something before its end comes.
func (i item) startSaysMore() bool {
	switch i.Type {
	case itemUserMessage, itemMessage, itemReasoning, itemToolCall, itemFileChange:
		return false
	}
	return true
}

func (i item) duration() string {
	if i.ExitCode == nil || i.DurationMS == nil {
		return ""
	}
	d := time.Duration(*i.DurationMS * float64(time.Millisecond))
	if d < time.Second {
		return " (" + term.Duration(d) + ")"
	}
	return fmt.Sprintf(" (%s)", d.Round(100*time.Millisecond))
}

// outputLines are the end of a command's output, of a successful command only where everything is shown.
func (i item) outputLines(limits lineLimits) []string {
	if i.ExitCode != nil && *i.ExitCode == 0 && limits != whole {
		return nil
	}
	return lastLines(i.AggregatedOutput, limits.output)
}

// changeLines are the files of a change, each with the beginning of its diff.
func (i item) changeLines(most int) (lines []string) {
	for _, c := range i.Changes {
		var kind struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(c.Kind, &kind) != nil {
			_ = json.Unmarshal(c.Kind, &kind.Type)
		}
		lines = append(lines, strings.TrimSpace(kind.Type+" "+c.Path)+changedLines(c.Diff))
		lines = append(lines, firstLines(asDiff(kind.Type, c.Diff), most)...)
	}
	return lines
}

// asDiff makes a diff of the text of a file that is added or deleted, which codex sends as it is.
func asDiff(kind, diff string) string {
	sign := map[string]string{"add": "+", "delete": "-"}[kind]
	if sign == "" || diff == "" || hasHunks(diff) {
		return diff
	}
	lines := strings.Split(strings.TrimSuffix(diff, "\n"), "\n")
	return sign + strings.Join(lines, "\n"+sign)
}

func hasHunks(diff string) bool {
	return strings.HasPrefix(diff, "@@") || strings.Contains(diff, "\n@@")
}

// changedLines says how many lines a diff adds and removes.
func changedLines(diff string) string {
	if !hasHunks(diff) {
		return ""
	}
	added, removed, inHunk := 0, 0, false
	for line := range strings.Lines(diff) {
		switch {
		case strings.HasPrefix(line, "@@"):
			inHunk = true // the names of the files come before
		case inHunk && strings.HasPrefix(line, "+"):
			added++
		case inHunk && strings.HasPrefix(line, "-"):
			removed++
		}
	}
	return fmt.Sprintf(" +%d -%d", added, removed)
}

func (i item) failed() bool {
	return i.Status == "failed" || i.Success != nil && !*i.Success
}

// result is the answer of a tool.
func (i item) result() string {
	texts := make([]string, 0, len(i.ContentItems))
	for _, c := range i.ContentItems {
		texts = append(texts, c.Text)
	}
	return strings.Join(texts, "\n")
}
