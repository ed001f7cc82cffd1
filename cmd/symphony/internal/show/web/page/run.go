package page

import (
	"html/template"
	"slices"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/internal/text"
)

// The limits of a run's page. The rest is in the log as text, and a search finds it.
const (
	mostItems   = 1000
	shownChange = 60 // lines of a change of files
	shownLines  = 10 // lines of anything else

	longestWords = 20_000 // bytes of a message
)

// Run is the page of a run: the words and actions of its agent, as a document, below the times
// of all runs of the issue.
type Run struct {
	Of       Issue // with its newest runs
	RunID    string
	Lines    []eventlog.Line
	Query    string // only lines that contain this
	Failures bool   // only failures
}

// runTemplate is the template of the page.
var runTemplate = sync.OnceValue(func() *template.Template { return parse(nil, "run.html") })

// Page draws it.
func (r Run) Page() Page {
	failures := r.failures()
	items, earlier := r.items(failures)
	return Page{
		Title:    r.Of.Name() + " run " + r.RunID,
		Requests: len(r.Of.Requests),
		MayAct:   r.Of.MayAct,
		Main: markup(runTemplate(), "run.html", runPage{
			Run:     r,
			axis:    r.axis(),
			Items:   items,
			Earlier: earlier,
			Failed:  failures,
		}),
	}
}

// runPage is the data of the template.
type runPage struct {
	Run
	*axis
	Items   []logLine
	Earlier int        // lines before the items
	Failed  []*failure // of the whole run
}

// failure is a line of a run that failed.
type failure struct {
	ID     string
	Number int // from 1
	Of     int // how many there are
	// Previous and Next are the ids of the failures beside it; empty at the ends.
	Previous, Next string
}

// failures are the lines of the run that failed.
func (r Run) failures() (list []*failure) {
	ids := lineIDs{}
	for _, l := range r.Lines {
		f := &failure{ID: ids.of(l), Number: len(list) + 1}
		if l.Status == eventlog.Failed || l.Status == eventlog.Unended || l.Kind == eventlog.Fault {
			list = append(list, f)
		}
	}
	for n, f := range list {
		f.Of = len(list)
		if n > 0 {
			f.Previous = list[n-1].ID
			list[n-1].Next = f.ID
		}
	}
	return list
}

// Line is the address of a line of the log: on this page, or among all failures if it is too
// old for the page.
func (p runPage) Line(id string) string {
	isShown := func(l logLine) bool { return l.ID == id }
	if slices.ContainsFunc(p.Items, isShown) {
		return "#" + id
	}
	return p.Of.RunPath(p.RunID) + "&only=failures#" + id
}

// items are the last lines that the reader wants, and how many are before them.
func (r Run) items(failures []*failure) (list []logLine, earlier int) {
	query := strings.ToLower(r.Query)
	isHit := func(line string) bool { return strings.Contains(strings.ToLower(line), query) }
	ids := lineIDs{}
	for _, l := range r.Lines {
		item := logLine{ID: ids.of(l), line: l}
		if len(failures) > 0 && failures[0].ID == item.ID {
			item.Failed = failures[0]
			failures = failures[1:]
		}
		if r.Failures && item.Failed == nil {
			continue
		}
		if query != "" {
			item.hits = text.Filter(l.Detail, isHit)
		}
		if len(item.hits) > 0 || isHit(l.Text) {
			list = append(list, item)
		}
	}
	earlier = max(0, len(list)-mostItems)
	for i, item := range list[earlier:] {
		l := newLogLine(item.ID, item.line, longestWords)
		l.Failed = item.Failed
		l.fold(item.hits)
		list[earlier+i] = l
	}
	return list[earlier:], earlier
}

// fold decides which part of a line's detail the page shows: the matches of a search, a
// change, the beginning of a prompt, or the end of an output.
func (l *logLine) fold(hits []string) {
	all := l.line.Detail
	shown := all[max(0, len(all)-shownLines):]
	switch {
	case len(hits) > 0:
		shown = hits[:min(len(hits), shownLines)]
	case l.line.Kind == eventlog.Prompt:
		shown = all[:min(len(all), shownLines)]
	case l.line.Kind == eventlog.Change:
		shown = all[:min(len(all), shownChange)]
		patch := shorten(strings.Join(shown, "\n"), longestWords)
		file, _, _ := strings.Cut(patch, "\n") // "update PATH": its extension chooses the language
		l.Blocks = blocksOf(file, linesOf(patch))
	}
	l.Open = len(hits) > 0 || l.line.Kind == eventlog.Change || l.Failed != nil
	l.Detail = detailText(shown)
	l.Lines = len(all)
	l.More = len(all) > len(shown)
	if thought := l.line.Reasoning(); thought != "" {
		l.Text = "reasoning"
		l.Detail = shorten(thought, longestText)
	}
}

// Detail is the whole detail of a line of a run's log as text; false if there is no such line.
func Detail(lines []eventlog.Line, id string) (string, bool) {
	ids := lineIDs{}
	at := slices.IndexFunc(lines, func(l eventlog.Line) bool { return ids.of(l) == id })
	if at < 0 {
		return "", false
	}
	return text.VisibleLines(strings.Join(lines[at].Detail, "\n")), true
}

// Shown returns the entry of the run in the history of the issue; nil if the history no longer
// lists it.
func (r Run) Shown(runs []event) *runItem {
	return text.First(runs, func(e event) bool { return e.Run.RunID == r.RunID }).Run
}
