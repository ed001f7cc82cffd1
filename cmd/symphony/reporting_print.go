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
func printFacts(w *world, f facts) error {
	out := bufio.NewWriter(w.stdout) // a month has thousands of lines
	page := *w
	page.stdout = out
	printPage(&page, f)
	if err := out.Flush(); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}

func printPage(w *world, f facts) {
	if w.width == 0 {
		fmt.Fprintf(w.stdout, "time\t%s\t%s\n", rfc3339(f.Since), rfc3339(f.Until))
	} else {
		fmt.Fprintf(w.stdout, "%s to %s (%s)\n", clockText(w, f.Since), clockText(w, f.Until), duration(f.Until.Sub(f.Since)))
	}
	printReleased(w, "HANDED OVER", f.HandedOver, f.GeneratedAt)
	printReleased(w, "LET GO", f.LetGo, f.GeneratedAt)
	printFailed(w, f)
	printStuck(w, f)
	printOutages(w, f)
	printMissed(w, f)
	printUse(w, f)
	printRemarks(w, f)
}

// clock is a time by the local clock, for a terminal.
func clockText(w *world, t time.Time) string {
	return t.In(w.now().Location()).Format("2006-01-02 15:04")
}

func printReleased(w *world, title string, rows []releasedRow, now time.Time) {
	t := table{head: []string{"ISSUE", "FROM", "TO", "WHEN", "RUNS", "TIME", "TOKENS", "COST", "LOOK AT"}}
	for _, r := range rows {
		to := r.Reason
		if r.To != nil {
			to = *r.To
		}
		if r.Reason != "terminal" && r.Reason != "inactive" && r.To != nil {
			to += " (" + r.Reason + ")"
		}
		t.add(r.Identifier, r.From, to, agoText(w, now, r.At), strconv.Itoa(r.Runs), tookText(w, r.Seconds), countText(w, r.Tokens.Total), r.Cost.cell(), releasedText(w, r))
	}
	printFigures(w, title, t, 4, 5, 6, 7)
}

// lookAt is where to look: the links that the agent left, else the issue.
func releasedText(w *world, r releasedRow) string {
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

func printFailed(w *world, f facts) {
	t := table{head: []string{"ISSUE", "RUNS", "LAST", "NOW", "ERROR"}}
	for _, r := range f.Failed {
		t.add(r.Identifier, strconv.Itoa(r.Runs), agoText(w, f.GeneratedAt, r.At), strings.ReplaceAll(orEmpty(r.Now), "_", " "), orEmpty(r.Error))
	}
	printFigures(w, "FAILED", t, 1)
}

func printStuck(w *world, f facts) {
	held := table{head: []string{"ISSUE", "REASON", "SINCE", "MESSAGE"}}
	for _, r := range f.Held {
		held.add(r.Identifier, r.Reason, agoText(w, f.GeneratedAt, r.HeldAt), r.Message)
	}
	printFigures(w, "HELD", held)
	waiting := table{head: []string{"ISSUE", "KIND", "DUE", "ERROR"}}
	for _, r := range f.Waiting {
		waiting.add(r.Identifier, r.Kind, dueText(w, f.GeneratedAt, r), orEmpty(r.Error))
	}
	printFigures(w, "WAITING", waiting)
}

func printOutages(w *world, f facts) {
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
		t.add(o.Code, agoText(w, f.GeneratedAt, o.Since), lasted, o.Message)
	}
	printFigures(w, "OUTAGES", t)
}

func printMissed(w *world, f facts) {
	t := table{head: []string{"FROM", "TO", "FOR", "PASSES"}}
	for _, g := range f.Schedule.Missed {
		from, to := rfc3339(g.From), rfc3339(g.To)
		if w.width > 0 {
			from, to = clockText(w, g.From), clockText(w, g.To)
			if g.Open {
				to = "none since"
			}
		}
		t.add(from, to, tookText(w, g.To.Sub(g.From).Seconds()), strconv.Itoa(g.Missed))
	}
	printFigures(w, "MISSED PASSES", t, 2, 3)
}

