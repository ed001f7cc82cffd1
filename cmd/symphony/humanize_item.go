package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/runner"
)

// shownItem is what a person wants to know of an item.
type shownItem struct {
	Type             string  `json:"type"`
	Text             string  `json:"text"`
	Status           string  `json:"status"`
	ExitCode         *int    `json:"exitCode"`
	DurationMS       float64 `json:"durationMs"`
	AggregatedOutput string  `json:"aggregatedOutput"`
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
func itemOf(e runner.EventLine) shownItem {
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

// lasted is how long a command took, where that is worth a word.
func (i shownItem) lasted() string {
	d := time.Duration(i.DurationMS) * time.Millisecond
	if i.ExitCode == nil || d < time.Second {
		return ""
	}
	return fmt.Sprintf(" (%s)", d.Round(100*time.Millisecond))
}

// toldAtItsEnd: its beginning tells nothing.
func (i shownItem) toldAtItsEnd() bool {
	switch i.Type {
	case "userMessage", "agentMessage", "reasoning", "dynamicToolCall":
		return true
	}
	return false
}

// failure is the end of a failed command's output.
func (i shownItem) failure() []string {
	if i.ExitCode != nil && *i.ExitCode == 0 {
		return nil
	}
	return lastLines(i.AggregatedOutput, outputLines)
}

// files are those of a change, with what happens to each.
func (i shownItem) files() (lines []string) {
	for _, c := range i.Changes {
		var kind struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(c.Kind, &kind) != nil {
			_ = json.Unmarshal(c.Kind, &kind.Type) // older ones have the word alone
		}
		lines = append(lines, strings.TrimSpace(kind.Type+" "+c.Path)+lineCounts(c.Diff))
	}
	return lines
}

// lineCounts says how much a diff changes; a new file's is its text, and says it in other words.
func lineCounts(diff string) string {
	added, removed, hunks := 0, 0, false
	for line := range strings.Lines(diff) {
		switch {
		case strings.HasPrefix(line, "@@"):
			hunks = true
		case strings.HasPrefix(line, "+") && !strings.HasPrefix(line, "+++"):
			added++
		case strings.HasPrefix(line, "-") && !strings.HasPrefix(line, "---"):
			removed++
		}
	}
	if !hunks {
		return ""
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
