package render

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/report"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// The places of columns in the table of results.
const (
	resultRuns    = 5 // the first of five figures
	resultCommits = 9
	resultLookAt  = 10
	resultWords   = 11
)

// resultTable is the table of results; with several projects the last column names them. On a
// narrow terminal the last words give way first, then the title.
func resultTable(w *term.Env, r report.ResultList, withProjects bool) term.Table {
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
	for _, row := range r.Results {
		cells, address := resultCells(w, r.GeneratedAt, row)
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
func resultCells(w *term.Env, now time.Time, row report.ResultRow) (cells []string, address string) {
	shown, address := lookAt(w, row)
	cells = []string{
		row.Identifier,
		row.Outcome,
		row.Title,
		strings.Join(row.Labels, ","),
		term.AgoText(w, now, row.At),
		strconv.Itoa(row.Runs),
		secondsText(w, row.Seconds),
		countText(w, row.Tokens.Total),
		costText(row.Cost),
		strconv.Itoa(row.Commits),
		shown,
		text.OneLine(cmp.Or(row.Message, row.Words)),
	}
	return cells, address
}

// lookAt is where the work on an issue can be seen: its pull request, the links that its
// agents left, or else the issue itself.
func lookAt(w *term.Env, r report.ResultRow) (shown, address string) {
	if w.Piped() {
		if pull := r.PullRequest; pull != nil {
			return pull.URL + " (" + pullRequestState(pull.PullRequest) + ")", ""
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
