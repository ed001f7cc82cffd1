package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
)

// figure is one quantity with all values that were measured of it.
type figure struct {
	Group  string    `json:"group"`
	Name   string    `json:"name"`
	Unit   string    `json:"unit"`
	Values []float64 `json:"values"`
	Median float64   `json:"median"`
	Budget *budget   `json:"budget,omitempty"`
	// Verdict is kept or missed, and empty where there is no budget or it is not judged.
	Verdict string `json:"verdict,omitempty"`
	// Note says what else there is to know: a name, or why nothing was measured.
	Note string `json:"note,omitempty"`
}

// budget is what a figure has to keep.
type budget struct {
	Limit float64 `json:"limit"`
	// Least turns it round: the figure has to be at least so much.
	Least bool `json:"least,omitempty"`
	// Worst is for what has to hold each time: not the median is judged.
	Worst bool `json:"worst,omitempty"`
	// Steady budgets are of ratios and counts, which another load of the machine does not change.
	Steady bool `json:"steady,omitempty"`
}

func atMost(limit float64) *budget  { return &budget{Limit: limit} }
func atLeast(limit float64) *budget { return &budget{Limit: limit, Least: true} }

func (b *budget) steady() *budget { b.Steady = true; return b }
func (b *budget) worst() *budget  { b.Worst = true; return b }

func (b *budget) kept(f figure) bool {
	value := f.Median
	if b.Worst {
		value = slices.Max(f.Values)
	}
	if b.Least {
		if b.Worst {
			value = slices.Min(f.Values)
		}
		return value >= b.Limit
	}
	return value <= b.Limit
}

func (b *budget) text(unit string) string {
	words := "at most "
	if b.Least {
		words = "at least "
	}
	return words + shown(b.Limit, unit)
}

// table is what was measured.
type table struct {
	figures []figure
	group   string
	// quick leaves budgets of absolute figures unjudged.
	quick bool
}

func (t *table) heading(format string, args ...any) { t.group = fmt.Sprintf(format, args...) }

// add takes a figure and judges it. One without values says in its note why.
func (t *table) add(f figure) {
	f.Group = t.group
	if len(f.Values) > 0 {
		f.Median = median(f.Values)
		if f.Budget != nil && (f.Budget.Steady || !t.quick) {
			f.Verdict = map[bool]string{true: "kept", false: "missed"}[f.Budget.kept(f)]
		}
	}
	t.figures = append(t.figures, f)
}

// unmeasured says what could not be measured here, and why.
func (t *table) unmeasured(f figure, why string) {
	f.Values, f.Note = nil, "not measured: "+why
	t.add(f)
}

// summary is for a table without a missed budget.
func (t *table) summary() string {
	kept, open := 0, 0
	for _, f := range t.figures {
		switch {
		case f.Verdict == "kept":
			kept++
		case f.Budget != nil:
			open++
		}
	}
	switch {
	case kept+open == 0:
		return "nothing of it has a budget"
	case open > 0:
		return fmt.Sprintf("%s kept, %d not judged", text.Plural(kept, "budget"), open)
	}
	return fmt.Sprintf("all %d budgets are kept", kept)
}

func missedIn(list []figure) bool {
	return slices.ContainsFunc(list, func(f figure) bool { return f.Verdict == "missed" })
}

func (t *table) missed() []string {
	var list []string
	for _, f := range t.figures {
		if f.Verdict == "missed" {
			list = append(list, fmt.Sprintf("%s: %s (%s, budget %s)", f.Group, f.Name, f.shown(), f.Budget.text(f.Unit)))
		}
	}
	return list
}

func (t *table) print(w io.Writer) {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "\tmedian\trange\tbudget\t\t")
	group := ""
	for _, f := range t.figures {
		if f.Group != group {
			group = f.Group
			fmt.Fprintf(out, "%s\t\t\t\t\t\n", group)
		}
		fmt.Fprintf(out, "  %s\t%s\t%s\t%s\t%s\t%s\n", f.Name, f.shown(), f.spread(), f.budget(), f.mark(), f.Note)
	}
	out.Flush()
}

func (f figure) shown() string {
	if len(f.Values) == 0 {
		return "-"
	}
	return shown(f.Median, f.Unit)
}

func (f figure) spread() string {
	if len(f.Values) < 2 {
		return ""
	}
	return shown(slices.Min(f.Values), "") + " to " + shown(slices.Max(f.Values), "")
}

func (f figure) budget() string {
	if f.Budget == nil {
		return ""
	}
	return f.Budget.text(f.Unit)
}

func (f figure) mark() string {
	if f.Verdict == "missed" {
		return "MISSED"
	}
	return f.Verdict
}

// shown gives three digits that matter, and the unit.
func shown(value float64, unit string) string {
	text := fmt.Sprintf("%.2f", value)
	switch {
	case value == float64(int64(value)) || value >= 1000 || value <= -1000:
		text = fmt.Sprintf("%.0f", value)
	case value >= 10:
		text = fmt.Sprintf("%.1f", value)
	}
	if unit == "" || unit == "%" {
		return text + unit
	}
	return text + " " + unit
}

// median is the middle of the values, the upper of two.
func median[T float64 | time.Duration](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// milliseconds and the others turn what was measured into the values of a figure.
func milliseconds(list []time.Duration) []float64 {
	return each(list, func(d time.Duration) float64 { return float64(d) / 1e6 })
}

func each[T any](list []T, value func(T) float64) []float64 {
	values := make([]float64, len(list))
	for n, v := range list {
		values[n] = value(v)
	}
	return values
}

func wallMS(s sample) float64 { return float64(s.WallNS) / 1e6 }
func cpuMS(s sample) float64  { return float64(s.CPUNS) / 1e6 }

// peakMB is in megabytes of a million bytes, which are smaller than those of 1,048,576.
func peakMB(s sample) float64 { return float64(s.PeakKiB) * 1024 / 1e6 }
