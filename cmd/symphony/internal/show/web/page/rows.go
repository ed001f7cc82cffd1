package page

import (
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// pageRows is the number of rows on a page that shows only a list.
const pageRows = 100

// list is some rows of the same status.
type list struct {
	Status   view.Status // empty for rows of several
	Rows     []view.Row
	More     int    // how many further rows there are
	Next     string // the address of further rows
	Previous string
	Several  bool // the page shows several projects
	MayAct   bool
}

// Form returns the commands of an operator about the issue of a row.
func (l list) Form(r view.Row) IssueForm {
	return Forms{Project: r.Project, MayAct: l.MayAct}.RowForm(r)
}

// tab is a choice of the list.
type tab struct {
	Name    string
	Address string
	Count   int
	Current bool
}

// titleOf is a status as a heading.
func titleOf(s view.Status) string { return sentence(s.Label()) }

// rowOutcome is the outcome of an ended run; empty for other rows.
func rowOutcome(r view.Row) reconcile.Outcome {
	run, _ := r.Entry.(view.RunRow)
	return text.OrEmpty(run.Outcome)
}

// rowText is the row's text without its outcome and its hold, which the page shows beside it.
func rowText(r view.Row) string {
	if r.HeldNext {
		return strings.TrimPrefix(r.Text, view.HeldNextText+"; ")
	}
	if run, ended := r.Entry.(view.RunRow); ended {
		outcome, reason := run.Ending()
		if outcome == string(rowOutcome(r)) {
			return reason
		}
	}
	return r.Text
}

// rowWords is the row's text if the agent said it; empty for other texts. A command is no
// Markdown.
func rowWords(r view.Row) string {
	run, _ := r.Entry.(view.RunningRow)
	if run.Activity == "" || strings.TrimSpace(run.LastMessage) != run.Activity || rowText(r) != run.Activity {
		return ""
	}
	return run.Activity
}

// rowRun is the id of an ended run, of which an issue can have several; empty for other rows.
func rowRun(r view.Row) string {
	run, _ := r.Entry.(view.RunRow)
	return run.RunID
}
