package logs

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/runner/agent"
)

// shownItem is what a person wants to know of an item.
type shownItem struct {
	Type             string   `json:"type"`
	Text             string   `json:"text"`
	Status           string   `json:"status"`
	ExitCode         *int     `json:"Code"`
	DurationMS       *float64 `json:"durationMs"`
	AggregatedOutput string   `json:"aggregatedOutput"`
	Changes          []struct {
		Path string          `json:"path"`
		Kind json.RawMessage `json:"kind"` // {"type": "add"}, or the word
		Diff string          `json:"diff"`
	} `json:"changes"`
	ContentItems []struct {
		Text string `json:"text"`
	} `json:"contentItems"`
	Success *bool `json:"success"`
}

// itemOf is the item that an event is about, empty where it is about none. What of it is of another shape stays empty.
func itemOf(e agent.EventLine) shownItem {
	var m struct {
		Params struct {
			Item json.RawMessage `json:"item"`
		} `json:"params"`
	}
	var item shownItem
	if strings.HasPrefix(e.Method, "item/") && json.Unmarshal(e.Payload, &m) == nil {
		_ = json.Unmarshal(m.Params.Item, &item) // a member of another type leaves the others
	}
	return item
}

// lasted is how long a command took.
func (i shownItem) lasted() string {
	if i.ExitCode == nil || i.DurationMS == nil {
		return ""
	}
	d := time.Duration(*i.DurationMS * float64(time.Millisecond))
	if d < time.Second {
		return " (" + term.Duration(d) + ")"
	}
	return fmt.Sprintf(" (%s)", d.Round(100*time.Millisecond))
}

// toldAtItsEnd: its beginning tells nothing.
func (i shownItem) toldAtItsEnd() bool {
	switch i.Type {
	case "userMessage", "agentMessage", "reasoning", "dynamicToolCall", "fileChange":
		return true
	}
	return false
}

// output is the end of what a command wrote, where that tells why it failed, or where all is wanted.
func (i shownItem) output(n extent) []string {
	if i.ExitCode != nil && *i.ExitCode == 0 && n != whole {
		return nil
	}
	return lastLines(i.AggregatedOutput, n.output)
}

// files are those of a change, each with what happens to it and the lines that change, at most so many of them.
func (i shownItem) files(most int) (lines []string) {
	for _, c := range i.Changes {
		var kind struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(c.Kind, &kind) != nil {
			_ = json.Unmarshal(c.Kind, &kind.Type) // older ones have the word alone
		}
		lines = append(lines, strings.TrimSpace(kind.Type+" "+c.Path)+lineCounts(c.Diff))
		lines = append(lines, firstLines(asDiff(kind.Type, c.Diff), most)...)
	}
	return lines
}

// asDiff gives the text of a file that is new or gone, which comes as it is, the look of a diff.
func asDiff(kind, diff string) string {
	sign := map[string]string{"add": "+", "delete": "-"}[kind]
	if sign == "" || diff == "" || hunks(diff) {
		return diff
	}
	lines := strings.Split(strings.TrimSuffix(diff, "\n"), "\n")
	return sign + strings.Join(lines, "\n"+sign)
}

func hunks(diff string) bool { return strings.HasPrefix(diff, "@@") || strings.Contains(diff, "\n@@") }

// lineCounts says how much a diff changes; a new file's is its text, and says it in other words.
func lineCounts(diff string) string {
	if !hunks(diff) {
		return ""
	}
	added, removed, begun := 0, 0, false
	for line := range strings.Lines(diff) {
		switch {
		case strings.HasPrefix(line, "@@"):
			begun = true // above are the names of the files
		case begun && strings.HasPrefix(line, "+"):
			added++
		case begun && strings.HasPrefix(line, "-"):
			removed++
		}
	}
	return fmt.Sprintf(" +%d -%d", added, removed)
}

// failed reports a call of a tool that was not successful.
func (i shownItem) failed() bool {
	return i.Status == "failed" || i.Success != nil && !*i.Success
}

// result is what a tool answered.
func (i shownItem) result() string {
	texts := make([]string, 0, len(i.ContentItems))
	for _, c := range i.ContentItems {
		texts = append(texts, c.Text)
	}
	return strings.Join(texts, "\n")
}
