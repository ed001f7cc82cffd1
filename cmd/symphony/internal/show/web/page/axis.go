package page

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/internal/text"
)

// axis is the time of all runs that are shown: their turns, the waits between them, requests,
// and the commands of this run. A bar leads to its line, and the bar of another run to its page.
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

const axisHeight = 35

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
	a.drawRuns()
	lines := r.places()
	for _, m := range r.Of.Timeline {
		a.drawMoment(m, lines.of(m, r))
	}
	for n, l := range r.Lines {
		a.drawCommand(l, lines.address[n])
	}
	return a
}

func (a *axis) drawRuns() {
	freeSince := a.From
	for _, e := range a.Runs {
		if e.At.After(freeSince) {
			a.add(rowRuns, "wait", "waited", freeSince, e.At, "")
		}
		freeSince = cmp.Or(text.OrEmpty(e.Run.EndedAt), a.To)
		a.add(rowRuns, e.Tone, e.Title, e.At, freeSince, e.Run.Log)
	}
}

func (a *axis) drawMoment(m detail.Moment, address string) {
	until := cmp.Or(text.OrEmpty(m.Until), a.To)
	switch m.Kind {
	case detail.MomentTurn:
		a.add(rowTurns, turnTone(m.Result), m.Name+" "+m.Result, m.At, until, address)
	case detail.MomentRequest:
		a.add(rowRequests, "warn", m.Name+" "+decided(m.Result), m.At, until, address)
	default: // the other moments have no length
	}
}

func (a *axis) drawCommand(l eventlog.Line, address string) {
	tones := map[eventlog.Status]string{eventlog.Running: "active", eventlog.Succeeded: "good"}
	switch l.Status {
	case "":
	case eventlog.Failed, eventlog.Succeeded:
		duration := time.Duration(text.OrEmpty(l.DurationMS)) * time.Millisecond
		a.add(rowCommands, tones[l.Status], l.Text, l.At.Add(-duration), l.At, address)
	default:
		a.add(rowCommands, tones[l.Status], l.Text, l.At, a.To, address)
	}
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// linePlaces are the addresses of the lines of a run; empty for a line that no page shows.
type linePlaces struct {
	lines   []eventlog.Line
	address []string
}

// places returns the addresses of the lines, on this page unless it only shows a choice.
func (r Run) places() linePlaces {
	p := linePlaces{lines: r.Lines}
	page := ""
	if r.Query != "" || r.Failures {
		page = r.Of.RunPath(r.RunID)
	}
	ids := lineIDs{}
	for n, l := range r.Lines {
		address := page + "#" + ids.of(l)
		if n < len(r.Lines)-mostItems {
			address = ""
		}
		p.address = append(p.address, address)
	}
	return p
}

// of is the address of the line with which a turn or a request began, or the page of its run if
// that is another.
func (p linePlaces) of(m detail.Moment, r Run) string {
	if id := text.OrEmpty(m.RunID); id != r.RunID {
		return r.Of.RunPath(id)
	}
	kind := eventlog.Prompt
	if m.Kind == detail.MomentRequest {
		kind = eventlog.Request
	}
	begins := func(l eventlog.Line) bool { return l.Kind == kind && !l.At.Before(m.At.Truncate(time.Second)) }
	n := slices.IndexFunc(p.lines, begins)
	if n < 0 {
		return ""
	}
	return p.address[n]
}

// at is a moment on the axis, which is 1000 wide.
func (a *axis) at(t time.Time) float64 {
	return 1000 * float64(t.Sub(a.From)) / float64(max(a.To.Sub(a.From), time.Millisecond))
}

// add draws a bar that leads to an address, unless that is empty.
func (a *axis) add(row int, class, title string, from, until time.Time, address string) {
	x := min(max(a.at(from), 0), 998)
	title = text.Short(text.OneLine(title), 60) + ", " + text.Duration(until.Sub(from))
	bar := fmt.Sprintf(
		`<rect class="%s" x="%.1f" y="%d" width="%.1f" height="7"><title>%s</title></rect>`,
		cmp.Or(class, "bad"),
		x,
		9*row,
		min(max(a.at(until)-a.at(from), 2), 1000-x),
		template.HTMLEscapeString(text.Visible(title)),
	)
	if address != "" {
		// the list below has the same lines for readers with a keyboard
		bar = `<a href="` + template.HTMLEscapeString(address) + `" tabindex="-1">` + bar + `</a>`
	}
	a.bars.WriteString(bar)
}

// Bars are the drawing of the axis.
func (a *axis) Bars() template.HTML {
	var lines strings.Builder
	for _, t := range a.ticks() {
		fmt.Fprintf(&lines, `<path class="tick" d="M%.1f 0V%d"/>`, a.at(t), axisHeight)
	}
	return template.HTML(lines.String() + a.bars.String()) //nolint:gosec // numbers, classes of ours and escaped text
}

// tickSteps are the distances that ticks may have.
var tickSteps = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	24 * time.Hour, 2 * 24 * time.Hour, 7 * 24 * time.Hour, 28 * 24 * time.Hour,
}

// mostTicks is how many ticks fit on a phone.
const mostTicks = 5

// step is the distance of the ticks.
func (a *axis) step() time.Duration {
	whole := a.To.Sub(a.From)
	for _, step := range tickSteps {
		if whole/step <= mostTicks {
			return step
		}
	}
	return max(whole/mostTicks, time.Second)
}

// ticks are round times of the day in the zone of the server, as in the log.
func (a *axis) ticks() (list []time.Time) {
	step := a.step()
	_, seconds := a.From.Local().Zone()
	offset := time.Duration(seconds) * time.Second
	for t := a.From.Add(offset).Truncate(step).Add(step - offset); t.Before(a.To); t = t.Add(step) {
		list = append(list, t)
	}
	return list
}

// Ticks are the times below the axis, without those that would not fit at its ends.
func (a *axis) Ticks() template.HTML {
	var out strings.Builder
	for _, t := range a.ticks() {
		x := a.at(t) / 10
		if 5 <= x && x <= 95 {
			fmt.Fprintf(&out, `<text x="%.2f%%" y="11">%s</text>`, x, t.Local().Format(a.layout()))
		}
	}
	return template.HTML(out.String()) //nolint:gosec // numbers
}

// layout is the form of the times at ticks.
func (a *axis) layout() string {
	step := a.step()
	switch {
	case step < time.Minute:
		return "15:04:05"
	case step < 24*time.Hour && a.To.Sub(a.From) < 24*time.Hour:
		return "15:04"
	case step < 24*time.Hour:
		return "2 Jan 15:04"
	}
	return "2 Jan"
}

// Period is the time of the axis in the zone of the server.
func (a *axis) Period() string {
	from := a.From.Local()
	to := a.To.Local()
	layout := "15:04:05 MST"
	if from.Format(time.DateOnly) != to.Format(time.DateOnly) {
		layout = "2 Jan 15:04:05 MST"
	}
	return from.Format("2 Jan 15:04:05") + " to " + to.Format(layout)
}
