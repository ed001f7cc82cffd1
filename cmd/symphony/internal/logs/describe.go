package logs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// How many lines of detail an event has, unless it is shown in full.
const (
	promptLines = 6
	outputLines = 10 // of a command that failed
	resultLines = 3  // of a tool that failed
	diffLines   = 40 // of one file
)

// describe describes an event in a line, followed by lines of detail. It is empty for an event that does not interest a reader.
func describe(e agent.Event, whole bool) string {
	message := cmp.Or(e.Message, e.Name)
	switch e.Name {
	case agent.EventNotification, agent.EventError:
		switch {
		case e.Item != nil:
			return describeItem(e.Item, message, whole)
		case e.Routine:
			return ""
		}
		return message
	case agent.EventGitUndone:
		return "git configuration undone: " + message
	case agent.EventPrompt:
		var p agent.PromptEvent
		_ = json.Unmarshal(e.Raw, &p) // a payload that was cut has no text
		return below("prompt, "+message, firstLines(p.Text, promptLines, whole)...)
	case agent.EventMutation:
		var m reconcile.Mutation
		_ = json.Unmarshal(e.Raw, &m)
		line := e.Name + ": " + message
		for _, c := range m.Created {
			line = below(line, "created "+c.Kind+" "+c.ID)
		}
		return line
	}
	if message == strings.ReplaceAll(e.Name, "_", " ") || message == e.Name {
		return e.Name
	}
	return e.Name + ": " + message
}

// describeItem describes an item. Most items are described only when they have ended.
func describeItem(i *agent.Item, message string, whole bool) string {
	switch {
	case i.Kind == agent.ItemPrompt: // the prompt has an event of its own
		return ""
	case i.Kind == agent.ItemCommand:
		if i.Ended && i.ExitCode != nil && i.DurationMS != nil {
			took := time.Duration(*i.DurationMS) * time.Millisecond
			if took >= time.Second {
				took = took.Round(100 * time.Millisecond)
			}
			message += fmt.Sprintf(" (%s)", took)
		}
		if i.ExitCode != nil && *i.ExitCode == 0 && !whole {
			return message
		}
		lines := linesOf(i.Output)
		if more := len(lines) - outputLines; more > 0 && !whole { // the last lines say what went wrong
			lines = append([]string{"… " + text.Plural(more, "earlier line")}, lines[more:]...)
		}
		return below(message, lines...)
	case i.Kind == agent.ItemMCPTool || i.Kind == agent.ItemOther:
		return message
	case !i.Ended:
		return ""
	case i.Kind == agent.ItemMessage:
		return "agent: " + cmp.Or(strings.TrimSpace(i.Text), message)
	case i.Kind == agent.ItemFileChange:
		for _, c := range i.Changes {
			message = below(message, strings.TrimSpace(c.Kind+" "+c.Path))
			message = below(message, firstLines(asDiff(c), diffLines, whole)...)
		}
	case i.Kind == agent.ItemTool && !i.Failed(): // the answer to the call has an event of its own
		return ""
	case i.Kind == agent.ItemTool:
		return below(message, firstLines(i.Result, resultLines, whole)...)
	}
	return message
}

// asDiff turns the text of an added or deleted file, which codex sends without signs, into a diff.
func asDiff(c agent.FileChange) string {
	sign := map[string]string{"add": "+", "delete": "-"}[c.Kind]
	if sign == "" || c.Diff == "" || strings.HasPrefix(c.Diff, "@@") || strings.Contains(c.Diff, "\n@@") {
		return c.Diff
	}
	return sign + strings.ReplaceAll(strings.TrimSuffix(c.Diff, "\n"), "\n", "\n"+sign)
}

// below appends lines to the head.
func below(head string, lines ...string) string {
	return strings.Join(append([]string{head}, lines...), "\n")
}

func firstLines(s string, most int, whole bool) []string {
	lines := linesOf(s)
	if more := len(lines) - most; more > 0 && !whole {
		lines = append(lines[:most:most], "… "+text.Plural(more, "more line"))
	}
	return lines
}

func linesOf(s string) []string {
	if s = strings.TrimSpace(s); s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

// colourOf is the colour of an event's kind: red for a failure, green for a success, bold for messages and prompts.
func colourOf(e agent.Event) string {
	const bold = "1"
	switch i := e.Item; {
	case i != nil && !i.Ended:
		return ""
	case i != nil && i.Failed(), e.Name == agent.EventError:
		return term.ColourStuck
	case i != nil && i.ExitCode != nil:
		return term.ColourRuns
	case i != nil && i.Kind == agent.ItemMessage, e.Name == agent.EventPrompt:
		return bold
	case strings.HasSuffix(e.Name, "_failed"), strings.HasSuffix(e.Name, "_error"), strings.HasSuffix(e.Name, "_required"):
		return term.ColourStuck
	case strings.HasSuffix(e.Name, "_completed"):
		return term.ColourRuns
	}
	return ""
}
