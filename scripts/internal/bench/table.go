package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// table is what was measured.
type table struct{ rows []row }

type row struct {
	what, figure, spread, budget string
	// verdict is empty for a figure that has no budget.
	verdict string
}

func (t *table) heading(text string) { t.rows = append(t.rows, row{what: text}) }

// note adds a figure that has no budget.
func (t *table) note(what, figure, spread string) {
	t.rows = append(t.rows, row{what: "  " + what, figure: figure, spread: spread})
}

// judge adds a figure with its budget.
func (t *table) judge(what, figure, spread, budget string, kept bool) {
	verdict := "kept"
	if !kept {
		verdict = "MISSED"
	}
	t.rows = append(t.rows, row{"  " + what, figure, spread, budget, verdict})
}

func (t *table) missed() []string {
	var list []string
	for _, r := range t.rows {
		if r.verdict == "MISSED" {
			list = append(list, fmt.Sprintf("%s (%s, budget %s)", r.what[2:], r.figure, r.budget))
		}
	}
	return list
}

func (t *table) print(w io.Writer) {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "\tmedian\trange\tbudget\t")
	for _, r := range t.rows {
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", r.what, r.figure, r.spread, r.budget, r.verdict)
	}
	out.Flush()
}

// median is the middle of the values, the upper of two.
func median[T float64 | time.Duration](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// milliseconds gives the median and the range of durations.
func milliseconds(values []time.Duration) (figure, spread string) {
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/1e6) }
	return ms(median(values)) + " ms", ms(slices.Min(values)) + " to " + ms(slices.Max(values))
}

// factors gives the median and the range of ratios.
func factors(values []float64) (figure, spread string) {
	return fmt.Sprintf("%.2f", median(values)), fmt.Sprintf("%.2f to %.2f", slices.Min(values), slices.Max(values))
}

// mebibytes gives the largest of peaks, because a budget of memory is one for every time, with the median and the range.
func mebibytes(kib []float64) (most float64, figure, spread string) {
	least, most := slices.Min(kib)/1024, slices.Max(kib)/1024
	return most, fmt.Sprintf("%.1f MiB", median(kib)/1024), fmt.Sprintf("%.1f to %.1f", least, most)
}
