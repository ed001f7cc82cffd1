package report

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Query chooses results of projects.
type Query struct {
	state.ResultFilter
	Project string // a name; empty for all
}

// Limits of a list of results: what it has without a limit, and at most.
const (
	usualLimit = 100
	mostLimit  = 1000
)

// ParseQuery reads the query of an address: text, label and outcome, each of which may be
// repeated, project, since, until, from and limit. Days are those of the zone of now.
func ParseQuery(values url.Values, now time.Time) (q Query, err error) {
	given := func(key string) (list []string) {
		for _, v := range values[key] {
			if v = strings.TrimSpace(v); v != "" {
				list = append(list, v)
			}
		}
		return list
	}
	q = Query{Project: values.Get("project"), ResultFilter: state.ResultFilter{
		Search:   state.Search{Texts: append(given("q"), given("text")...), Labels: given("label")},
		Outcomes: given("outcome"),
		Limit:    usualLimit,
	}}
	for _, o := range q.Outcomes {
		if !slices.Contains(state.ResultOutcomes, o) {
			return q, exit.Usage("unknown outcome %q%s (outcomes: %s)", o,
				text.DidYouMean(o, state.ResultOutcomes, "%q"), strings.Join(state.ResultOutcomes, ", "))
		}
	}
	for key, at := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		if s := strings.TrimSpace(values.Get(key)); s != "" {
			if *at, err = ParseTime("results", key, s, now, map[string]int{"until": 1}[key]); err != nil {
				return q, err
			}
		}
	}
	for key, n := range map[string]*int{"from": &q.From, "limit": &q.Limit} {
		if s := values.Get(key); s != "" {
			if *n, err = strconv.Atoi(s); err != nil || *n < 0 || key == "limit" && *n > mostLimit {
				return q, exit.Usage(
					"results: %s must be a whole number that is not negative (limit: at most %d), not %q",
					key,
					mostLimit,
					s,
				)
			}
		}
	}
	return q, nil
}

// ResultList are some of the results that match a query, the latest first.
type ResultList struct {
	GeneratedAt time.Time `json:"generated_at"`
	Total       int       `json:"total"` // how many match
	From        int       `json:"from"`  // the number of the first one here
	// that of the first one after these; null if there are no more
	Next *int `json:"next"`
	// Counts are the numbers of results by outcome, whatever outcomes the query names. A
	// merged result is handed over, too.
	Counts  map[string]int `json:"counts"`
	Results []ResultRow    `json:"results"`
	// Unreadable are the projects of several that can't be read. Their results are missing
	// here.
	Unreadable []UnreadableProject `json:"unreadable"`
}

// UnreadableProject is a project that can't be read, and why.
type UnreadableProject struct {
	Project string           `json:"project"` // its name
	Error   *reconcile.Error `json:"error"`
}

// ResultRow is what the work on an issue came to.
type ResultRow struct {
	Project string `json:"project"`
	state.Result
	Seconds float64 `json:"seconds_running"`
	view.Spent
}

// List reads the results of projects. Of several projects, one without a pass has none, and
// one that can't be read is named in the list.
func List(ctx context.Context, projects []view.Named, q Query) (ResultList, error) {
	r := ResultList{
		From:       q.From,
		Counts:     map[string]int{},
		Results:    []ResultRow{},
		Unreadable: []UnreadableProject{},
	}
	for _, o := range state.ResultOutcomes {
		r.Counts[o] = 0
	}
	from := q.From
	limit := q.Limit
	if len(projects) > 1 { // the first ones of all may be those of one project
		q.From = 0
		q.Limit = from + limit
	}
	for _, p := range projects {
		r.GeneratedAt = p.Env.Now().UTC()
		f := view.Facts{Project: p.Project, Name: p.Name, Now: r.GeneratedAt}
		err := f.Open(ctx)
		if err == nil {
			err = r.add(ctx, &f, q.ResultFilter)
		}
		switch {
		case err == nil:
		case len(projects) == 1:
			return r, err
		case ctx.Err() != nil:
			return r, ctx.Err()
		case exit.From(err).Code != "no_state":
			r.Unreadable = append(r.Unreadable, UnreadableProject{p.Name, exit.From(err)})
		}
	}
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

// add adds the results of a project, whose database it closes.
func (r *ResultList) add(ctx context.Context, f *view.Facts, filter state.ResultFilter) error {
	defer f.DB.Close()
	found, err := f.DB.Views.FindResults(ctx, filter)
	if err != nil {
		return err
	}
	var prices reconcile.Prices
	if cfg, invalid := f.Project.ConfigWithoutKey(); invalid == nil {
		prices = cfg.Agent.Prices
	}
	r.Total += found.Total
	for outcome, n := range found.Counts {
		r.Counts[outcome] += n
	}
	for _, one := range found.List {
		sortLinks(one.Links)
		r.Results = append(
			r.Results,
			ResultRow{f.Name, one, one.Runtime.Seconds(), view.Spend(prices, one.Models...)},
		)
	}
	return nil
}
