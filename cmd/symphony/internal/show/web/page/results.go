package page

import (
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/report"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/state"
)

// ResultChoice is what a reader of the results has chosen: the query of the address as it was
// written, without the first row.
type ResultChoice struct{ Query, Outcome, Label, Project, Since, Until string }

// NewResultChoice reads the query of an address.
func NewResultChoice(q url.Values) ResultChoice {
	given := func(key string) string { return strings.TrimSpace(q.Get(key)) }
	return ResultChoice{
		given("q"),
		given("outcome"),
		given("label"),
		given("project"),
		given("since"),
		given("until"),
	}
}

// With is the address of the results with this choice, but other values of some keys.
func (c ResultChoice) With(pairs ...string) string {
	chosen := []string{
		"q",
		c.Query,
		"outcome",
		c.Outcome,
		"label",
		c.Label,
		"project",
		c.Project,
		"since",
		c.Since,
		"until",
		c.Until,
	}
	return address("/results", append(chosen, pairs...)...)
}

// LastDays is the address of the results of so many days, today among them.
func (r Results) LastDays(days int) string {
	return r.Choice.With(
		"since",
		r.Found.GeneratedAt.AddDate(0, 0, 1-days).Format(time.DateOnly),
		"until",
		"",
	)
}

// Results is the page of the results.
type Results struct {
	Choice   ResultChoice
	Found    report.ResultList
	Projects []string // the names of all
}

// mostSaid is how many bytes of an agent's last words a row shows.
const mostSaid = 400

// Page draws it.
func (r Results) Page() Page {
	return Page{Title: "Results", Query: r.Choice.Query, Main: mainOf("results.html", r)}
}

// Unreadable are notices about the projects that can't be read.
func (r Results) Unreadable() (list []obstacle) {
	for _, p := range r.Found.Unreadable {
		v := view.Overview{Project: view.ProjectRow{Name: p.Project}, Error: p.Error}
		list = append(list, obstaclesOf(v, Forms{Project: p.Project}, true)...)
	}
	return list
}

// Tabs choose an outcome.
func (r Results) Tabs() []tab {
	all := 0
	for _, o := range state.ResultOutcomes {
		if o != state.ResultMerged { // it is handed over, too
			all += r.Found.Counts[o]
		}
	}
	tabs := []tab{{"All", r.Choice.With("outcome", ""), all, r.Choice.Outcome == ""}}
	for _, o := range state.ResultOutcomes {
		tabs = append(
			tabs,
			tab{
				sentence(strings.ReplaceAll(o, "_", " ")),
				r.Choice.With("outcome", o),
				r.Found.Counts[o],
				r.Choice.Outcome == o,
			},
		)
	}
	return tabs
}

// First and Last are the numbers of the rows on the page, from 1 on.
func (r Results) First() int { return min(r.Found.From+1, r.Found.Total) }

// Last is the number of the last row.
func (r Results) Last() int { return r.Found.From + len(r.Found.Results) }

// Previous is the address of the rows before these; empty if there are none.
func (r Results) Previous() string {
	if r.Found.From == 0 {
		return ""
	}
	return r.Choice.With("from", rowNumber(max(r.Found.From-pageRows, 0)))
}

// Next is the address of the rows after these; empty if there are none.
func (r Results) Next() string {
	if r.Found.Next == nil {
		return ""
	}
	return r.Choice.With("from", rowNumber(*r.Found.Next))
}

// pull is a pull request in a row: its address, its name, and what is known of it.
type pull struct{ URL, Name, Text string }

// pullOf returns the pull request of a result, or what an agent has linked as one; nil without
// either.
func pullOf(r report.ResultRow) *pull {
	if p := r.PullRequest; p != nil {
		word := p.State
		if p.Checks != "" {
			word += ", checks " + p.Checks
		}
		return &pull{p.URL, "#" + path.Base(p.URL), word}
	}
	for _, l := range r.Links {
		if l.Kind == "pull_request" {
			return &pull{l.URL, "#" + path.Base(l.URL), ""}
		}
	}
	return nil
}
