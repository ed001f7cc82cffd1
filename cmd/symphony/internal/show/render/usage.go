package render

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/report"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/text"
)

// used prints the usage by issue, label or day, and the total. The whole report contains the
// issues and, for more than two days, the days.
func (p *reportPage) used(by string) {
	if !p.Piped() && len(p.Issues) == 0 && by != ByDay {
		fmt.Fprintln(p.Stdout, "no run was active in this period")
		return
	}
	if by == ByDay || by == "" && (p.Piped() || len(p.Days) > 2) {
		p.days()
	}
	switch by {
	case ByIssue, "":
		t := useTable("ISSUE", "TITLE")
		for _, i := range p.Issues {
			p.addUse(&t, i.Use, i.Identifier, i.Title)
			t.Links = append(t.Links, []string{text.OrEmpty(i.IssueURL)})
		}
		p.sums("ISSUES", t, text.Plural(p.Totals.Issues, "issue"))
	case ByLabel:
		t := useTable("LABEL", "ISSUES")
		t.Figures = append(t.Figures, 1)
		for _, l := range p.Labels {
			name := cmp.Or(text.OrEmpty(l.Label), either(p.Env, "(none)", ""))
			p.addUse(&t, l.Use, name, strconv.Itoa(l.Issues))
		}
		p.sums("LABELS", t, strconv.Itoa(p.Totals.Issues))
	}
}

// agents prints the usage by agent, if there were several, and the issues that another agent
// went on with.
func (p *reportPage) agents() {
	if len(p.Agents) < 2 {
		return
	}
	t := useTable("AGENT", "ISSUES")
	t.Figures = append(t.Figures, 1)
	for _, a := range p.Agents {
		p.addUse(&t, a.Use, a.Kind+" of "+a.Home, strconv.Itoa(a.Issues))
	}
	p.table("AGENTS", t)
	over := textTable("TITLE", "AT", "FROM", "TO", "ERROR")
	for _, row := range p.Takeovers {
		from := row.From.Kind
		to := row.To.Kind
		if from == to {
			from = row.From.Home
			to = row.To.Home
		}
		over.Add(row.Identifier, row.Title, p.ago(row.At), from, to, text.OrEmpty(row.Error))
	}
	p.table("TAKEN OVER", over)
}

// useTable is a table of the usage of runs. On a narrow terminal the title gives way, then the
// parts of the tokens.
func useTable(first, second string) term.Table {
	t := newTable(
		[]string{
			first, second,
			"RUNS", "OK", "FAILED", "TIME", "INPUT", "CACHED", "OUTPUT", "REASONING", "TOKENS", "COST",
		},
		step{"TITLE", 30},
		step{"REASONING", 0},
		step{"OUTPUT", 0},
		step{"CACHED", 0},
		step{"INPUT", 0},
		step{"TITLE", 16},
		step{first, 16},
		step{"OK", 0},
		step{"TIME", 0},
		step{"TITLE", 8},
		step{first, 8},
	)
	t.Figures = []int{2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	return t
}

// addUse adds a row whose first cells are names.
func (p *reportPage) addUse(t *term.Table, u report.Use, names ...string) {
	cells := append(
		names,
		strconv.Itoa(u.Runs+u.Running),
		strconv.Itoa(u.Succeeded),
		strconv.Itoa(u.Failed),
		secondsText(p.Env, u.Seconds),
	)
	t.Add(append(cells, p.tokenCells(u.Spent)...)...)
}

func (p *reportPage) tokenCells(s view.Spent) (cells []string) {
	used := s.Tokens
	for _, n := range []int64{used.Input, used.Cached, used.Output, used.Reasoning, used.Total} {
		cells = append(cells, countText(p.Env, n))
	}
	return append(cells, costText(s.Cost))
}

// sums prints a table of the results of runs. Its last line is the sum of all rows; issues is
// the second cell of that line, the number of issues.
func (p *reportPage) sums(title string, t term.Table, issues string) {
	if p.Piped() {
		p.table(title, t)
		var sum term.Table
		p.addUse(&sum, p.Totals.Use, strconv.Itoa(p.Totals.Issues))
		p.PrintTable("TOTALS", sum)
		return
	}
	if rest := len(t.Rows) - p.rows; p.rows > 0 && rest > 0 {
		t.Cut(p.rows)
		p.left = true
		t.Add(fmt.Sprintf("%d more", rest))
	}
	p.addUse(&t, p.Totals.Use, "total", issues)
	p.PrintTable("USED", t)
}

// days prints the usage by day.
func (p *reportPage) days() {
	t := newTable(
		[]string{"DAY (UTC)", "HANDED OVER", "INPUT", "CACHED", "OUTPUT", "REASONING", "TOKENS", "COST"},
		step{"REASONING", 0},
		step{"OUTPUT", 0},
		step{"CACHED", 0},
		step{"INPUT", 0},
	)
	t.Figures = []int{1, 2, 3, 4, 5, 6, 7}
	for _, d := range p.Days {
		t.Add(append([]string{d.Date, strconv.Itoa(d.HandedOver)}, p.tokenCells(d.Spent)...)...)
	}
	p.table("DAYS", t)
}

// figure is a number without an exponent.
func figure(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// countText is exact in a pipe and rounded to three digits on a terminal.
func countText(w *term.Env, n int64) string {
	return either(w, text.Count(n), strconv.FormatInt(n, 10))
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
