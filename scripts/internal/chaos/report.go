//go:build linux

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// report is what is printed.
type report struct{ *checker }

func (c *checker) report() *report { return &report{c} }

// faulty reports whether a column that must be zero is not.
func (r *report) faulty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.faults) > 0
}

// shownFaults bounds what is told of one column.
const shownFaults = 5

func (r *report) print(out io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(out, "%-32s %s\n", name, fmt.Sprintf(format, args...))
	}
	kills := 0
	for _, n := range r.hits.counts {
		kills += n
	}
	line("seed", "%d", r.o.seed)
	line("passes", "%d recorded, %d started here", r.passes, r.started)
	line("exit codes", "%s", list(r.exits))
	line("runs", "%d: %s", r.runs, list(r.outcomes))
	line("agents", "%d", r.agents)
	line("operator's checked commands", "%d", r.commands)
	line("kills", "%d: %s", kills, list(r.hits.counts))
	line("compared", "%d attempts with the run before, %d threads with their agents' books", r.compared, r.threads)
	line("tokens", "%d in the totals, %d in the runs", r.tokens, r.summed)
	line("samples", "%d, %d unread", r.samples, r.unread)
	median, worst, open := r.delays()
	line("from a death to its settlement", "median %.1f s, worst %.1f s, %d never", median.Seconds(), worst.Seconds(), open)
	line("calm after", "%.1f s", r.calmTook.Seconds())
	fmt.Fprintln(out, "\nmust be zero:")
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range columns {
		faults := r.faults[name]
		line("  "+name, "%d", len(faults))
		for n, what := range faults {
			if n == shownFaults {
				fmt.Fprintf(out, "      and %d more\n", len(faults)-n)
				break
			}
			fmt.Fprintf(out, "      %s\n", strings.ReplaceAll(strings.TrimSpace(what), "\n", "\n      "))
		}
	}
}

// delays are the times from a SIGKILL of a worker to the first sight of its run as settled. A run that had been
// settled before has none.
func (r *report) delays() (median, worst time.Duration, open int) {
	var all []time.Duration
	for run, died := range r.hits.deaths {
		settled, known := r.settling[run]
		switch {
		case !known:
			open++
		case settled.After(died):
			all = append(all, settled.Sub(died))
		}
	}
	if len(all) == 0 {
		return 0, 0, open
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)-1], open
}

func list(counts map[string]int) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(words, ", ")
}
