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
)

// printFacts is a report for a person, short enough for one screen after a night: what came out of it first, then what
// wants a look. In a pipe everything is there, a line each.
func PrintFacts(w *term.Env, f view.Facts) error {
	out := bufio.NewWriter(w.Stdout) // a month has thousands of lines
	page := *w
	page.Stdout = out
	printPage(&page, f)
	if err := out.Flush(); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}

func printPage(w *term.Env, f view.Facts) {
	if w.Width == 0 {
		fmt.Fprintf(w.Stdout, "time\t%s\t%s\n", term.Rfc3339(f.Since), term.Rfc3339(f.Until))
	} else {
		fmt.Fprintf(w.Stdout, "%s to %s (%s)\n", clockText(w, f.Since), clockText(w, f.Until), term.Duration(f.Until.Sub(f.Since)))
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
func clockText(w *term.Env, t time.Time) string {
	return t.In(w.Now().Location()).Format("2006-01-02 15:04")
}

func printReleased(w *term.Env, title string, rows []view.ReleasedRow, now time.Time) {
	t := term.Table{Head: []string{"ISSUE", "FROM", "TO", "WHEN", "RUNS", "TIME", "TOKENS", "COST", "LOOK AT"}}
	for _, r := range rows {
		to := r.Reason
		if r.To != nil {
			to = *r.To
		}
		if r.Reason != "terminal" && r.Reason != "inactive" && r.To != nil {
			to += " (" + r.Reason + ")"
		}
		t.Add(r.Identifier, r.From, to, term.AgoText(w, now, r.At), strconv.Itoa(r.Runs), tookText(w, r.Seconds), CountText(w, r.Tokens.Total), view.CostCell(r.Cost), releasedText(w, r))
	}
	printFigures(w, title, t, 4, 5, 6, 7)
}

// lookAt is where to look: the links that the agent left, else the issue.
func releasedText(w *term.Env, r view.ReleasedRow) string {
	var urls []string
	for _, l := range r.Links {
		urls = append(urls, l.URL)
	}
	if len(urls) == 0 && r.URL != nil {
		return *r.URL
	}
	if w.Width > 0 && len(urls) > 1 {
		return fmt.Sprintf("%s and %d more", urls[0], len(urls)-1)
	}
	return strings.Join(urls, " ")
}

func printFailed(w *term.Env, f view.Facts) {
	t := term.Table{Head: []string{"ISSUE", "RUNS", "LAST", "NOW", "ERROR"}}
	for _, r := range f.Failed {
		t.Add(r.Identifier, strconv.Itoa(r.Runs), term.AgoText(w, f.GeneratedAt, r.At), strings.ReplaceAll(orEmpty(r.Now), "_", " "), orEmpty(r.Error))
	}
	printFigures(w, "FAILED", t, 1)
}

func printStuck(w *term.Env, f view.Facts) {
	held := term.Table{Head: []string{"ISSUE", "REASON", "SINCE", "MESSAGE"}}
	for _, r := range f.Held {
		held.Add(r.Identifier, r.Reason, term.AgoText(w, f.GeneratedAt, r.HeldAt), r.Message)
	}
	printFigures(w, "HELD", held)
	waiting := term.Table{Head: []string{"ISSUE", "KIND", "DUE", "ERROR"}}
	for _, r := range f.Waiting {
		waiting.Add(r.Identifier, r.Kind, dueText(w, f.GeneratedAt, r), orEmpty(r.Error))
	}
	printFigures(w, "WAITING", waiting)
}

func printOutages(w *term.Env, f view.Facts) {
	t := term.Table{Head: []string{"CODE", "FROM", "FOR", "MESSAGE"}}
	for _, o := range f.Outages {
		end, text := f.GeneratedAt, "since then"
		if o.Until != nil {
			end, text = *o.Until, ""
		}
		lasted := term.Duration(end.Sub(o.Since))
		if w.Width == 0 {
			lasted = ""
			if o.Until != nil {
				lasted = term.Rfc3339(*o.Until)
			}
		} else if text != "" {
			lasted += ", goes on"
		}
		t.Add(o.Code, term.AgoText(w, f.GeneratedAt, o.Since), lasted, o.Message)
	}
	printFigures(w, "OUTAGES", t)
}

func printMissed(w *term.Env, f view.Facts) {
	t := term.Table{Head: []string{"FROM", "TO", "FOR", "PASSES"}}
	for _, g := range f.Schedule.Missed {
		from, to := term.Rfc3339(g.From), term.Rfc3339(g.To)
		if w.Width > 0 {
			from, to = clockText(w, g.From), clockText(w, g.To)
			if g.Open {
				to = "none since"
			}
		}
		t.Add(from, to, tookText(w, g.To.Sub(g.From).Seconds()), strconv.Itoa(g.Missed))
	}
	printFigures(w, "MISSED PASSES", t, 2, 3)
}

// printUse is what was used: in all, and where the time is longer than a day or two, by day and by issue.
func printUse(w *term.Env, f view.Facts) {
	if w.Width == 0 || len(f.Days) > 2 {
		days := term.Table{Head: []string{"DAY (UTC)", "INPUT", "CACHED", "OUTPUT", "REASONING", "TOTAL", "COST"}}
		for _, d := range f.Days {
			days.Add(append([]string{d.Date}, tokenCells(w, d.Tokens, d.Cost)...)...)
		}
		printFigures(w, "DAYS", days, 1, 2, 3, 4, 5, 6)
	}
	head := []string{"RUNS", "WELL", "FAILED", "TIME", "INPUT", "CACHED", "OUTPUT", "REASONING", "TOTAL", "COST"}
	issues := term.Table{Head: append([]string{"ISSUE"}, head...)}
	for _, i := range f.Issues {
		issues.Add(append([]string{i.Identifier, strconv.Itoa(i.Runs), strconv.Itoa(i.Succeeded), strconv.Itoa(i.Failed), tookText(w, i.Seconds)},
			tokenCells(w, i.Tokens, i.Cost)...)...)
	}
	t := f.Totals
	all := text.Plural(t.Issues, "issue")
	if w.Width == 0 {
		all = strconv.Itoa(t.Issues)
	}
	total := append([]string{all, strconv.Itoa(t.Runs), strconv.Itoa(t.Succeeded), strconv.Itoa(t.Failed), tookText(w, t.Seconds)}, tokenCells(w, t.Tokens, t.Cost)...)
	if w.Width > 0 { // below each other, so that the columns are the same
		printSum(w, issues, total)
		return
	}
	printFigures(w, "ISSUES", issues)
	sum := term.Table{Head: issues.Head}
	sum.Add(total...)
	printFigures(w, "TOTALS", sum)
}

// printSum prints the issues that used most, and below them the sum of all.
func printSum(w *term.Env, issues term.Table, total []string) {
	if len(issues.Rows) == 0 {
		fmt.Fprintln(w.Stdout, "no run was at work in this time")
		return
	}
	rest := len(issues.Rows) - shownRows
	if rest > 0 {
		issues.Rows, issues.Colours = issues.Rows[:shownRows], issues.Colours[:shownRows]
		issues.Add(fmt.Sprintf("%d more", rest))
	}
	issues.Add(total...)
	printAligned(w, "USED", issues, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
}

func tokenCells(w *term.Env, t view.TokensRow, m *view.Money) []string {
	line := make([]string, 0, 6)
	for _, n := range []int64{t.Input, t.Cached, t.Output, t.Reasoning, t.Total} {
		line = append(line, CountText(w, n))
	}
	return append(line, view.CostCell(m))
}

// printRemarks says what the figures don't.
func printRemarks(w *term.Env, f view.Facts) {
	if m := f.Totals.Cost; m != nil {
		text := "cost is in " + m.Currency + ", an estimate by agent.prices at the price of each run's model"
		if m.Unpriced > 0 {
			text += fmt.Sprintf("; without %s tokens of %s, which has no price", CountText(w, m.Unpriced), strings.Join(m.Models, ", "))
		}
		remark(w, text)
	}
	if f.RunsSince.After(f.Since) && f.RunsSince.Sub(f.Since) > time.Minute {
		remark(w, "runs are complete since "+whenText(w, f.RunsSince)+"; days, outages and what was handed over reach further back")
	}
}

func whenText(w *term.Env, t time.Time) string {
	if w.Width == 0 {
		return term.Rfc3339(t)
	}
	return clockText(w, t)
}

func remark(w *term.Env, text string) {
	if w.Width == 0 {
		fmt.Fprintf(w.Stdout, "remark\t%s\n", term.Visible(text))
		return
	}
	fmt.Fprintln(w.Stdout, w.Dim(term.Visible(text)))
}

// shownRows of a table stand on a terminal.
const shownRows = 10

// printFigures prints a table whose columns of figures are named; of a long one a terminal gets the beginning.
func printFigures(w *term.Env, title string, t term.Table, figures ...int) {
	rest := len(t.Rows) - shownRows
	if w.Width == 0 || rest <= 0 {
		printAligned(w, title, t, figures...)
		return
	}
	t.Rows, t.Colours = t.Rows[:shownRows], t.Colours[:shownRows]
	printAligned(w, title, t, figures...)
	fmt.Fprintln(w.Stdout, w.Dim(fmt.Sprintf("  and %d more: symphony report --json", rest)))
}

// printAligned puts figures below each other by their ends, on a terminal, and leaves out those that there are none of.
func printAligned(w *term.Env, title string, t term.Table, figures ...int) {
	if w.Width > 0 {
		for _, column := range figures {
			alignRight(append([][]string{t.Head}, t.Rows...), column)
		}
		for _, column := range slices.Backward(figures) {
			if !slices.ContainsFunc(t.Rows, func(row []string) bool { return column < len(row) && strings.TrimSpace(row[column]) != "" }) {
				t = t.Without(column)
			}
		}
	}
	w.PrintTable(title, t)
}

func alignRight(rows [][]string, column int) {
	width := 0
	for _, row := range rows {
		if column < len(row) {
			width = max(width, term.Cells(row[column]))
		}
	}
	for _, row := range rows {
		if column < len(row) {
			row[column] = strings.Repeat(" ", width-term.Cells(row[column])) + row[column]
		}
	}
}

// count is a number of tokens: exact in a pipe, in three figures on a terminal.
func CountText(w *term.Env, n int64) string {
	if w.Width == 0 || n < 10_000 {
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
func tookText(w *term.Env, s float64) string {
	if w.Width == 0 {
		return seconds(s)
	}
	return term.Duration(time.Duration(s * float64(time.Second)))
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func seconds(s float64) string { return strconv.FormatFloat(s, 'f', 0, 64) }
