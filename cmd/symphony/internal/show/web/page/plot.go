package page

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// column is a bar of a plot.
type column struct {
	value float64
	label string // the text of the bar under the pointer
	class string
}

// The sizes of plots with columns, in units of the drawing; on a page they are about pixels.
const (
	plotWidth  = 360.0
	plotHeight = 48.0
	passRoom   = 20
)

// columns draws bars side by side, right-aligned where there is room for more of them. The
// label describes them to readers who do not see them.
func columns(label string, bars []column, room int) template.HTML {
	most := 0.0
	for _, b := range bars {
		most = max(most, b.value)
	}
	var svg strings.Builder
	fmt.Fprintf(
		&svg,
		`<svg class="plot" viewBox="0 0 %g %g" role="img" aria-label="%s">`,
		plotWidth,
		plotHeight+1,
		html.EscapeString(label),
	)
	step := plotWidth / float64(room)
	gap := min(step/4, 5)
	for i, b := range bars {
		height := 0.0
		if most > 0 {
			height = b.value / most * plotHeight
		}
		if b.value > 0 {
			height = max(height, 2)
		}
		x := float64(room-len(bars)+i) * step
		// The first rectangle takes the pointer, also above a low bar.
		fmt.Fprintf(
			&svg,
			`<g><title>%s</title><rect class="space" x="%.1f" width="%.1f" height="%g"/>`+
				`<rect class="mark %s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="1.5"/></g>`,
			html.EscapeString(b.label),
			x,
			step,
			plotHeight,
			b.class,
			x+gap/2,
			plotHeight-height,
			step-gap,
			height,
		)
	}
	fmt.Fprintf(&svg, `<path class="axis" d="M0 %gH%g"/></svg>`, plotHeight+0.5, plotWidth)
	return template.HTML(svg.String()) // numbers and escaped text
}

// meter draws how much of something is used. Slots are there to be used; nearly all of
// anything else is a warning.
func meter(kind string, used, most float64, label string) template.HTML {
	share := 0.0
	if most > 0 {
		share = min(max(used/most, 0), 1)
	}
	class := "mark"
	switch {
	case kind == "slots":
	case share >= 1:
		class = "bad"
	case share > 0.9:
		class = "warn"
	}
	const drawing = `<svg class="plot meter" viewBox="0 0 %g 6" preserveAspectRatio="none" role="img" aria-label="%s">` +
		`<rect class="rest" width="%g" height="6" rx="3"/><rect class="%s" width="%.1f" height="6" rx="3"/></svg>`
	// escaped
	return template.HTML(
		fmt.Sprintf(drawing, plotWidth, html.EscapeString(label), plotWidth, class, share*plotWidth),
	)
}

// dayPlot is a plot of something by day.
type dayPlot struct {
	Title, Sum string
	First      string // the day of the first bar
	Plot       template.HTML
}

// dayPlots are the plots of results: handed over issues, tokens, and money if there are
// prices. What never was more than 0 is left out.
func dayPlots(r *view.Results) (list []dayPlot) {
	plot := func(title string, value func(view.ResultDay) float64, format func(float64) string) {
		sum := 0.0
		bars := []column{}
		for i, d := range r.Days {
			class := "second"
			if i == len(r.Days)-1 {
				class = ""
			}
			v := value(d)
			sum += v
			bars = append(bars, column{v, dayOf(d.Date) + ": " + format(v), class})
		}
		in := fmt.Sprintf("%s in %d days", format(sum), len(r.Days))
		if sum > 0 {
			list = append(
				list,
				dayPlot{title, in, dayOf(r.Days[0].Date), columns(title+" per day: "+in, bars, len(r.Days))},
			)
		}
	}
	plot(
		"Handed over",
		func(d view.ResultDay) float64 { return float64(d.HandedOver) },
		func(v float64) string {
			return text.Plural(int(v), "issue")
		},
	)
	plot(
		"Tokens",
		func(d view.ResultDay) float64 { return float64(d.Tokens.Total) },
		func(v float64) string { return text.Count(int64(v)) },
	)
	if c := today(r).Cost; c != nil {
		plot("Cost", func(d view.ResultDay) float64 {
			if d.Cost == nil {
				return 0
			}
			return float64(d.Cost.Amount)
		}, func(v float64) string { return amount(v, c.Currency) })
	}
	return list
}

// dayOf formats a date briefly.
func dayOf(date string) string {
	if t, err := time.Parse(time.DateOnly, date); err == nil {
		return t.Format("Mon 2 Jan")
	}
	return date
}

// part is a part of a bar that is 100 wide.
type part struct {
	Name, Class string
	Count       int64
	X, Width    float64
}

// divide gives each part its place in the bar, and leaves out those without a count.
func divide(parts []part) []part {
	parts = text.Filter(parts, func(p part) bool { return p.Count > 0 })
	all := int64(0)
	x := 0.0
	for _, p := range parts {
		all += p.Count
	}
	for i := range parts {
		parts[i].X = x
		parts[i].Width = 100 * float64(parts[i].Count) / float64(all)
		x += parts[i].Width
	}
	return parts
}

// outcomesOf adds up the outcomes of all days, the most frequent first.
func outcomesOf(r *view.Results) (list []part) {
	runs := map[reconcile.Outcome]int{}
	for _, d := range r.Days {
		for o, n := range d.Outcomes {
			runs[o] += n
		}
	}
	for o, n := range runs {
		list = append(list, part{Name: string(o), Class: outcomeClasses[o], Count: int64(n)})
	}
	slices.SortFunc(
		list,
		func(a, b part) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name)) },
	)
	return divide(list)
}

// outcomeClasses are the classes of outcomes in a plot.
var outcomeClasses = map[reconcile.Outcome]string{
	reconcile.Succeeded:      "good",
	reconcile.Failed:         "bad",
	reconcile.Lost:           "bad",
	reconcile.Canceled:       "second",
	reconcile.TimedOut:       "warn",
	reconcile.Stalled:        "warn",
	reconcile.InterruptedRun: "warn",
}

// passPlot draws the durations of the last passes, the newest at the right.
func passPlot(passes []wiring.LastPassRow) template.HTML {
	bars := []column{}
	failed := 0
	for _, p := range slices.Backward(passes) {
		label := fmt.Sprintf(
			"%s: %s, %s",
			p.StartedAt.UTC().Format("2 Jan 15:04:05 MST"),
			p.Trigger,
			durationOf(p),
		)
		b := column{float64(p.DurationMS), label, ""}
		if len(p.Errors) > 0 {
			failed++
			b.class = "bad"
			b.label = b.label + ", " + p.Errors[0].Code
		}
		bars = append(bars, b)
	}
	label := fmt.Sprintf("Durations of the last passes: %d, %d of them with an error", len(passes), failed)
	return columns(label, bars, max(len(bars), passRoom))
}

func durationOf(p wiring.LastPassRow) string {
	return text.Duration(time.Duration(p.DurationMS) * time.Millisecond)
}
