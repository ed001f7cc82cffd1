package render

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/report"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// released prints the issues that were released. On a narrow terminal the title gives way,
// then columns that other tables also show.
func (p *reportPage) released(title string, rows []report.ReleasedRow) {
	t := newTable(
		[]string{"ISSUE", "TITLE", "FROM", "TO", "WHEN", "RUNS", "TIME", "TOKENS", "COST", "LOOK AT"},
		step{"FROM", 0},
		step{"TITLE", 24},
		step{"RUNS", 0},
		step{"TIME", 0},
		step{"LOOK AT", 24},
		step{"TITLE", 16},
		step{"TO", 8},
		step{"LOOK AT", 18},
		step{"TITLE", 12},
		step{"TOKENS", 0},
		step{"ISSUE", 16},
		step{"TITLE", 8},
		step{"LOOK AT", 8},
	)
	t.Figures = []int{5, 6, 7, 8}
	t.Optional = []int{9}
	for _, r := range rows {
		to := r.Reason
		if r.To != nil {
			to = *r.To
			if !r.HandedOver() {
				to += " (" + r.Reason + ")"
			}
		}
		lookAt, address := p.lookAt(r)
		if !p.Piped() && !p.Links && !strings.HasPrefix(lookAt, address) {
			lookAt += " " + address
		}
		t.Add(
			r.Identifier,
			r.Title,
			r.From,
			to,
			p.ago(r.At),
			strconv.Itoa(r.Runs),
			secondsText(p.Env, r.Seconds),
			countText(p.Env, r.Tokens.Total),
			costText(r.Cost),
			lookAt,
		)
		t.Links = append(t.Links, []string{text.OrEmpty(r.URL), 9: address})
	}
	p.table(title, t)
}

// Results prints a list of results, with --json as JSON. On a narrow terminal the last words
// give way first, then the title.
func Results(w *term.Env, r report.ResultList, o ReportOptions) {
	if w.JSON {
		w.PrintJSON(r)
		return
	}
	for _, u := range r.Unreadable {
		unread := *u.Error
		unread.Message = u.Project + ": " + unread.Message
		w.PrintError(&unread)
	}
	// the words for times and pull requests are those of a report
	p := &reportPage{Env: w, Report: report.Report{GeneratedAt: r.GeneratedAt}}
	w.PrintTable("RESULTS", p.resultTable(r.Results, o.Projects))
	if !w.Piped() {
		p.paragraph(term.ColourOver, fmt.Sprintf("%d of %s", len(r.Results), text.Plural(r.Total, "result")))
	}
}

// The places of columns in the table of results.
const (
	resultRuns    = 5 // the first of five figures
	resultCommits = 9
	resultLookAt  = 10
	resultWords   = 11
)

// resultTable is the table of results; with several projects the last column names them.
func (p *reportPage) resultTable(rows []report.ResultRow, withProjects bool) term.Table {
	t := newTable(
		[]string{
			"ISSUE", "OUTCOME", "TITLE", "LABELS", "WHEN", "RUNS", "TIME", "TOKENS", "COST", "COMMITS",
			"LOOK AT", "LAST WORDS",
		},
		step{"LAST WORDS", 24},
		step{"LABELS", 0},
		step{"COMMITS", 0},
		step{"TITLE", 24},
		step{"LAST WORDS", 0},
		step{"RUNS", 0},
		step{"LOOK AT", 24},
		step{"TIME", 0},
		step{"TITLE", 16},
		step{"TOKENS", 0},
		step{"ISSUE", 16},
		step{"TITLE", 8},
		step{"LOOK AT", 8},
	)
	for column := resultRuns; column <= resultCommits; column++ {
		t.Figures = append(t.Figures, column)
	}
	t.Optional = []int{resultLookAt, resultWords}
	if withProjects {
		t.Head = append(t.Head, "PROJECT")
	}
	for _, row := range rows {
		cells, address := p.resultCells(row)
		if withProjects {
			cells = append(cells, row.Project)
		}
		t.Add(cells...)
		t.Links = append(t.Links, []string{text.OrEmpty(row.URL), resultLookAt: address})
	}
	return t
}

// resultCells are the cells of a result in the order of the head, and the address of the cell
// LOOK AT.
func (p *reportPage) resultCells(row report.ResultRow) (cells []string, address string) {
	lookAt, address := p.lookAt(report.ReleasedRow{
		Release:     row.Release,
		PullRequest: row.PullRequest,
	})
	cells = []string{
		row.Identifier,
		row.Outcome,
		row.Title,
		strings.Join(row.Labels, ","),
		p.ago(row.At),
		strconv.Itoa(row.Runs),
		secondsText(p.Env, row.Seconds),
		countText(p.Env, row.Tokens.Total),
		costText(row.Cost),
		strconv.Itoa(row.Commits),
		lookAt,
		text.OneLine(cmp.Or(row.Message, row.Words)),
	}
	return cells, address
}

// lookAt is where the work on an issue can be seen: its pull request, the links that its
// agents left, or else the issue itself.
func (p *reportPage) lookAt(r report.ReleasedRow) (shown, address string) {
	if p.Piped() {
		if pull := r.PullRequest; pull != nil {
			return pullRequestText(p.Env, p.GeneratedAt, pull.PullRequest, pull.SeenAt), ""
		}
		all := text.Map(r.Links, func(l reconcile.Link) string { return l.URL })
		return cmp.Or(strings.Join(all, " "), text.OrEmpty(r.URL)), ""
	}
	switch {
	case r.PullRequest != nil:
		return pullRequestWord(r.PullRequest.PullRequest), r.PullRequest.URL
	case len(r.Links) == 0:
		return "", ""
	}
	first := r.Links[0]
	shown = first.URL
	if first.Kind == "pull_request" {
		shown = cmp.Or(reconcile.PullName(first.URL), first.URL)
	}
	if more := len(r.Links) - 1; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return shown, first.URL
}

// pullRequestWord is the number of a pull request and the fact about it that decides an
// operator's next step, such as "#12 checks failed".
func pullRequestWord(r reconcile.PullRequest) string {
	word := r.State
	switch {
	case r.State != "open" && r.State != "draft":
	case r.Checks == "failed":
		word = "checks failed"
	case r.Review == "changes_requested":
		word = "changes requested"
	case r.State == "draft":
	case r.Checks == "pending":
		word = "checks pending"
	case r.Review == "approved":
		word = "approved"
	case r.Checks == "passed":
		word = "checks passed"
	}
	return cmp.Or(reconcile.PullName(r.URL), r.URL) + " " + word
}
