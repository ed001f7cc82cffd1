package page

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/internal/text"
)

// The limits of a line on a page, in characters. The whole log has everything.
const (
	longestText   = 2000
	longestDetail = 300
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
	Detail string // several lines
}

// LogItems are the last lines of the log.
func (i Issue) LogItems() (items []logLine) {
	at := map[time.Time]int{}
	for _, l := range i.Log {
		at[l.At]++
		item := logLine{
			ID: fmt.Sprintf("line-%d-%d", l.At.UnixNano(), at[l.At]), Mark: l.Mark(), At: l.At,
			Class: strings.TrimSpace(string(l.Kind) + " " + string(l.Status)),
			Text:  shorten(l.Text, longestText), Ending: shorten(l.Ending, longestDetail),
		}
		if l.DurationMS != nil && l.Status != eventlog.Running {
			item.Took = text.Took(*l.DurationMS)
		}
		if l.Status == eventlog.Unended {
			item.Ending = "did not end"
		}
		for n, line := range l.Detail {
			if n > 0 {
				item.Detail += "\n"
			}
			item.Detail += shorten(line, longestDetail)
		}
		items = append(items, item)
	}
	return items
}

// LogZone is the time zone of the lines, which is that of symphony logs in a terminal of the server; empty if there are none.
func (i Issue) LogZone() string {
	if len(i.Log) == 0 {
		return ""
	}
	return i.Log[len(i.Log)-1].At.Local().Format("MST")
}

// shorten makes a text visible, which may have several lines, and cuts it.
func shorten(s string, most int) string {
	if len(s) <= most {
		return text.VisibleLines(s)
	}
	cut := s[:most]
	for len(cut) > 0 && !utf8.RuneStart(s[len(cut)]) {
		cut = cut[:len(cut)-1]
	}
	return text.VisibleLines(cut) + fmt.Sprintf(" … %s more", text.BytesText(int64(len(s)-len(cut))))
}
