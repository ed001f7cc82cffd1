package render

import (
	"bufio"
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
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// The sums of a report, for ReportOptions.By.
const (
	ByIssue = "issue"
	ByLabel = "label"
	ByDay   = "day"
)

// ReportOptions select the parts of a report that are printed as text.
type ReportOptions struct {
	By   string // only the usage, by issue, label or day; empty for the whole report
	Rows int    // of each table; 0 for all
	// Projects: the results of a list name their projects.
	Projects bool
}

// reportPage is a report that is being printed.
type reportPage struct {
	*term.Env
	report.Report
	rows int
	left bool // rows were left out
}

// Report prints a report, with --json as JSON.
func Report(w *term.Env, r report.Report, o ReportOptions) error {
	for _, warning := range r.Warnings {
		fmt.Fprintln(w.Stderr, "symphony: warning:", text.Visible(warning))
	}
	if w.JSON {
		w.PrintJSON(r)
		return nil
	}
	out := bufio.NewWriter(w.Stdout) // a month takes thousands of lines
	env := *w
	env.Stdout = out
	p := &reportPage{Env: &env, Report: r, rows: o.Rows}
	p.head()
	if o.By == "" {
		p.needsHelp()
		p.released("HANDED OVER", r.HandedOver)
		p.released("LET GO", r.LetGo)
		p.troubles()
		p.interruptions()
	}
	p.agents()
	p.used(o.By)
	p.remarks(o.By)
	if err := out.Flush(); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}

// Reports prints the reports of several projects, each below the name of its project; with
// --json as a list. In a pipe the line before a report has the name and the workflow.
func Reports(w *term.Env, all []report.OfProject, o ReportOptions) error {
	if w.JSON {
		w.PrintJSON(all)
		return nil
	}
	if !w.Piped() {
		printReportSum(w, all)
	}
	for _, of := range all {
		if w.Piped() {
			fmt.Fprintf(w.Stdout, "project\t%s\t%s\n", text.Visible(of.Project), text.Visible(of.Workflow))
		} else {
			fmt.Fprintf(w.Stdout, "\n%s\n", w.Bold(text.Visible(of.Project)))
		}
		if of.Error != nil {
			unread := *of.Error
			unread.Message = of.Project + ": " + unread.Message
			w.PrintError(&unread)
			continue
		}
		if err := Report(w, *of.Report, o); err != nil {
			return err
		}
	}
	return nil
}

// printReportSum prints what all projects together have done, and what it cost.
func printReportSum(w *term.Env, all []report.OfProject) {
	var sum reportCounts
	for _, of := range all {
		if of.Report != nil {
			sum.add(newReportCounts(*of.Report))
		}
	}
	p := &reportPage{Env: w}
	p.paragraph("1", text.Plural(len(all), "project")+": "+sum.events())
	if sum.runs > 0 {
		p.paragraph("", sum.use(w))
	}
	p.table("PROJECTS", projectsTable(w, all))
}

// projectsTable has a row for each project that can be read: what was done there, and its cost.
func projectsTable(w *term.Env, all []report.OfProject) term.Table {
	head := []string{"PROJECT", "HANDED OVER", "NEED HELP", "FAILED", "HELD", "RUNS", "TIME", "TOKENS", "COST"}
	t := newTable(head, step{"PROJECT", 16})
	t.Figures = []int{1, 2, 3, 4, 5, 6, 7, 8}
	for _, of := range all {
		if of.Report == nil {
			continue
		}
		c := newReportCounts(*of.Report)
		spent := of.Report.Totals.Spent
		cost := "no prices"
		if spent.Cost != nil {
			cost = costText(spent.Cost) + " " + spent.Cost.Currency
		}
		t.Add(
			of.Project,
			strconv.Itoa(c.handedOver),
			strconv.Itoa(c.needsHelp),
			strconv.Itoa(c.failed),
			strconv.Itoa(c.held),
			strconv.Itoa(c.runs),
			secondsText(w, c.seconds),
			countText(w, spent.Tokens.Total),
			cost,
		)
	}
	return t
}

// head prints the answers: how many issues were handed over, failed or are stuck, and the cost
// of that.
func (p *reportPage) head() {
	if p.Piped() {
		fmt.Fprintf(p.Stdout, "time\t%s\t%s\n", text.Rfc3339(p.Since), text.Rfc3339(p.Until))
		if b := p.Budget; b != nil {
			fmt.Fprintf(p.Stdout, "budget\t%s\t%s\t%s\t%v\n",
				text.Visible(b.Written), figure(b.Used), figure(b.Most), b.Reached)
		}
		if h := p.Handovers; h != nil {
			fmt.Fprintf(p.Stdout, "handovers\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n",
				h.Issues, h.First, h.Verified, h.PullRequests, h.Merged, h.Closed, h.Checked, h.Green, h.Rounds)
		}
		return
	}
	c := newReportCounts(p.Report)
	p.paragraph("1", c.events())
	if h := p.Handovers; h != nil {
		p.paragraph("", handoverLine(*h, p.pullWords()))
	}
	if p.Totals.Issues > 0 {
		p.paragraph("", c.use(p.Env))
	}
	if b := p.Budget; b != nil {
		colour := ""
		if b.Reached {
			colour = term.ColourWaits
		}
		p.paragraph(colour, budgetLine(p.Env, *b))
	}
	period := text.Duration(p.Until.Sub(p.Since))
	p.paragraph(term.ColourOver,
		fmt.Sprintf("%s to %s (%s)", clockText(p.Env, p.Since), clockText(p.Env, p.Until), period))
}

// reportCounts are the numbers of one report, or of several together.
type reportCounts struct {
	handedOver, needsHelp, failed, held, waiting, running, undelivered int
	runs                                                               int
	seconds                                                            float64
	spent                                                              []view.Spent // one for each currency
}

func newReportCounts(r report.Report) reportCounts {
	return reportCounts{
		handedOver:  len(r.HandedOver),
		needsHelp:   len(r.NeedsHelp),
		failed:      len(r.Failed),
		held:        len(r.Held),
		waiting:     len(onlyWaiting(r)),
		running:     len(r.Running),
		undelivered: len(r.Undelivered),
		runs:        r.Totals.Runs + r.Totals.Running,
		seconds:     r.Totals.Seconds,
		spent:       []view.Spent{r.Totals.Spent},
	}
}

// onlyWaiting are the issues that wait for their next run, without those whose commits are to be
// delivered, which the report lists elsewhere.
func onlyWaiting(r report.Report) []view.RetryingRow {
	return text.Filter(r.Waiting, func(row view.RetryingRow) bool {
		isSame := func(u view.UndeliveredRow) bool { return u.IssueID == row.IssueID }
		return !slices.ContainsFunc(r.Undelivered, isSame)
	})
}

// add adds the numbers of another report.
func (c *reportCounts) add(more reportCounts) {
	c.handedOver += more.handedOver
	c.needsHelp += more.needsHelp
	c.failed += more.failed
	c.held += more.held
	c.waiting += more.waiting
	c.running += more.running
	c.undelivered += more.undelivered
	c.runs += more.runs
	c.seconds += more.seconds
	if more.runs == 0 {
		return // a project without runs would only add "0 tokens"
	}
	for _, spent := range more.spent {
		c.addSpent(spent)
	}
}

// addSpent adds a sum of money to the sum in its currency.
func (c *reportCounts) addSpent(more view.Spent) {
	currency := currencyOf(more)
	for i, spent := range c.spent {
		if currencyOf(spent) == currency {
			c.spent[i] = spent.Joined(more)
			return
		}
	}
	c.spent = append(c.spent, more)
}

// currencyOf is empty for tokens without prices.
func currencyOf(s view.Spent) string {
	if s.Cost == nil {
		return ""
	}
	return s.Cost.Currency
}

// events says how many issues were handed over, failed or are stuck.
func (c reportCounts) events() string {
	said := []string{text.Plural(c.handedOver, "issue") + " handed over"}
	if c.needsHelp > 0 {
		said = append(said, reconcile.StatusNeedsHelp.Counted(c.needsHelp))
	}
	counts := []int{c.failed, c.held, c.waiting, c.running, c.undelivered}
	for i, what := range []string{"failed", "held", "waiting", "running", "not delivered"} {
		if counts[i] > 0 {
			said = append(said, fmt.Sprintf("%d %s", counts[i], what))
		}
	}
	return strings.Join(said, ", ")
}

// use says what the runs have used, such as "0.03 USD for 12.3k tokens: 5 runs, 14m of work".
func (c reportCounts) use(w *term.Env) string {
	var costs []string
	for _, spent := range c.spent {
		cost := countText(w, spent.Tokens.Total) + " tokens"
		if spent.Cost != nil {
			cost = costText(spent.Cost) + " " + spent.Cost.Currency + " for " + cost
		} else if len(c.spent) > 1 {
			cost += " without prices"
		}
		costs = append(costs, cost)
	}
	work := text.Duration(seconds(c.seconds))
	return fmt.Sprintf("%s: %s, %s of work", strings.Join(costs, ", "), text.Plural(c.runs, "run"), work)
}

// paragraph prints a text in as many lines as it needs.
func (p *reportPage) paragraph(colour, s string) {
	for _, line := range term.Wrap(text.Visible(s), p.Width) {
		fmt.Fprintln(p.Stdout, p.Paint(colour, line))
	}
}

// pullWords are what people call the pull requests of the issues that were handed over.
func (p *reportPage) pullWords() reconcile.PullWords {
	var addresses []string
	for _, row := range p.HandedOver {
		if row.PullRequest != nil {
			addresses = append(addresses, row.PullRequest.URL)
		}
	}
	return reconcile.PullWordsOf(addresses...)
}

// handoverLine is how well the handovers went.
func handoverLine(h state.Handovers, words reconcile.PullWords) string {
	line := fmt.Sprintf("handed over: %d of %d at the first attempt", h.First, h.Issues)
	if h.Verified > 0 {
		line += fmt.Sprintf(", %d verified", h.Verified)
	}
	if h.PullRequests == 0 {
		return line
	}
	line += fmt.Sprintf("; %s: %d of %d green at the first push, %d merged",
		text.Plural(h.PullRequests, words.Name), h.Green, h.Checked, h.Merged)
	return line + fmt.Sprintf(", %.1f rounds each", float64(h.Rounds)/float64(h.PullRequests))
}

// budgetLine is how much of the day's budget is used.
func budgetLine(w *term.Env, b view.BudgetRow) string {
	if b.Reached {
		return *b.Message
	}
	used := countText(w, int64(b.Used))
	if b.Unit != "tokens" {
		used = fmt.Sprintf("%.2f", b.Used)
	}
	return fmt.Sprintf("budget: %s of %s used today (%.0f%%)", used, b.Written, 100*b.Used/b.Most)
}

// clockText is the local time to the minute on a terminal and the exact time in a pipe.
func clockText(w *term.Env, t time.Time) string {
	return either(w, t.In(w.Now().Location()).Format("2006-01-02 15:04"), text.Rfc3339(t))
}

// either is the first text on a terminal and the second in a pipe.
func either(w *term.Env, onTerminal, inPipe string) string {
	if w.Piped() {
		return inPipe
	}
	return onTerminal
}

func (p *reportPage) ago(t time.Time) string { return term.AgoText(p.Env, p.GeneratedAt, t) }

// table prints a table, or its first rows.
func (p *reportPage) table(title string, t term.Table) {
	rest := 0
	if p.rows > 0 {
		rest = max(len(t.Rows)-p.rows, 0)
		t.Cut(p.rows)
	}
	p.PrintTable(title, t)
	if rest > 0 && !p.Piped() {
		p.left = true
		fmt.Fprintln(p.Stdout, p.Dim(fmt.Sprintf("  and %d more", rest)))
	}
}

// needsHelp prints the issues whose agents need a person, with the agents' words. On a terminal
// the way to answer stands once below the table.
func (p *reportPage) needsHelp() {
	t := textTable("TITLE", "SINCE", "AGENT")
	t.State = 2
	var answers []string
	for _, h := range p.NeedsHelp {
		message := h.Message
		if !p.Piped() {
			brief, advice := h.Brief()
			message = brief
			answers = addOnce(answers, advice)
		}
		t.AddIn(term.ColourStuck, h.Identifier, h.Title, p.ago(h.HeldAt), text.OneLine(message))
	}
	p.table("NEEDS HELP", t)
	for _, line := range answers {
		p.paragraph(term.ColourOver, line)
	}
}

func addOnce(list []string, more string) []string {
	if slices.Contains(list, more) {
		return list
	}
	return append(list, more)
}

// held prints the issues that are held. On a terminal the words in the message replace the code
// of the reason, and the ways to end a hold stand once below the table.
func (p *reportPage) held() {
	t := textTable("TITLE", "REASON", "SINCE", "MESSAGE")
	t.State = 0
	t.Optional = []int{2}
	var ends []string
	for _, h := range p.Held {
		reason := h.Reason
		message := h.Message
		if !p.Piped() {
			reason = ""
			brief, advice := h.Brief()
			message = brief
			ends = addOnce(ends, advice)
		}
		t.AddIn(term.ColourStuck, h.Identifier, h.Title, reason, p.ago(h.HeldAt), message)
	}
	p.table("HELD", t)
	for _, line := range ends {
		p.paragraph(term.ColourOver, line)
	}
}

// troubles prints the failures, the issues that are held or wait, and the commits that are not
// delivered.
func (p *reportPage) troubles() {
	failures := func(title string, rows []report.FailedRow) {
		t := textTable("TITLE", "RUNS", "LAST", "NOW", "ERROR")
		t.Figures = []int{2}
		for _, f := range rows {
			t.Add(
				f.Identifier,
				f.Title,
				strconv.Itoa(f.Runs),
				p.ago(f.At),
				strings.ReplaceAll(text.OrEmpty(f.Now), "_", " "),
				text.OrEmpty(f.Error),
			)
		}
		p.table(title, t)
	}
	failures("FAILED", p.Failed)
	failures("FAILED HOOKS", p.Hooks)
	p.held()
	waiting := textTable("TITLE", "KIND", "DUE", "ERROR")
	for _, x := range onlyWaiting(p.Report) {
		due := dueText(p.Env, p.GeneratedAt, x)
		waiting.Add(x.Identifier, x.Title, string(x.Kind), due, waitError(x))
	}
	p.table("WAITING", waiting)
	undelivered := textTable("TITLE", "SINCE", "TRIES", "ERROR")
	undelivered.Figures = []int{3}
	for _, u := range p.Undelivered {
		since := ""
		if u.Since != nil {
			since = p.ago(*u.Since)
		}
		undelivered.Add(u.Identifier, u.Title, since, strconv.Itoa(u.Tries), text.OrEmpty(u.Error))
	}
	p.table("NOT DELIVERED", undelivered)
	kept := term.Table{Head: []string{"ISSUE", "SINCE", "WORK", "WORKSPACE"}}
	for _, k := range p.Kept {
		kept.AddIn(term.ColourStuck, k.Identifier, p.ago(k.Since), "kept: "+k.Unsaved, k.Path)
	}
	p.table("KEPT", kept)
}

// textTable is a table of issues whose last column is a text. On a narrow terminal the title
// gives way.
func textTable(columns ...string) term.Table {
	return newTable(append([]string{"ISSUE"}, columns...), step{"TITLE", 16}, step{"ISSUE", 16})
}

// interruptions prints when nothing could run, and when the schedule ran no pass.
func (p *reportPage) interruptions() {
	// A message is wrapped, because its end may say when the outage ends.
	outages := term.Table{Head: []string{"CODE", "FROM", "FOR", "MESSAGE"}, Wrap: true}
	for _, o := range p.Outages {
		lasted := either(p.Env, text.Duration(p.GeneratedAt.Sub(o.Since))+", ongoing", "")
		if o.Until != nil {
			lasted = either(p.Env, text.Duration(o.Until.Sub(o.Since)), text.Rfc3339(*o.Until))
		}
		outages.Add(o.Code, p.ago(o.Since), lasted, o.Message)
	}
	p.table("OUTAGES", outages)
	missed := term.Table{Head: []string{"FROM", "TO", "FOR", "PASSES"}, Figures: []int{2, 3}}
	for _, m := range p.Schedule.Missed {
		to := clockText(p.Env, m.To)
		if !p.Piped() && m.Open {
			to = "none since"
		}
		missed.Add(
			clockText(p.Env, m.From),
			to,
			secondsText(p.Env, m.To.Sub(m.From).Seconds()),
			strconv.Itoa(m.Missed),
		)
	}
	p.table("MISSED PASSES", missed)
}

// remarks prints the gaps in the figures. In a pipe they are no rows, and go to stderr.
func (p *reportPage) remarks(by string) {
	remark := func(line string) {
		if p.Piped() {
			p.Note(slog.LevelInfo, line)
			return
		}
		p.paragraph(term.ColourOver, line)
	}
	if p.left {
		remark("--all prints the rows that are left out, -n N the first N of each table")
	}
	if by == ByLabel && len(p.Labels) > 1 {
		remark("the runs of an issue with several labels count for each of them")
	}
	if c := p.Totals.Cost; c != nil {
		line := "cost is in " + c.Currency + ", an estimate by agent.prices at the price of each run's model"
		remark(line + unpriced(p.Env, c))
	}
	if p.RunsSince.After(p.Since) && p.RunsSince.Sub(p.Since) > time.Minute {
		remark("runs are complete since " + clockText(p.Env, p.RunsSince) +
			"; days, outages and what was handed over reach further back")
	}
}

// ReportRows is how many rows of a table a terminal gets unless the operator chooses another
// number.
const ReportRows = 10

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

// dueText is when a waiting issue continues. A continuation is not a retry.
func dueText(w *term.Env, now time.Time, r view.RetryingRow) string {
	left := r.DueAt.Sub(now)
	switch {
	case w.Piped():
		return text.Rfc3339(r.DueAt)
	case left <= 0:
		return "due"
	case r.Kind == reconcile.Continuation:
		return "continues in " + text.Duration(left)
	}
	return "in " + text.Duration(left)
}