// printUse is what was used: in all, and where the time is longer than a day or two, by day and by issue.
func printUse(w *world, f facts) {
	if w.width == 0 || len(f.Days) > 2 {
		days := table{head: []string{"DAY (UTC)", "INPUT", "CACHED", "OUTPUT", "REASONING", "TOTAL", "COST"}}
		for _, d := range f.Days {
			days.add(append([]string{d.Date}, tokenCells(w, d.Tokens, d.Cost)...)...)
		}
		printFigures(w, "DAYS", days, 1, 2, 3, 4, 5, 6)
	}
	head := []string{"RUNS", "WELL", "FAILED", "TIME", "INPUT", "CACHED", "OUTPUT", "REASONING", "TOTAL", "COST"}
	issues := table{head: append([]string{"ISSUE"}, head...)}
	for _, i := range f.Issues {
		issues.add(append([]string{i.Identifier, strconv.Itoa(i.Runs), strconv.Itoa(i.Succeeded), strconv.Itoa(i.Failed), tookText(w, i.Seconds)},
			tokenCells(w, i.Tokens, i.Cost)...)...)
	}
	t := f.Totals
	all := plural(t.Issues, "issue")
	if w.width == 0 {
		all = strconv.Itoa(t.Issues)
	}
	total := append([]string{all, strconv.Itoa(t.Runs), strconv.Itoa(t.Succeeded), strconv.Itoa(t.Failed), tookText(w, t.Seconds)}, tokenCells(w, t.Tokens, t.Cost)...)
	if w.width > 0 { // below each other, so that the columns are the same
		printSum(w, issues, total)
		return
	}
	printFigures(w, "ISSUES", issues)
	sum := table{head: issues.head}
	sum.add(total...)
	printFigures(w, "TOTALS", sum)
}

// printSum prints the issues that used most, and below them the sum of all.
func printSum(w *world, issues table, total []string) {
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
	printAligned(w, "USED", issues, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
}

func tokenCells(w *world, t tokensRow, m *money) []string {
	line := make([]string, 0, 6)
	for _, n := range []int64{t.Input, t.Cached, t.Output, t.Reasoning, t.Total} {
		line = append(line, countText(w, n))
	}
	return append(line, m.cell())
}

// printRemarks says what the figures don't.
func printRemarks(w *world, f facts) {
	if m := f.Totals.Cost; m != nil {
		text := "cost is in " + m.Currency + ", an estimate by agent.prices at the price of each run's model"
		if m.Unpriced > 0 {
			text += fmt.Sprintf("; without %s tokens of %s, which has no price", countText(w, m.Unpriced), strings.Join(m.Models, ", "))
		}
		remark(w, text)
	}
	if f.RunsSince.After(f.Since) && f.RunsSince.Sub(f.Since) > time.Minute {
		remark(w, "runs are complete since "+whenText(w, f.RunsSince)+"; days, outages and what was handed over reach further back")
	}
}

func whenText(w *world, t time.Time) string {
	if w.width == 0 {
		return rfc3339(t)
	}
	return clockText(w, t)
}

func remark(w *world, text string) {
	if w.width == 0 {
		fmt.Fprintf(w.stdout, "remark\t%s\n", visible(text))
		return
	}
	fmt.Fprintln(w.stdout, w.dim(visible(text)))
}

// shownRows of a table stand on a terminal.
const shownRows = 10

// printFigures prints a table whose columns of figures are named; of a long one a terminal gets the beginning.
func printFigures(w *world, title string, t table, figures ...int) {
	rest := len(t.rows) - shownRows
	if w.width == 0 || rest <= 0 {
		printAligned(w, title, t, figures...)
		return
	}
	t.rows, t.colours = t.rows[:shownRows], t.colours[:shownRows]
	printAligned(w, title, t, figures...)
	fmt.Fprintln(w.stdout, w.dim(fmt.Sprintf("  and %d more: symphony report --json", rest)))
}

// printAligned puts figures below each other by their ends, on a terminal, and leaves out those that there are none of.
func printAligned(w *world, title string, t table, figures ...int) {
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
func countText(w *world, n int64) string {
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
func tookText(w *world, s float64) string {
	if w.width == 0 {
		return seconds(s)
	}
	return duration(time.Duration(s * float64(time.Second)))
}
