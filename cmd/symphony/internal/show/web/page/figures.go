package page

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// dayPlot is a plot of something by day.
type dayPlot struct {
	Title, Sum string
	First      string // the day of the first bar
	Plot       template.HTML
}

// dayPlots are the plots of results: handed over issues, tokens, and money if there are
// prices. A plot that is 0 on every day is left out.
func dayPlots(r *view.Results) []dayPlot {
	var list []dayPlot
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
			bars = append(bars, column{value: v, label: dayOf(d.Date) + ": " + format(v), class: class})
		}
		if sum == 0 {
			return
		}
		in := fmt.Sprintf("%s in %d days", format(sum), len(r.Days))
		list = append(list, dayPlot{
			Title: title,
			Sum:   in,
			First: dayOf(r.Days[0].Date),
			Plot:  columns(title+" per day: "+in, bars, len(r.Days)),
		})
	}

	issuesOf := func(d view.ResultDay) float64 { return float64(d.HandedOver) }
	inIssues := func(v float64) string { return text.Plural(int(v), "issue") }
	plot("Handed over", issuesOf, inIssues)

	tokensOf := func(d view.ResultDay) float64 { return float64(d.Tokens.Total) }
	inTokens := func(v float64) string { return text.Count(int64(v)) }
	plot("Tokens", tokensOf, inTokens)

	newest := today(r).Cost
	if newest == nil { // there are no prices
		return list
	}
	costOf := func(d view.ResultDay) float64 {
		if d.Cost == nil {
			return 0
		}
		return float64(d.Cost.Amount)
	}
	inMoney := func(v float64) string { return amount(v, newest.Currency) }
	plot("Cost", costOf, inMoney)
	return list
}

// dayOf formats a date briefly.
func dayOf(date string) string {
	t, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return date
	}
	return t.Format("Mon 2 Jan")
}

// today is the last day of results.
func today(r *view.Results) view.ResultDay { return r.Days[len(r.Days)-1] }

// outcomesOf adds up the outcomes of all days, the most frequent first.
func outcomesOf(r *view.Results) []part {
	runs := map[reconcile.Outcome]int{}
	for _, d := range r.Days {
		for o, n := range d.Outcomes {
			runs[o] += n
		}
	}
	var list []part
	for o, n := range runs {
		list = append(list, part{Name: string(o), Class: outcomeClasses[o], Count: int64(n)})
	}
	slices.SortFunc(list, func(a, b part) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return divide(list)
}

// outcomeClasses are the classes of outcomes in a plot.
var outcomeClasses = map[reconcile.Outcome]string{
	reconcile.Succeeded:      "good",
	reconcile.Failed:         "bad",
	reconcile.Lost:           "bad",
	reconcile.EndedRun:       "second",
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
		started := p.StartedAt.UTC().Format("2 Jan 15:04:05 MST")
		b := column{
			value: float64(p.DurationMS),
			label: fmt.Sprintf("%s: %s, %s", started, p.Trigger, durationOf(p)),
		}
		if len(p.Errors) > 0 {
			failed++
			b.class = "bad"
			b.label += ", " + p.Errors[0].Code
		}
		bars = append(bars, b)
	}
	label := fmt.Sprintf("Durations of the last passes: %d, %d of them with an error", len(passes), failed)
	return columns(label, bars, max(len(bars), passRoom))
}

func durationOf(p wiring.LastPassRow) string {
	return text.Duration(time.Duration(p.DurationMS) * time.Millisecond)
}

// slotMeter draws how many of some slots are used.
func slotMeter(s view.SlotsRow) template.HTML {
	return meter(
		"slots",
		float64(s.Used),
		float64(s.Most),
		fmt.Sprintf("%d of %d slots of the %s are used", s.Used, s.Most, s.Scope),
	)
}

// window is the length of a limit's window.
func window(l view.LimitRow) string {
	if l.Seconds == nil {
		return l.Window + " limit"
	}
	d := time.Duration(*l.Seconds * float64(time.Second))
	if d >= 48*time.Hour && d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	}
	if d >= time.Hour && d%time.Hour == 0 {
		return text.Plural(int(d.Hours()), "hour")
	}
	return text.Duration(d)
}
