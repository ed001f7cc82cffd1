// Package report lists the results of issues in a period, and sums up what they used.
package report

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

// Query chooses results of projects.
type Query struct {
	state.ResultFilter
	Project string // a name; empty for all
	By      string // how sums are grouped: one of Groupings; empty for the whole sum
}

// ByIssue asks for the results alone, as an empty Query.By does.
const ByIssue = "issue"

// The values of Query.By.
const (
	ByProject = "project"
	ByAgent   = "agent"
	ByDay     = "day"
)

// Groupings are the values of Query.By in the order in which views name them.
var Groupings = []string{ByProject, ByAgent, ByDay}

// The length of a list of results: by default, and at most.
const (
	usualLimit = 100
	mostLimit  = 1000

	mostFrom = 1_000_000_000 // so that the number of the last result is a number, too
)

// ParseQuery reads the query of an address: text, label and outcome, each of which may be
// repeated, project, by, since, until, from and limit. Days are days in the zone of now.
func ParseQuery(values url.Values, now time.Time) (Query, error) {
	q := Query{
		Project: values.Get("project"),
		By:      values.Get("by"),
		ResultFilter: state.ResultFilter{
			Search: state.Search{
				Texts:  append(given(values, "q"), given(values, "text")...),
				Labels: given(values, "label"),
			},
			Outcomes: given(values, "outcome"),
			Limit:    usualLimit,
		},
	}
	for _, o := range q.Outcomes {
		if !slices.Contains(state.ResultOutcomes, o) {
			return q, exit.Usage("unknown outcome %q, %s", o, suggest.Instead(o, state.ResultOutcomes))
		}
	}
	if q.By == ByIssue {
		q.By = ""
	}
	if q.By != "" && !slices.Contains(Groupings, q.By) {
		return q, exit.Usage("by must be issue, project, agent or day, not %q", q.By)
	}
	var err error
	if since := strings.TrimSpace(values.Get("since")); since != "" {
		q.Since, err = ParseTime("results", "since", since, now, 0)
		if err != nil {
			return q, err
		}
	}
	if until := strings.TrimSpace(values.Get("until")); until != "" {
		q.Until, err = ParseTime("results", "until", until, now, 1) // the whole day
		if err != nil {
			return q, err
		}
	}
	if from := values.Get("from"); from != "" {
		q.From, err = strconv.Atoi(from)
		if err != nil || q.From < 0 || q.From > mostFrom {
			return q, exit.Usage("results: from must be a whole number from 0 to %d, not %q", mostFrom, from)
		}
	}
	if limit := values.Get("limit"); limit != "" {
		q.Limit, err = strconv.Atoi(limit)
		if err != nil || q.Limit < 1 || q.Limit > mostLimit {
			return q, exit.Usage("results: limit must be a whole number from 1 to %d, not %q", mostLimit, limit)
		}
	}
	return q, nil
}

// given returns the values of a key that are not blank.
func given(values url.Values, key string) (list []string) {
	for _, v := range values[key] {
		v = strings.TrimSpace(v)
		if v != "" {
			list = append(list, v)
		}
	}
	return list
}

// ResultList are some of the results that match a query, the latest first.
type ResultList struct {
	GeneratedAt time.Time `json:"generated_at"`
	Total       int       `json:"total"` // how many match
	From        int       `json:"from"`  // the number of the first result here
	// the number of the next result after these; null if there are no more
	Next *int `json:"next"`
	// Counts are the numbers of results by outcome, whatever outcomes the query names. A
	// merged result is handed over, too.
	Counts  map[string]int `json:"counts"`
	Results []ResultRow    `json:"results"`
	// Totals are the sums of all results that match, also of those that are not here.
	Totals ResultSum `json:"totals"`
	// Groups are the sums by project, agent or day, as the query asks; empty without that.
	Groups []ResultGroup `json:"groups"`
	// Unreadable are the projects of several that can't be read. Their results are missing
	// here.
	Unreadable []UnreadableProject `json:"unreadable"`

	// Warnings explain why there are no estimates of money.
	Warnings []string `json:"-"`
}

// UnreadableProject is a project that can't be read, and why.
type UnreadableProject struct {
	Project string           `json:"project"` // its name
	Error   *reconcile.Error `json:"error"`
}

// ResultRow is the result of the work on an issue.
type ResultRow struct {
	Project string `json:"project"`
	state.Result
	Seconds float64 `json:"seconds_running"`
	view.Spent
}

