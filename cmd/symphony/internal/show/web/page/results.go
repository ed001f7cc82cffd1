package page

import (
	"cmp"
	"html/template"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/obstacle"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/report"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Results is the page of the results.
type Results struct {
	Choice   ResultChoice
	Found    report.ResultList
	Projects []string // the names of all
	Labels   []string // of all results
}

// resultsTemplate is the template of the page.
var resultsTemplate = sync.OnceValue(func() *template.Template {
	return parse(template.FuncMap{
		"pullOf": pullOf,
	}, "results.html")
})

// Page draws it.
func (r Results) Page() Page {
	return Page{Title: "Results", Query: r.Choice.Query, Main: markup(resultsTemplate(), "results.html", r)}
}

// LastDays is the address of the results of so many days, today among them.
func (r Results) LastDays(days int) string {
	first := r.Found.GeneratedAt.AddDate(0, 0, 1-days).Format(time.DateOnly)
	return r.Choice.With("since", first, "until", "")
}

// LastWeek is the address of the results of the last whole week, which begins on a Monday.
func (r Results) LastWeek() string {
	today := r.Found.GeneratedAt
	sinceMonday := (int(today.Weekday()) + 6) % 7 // days; Sunday is 0 to Go
	monday := today.AddDate(0, 0, -sinceMonday-7)
	return r.Choice.With("since", monday.Format(time.DateOnly), "until", monday.AddDate(0, 0, 6).Format(time.DateOnly))
}

// LabelChoices are the labels by which a reader can choose, and the chosen label.
func (r Results) LabelChoices() []string {
	list := slices.Clone(r.Labels)
	if r.Choice.Label != "" && !slices.Contains(list, r.Choice.Label) {
		list = append(list, r.Choice.Label)
	}
	return list
}

// Chosen reports whether the reader chose anything but an outcome.
func (r Results) Chosen() bool {
	c := r.Choice
	c.Outcome = ""
	c.By = ""
	return c != ResultChoice{}
}

// Sums choose how the sums are grouped.
func (r Results) Sums() []tab {
	tabs := []tab{{Name: "All", Address: r.Choice.With("by", ""), Current: r.Choice.By == ""}}
	for _, by := range report.Groupings {
		if by == report.ByProject && len(r.Projects) < 2 {
			continue
		}
		tabs = append(tabs, tab{Name: "By " + by, Address: r.Choice.With("by", by), Current: r.Choice.By == by})
	}
	return tabs
}

// GroupName is the name of a group on the page.
func (r Results) GroupName(g report.ResultGroup) string {
	if r.Choice.By == report.ByDay {
		return dayOf(g.Name)
	}
	return cmp.Or(text.Visible(g.Name), "not known any more")
}

// GroupAddress is the address of the results of a group; empty for an agent, by which no result
// can be chosen.
func (r Results) GroupAddress(g report.ResultGroup) string {
	switch r.Choice.By {
	case report.ByDay:
		return r.Choice.With("since", g.Name, "until", g.Name, "by", "")
	case report.ByProject:
		return r.Choice.With("project", g.Name, "by", "")
	default:
		return ""
	}
}

// Unreadable are notices about the projects that can't be read.
func (r Results) Unreadable() []notice {
	return text.Map(r.Found.Unreadable, func(p report.UnreadableProject) notice {
		n := newNotice(obstacle.NewUnreadable(*p.Error), time.Time{})
		n.Project = p.Project
		return n
	})
}

// Tabs choose an outcome.
func (r Results) Tabs() []tab {
	all := 0
	for _, o := range state.ResultOutcomes {
		if o != state.ResultMerged { // it is handed over, too
			all += r.Found.Counts[o]
		}
	}
	tabs := []tab{{
		Name:    "All",
		Address: r.Choice.With("outcome", ""),
		Count:   all,
		Current: r.Choice.Outcome == "",
	}}
	for _, o := range state.ResultOutcomes {
		tabs = append(tabs, tab{
			Name:    sentence(inWords(o)),
			Address: r.Choice.With("outcome", o),
			Count:   r.Found.Counts[o],
			Current: r.Choice.Outcome == o,
		})
	}
	return tabs
}

// First is the number of the first row on the page, from 1 on.
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

// pull is a pull request in a row: its address, its name, and its known state.
type pull struct{ URL, Name, Text string }

// pullOf returns the pull request of a result, or the address that an agent linked as its pull
// request; nil without either.
func pullOf(r report.ResultRow) *pull {
	if p := r.PullRequest; p != nil {
		word := p.State
		if p.Checks != "" {
			word += ", checks " + p.Checks
		}
		if p.Merge != "" {
			word += ", " + p.Merge
		}
		return &pull{URL: p.URL, Name: pullName(p.URL), Text: word}
	}
	for _, l := range r.Links {
		if l.Kind == "pull_request" {
			return &pull{URL: l.URL, Name: pullName(l.URL)}
		}
	}
	return nil
}

// pullName is the short name of a pull request, or else the end of its address.
func pullName(address string) string {
	return cmp.Or(reconcile.PullName(address), path.Base(address))
}

// PullsTitle is the title of the column of pull requests.
func (r Results) PullsTitle() string {
	var addresses []string
	for _, row := range r.Found.Results {
		if p := pullOf(row); p != nil {
			addresses = append(addresses, p.URL)
		}
	}
	return reconcile.PullWordsOf(addresses...).Title()
}

// ResultChoice is the choice of a reader of the results: the query of the address as it was
// written, without the first row.
type ResultChoice struct {
	Query   string
	Outcome string // such as handed_over
	Label   string
	Project string
	Since   string // a day, such as 2026-01-31
	Until   string // a day
	By      string // how the sums are grouped: project, agent or day
}

// NewResultChoice reads the query of an address.
func NewResultChoice(q url.Values) ResultChoice {
	given := func(key string) string { return strings.TrimSpace(q.Get(key)) }
	return ResultChoice{
		Query:   given("q"),
		Outcome: given("outcome"),
		Label:   given("label"),
		Project: given("project"),
		Since:   given("since"),
		Until:   given("until"),
		By:      given("by"),
	}
}

// With is the address of the results with this choice, but other values of some keys.
func (c ResultChoice) With(pairs ...string) string {
	chosen := []string{
		"q", c.Query,
		"outcome", c.Outcome,
		"label", c.Label,
		"project", c.Project,
		"since", c.Since,
		"until", c.Until,
		"by", c.By,
	}
	return address("/results", append(chosen, pairs...)...)
}

// resultsWith is the address of the results of a project that a query finds.
func resultsWith(project, query string) string {
	return ResultChoice{Project: project, Query: query}.With()
}

// handedOver is the address of the results that a project handed over on a day.
func handedOver(project, day string) string {
	c := ResultChoice{Project: project, Outcome: state.ResultHandedOver, Since: day, Until: day}
	return c.With()
}
