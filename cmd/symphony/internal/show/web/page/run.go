package page

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
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
	items, earlier := r.items()
	return Page{
		Title:    r.Of.Name() + " run " + r.RunID,
		Requests: len(r.Of.Requests),
		MayAct:   r.Of.MayAct,
		Main: markup(runTemplate(), "run.html", runPage{
			Run:     r,
			axis:    r.axis(),
			Items:   items,
			Earlier: earlier,
		}),
	}
}

// runPage is the data of the template.
type runPage struct {
	Run
	*axis
	Items   []logLine
	Earlier int // lines before the items
}

// items are the last lines that the reader wants, and how many are before them.
func (r Run) items() (list []logLine, earlier int) {
	query := strings.ToLower(r.Query)
	isHit := func(line string) bool { return strings.Contains(strings.ToLower(line), query) }
	ids := lineIDs{}
	for _, l := range r.Lines {
		item := logLine{ID: ids.of(l), line: l}
		isFailure := l.Status == eventlog.Failed || l.Status == eventlog.Unended || l.Kind == eventlog.Fault
		if r.Failures && !isFailure {
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
		list[earlier+i] = newLogLine(item.ID, item.line, longestWords)
		list[earlier+i].fold(item.hits)
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
	l.Open = len(hits) > 0 || l.line.Kind == eventlog.Change || l.line.Status == eventlog.Failed
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

// axis is the time of all runs that are shown: their turns, the waits between them, requests,
// and the commands of this run.
type axis struct {
	From, To time.Time
	Runs     []event
	bars     strings.Builder
}

// The rows of an axis.
const (
	rowRuns = iota
	rowTurns
	rowCommands
	rowRequests
)

// axis returns the axis of time that is drawn above the document: from the first run of the
// issue to the end of the last, or to now while one is at work.
func (r Run) axis() *axis {
	a := &axis{}
	for _, run := range slices.Backward(r.Of.Runs) {
		a.Runs = append(a.Runs, newRunEvent(run, r.Of.Timeline, r.Of.RunPath(run.RunID)))
		a.From = cmp.Or(a.From, run.StartedAt)
		a.To = latest(a.To, run.StartedAt, text.OrEmpty(run.EndedAt))
		if run.EndedAt == nil {
			a.To = latest(a.To, r.Of.GeneratedAt)
		}
	}
	for _, m := range r.Of.Timeline {
		a.To = latest(a.To, m.At, text.OrEmpty(m.Until))
	}
	for _, l := range r.Lines {
		a.To = latest(a.To, l.At)
	}
	freeSince := a.From
	for _, e := range a.Runs {
		if e.At.After(freeSince) {
			a.add(rowRuns, "wait", "waited", freeSince, e.At)
		}
		freeSince = cmp.Or(text.OrEmpty(e.Run.EndedAt), a.To)
		a.add(rowRuns, e.Tone, e.Title, e.At, freeSince)
	}
	for _, m := range r.Of.Timeline {
		until := cmp.Or(text.OrEmpty(m.Until), a.To)
		if m.Kind == detail.MomentTurn {
			a.add(rowTurns, turnTone(m.Result), m.Name+" "+m.Result, m.At, until)
		}
		if m.Kind == detail.MomentRequest {
			a.add(rowRequests, "warn", m.Name+" "+decided(m.Result), m.At, until)
		}
	}
	tones := map[eventlog.Status]string{eventlog.Running: "active", eventlog.Succeeded: "good"}
	for _, l := range r.Lines {
		switch l.Status {
		case "":
		case eventlog.Failed, eventlog.Succeeded:
			duration := time.Duration(text.OrEmpty(l.DurationMS)) * time.Millisecond
			a.add(rowCommands, tones[l.Status], l.Text, l.At.Add(-duration), l.At)
		default:
			a.add(rowCommands, tones[l.Status], l.Text, l.At, a.To)
		}
	}
	return a
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// add draws a bar, where the whole axis is 1000 wide.
func (a *axis) add(row int, class, title string, from, until time.Time) {
	whole := float64(max(a.To.Sub(a.From), time.Millisecond))
	x := min(max(1000*float64(from.Sub(a.From))/whole, 0), 998)
	title = text.Short(text.OneLine(title), 60) + ", " + text.Duration(until.Sub(from))
	fmt.Fprintf(
		&a.bars,
		`<rect class="%s" x="%.1f" y="%d" width="%.1f" height="7"><title>%s</title></rect>`,
		cmp.Or(class, "bad"),
		x,
		9*row,
		min(max(1000*float64(until.Sub(from))/whole, 2), 1000-x),
		template.HTMLEscapeString(text.Visible(title)),
	)
}

// Bars are the drawing of the axis.
func (a *axis) Bars() template.HTML {
	return template.HTML(a.bars.String()) //nolint:gosec // numbers, classes of ours and escaped text
}

// Shown returns the entry of the run in the history of the issue; nil if the history no longer
// lists it.
func (r Run) Shown(runs []event) *runItem {
	return text.First(runs, func(e event) bool { return e.Run.RunID == r.RunID }).Run
}
