package render

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Report prints a report, with --json as JSON. On a terminal long tables are cut, so that the report of a night fits one screen.
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
	w = &page
	if w.Width == 0 {
		fmt.Fprintf(w.Stdout, "time\t%s\t%s\n", term.Rfc3339(r.Since), term.Rfc3339(r.Until))
	} else {
		fmt.Fprintf(w.Stdout, "%s to %s (%s)\n", clockText(w, r.Since), clockText(w, r.Until), term.Duration(r.Until.Sub(r.Since)))
	}
	printReleased(w, "HANDED OVER", r.HandedOver, r.GeneratedAt)
	printReleased(w, "LET GO", r.LetGo, r.GeneratedAt)
	printTroubles(w, r)
	missed := term.Table{Head: []string{"FROM", "TO", "FOR", "PASSES"}, Figures: []int{2, 3}}
	for _, m := range r.Schedule.Missed {
		to := clockText(w, m.To)
		if w.Width > 0 && m.Open {
			to = "none since"
		}
		missed.Add(clockText(w, m.From), to, secondsText(w, m.To.Sub(m.From).Seconds()), strconv.Itoa(m.Missed))
	}
	printFirst(w, "MISSED PASSES", missed)
	printUse(w, r)
	printRemarks(w, r)
	if err := out.Flush(); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}

// clockText is the local time to the minute on a terminal and the exact time in a pipe.
func clockText(w *term.Env, t time.Time) string {
	if w.Width == 0 {
		return term.Rfc3339(t)
	}
	return t.In(w.Now().Location()).Format("2006-01-02 15:04")
}

func printReleased(w *term.Env, title string, rows []view.ReleasedRow, now time.Time) {
	t := term.Table{Head: []string{"ISSUE", "FROM", "TO", "WHEN", "RUNS", "TIME", "TOKENS", "COST", "LOOK AT"}, Figures: []int{4, 5, 6, 7}}
	for _, r := range rows {
		to := r.Reason
		if r.To != nil {
			to = *r.To
			if r.Reason != reconcile.StopTerminal && r.Reason != reconcile.StopInactive {
				to += " (" + r.Reason + ")"
			}
		}
		lookAt := orEmpty(r.URL) // if the agent left no links
		for n, l := range r.Links {
			switch {
			case n == 0:
				lookAt = l.URL
			case w.Width == 0:
				lookAt += " " + l.URL
			case n == len(r.Links)-1:
				lookAt += fmt.Sprintf(" and %d more", n)
			}
		}
		if p := r.PullRequest; p != nil {
			lookAt = pullRequestText(w, now, p.PullRequest, p.SeenAt)
		}
		t.Add(r.Identifier, r.From, to, term.AgoText(w, now, r.At), strconv.Itoa(r.Runs), secondsText(w, r.Seconds),
			countText(w, r.Tokens.Total), costText(r.Cost), lookAt)
	}
	printFirst(w, title, t)
}

// printTroubles prints what failed, what is held or waits, and when nothing could run.
func printTroubles(w *term.Env, r view.Report) {
	ago := func(t time.Time) string { return term.AgoText(w, r.GeneratedAt, t) }
	for _, failures := range []struct {
		title string
		rows  []view.FailedRow
	}{{"FAILED", r.Failed}, {"FAILED HOOKS", r.Hooks}} {
		t := term.Table{Head: []string{"ISSUE", "RUNS", "LAST", "NOW", "ERROR"}, Figures: []int{1}}
		for _, f := range failures.rows {
			t.Add(f.Identifier, strconv.Itoa(f.Runs), ago(f.At), strings.ReplaceAll(orEmpty(f.Now), "_", " "), orEmpty(f.Error))
		}
		printFirst(w, failures.title, t)
	}
	printFirst(w, "HELD", heldTable(w, r.GeneratedAt, r.Held))
	waiting := term.Table{Head: []string{"ISSUE", "KIND", "DUE", "ERROR"}}
	for _, x := range r.Waiting {
		waiting.Add(x.Identifier, string(x.Kind), dueText(w, r.GeneratedAt, x), orEmpty(x.Error))
	}
	printFirst(w, "WAITING", waiting)
	undelivered := term.Table{Head: []string{"ISSUE", "SINCE", "TRIES", "ERROR"}, Figures: []int{2}}
	for _, u := range r.Undelivered {
		since := ""
		if u.Since != nil {
			since = ago(*u.Since)
		}
		undelivered.Add(u.Identifier, since, strconv.Itoa(u.Tries), orEmpty(u.Error))
	}
	printFirst(w, "NOT DELIVERED", undelivered)
	printFirst(w, "KEPT", keptTable(w, r.GeneratedAt, r.Kept))
	outages := term.Table{Head: []string{"CODE", "FROM", "FOR", "MESSAGE"}}
	for _, o := range r.Outages {
		lasted := ""
		switch {
		case o.Until != nil && w.Width == 0:
			lasted = term.Rfc3339(*o.Until)
		case o.Until != nil:
			lasted = term.Duration(o.Until.Sub(o.Since))
		case w.Width > 0:
			lasted = term.Duration(r.GeneratedAt.Sub(o.Since)) + ", goes on"
		}
		outages.Add(o.Code, ago(o.Since), lasted, o.Message)
	}
	printFirst(w, "OUTAGES", outages)
}

