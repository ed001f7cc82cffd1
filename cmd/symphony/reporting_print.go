package main

import (
	"bufio"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// printFacts is a report for a person, short enough for one screen after a night: what came out of it first, then what
// wants a look. In a pipe everything is there, a line each.
func (w *world) printFacts(f facts) error {
	out := bufio.NewWriter(w.stdout) // a month has thousands of lines
	page := *w
	page.stdout = out
	page.printPage(f)
	if err := out.Flush(); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}

func (w *world) printPage(f facts) {
	if w.width == 0 {
		fmt.Fprintf(w.stdout, "time\t%s\t%s\n", rfc3339(f.Since), rfc3339(f.Until))
	} else {
		fmt.Fprintf(w.stdout, "%s to %s (%s)\n", w.clock(f.Since), w.clock(f.Until), duration(f.Until.Sub(f.Since)))
	}
	w.printReleased("HANDED OVER", f.HandedOver, f.GeneratedAt)
	w.printReleased("LET GO", f.LetGo, f.GeneratedAt)
	w.printFailed(f)
	w.printStuck(f)
	w.printOutages(f)
	w.printMissed(f)
	w.printUse(f)
	w.printRemarks(f)
}

// clock is a time by the local clock, for a terminal.
func (w *world) clock(t time.Time) string { return t.In(w.now().Location()).Format("2006-01-02 15:04") }

func (w *world) printReleased(title string, rows []releasedRow, now time.Time) {
	t := table{head: []string{"ISSUE", "FROM", "TO", "WHEN", "RUNS", "TIME", "TOKENS", "COST", "LOOK AT"}}
	for _, r := range rows {
		to := r.Reason
		if r.To != nil {
			to = *r.To
		}
		if r.Reason != "terminal" && r.Reason != "inactive" && r.To != nil {
			to += " (" + r.Reason + ")"
		}
		t.add(r.Identifier, r.From, to, w.ago(now, r.At), strconv.Itoa(r.Runs), w.took(r.Seconds), w.count(r.Tokens.Total), r.Cost.cell(), w.lookAt(r))
	}
	w.printFigures(title, t, 4, 5, 6, 7)
}

// lookAt is where to look: the links that the agent left, else the issue.
func (w *world) lookAt(r releasedRow) string {
	var urls []string
	for _, l := range r.Links {
		urls = append(urls, l.URL)
	}
	if len(urls) == 0 && r.URL != nil {
		return *r.URL
	}
	if w.width > 0 && len(urls) > 1 {
		return fmt.Sprintf("%s and %d more", urls[0], len(urls)-1)
	}
	return strings.Join(urls, " ")
}

func (w *world) printFailed(f facts) {
	t := table{head: []string{"ISSUE", "RUNS", "LAST", "NOW", "ERROR"}}
	for _, r := range f.Failed {
		t.add(r.Identifier, strconv.Itoa(r.Runs), w.ago(f.GeneratedAt, r.At), strings.ReplaceAll(orEmpty(r.Now), "_", " "), orEmpty(r.Error))
	}
	w.printFigures("FAILED", t, 1)
}

func (w *world) printStuck(f facts) {
	held := table{head: []string{"ISSUE", "REASON", "SINCE", "MESSAGE"}}
	for _, r := range f.Held {
		held.add(r.Identifier, r.Reason, w.ago(f.GeneratedAt, r.HeldAt), r.Message)
	}
	w.printFigures("HELD", held)
	waiting := table{head: []string{"ISSUE", "KIND", "DUE", "ERROR"}}
	for _, r := range f.Waiting {
		waiting.add(r.Identifier, r.Kind, w.due(f.GeneratedAt, r), orEmpty(r.Error))
	}
	w.printFigures("WAITING", waiting)
}

func (w *world) printOutages(f facts) {
	t := table{head: []string{"CODE", "FROM", "FOR", "MESSAGE"}}
	for _, o := range f.Outages {
		end, text := f.GeneratedAt, "since then"
		if o.Until != nil {
			end, text = *o.Until, ""
		}
		lasted := duration(end.Sub(o.Since))
		if w.width == 0 {
			lasted = ""
			if o.Until != nil {
				lasted = rfc3339(*o.Until)
			}
		} else if text != "" {
			lasted += ", goes on"
		}
		t.add(o.Code, w.ago(f.GeneratedAt, o.Since), lasted, o.Message)
	}
	w.printFigures("OUTAGES", t)
}

func (w *world) printMissed(f facts) {
	t := table{head: []string{"FROM", "TO", "FOR", "PASSES"}}
	for _, g := range f.Schedule.Missed {
		from, to := rfc3339(g.From), rfc3339(g.To)
		if w.width > 0 {
			from, to = w.clock(g.From), w.clock(g.To)
			if g.Open {
				to = "none since"
			}
		}
		t.add(from, to, w.took(g.To.Sub(g.From).Seconds()), strconv.Itoa(g.Missed))
	}
	w.printFigures("MISSED PASSES", t, 2, 3)
}

// printUse is what was used: in all, and where the time is longer than a day or two, by day and by issue.
func (w *world) printUse(f facts) {
	if w.width == 0 || len(f.Days) > 2 {
		days := table{head: []string{"DAY (UTC)", "INPUT", "CACHED", "OUTPUT", "REASONING", "TOTAL", "COST"}}
		for _, d := range f.Days {
			days.add(append([]string{d.Date}, w.usedCells(d.Tokens, d.Cost)...)...)
		}
		w.printFigures("DAYS", days, 1, 2, 3, 4, 5, 6)
	}
	head := []string{"RUNS", "WELL", "FAILED", "TIME", "INPUT", "CACHED", "OUTPUT", "REASONING", "TOTAL", "COST"}
	issues := table{head: append([]string{"ISSUE"}, head...)}
	for _, i := range f.Issues {
		issues.add(append([]string{i.Identifier, strconv.Itoa(i.Runs), strconv.Itoa(i.Succeeded), strconv.Itoa(i.Failed), w.took(i.Seconds)},
			w.usedCells(i.Tokens, i.Cost)...)...)
	}
	t := f.Totals
	all := plural(t.Issues, "issue")
	if w.width == 0 {
		all = strconv.Itoa(t.Issues)
	}
	total := append([]string{all, strconv.Itoa(t.Runs), strconv.Itoa(t.Succeeded), strconv.Itoa(t.Failed), w.took(t.Seconds)}, w.usedCells(t.Tokens, t.Cost)...)
	if w.width > 0 { // below each other, so that the columns are the same
		w.printSum(issues, total)
		return
	}
	w.printFigures("ISSUES", issues)
	sum := table{head: issues.head}
	sum.add(total...)
	w.printFigures("TOTALS", sum)
}

// printSum prints the issues that used most, and below them the sum of all.
func (w *world) printSum(issues table, total []string) {
	if len(issues.rows) == 0 {
		fmt.Fprintln(w.stdout, "no run was at work in this time")
		return
	}
	rest := len(issues.rows) - shownRows
	if rest > 0 {
		issues.rows, issues.colours = issues.rows[:shownRows], issues.colours[:shownRows]
		issues.add(fmt.Sprintf("%d more", rest))
	}
	issues.add(total...)
	w.printAligned("USED", issues, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
}

func (w *world) usedCells(t tokensRow, m *money) []string {
	line := make([]string, 0, 6)
	for _, n := range []int64{t.Input, t.Cached, t.Output, t.Reasoning, t.Total} {
		line = append(line, w.count(n))
	}
	return append(line, m.cell())
}

// printRemarks says what the figures don't.
func (w *world) printRemarks(f facts) {
	if m := f.Totals.Cost; m != nil {
		text := "cost is in " + m.Currency + ", an estimate by agent.prices at the price of each run's model"
		if m.Unpriced > 0 {
			text += fmt.Sprintf("; without %s tokens of %s, which has no price", w.count(m.Unpriced), strings.Join(m.Models, ", "))
		}
		w.remark(text)
	}
	if f.RunsSince.After(f.Since) && f.RunsSince.Sub(f.Since) > time.Minute {
		w.remark("runs are complete since " + w.when(f.RunsSince) + "; days, outages and what was handed over reach further back")
	}
}

func (w *world) when(t time.Time) string {
	if w.width == 0 {
		return rfc3339(t)
	}
	return w.clock(t)
}

func (w *world) remark(text string) {
	if w.width == 0 {
		fmt.Fprintf(w.stdout, "remark\t%s\n", visible(text))
		return
	}
	fmt.Fprintln(w.stdout, w.dim(visible(text)))
}

// shownRows of a table stand on a terminal.
const shownRows = 10

// printFigures prints a table whose columns of figures are named; of a long one a terminal gets the beginning.
func (w *world) printFigures(title string, t table, figures ...int) {
	rest := len(t.rows) - shownRows
	if w.width == 0 || rest <= 0 {
		w.printAligned(title, t, figures...)
		return
	}
	t.rows, t.colours = t.rows[:shownRows], t.colours[:shownRows]
	w.printAligned(title, t, figures...)
	fmt.Fprintln(w.stdout, w.dim(fmt.Sprintf("  and %d more: symphony report --json", rest)))
}

// printAligned puts figures below each other by their ends, on a terminal, and leaves out those that there are none of.
func (w *world) printAligned(title string, t table, figures ...int) {
	if w.width > 0 {
		for _, column := range figures {
			alignRight(append([][]string{t.head}, t.rows...), column)
		}
		for _, column := range slices.Backward(figures) {
			if !slices.ContainsFunc(t.rows, func(row []string) bool { return column < len(row) && strings.TrimSpace(row[column]) != "" }) {
				t = t.without(column)
			}
		}
	}
	w.printTable(title, t)
}

func alignRight(rows [][]string, column int) {
	width := 0
	for _, row := range rows {
		if column < len(row) {
			width = max(width, cells(row[column]))
		}
	}
	for _, row := range rows {
		if column < len(row) {
			row[column] = strings.Repeat(" ", width-cells(row[column])) + row[column]
		}
	}
}

// without is the table without a column.
func (t table) without(column int) table {
	drop := func(row []string) []string {
		if column >= len(row) {
			return row
		}
		return slices.Delete(slices.Clone(row), column, column+1)
	}
	t.head = drop(t.head)
	rows := make([][]string, len(t.rows))
	for i, row := range t.rows {
		rows[i] = drop(row)
	}
	t.rows = rows
	return t
}

// count is a number of tokens: exact in a pipe, in three figures on a terminal.
func (w *world) count(n int64) string {
	if w.width == 0 || n < 10_000 {
		return strconv.FormatInt(n, 10)
	}
	value, unit := float64(n), 0
	for value >= 999.5 && unit < len(units)-1 {
		value, unit = value/1000, unit+1
	}
	if value < 9.995 {
		return fmt.Sprintf("%.2f%s", value, units[unit])
	}
	if value < 99.95 {
		return fmt.Sprintf("%.1f%s", value, units[unit])
	}
	return fmt.Sprintf("%.0f%s", value, units[unit])
}

var units = [...]string{"", "k", "M", "G", "T"}

// took is how long something took: seconds in a pipe.
func (w *world) took(s float64) string {
	if w.width == 0 {
		return seconds(s)
	}
	return duration(time.Duration(s * float64(time.Second)))
}
