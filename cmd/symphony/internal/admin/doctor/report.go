package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"
)

// result is the result of a check.
type result struct {
	name              string
	called, scheduled []finding // as called, and by the schedule
	skipped           bool
}

// all returns the findings of both environments.
func (r result) all() (list []*finding) {
	for _, part := range [][]finding{r.called, r.scheduled} {
		for i := range part {
			list = append(list, &part[i])
		}
	}
	return list
}

// worst is the worst of the findings.
func (r result) worst() (worst status) {
	for _, f := range r.all() {
		worst = max(worst, f.Status)
	}
	return worst
}

// merge lists the findings that both environments share once, and labels the others with their
// environment.
func (r result) merge() (list []finding) {
	for _, f := range r.called {
		if len(r.scheduled) > 0 && !f.in(r.scheduled) {
			f.Message = "as called: " + f.Message
		}
		list = append(list, f)
	}
	for _, f := range r.scheduled {
		if !f.in(r.called) {
			f.Message = "by the schedule: " + f.Message
			list = append(list, f)
		}
	}
	return list
}

// report collects the results and prints them.
type report struct {
	w       *term.Env
	secrets *agent.Redactor
	verbose bool
	machine bool // there is no workflow
	results []result
}

// add adds a result without secrets, and prints it if all of it is fine.
func (r *report) add(found result) {
	for _, f := range found.all() {
		f.Message = r.secrets.Text(f.Message)
		f.Hint = r.secrets.Text(f.Hint)
	}
	r.results = append(r.results, found)
	if !r.w.JSON && len(found.all()) > 0 && found.worst() == statusOK {
		r.print(found)
	}
}

// end prints the findings that are not fine, the failures last, and the summary. It returns an
// exit.Only if a check fails.
func (r *report) end() error {
	findings := []finding{}
	for _, found := range r.results {
		findings = slices.Concat(findings, found.called, found.scheduled)
	}
	if r.w.JSON {
		r.w.PrintJSON(findings)
		return exitCode(findings)
	}
	for _, level := range []status{statusWarn, statusFail} {
		for _, found := range r.results {
			if found.worst() == level {
				r.print(found)
			}
		}
	}
	r.printSummary()
	return exitCode(findings)
}

// marks begin the lines of each status, on a terminal and in a pipe.
var marks = [...]struct{ terminal, pipe string }{{"✓", "+"}, {"!", "!"}, {"✗", "x"}}

// nameCells is the width of the longest name of a check.
const nameCells = len("environment file")

// print prints the findings of a check: only the faults and warnings, or if there are none,
// all findings in a line. With -v each finding gets its own line.
func (r *report) print(found result) {
	w := r.w
	list := found.merge()
	name := found.name
	worst := found.worst()
	list = slices.DeleteFunc(list, func(f finding) bool {
		return !r.verbose && worst > statusOK && f.Status == statusOK
	})
	if !r.verbose && worst == statusOK {
		all := text.Map(list, func(f finding) string { return f.Message })
		list = []finding{{Message: strings.Join(all, "; ")}}
	}
	paint := [...]func(string) string{w.Green, w.Yellow, w.Red}
	for _, f := range list {
		if w.Piped() {
			line := name + ": " + f.Message
			if f.Hint != "" {
				line += ": " + f.Hint
			}
			fmt.Fprintln(w.Stdout, marks[f.Status].pipe, text.Visible(line))
			continue
		}
		head := paint[f.Status](marks[f.Status].terminal) + fmt.Sprintf(" %-*s  ", nameCells, name)
		message := text.Visible(f.Message)
		if f.Status == statusOK && !r.verbose {
			fmt.Fprintln(w.Stdout, term.CutCells(head+message, w.Width))
			continue
		}
		fmt.Fprintln(w.Stdout, term.Hang(head, message, w.Width))
		if f.Hint != "" {
			fmt.Fprintln(
				w.Stdout,
				term.Hang(strings.Repeat(" ", term.Cells(head)-2)+"→ ", text.Visible(f.Hint), w.Width),
			)
		}
		name = ""
	}
}

// printSummary prints the last line: whether runs can work here.
func (r *report) printSummary() {
	var names [statusFail + 1][]string
	var skipped []string
	for _, found := range r.results {
		switch {
		case found.skipped:
			skipped = append(skipped, found.name)
		case len(found.all()) > 0:
			names[found.worst()] = append(names[found.worst()], found.name)
		}
	}
	failed := names[statusFail]
	warned := names[statusWarn]
	verdict := "ready"
	paint := r.w.Green
	switch {
	case len(failed) > 0:
		verdict = "not ready"
		paint = r.w.Red
	case len(warned) > 0:
		paint = r.w.Yellow
	}
	var parts []string
	for _, part := range []struct {
		names []string
		what  string
	}{{failed, "failed"}, {warned, "to look at"}} {
		if len(part.names) > 0 {
			parts = append(
				parts,
				fmt.Sprintf("%d %s: %s", len(part.names), part.what, strings.Join(part.names, ", ")),
			)
		}
	}
	parts = append(parts, fmt.Sprintf("%d fine", len(names[statusOK])))
	if len(skipped) > 0 {
		parts = append(parts, "not checked because of that: "+strings.Join(skipped, ", "))
	}
	lines := []string{paint(r.w.Bold(verdict)) + ": " + strings.Join(parts, "; ")}
	if r.machine {
		lines = append(lines, "next: symphony init, in the folder of your project, or symphony doctor -w FILE")
	}
	if !r.w.Piped() {
		lines = slices.Insert(lines, 0, "")
	}
	for _, line := range lines {
		if !r.w.Piped() {
			line = term.Hang("", line, r.w.Width)
		}
		fmt.Fprintln(r.w.Stdout, line)
	}
}
