package render

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/report"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/state"
)

// ReportOptions say what of a report is printed as text.
type ReportOptions struct {
	Period report.Period
	By     string // the sums by one of report.Groupings; empty for the results
	// Projects: the results name their projects.
	Projects bool
}

// ReportRows is how many results a terminal gets unless the operator chooses another number.
const ReportRows = 10

// Report prints results and their sums, with --json as JSON.
func Report(w *term.Env, r report.ResultList, o ReportOptions) {
	for _, warning := range r.Warnings {
		fmt.Fprintln(w.Stderr, "symphony: warning:", text.Visible(warning))
	}
	if w.JSON {
		w.PrintJSON(r)
		return
	}
	for _, u := range r.Unreadable {
		unread := *u.Error
		unread.Message = u.Project + ": " + unread.Message
		w.PrintError(&unread)
	}
	reportHead(w, r, o.Period)
	if o.By == "" {
		w.PrintTable("RESULTS", resultTable(w, r, o.Projects))
	} else {
		w.PrintTable(strings.ToUpper(o.By)+"S", groupTable(w, r, o.By))
	}
	if w.Piped() {
		totals := term.Table{}
		totals.Add(sumCells(w, r.Totals)...)
		w.PrintTable("TOTALS", totals)
	}
	reportRemarks(w, r, o)
}

// reportHead prints how many issues came to which outcome, and what that cost.
func reportHead(w *term.Env, r report.ResultList, period report.Period) {
	if w.Piped() {
		fmt.Fprintf(w.Stdout, "time\t%s\t%s\n", text.Rfc3339(period.Since), text.Rfc3339(period.Until))
		return
	}
	var counts []string
	for _, outcome := range state.ResultOutcomes {
		if n := r.Counts[outcome]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(outcome, "_", " ")))
		}
	}
	if len(counts) == 0 {
		counts = []string{"no issue came to a result"}
	}
	paragraph(w, "1", strings.Join(counts, ", "))
	if r.Totals.Results > 0 {
		paragraph(w, "", useText(w, r.Totals))
	}
	paragraph(w, term.ColourOver, fmt.Sprintf("%s to %s (%s)",
		minuteText(w, period.Since), minuteText(w, period.Until), text.Duration(period.Until.Sub(period.Since))))
}

// useText is the cost of results and the time of their work, such as
// "0.03 USD for 12.3k tokens, 14m of work".
func useText(w *term.Env, s report.ResultSum) string {
	used := countText(w, s.Tokens.Total) + " tokens"
	if s.Cost != nil {
		used = costText(s.Cost) + " " + s.Cost.Currency + " for " + used
	}
	return used + ", " + text.Duration(seconds(s.Seconds)) + " of work"
}

// groupTable has a row for each group, and on a terminal the sum of all below them.
func groupTable(w *term.Env, r report.ResultList, by string) term.Table {
	first := strings.ToUpper(by)
	if by == report.ByDay {
		first = "DAY (UTC)"
	}
	t := newTable([]string{first, "ISSUES", "RESULTS", "TIME", "TOKENS", "COST"}, step{first, 16})
	t.Figures = []int{1, 2, 3, 4, 5}
	for _, g := range r.Groups {
		name := g.Name
		if name == "" {
			name = either(w, "(not known)", "")
		}
		t.Add(append([]string{name}, sumCells(w, g.ResultSum)...)...)
	}
	if !w.Piped() && len(r.Groups) > 1 {
		t.Add(append([]string{"total"}, sumCells(w, r.Totals)...)...)
	}
	return t
}

func sumCells(w *term.Env, s report.ResultSum) []string {
	return []string{
		strconv.Itoa(s.Issues),
		strconv.Itoa(s.Results),
		secondsText(w, s.Seconds),
		countText(w, s.Tokens.Total),
		costText(s.Cost),
	}
}

// reportRemarks prints what the figures leave out. In a pipe the remarks are no rows, and go to
// stderr.
func reportRemarks(w *term.Env, r report.ResultList, o ReportOptions) {
	remark := func(line string) {
		if w.Piped() {
			w.Note(slog.LevelInfo, line)
			return
		}
		paragraph(w, term.ColourOver, line)
	}
	if o.By == "" && len(r.Results) < r.Total {
		remark(fmt.Sprintf("%d of %s: --all prints the rest", len(r.Results), text.Plural(r.Total, "result")))
	}
	if c := r.Totals.Cost; c != nil {
		line := "cost is in " + c.Currency + ", an estimate by agent.prices at the price of each run's model"
		remark(line + unpriced(w, c))
	}
}

// paragraph prints a text in as many lines as it needs.
func paragraph(w *term.Env, colour, s string) {
	for _, line := range term.Wrap(text.Visible(s), w.Width) {
		fmt.Fprintln(w.Stdout, w.Paint(colour, line))
	}
}

// minuteText is the local time to the minute.
func minuteText(w *term.Env, t time.Time) string {
	return t.In(w.Now().Location()).Format("2006-01-02 15:04")
}

// either is the first text on a terminal and the second in a pipe.
func either(w *term.Env, onTerminal, inPipe string) string {
	if w.Piped() {
		return inPipe
	}
	return onTerminal
}

// countText is exact in a pipe and rounded to three digits on a terminal.
func countText(w *term.Env, n int64) string {
	return either(w, text.Count(n), strconv.FormatInt(n, 10))
}

// tokensText is how many tokens a run used; unknown if its agent had a turn and reported none.
func tokensText(w *term.Env, turns int, n int64) string {
	if turns > 0 && n == 0 {
		return "unknown"
	}
	return countText(w, n)
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
	return either(w, text.Duration(seconds(s)), strconv.FormatFloat(s, 'f', 0, 64))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// step is a step by which a table becomes narrower; see term.Shrink.
type step struct {
	column string
	cells  int
}

// newTable is a table that becomes narrower by these steps. Columns that the head lacks are
// left out.
func newTable(head []string, list ...step) term.Table {
	t := term.Table{Head: head}
	for _, s := range list {
		if i := slices.Index(head, s.column); i >= 0 {
			t.Shrink = append(t.Shrink, term.Shrink{Column: i, Cells: s.cells})
		}
	}
	return t
}
