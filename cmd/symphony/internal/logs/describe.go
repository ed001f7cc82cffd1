package logs

import (
	"cmp"
	"encoding/json"
	"math"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// lineLimits are how many lines are shown below that of an event: of a prompt, of a command's output, of a failed call's
// result, and of the diff of one file.
type lineLimits struct{ prompt, output, result, diff int }

var (
	short = lineLimits{prompt: 6, output: 10, result: 3, diff: 40}
	whole = lineLimits{prompt: math.MaxInt, output: math.MaxInt, result: math.MaxInt, diff: math.MaxInt}
)

// describe puts an event into words, with details in lines of their own below. It is false for an event that says nothing
// to a reader.
func describe(e agent.Event, limits lineLimits) (description string, ok bool) {
	message := cmp.Or(e.Message, e.Name)
	switch e.Name {
	case agent.EventNotification, agent.EventError:
		if e.Item != nil {
			return describeItem(e.Item, message, limits)
		}
		return message, !e.Routine
	case agent.EventGitUndone:
		return "git configuration undone: " + message, true
	case agent.EventPrompt:
		return "prompt, " + message + below(promptLines(e, limits.prompt)), true
	case agent.EventMutation:
		return e.Name + ": " + message + below(createdLines(e)), true
	}
	if message == strings.ReplaceAll(e.Name, "_", " ") || message == e.Name {
		return e.Name, true
	}
	return e.Name + ": " + message, true
}

// describeItem says what an item tells. The start of most items tells nothing that their end does not.
func describeItem(i *agent.Item, message string, limits lineLimits) (string, bool) {
	switch i.Kind {
	case agent.ItemPrompt: // the prompt has an event of its own
		return "", false
	case agent.ItemMessage:
		return "agent: " + cmp.Or(strings.TrimSpace(i.Text), message), i.Ended
	case agent.ItemCommand:
		return message + duration(i) + below(outputLines(i, limits)), true
	case agent.ItemFileChange:
		return message + below(changeLines(i, limits.diff)), i.Ended
	case agent.ItemTool: // the answer to the call has an event of its own
		return message + below(firstLines(i.Result, limits.result)), i.Failed()
	case agent.ItemReasoning:
		return message, i.Ended
	case agent.ItemMCPTool, agent.ItemOther:
	}
	return message, true
}

func promptLines(e agent.Event, most int) []string {
	var p agent.PromptEvent
	if json.Unmarshal(e.Raw, &p) != nil {
		return nil
	}
	return firstLines(p.Text, most)
}

func createdLines(e agent.Event) (lines []string) {
	var m reconcile.Mutation
	if json.Unmarshal(e.Raw, &m) != nil {
		return nil
	}
	for _, c := range m.Created {
		lines = append(lines, "created "+c.Kind+" "+c.ID)
	}
	return lines
}

// below puts lines under that of the event.
func below(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return "\n" + strings.Join(lines, "\n")
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

func linesOf(s string) []string {
	if s = strings.TrimSpace(s); s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

// colourOf is the colour of an event's kind: red for a failure, green for a success, bold for what agent and prompt say.
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

// linePainter colours the lines of an event, one call for each: the kind in the first line, and the lines of a diff.
func linePainter(w *term.Env, e agent.Event) func(line string) string {
	first, diff := true, e.Item != nil && e.Item.Kind == agent.ItemFileChange
	return func(line string) string {
		switch {
		case first:
			first = false
			kind, _, _ := strings.Cut(line, ": ")
			return w.Paint(colourOf(e), kind) + line[len(kind):]
		case diff:
			return w.PaintDiff(line)
		}
		return line
	}
}