// ResultSum is the sum of several results.
type ResultSum struct {
	Issues  int     `json:"issues"`
	Results int     `json:"results"` // an issue may have several
	Seconds float64 `json:"seconds_running"`
	view.Spent
}

// ResultGroup is the sum of the results of a project, of an agent, or of a day of UTC. A result
// belongs to the agent of its last run, and to the day on which it came about.
type ResultGroup struct {
	Name string `json:"name"` // empty for results whose agent is not known any more
	ResultSum
}

// List reads the results of projects. Among several projects, a project without a pass
// contributes none, and a project that can't be read is named in the list.
func List(ctx context.Context, projects []view.Named, q Query) (ResultList, error) {
	r := ResultList{
		From:       q.From,
		Counts:     map[string]int{},
		Results:    []ResultRow{},
		Groups:     []ResultGroup{},
		Unreadable: []UnreadableProject{},
	}
	sums := resultSums{by: q.By, groups: map[string]*countedSum{}}
	for _, o := range state.ResultOutcomes {
		r.Counts[o] = 0
	}
	from := q.From
	limit := q.Limit
	if len(projects) > 1 { // all that are wanted may be in the same project
		q.From = 0
		q.Limit = from + limit
	}
	for _, p := range projects {
		r.GeneratedAt = p.Env.Now().UTC()
		err := r.add(ctx, p, q.ResultFilter, &sums)
		if err == nil {
			continue
		}
		if len(projects) == 1 {
			return r, err
		}
		if ctx.Err() != nil {
			return r, fmt.Errorf("read the results of %s: %w", p.Name, ctx.Err())
		}
		if problem := exit.From(err); problem.Code != "no_state" {
			r.Unreadable = append(r.Unreadable, UnreadableProject{p.Name, problem})
		}
	}
	r.Totals = sums.all.ResultSum
	r.Groups = append(r.Groups, sums.sorted()...)
	if len(projects) > 1 {
		slices.SortStableFunc(r.Results, func(a, b ResultRow) int { return b.At.Compare(a.At) })
		r.Results = r.Results[min(from, len(r.Results)):]
		r.Results = r.Results[:min(limit, len(r.Results))]
	}
	if next := from + len(r.Results); next < r.Total {
		r.Next = &next
	}
	return r, nil
}

// add adds the results of a project.
func (r *ResultList) add(ctx context.Context, p view.Named, filter state.ResultFilter, sums *resultSums) error {
	f := view.Facts{Project: p.Project, Name: p.Name, Now: r.GeneratedAt}
	if err := f.Open(ctx); err != nil {
		return fmt.Errorf("open the state of %s: %w", p.Name, err)
	}
	defer f.DB.Close()
	found, err := f.DB.Views.FindResults(ctx, filter)
	if err != nil {
		return fmt.Errorf("read the results of %s: %w", p.Name, err)
	}
	var prices reconcile.Prices
	cfg, invalid := f.Project.ConfigWithoutKey()
	if invalid == nil {
		prices = cfg.Agent.Prices
	}
	for _, e := range workflow.Faults(invalid) {
		r.Warnings = append(r.Warnings, "the report has no estimates of money: "+e.Message)
	}
	for _, use := range found.Uses {
		sums.add(f.Name, use, view.Spend(prices, use.Models...))
	}
	r.Total += found.Total
	for outcome, n := range found.Counts {
		r.Counts[outcome] += n
	}
	for _, one := range found.List {
		sortLinks(one.Links)
		r.Results = append(r.Results, ResultRow{
			Project: f.Name,
			Result:  one,
			Seconds: one.Runtime.Seconds(),
			Spent:   view.Spend(prices, one.Models...),
		})
	}
	return nil
}

// Labels returns the labels by which results of projects can be chosen. A project that can't be
// read contributes none.
func Labels(ctx context.Context, projects []view.Named) ([]string, error) {
	var all []string
	for _, p := range projects {
		f := view.Facts{Project: p.Project, Name: p.Name, Now: p.Env.Now().UTC()}
		if err := f.Open(ctx); err != nil {
			continue // the list of results names it
		}
		labels, err := f.DB.Views.ResultLabels(ctx)
		f.DB.Close()
		if err != nil {
			return nil, fmt.Errorf("read the labels of %s: %w", p.Name, err)
		}
		all = append(all, labels...)
	}
	slices.SortFunc(all, text.CompareNatural)
	return slices.Compact(all), nil
}

// sortLinks puts pull requests first.
func sortLinks(links []reconcile.Link) {
	slices.SortStableFunc(links, func(a, b reconcile.Link) int { return cmp.Compare(b.Kind, a.Kind) })
}
