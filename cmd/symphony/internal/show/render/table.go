package render

import (
	"cmp"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// The columns of the table of issues.
const (
	columnIssue = iota
	columnStatus
	columnProject
	columnTitle
	columnPull
	columnTime
	columnTokens
	columnNow
)

// Rows makes a table of issues, with a column for the name of the project if projects is set.
func Rows(now time.Time, rows []view.Row, projects bool) term.Table {
	t := term.Table{
		Head:     []string{"ISSUE", "STATUS", "PROJECT", "TITLE", pullWordsOf(rows).Short, "TIME", "TOKENS", "NOW"},
		State:    columnStatus,
		Figures:  []int{columnTime, columnTokens},
		Optional: []int{columnProject, columnTitle, columnPull},
		Shrink: []term.Shrink{
			{Column: columnTitle, Cells: 60},
			{Column: columnNow, Cells: 44},
			{Column: columnTitle, Cells: 40},
			{Column: columnNow, Cells: 26},
			{Column: columnTitle, Cells: 28},
			{Column: columnTokens},
			{Column: columnProject, Cells: 8},
			{Column: columnNow, Cells: 18},
			{Column: columnPull},
			{Column: columnTitle, Cells: 16},
			{Column: columnNow, Cells: 12},
			{Column: columnTitle, Cells: 8},
			{Column: columnTitle},
			{Column: columnNow, Cells: 1},
			{Column: columnProject},
		},
	}
	for _, r := range rows {
		cells := make([]string, len(t.Head))
		links := make([]string, len(t.Head))
		cells[columnIssue] = r.Identifier
		links[columnIssue] = text.OrEmpty(r.URL)
		cells[columnStatus] = r.Label()
		cells[columnTitle] = r.Title
		cells[columnNow] = cmp.Or(r.Brief, r.Text)
		if r.Status == reconcile.StatusRunning && r.LastSign != nil && now.Sub(*r.LastSign) >= time.Minute {
			cells[columnNow] += ", " + text.Age(now, *r.LastSign) + " ago"
		}
		if projects {
			cells[columnProject] = r.Project
		}
		if r.PullRequest != nil {
			cells[columnPull] = cmp.Or(reconcile.PullName(*r.PullRequest), "yes")
			links[columnPull] = *r.PullRequest
		}
		cells[columnTime] = rowTime(now, r)
		if r.Tokens > 0 {
			cells[columnTokens] = text.Count(r.Tokens)
		}
		t.AddIn(statusColours[r.Status], cells...)
		t.Links = append(t.Links, links)
	}
	return t
}

// statusColours maps each status to its colour: red if it needs a person.
var statusColours = map[view.Status]string{
	reconcile.StatusNeedsAnswer: term.ColourStuck,
	reconcile.StatusNeedsHelp:   term.ColourStuck,
	reconcile.StatusHeld:        term.ColourStuck,
	view.StatusStuck:            term.ColourStuck,
	reconcile.StatusUndelivered: term.ColourStuck,
	view.StatusKept:             term.ColourStuck,
	reconcile.StatusRunning:     term.ColourRuns,
	reconcile.StatusQueued:      term.ColourWaits,
	reconcile.StatusBlocked:     term.ColourWaits,
	reconcile.StatusWaiting:     term.ColourWaits,
	reconcile.StatusSkipped:     term.ColourWaits,
	reconcile.StatusHandedOver:  term.ColourWaits,
	view.StatusEnded:            term.ColourOver,
	detail.StatusReady:          term.ColourRuns,
	detail.StatusReleased:       term.ColourWaits,
}

// pullWordsOf returns what people call the pull requests of these rows.
func pullWordsOf(rows []view.Row) reconcile.PullWords {
	var addresses []string
	for _, r := range rows {
		if r.PullRequest != nil {
			addresses = append(addresses, *r.PullRequest)
		}
	}
	return reconcile.PullWordsOf(addresses...)
}

// rowTime is the beginning of the row's status; of a claim that waits, when it goes on.
func rowTime(now time.Time, r view.Row) string {
	waits := r.Status == reconcile.StatusWaiting || r.Status == reconcile.StatusQueued
	switch {
	case r.At == nil:
		return ""
	case !r.Claimed || !waits:
		return text.Age(now, *r.At)
	case !r.At.After(now):
		return "due"
	}
	return "in " + text.Duration(r.At.Sub(now))
}