// printUse prints what was used: by day, where the period has more than two, by issue, and in all.
func printUse(w *term.Env, r view.Report) {
	tokens := func(s view.Spent) []string {
		var cells []string
		for _, n := range []int64{s.Tokens.Input, s.Tokens.Cached, s.Tokens.Output, s.Tokens.Reasoning, s.Tokens.Total} {
			cells = append(cells, countText(w, n))
		}
		return append(cells, costText(s.Cost))
	}
	days := term.Table{Head: []string{"DAY (UTC)", "INPUT", "CACHED", "OUTPUT", "REASONING", "TOTAL", "COST"}, Figures: []int{1, 2, 3, 4, 5, 6}}
	for _, d := range r.Days {
		days.Add(append([]string{d.Date}, tokens(d.Spent)...)...)
	}
	if w.Width == 0 || len(r.Days) > 2 {
		printFirst(w, "DAYS", days)
	}
	issues := term.Table{
		Head:    []string{"ISSUE", "RUNS", "WELL", "FAILED", "TIME", "INPUT", "CACHED", "OUTPUT", "REASONING", "TOTAL", "COST"},
		Figures: []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
	}
	add := func(t *term.Table, name string, u view.Use) {
		runs := []string{name, strconv.Itoa(u.Runs), strconv.Itoa(u.Succeeded), strconv.Itoa(u.Failed), secondsText(w, u.Seconds)}
		t.Add(append(runs, tokens(u.Spent)...)...)
	}
	for _, i := range r.Issues {
		add(&issues, i.Identifier, i.Use)
	}
	switch rest := len(issues.Rows) - shownRows; {
	case w.Width == 0:
		w.PrintTable("ISSUES", issues)
		var sum term.Table
		add(&sum, strconv.Itoa(r.Totals.Issues), r.Totals.Use)
		w.PrintTable("TOTALS", sum)
		return
	case len(issues.Rows) == 0:
		fmt.Fprintln(w.Stdout, "no run was active in this period")
		return
	case rest > 0:
		issues.Cut(shownRows)
		issues.Add(fmt.Sprintf("%d more", rest))
	}
	add(&issues, text.Plural(r.Totals.Issues, "issue"), r.Totals.Use) // in the same columns
	w.PrintTable("USED", issues)
}

// printRemarks prints what the figures do not include.
func printRemarks(w *term.Env, r view.Report) {
	remark := func(line string) {
		if w.Width == 0 {
			fmt.Fprintf(w.Stdout, "remark\t%s\n", term.Visible(line))
			return
		}
		fmt.Fprintln(w.Stdout, w.Dim(term.Visible(line)))
	}
	if c := r.Totals.Cost; c != nil {
		line := "cost is in " + c.Currency + ", an estimate by agent.prices at the price of each run's model"
		if c.Unpriced > 0 {
			line += fmt.Sprintf("; without %s tokens of %s, which has no price", countText(w, c.Unpriced), strings.Join(c.Models, ", "))
		}
		remark(line)
	}
	if r.RunsSince.After(r.Since) && r.RunsSince.Sub(r.Since) > time.Minute {
		remark("runs are complete since " + clockText(w, r.RunsSince) + "; days, outages and what was handed over reach further back")
	}
}

// shownRows is how many rows of a table a terminal gets.
const shownRows = 10

// printFirst prints a table; on a terminal only its first rows.
func printFirst(w *term.Env, title string, t term.Table) {
	rest := len(t.Rows) - shownRows
	if w.Width == 0 || rest <= 0 {
		w.PrintTable(title, t)
		return
	}
	t.Cut(shownRows)
	w.PrintTable(title, t)
	fmt.Fprintln(w.Stdout, w.Dim(fmt.Sprintf("  and %d more: symphony report --json", rest)))
}

// countText is exact in a pipe and has three digits on a terminal.
func countText(w *term.Env, n int64) string {
	if w.Width == 0 || n < 10_000 {
		return strconv.FormatInt(n, 10)
	}
	value, unit := float64(n), ""
	for _, next := range []string{"k", "M", "G", "T"} {
		if value < 999.5 {
			break
		}
		value, unit = value/1000, next
	}
	return strings.TrimSuffix(fmt.Sprintf("%#.3g", value), ".") + unit
}

// costText is empty without prices. A plus means that some tokens have no price.
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
