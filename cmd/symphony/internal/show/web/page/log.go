package page

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/internal/text"
)

// logLine is a line of a run's log. Its texts have no control characters.
type logLine struct {
	ID     string // the same in all renderings, so that a line that others push up stays selected
	Class  string // the kind and the status
	Mark   string
	At     time.Time
	Took   string // empty while it runs
	Text   string
	Ending string
	Detail string        // several lines
	Words  template.HTML // of the agent, instead of Text

	// On the page of a run:
	Blocks []diffBlock // Detail as a diff
	Open   bool        // it shows its detail at once
	Lines  int         // of the whole detail
	More   bool        // there are more lines than shown
	Failed *failure    // nil unless it failed

	line eventlog.Line
	hits []string // lines of the detail that were searched for
}

// lineIDs give each line of a log an id that stays the same while the log grows.
type lineIDs map[time.Time]int

func (ids lineIDs) of(l eventlog.Line) string {
	ids[l.At]++
	return fmt.Sprintf("line-%d-%d", l.At.UnixNano(), ids[l.At])
}

func newLogLine(id string, l eventlog.Line, most int) logLine {
	item := logLine{
		ID:     id,
		Mark:   l.Mark(),
		At:     l.At,
		line:   l,
		Class:  strings.TrimSpace(string(l.Kind) + " " + string(l.Status)),
		Text:   shorten(l.Text, longestText),
		Ending: shorten(l.Ending, longestDetail),
	}
	if l.DurationMS != nil && l.Status != eventlog.Running {
		item.Took = text.Took(*l.DurationMS)
	}
	if l.Status == eventlog.Unended {
		item.Ending = "did not end"
	}
	if l.Kind == eventlog.Words {
		item.Words = markdown(shorten(l.Text, most))
	}
	return item
}

// detailText joins lines, each of which it cuts.
func detailText(lines []string) string {
	return strings.Join(
		text.Map(lines, func(line string) string { return shorten(line, longestDetail) }),
		"\n",
	)
}
