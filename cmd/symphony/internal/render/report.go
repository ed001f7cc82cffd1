package render

import (
	"bufio"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Report prints a report, as JSON where that was asked for. On a terminal long tables end after some rows, so that a night
// fits one screen.
func Report(w *term.Env, r view.Report) error {
	for _, warning := range r.Warnings {
		fmt.Fprintln(w.Stderr, "symphony: warning:", term.Visible(warning))
	}
	if w.JSON {
		w.PrintJSON(r)
		return nil
	}
	out := bufio.NewWriter(w.Stdout) // a month has thousands of lines
	page := *w
	page.Stdout = out
	printReport(&page, r)
	if err := out.Flush(); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}

func printReport(w *term.Env, r view.Report) {
	if w.Width == 0 {
		fmt.Fprintf(w.Stdout, "time\t%s\t%s\n", term.Rfc3339(r.Since), term.Rfc3339(r.Until))
	} else {
		fmt.Fprintf(w.Stdout, "%s to %s (%s)\n", clockText(w, r.Since), clockText(w, r.Until), term.Duration(r.Until.Sub(r.Since)))
	}
	printReleased(w, "HANDED OVER", r.HandedOver, r.GeneratedAt)
	printReleased(w, "LET GO", r.LetGo, r.GeneratedAt)
	printFailures(w, r)
	printWaiting(w, r)
	printOutages(w, r)
	printMissedPasses(w, r)
	printUse(w, r)
	printRemarks(w, r)
}

// clockText is exact in a pipe and the local clock's time on a terminal.
func clockText(w *term.Env, t time.Time) string {
	if w.Width == 0 {
		return term.Rfc3339(t)
	}
	return t.In(w.Now().Location()).Format("2006-01-02 15:04")
}

func printReleased(w *term.Env, title string, rows []view.ReleasedRow, now time.Time) {
	t := term.Table{Head: []string{"ISSUE", "FROM", "TO", "WHEN", "RUNS", "TIME", "TOKENS", "COST", "LOOK AT"}}
	for _, r := range rows {
		to := r.Reason
		if r.To != nil {
			to = *r.To
			if r.Reason != reconcile.StopTerminal && r.Reason != reconcile.StopInactive {
				to += " (" + r.Reason + ")"
			}
		}
		t.Add(r.Identifier, r.From, to, term.AgoText(w, now, r.At), strconv.Itoa(r.Runs), secondsText(w, r.Seconds),
			countText(w, r.Tokens.Total), costText(r.Cost), lookAt(w, r))
	}
	printFigures(w, title, t, 4, 5, 6, 7)
}

// lookAt is the links that the agent left, otherwise the issue.
func lookAt(w *term.Env, r view.ReleasedRow) string {
	var urls []string
	for _, l := range r.Links {
		urls = append(urls, l.URL)
	}
	switch {
	case len(urls) == 0:
		return orEmpty(r.URL)
	case w.Width > 0 && len(urls) > 1:
		return fmt.Sprintf("%s and %d more", urls[0], len(urls)-1)
	}
	return strings.Join(urls, " ")
}

func printFailures(w *term.Env, r view.Report) {
	failed := term.Table{Head: []string{"ISSUE", "RUNS", "LAST", "NOW", "ERROR"}}
	for _, f := range r.Failed {
		failed.Add(f.Identifier, strconv.Itoa(f.Runs), term.AgoText(w, r.GeneratedAt, f.At), strings.ReplaceAll(orEmpty(f.Now), "_", " "), orEmpty(f.Error))
	}
	printFigures(w, "FAILED", failed, 1)
	hooks := term.Table{Head: []string{"ISSUE", "RUNS", "LAST", "ERROR"}}
	for _, h := range r.Hooks {
		hooks.Add(h.Identifier, strconv.Itoa(h.Runs), term.AgoText(w, r.GeneratedAt, h.At), h.Error)
	}
	printFigures(w, "FAILED HOOKS", hooks, 1)
}

func printWaiting(w *term.Env, r view.Report) {
	held := term.Table{Head: []string{"ISSUE", "REASON", "SINCE", "MESSAGE"}}
	for _, h := range r.Held {
		held.Add(h.Identifier, h.Reason, term.AgoText(w, r.GeneratedAt, h.HeldAt), h.Message)
	}
	printFigures(w, "HELD", held)
	waiting := term.Table{Head: []string{"ISSUE", "KIND", "DUE", "ERROR"}}
	for _, x := range r.Waiting {
		waiting.Add(x.Identifier, x.Kind, dueText(w, r.GeneratedAt, x), orEmpty(x.Error))
	}
	printFigures(w, "WAITING", waiting)
}

func printOutages(w *term.Env, r view.Report) {
	t := term.Table{Head: []string{"CODE", "FROM", "FOR", "MESSAGE"}}
	for _, o := range r.Outages {
		var lasted string
		switch {
		case w.Width == 0 && o.Until != nil:
			lasted = term.Rfc3339(*o.Until)
		case w.Width == 0:
		case o.Until != nil:
			lasted = term.Duration(o.Until.Sub(o.Since))
		default:
			lasted = term.Duration(r.GeneratedAt.Sub(o.Since)) + ", goes on"
		}
		t.Add(o.Code, term.AgoText(w, r.GeneratedAt, o.Since), lasted, o.Message)
	}
	printFigures(w, "OUTAGES", t)
}

func printMissedPasses(w *term.Env, r view.Report) {
	t := term.Table{Head: []string{"FROM", "TO", "FOR", "PASSES"}}
	for _, m := range r.Schedule.Missed {
		to := clockText(w, m.To)
		if w.Width > 0 && m.Open {
			to = "none since"
		}
		t.Add(clockText(w, m.From), to, secondsText(w, m.To.Sub(m.From).Seconds()), strconv.Itoa(m.Missed))
	}
	printFigures(w, "MISSED PASSES", t, 2, 3)
}

// printUse prints what was used: by day, where the period has more than two, by issue, and in all.
func printUse(w *term.Env, r view.Report) {
	days := term.Table{Head: []string{"DAY (UTC)", "INPUT", "CACHED", "OUTPUT", "REASONING", "TOTAL", "COST"}}
	for _, d := range r.Days {
		days.Add(append([]string{d.Date}, tokenCells(w, d.Tokens, d.Cost)...)...)
	}
	if w.Width == 0 || len(r.Days) > 2 {
		printFigures(w, "DAYS", days, 1, 2, 3, 4, 5, 6)
	}
	head := []string{"ISSUE", "RUNS", "WELL", "FAILED", "TIME", "INPUT", "CACHED", "OUTPUT", "REASONING", "TOTAL", "COST"}
	row := func(name string, runs, succeeded, failed int, seconds float64, tokens view.Tokens, cost *view.Cost) []string {
		return append([]string{name, strconv.Itoa(runs), strconv.Itoa(succeeded), strconv.Itoa(failed), secondsText(w, seconds)}, tokenCells(w, tokens, cost)...)
	}
	issues := term.Table{Head: head}
	for _, i := range r.Issues {
		issues.Add(row(i.Identifier, i.Runs, i.Succeeded, i.Failed, i.Seconds, i.Tokens, i.Cost)...)
	}
	t := r.Totals
	if w.Width == 0 {
		printFigures(w, "ISSUES", issues)
		sum := term.Table{Head: head}
		sum.Add(row(strconv.Itoa(t.Issues), t.Runs, t.Succeeded, t.Failed, t.Seconds, t.Tokens, t.Cost)...)
		printFigures(w, "TOTALS", sum)
		return
	}
	if len(issues.Rows) == 0 {
		fmt.Fprintln(w.Stdout, "no run was at work in this time")
		return
	}
	if rest := len(issues.Rows) - shownRows; rest > 0 {
		issues.Cut(shownRows)
		issues.Add(fmt.Sprintf("%d more", rest))
	}
	issues.Add(row(text.Plural(t.Issues, "issue"), t.Runs, t.Succeeded, t.Failed, t.Seconds, t.Tokens, t.Cost)...) // in the same columns
	printAligned(w, "USED", issues, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
}

func tokenCells(w *term.Env, t view.Tokens, c *view.Cost) []string {
	cells := make([]string, 0, 6)
	for _, n := range []int64{t.Input, t.Cached, t.Output, t.Reasoning, t.Total} {
		cells = append(cells, countText(w, n))
	}
	return append(cells, costText(c))
}

// printRemarks says what the figures leave out.
func printRemarks(w *term.Env, r view.Report) {
	if c := r.Totals.Cost; c != nil {
		line := "cost is in " + c.Currency + ", an estimate by agent.prices at the price of each run's model"
		if c.Unpriced > 0 {
			line += fmt.Sprintf("; without %s tokens of %s, which has no price", countText(w, c.Unpriced), strings.Join(c.Models, ", "))
		}
		printRemark(w, line)
	}
	if r.RunsSince.After(r.Since) && r.RunsSince.Sub(r.Since) > time.Minute {
		printRemark(w, "runs are complete since "+clockText(w, r.RunsSince)+"; days, outages and what was handed over reach further back")
	}
}

func printRemark(w *term.Env, line string) {
	if w.Width == 0 {
		fmt.Fprintf(w.Stdout, "remark\t%s\n", term.Visible(line))
		return
	}
	fmt.Fprintln(w.Stdout, w.Dim(term.Visible(line)))
}

// shownRows is how many rows of a table a terminal gets.
const shownRows = 10

// printFigures prints a table whose columns of figures are named, on a terminal its first rows.
func printFigures(w *term.Env, title string, t term.Table, figures ...int) {
	rest := len(t.Rows) - shownRows
	if w.Width > 0 {
		t.Cut(shownRows)
	}
	printAligned(w, title, t, figures...)
	if w.Width > 0 && rest > 0 {
		fmt.Fprintln(w.Stdout, w.Dim(fmt.Sprintf("  and %d more: symphony report --json", rest)))
	}
}

// printAligned aligns columns of figures to the right, on a terminal, and leaves out those without a figure.
func printAligned(w *term.Env, title string, t term.Table, figures ...int) {
	if w.Width > 0 {
		for _, column := range slices.Backward(figures) {
			if !t.AlignRight(column) {
				t = t.Without(column)
			}
		}
	}
	w.PrintTable(title, t)
}

// countText is exact in a pipe and has three digits on a terminal.
func countText(w *term.Env, n int64) string {
	if w.Width == 0 || n < 10_000 {
		return strconv.FormatInt(n, 10)
	}
	units := []string{"", "k", "M", "G", "T"}
	value, unit := float64(n), 0
	for value >= 999.5 && unit < len(units)-1 {
		value, unit = value/1000, unit+1
	}
	decimals := 0
	switch {
	case value < 9.995:
		decimals = 2
	case value < 99.95:
		decimals = 1
	}
	return strconv.FormatFloat(value, 'f', decimals, 64) + units[unit]
}

// costText is empty without prices; a plus says that some tokens have no price.
func costText(c *view.Cost) string {
	switch {
	case c == nil:
		return ""
	case c.Unpriced > 0:
		return fmt.Sprintf("%.2f+", c.Amount)
	}
	return fmt.Sprintf("%.2f", c.Amount)
}

// secondsText is seconds in a pipe and short on a terminal.
func secondsText(w *term.Env, s float64) string {
	if w.Width == 0 {
		return strconv.FormatFloat(s, 'f', 0, 64)
	}
	return term.Duration(time.Duration(s * float64(time.Second)))
}
