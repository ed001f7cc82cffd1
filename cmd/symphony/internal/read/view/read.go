package view

import (
	"cmp"
	"context"
	"slices"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/claims"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Options say how much of an overview to read.
type Options struct {
	All    bool              // also skipped candidates, ended runs, the health and the results
	List   bool              // with All, without the health and the results
	Alerts bool              // nothing but the schedule, the block and the requests
	Health bool              // the health, also without All
	Team   bool              // the claims of other machines
	Ended  int               // how many ended runs; 0: the usual number
	Search state.Search      // which ended runs
	Issues []string          // identifiers or ids to confine the rows to; empty for all
	Name   string            // of the project; empty for the name of its folder
	Cache  *state.ClaimCache // of claims, for readers that stay; nil for none
}

// Read reads the overview of a project.
func Read(ctx context.Context, p *wiring.Project, o Options) (Overview, error) {
	f := Facts{Project: p, Name: o.Name, Now: p.Env.Now().UTC()}
	if err := f.Open(ctx); err != nil {
		return Overview{}, err
	}
	defer f.DB.Close()
	if o.Alerts {
		return f.alerts(ctx)
	}
	err := f.confine(ctx, o.Issues)
	if err != nil {
		return Overview{}, err
	}
	f.Recorded, err = f.DB.Views.State(ctx, o.Cache)
	if err != nil {
		return Overview{}, err
	}
	f.lastPlaces, err = f.DB.Views.LastPlaces(ctx)
	if err != nil {
		return Overview{}, err
	}
	if err := f.Read(ctx); err != nil {
		return Overview{}, err
	}
	kept, err := f.KeptRows(ctx)
	if err != nil {
		return Overview{}, err
	}
	v := f.project()
	v.Claims = f.Claims()
	v.Kept = kept
	v.Requests = f.requestRows()
	v.Issues = o.Issues
	v.claims = text.Filter(f.Recorded.Claims, func(c reconcile.Claim) bool { return f.wants(c.IssueID) })
	v.Totals = f.totals()
	v.nameRequests()
	v.Blocked = v.blockedSessions()
	if err := v.addHistory(ctx, &f, o); err != nil {
		return v, err
	}
	if err := v.addWatched(ctx, &f); err != nil {
		return v, err
	}
	if err := v.addReviews(ctx, &f); err != nil {
		return v, err
	}
	if o.Team && f.Config != nil {
		v.Team, err = claims.Stored(ctx, p, f.Config, f.DB)
		if err != nil {
			return v, err
		}
	}
	v.SetObstacles(f.ConfigErr)
	v.listsReviews = o.All || len(o.Issues) > 0
	v.count()
	v.Rows = v.rows()
	return v, ctx.Err()
}

// requestRows are the rows of the open requests of the wanted issues.
func (f *Facts) requestRows() []RequestRow {
	wanted := text.Filter(f.Requests, func(r reconcile.Request) bool { return f.wants(r.IssueID) })
	return text.Map(wanted, f.RequestRow)
}

// totals are the usage of the agents' runs that are stored with the claims.
func (f *Facts) totals() (sum Totals) {
	for _, r := range f.Recorded.Runs {
		if r.Kind == reconcile.AgentRun {
			sum.Add(r, f.Now)
		}
	}
	return sum
}

// nameRequests gives the requests the titles and addresses of their issues.
func (v *Overview) nameRequests() {
	for i := range v.Requests {
		request := &v.Requests[i]
		run := text.First(v.Running, func(run RunningRow) bool { return run.RunID == request.RunID })
		request.IssueURL = run.IssueURL
		request.Title = run.Title
	}
}

// alerts reads the overview of Options.Alerts.
func (f *Facts) alerts(ctx context.Context) (Overview, error) {
	var err error
	f.Recorded, err = f.DB.Views.Settings(ctx)
	if err != nil {
		return Overview{}, err
	}
	if err := f.readAlerts(ctx); err != nil {
		return Overview{}, err
	}
	v := f.project()
	v.Requests = text.Map(f.Requests, f.RequestRow)
	v.SetObstacles(f.ConfigErr)
	return v, nil
}

// confine confines the rows to issues, given by identifiers or ids.
func (f *Facts) confine(ctx context.Context, refs []string) error {
	for _, ref := range refs {
		id, _, known, err := f.DB.Views.FindIssue(ctx, ref)
		if err != nil {
			return err
		}
		if !known {
			const where = "it is neither claimed nor skipped, and has had no run"
			return wiring.UnknownIssue(ctx, f.DB, ref, where)
		}
		f.Only = append(f.Only, id)
	}
	return nil
}

// addHistory adds the last passes and runs, their usage and results, and the parts that
// Options ask for.
func (v *Overview) addHistory(ctx context.Context, f *Facts, o Options) error {
	var err error
	v.RateLimits, err = f.DB.Views.RateLimits(ctx)
	if err != nil {
		return err
	}
	if o.All && !o.List || o.Health {
		v.Health, err = f.health(ctx)
		if err != nil {
			return err
		}
	}
	if err := v.addTotals(ctx, f); err != nil {
		return err
	}
	if err := v.addSkips(ctx, f, o); err != nil {
		return err
	}
	if err := v.addPullRequests(ctx, f); err != nil {
		return err
	}
	if !o.All {
		return nil
	}
	v.Ended, err = f.ended(ctx, o)
	if err != nil || o.List {
		return err
	}
	v.Results, err = f.results(ctx)
	return err
}

// addTotals adds the usage of settled runs.
func (v *Overview) addTotals(ctx context.Context, f *Facts) error {
	totals, err := f.DB.Runs.Totals(ctx)
	if err != nil {
		return err
	}
	v.Totals.Tokens = Tokens(reconcile.Tokens(v.Totals.Tokens).Plus(totals.Tokens))
	v.Totals.Seconds += totals.Runtime.Seconds()
	return nil
}

// addSkips adds the candidates that the last pass did not start, as far as they are not
// claimed since, and the places in the queue.
func (v *Overview) addSkips(ctx context.Context, f *Facts, o Options) error {
	skipped, err := f.DB.Views.Skips(ctx)
	if err != nil {
		return err
	}
	claimed := map[string]reconcile.Claim{}
	for _, c := range f.Recorded.Claims {
		claimed[c.IssueID] = c
	}
	v.places = placesOf(skipped, claimed)
	rows := []SkippedRow{}
	for _, s := range skipped {
		_, is := claimed[s.IssueID]
		if is || !f.wants(s.IssueID) {
			continue
		}
		s.Place = v.places[s.IssueID]
		row := SkippedRow{f.Name, s}
		rows = append(rows, row)
		switch {
		case s.Reason == reconcile.SkipUnsavedWork: // Kept lists it
		case s.Stuck():
			v.stuck = append(v.stuck, row)
		default:
			v.skips = append(v.skips, s.Skip)
		}
	}
	slices.SortFunc(rows, func(a, b SkippedRow) int { return text.CompareNatural(a.Identifier, b.Identifier) })
	if o.All || len(o.Issues) > 0 {
		v.Skipped = rows
		v.stuck = nil
	}
	return nil
}

// addPullRequests adds the pull requests of the issues, the latest seen first.
func (v *Overview) addPullRequests(ctx context.Context, f *Facts) error {
	pulls, err := f.DB.Views.PullRequests(ctx)
	if err != nil {
		return err
	}
	v.PullRequests = []PullRequestRow{}
	for _, p := range pulls {
		if f.wants(p.IssueID) {
			v.PullRequests = append(v.PullRequests, PullRequestRow{f.Name, p})
		}
	}
	slices.SortFunc(v.PullRequests, func(a, b PullRequestRow) int {
		return cmp.Or(b.SeenAt.Compare(a.SeenAt), text.CompareNatural(a.Identifier, b.Identifier))
	})
	return nil
}

// ended returns the rows of the ended runs for which Options ask, the newest first.
func (f *Facts) ended(ctx context.Context, o Options) ([]RunRow, error) {
	search := o.Search
	// Each row starts with the name of the project and the status; the database need not find
	// these.
	row := Row{Project: f.Name, Status: StatusEnded}
	search.Words = text.Filter(search.Words, func(word string) bool { return !row.Has(word) })
	runs, err := f.DB.Runs.Ended(ctx, f.Only, search, cmp.Or(o.Ended, wiring.PastRuns))
	if err != nil {
		return nil, err
	}
	return text.Map(runs, func(r state.FoundRun) RunRow {
		row := f.RunRow(r.Run)
		row.found = r.Found
		return row
	}), nil
}

// placesOf numbers the issues that still wait for a slot in the order of the stored queue, by
// their ids.
func placesOf(skipped []state.StoredSkip, claimed map[string]reconcile.Claim) map[string]int {
	queue := slices.DeleteFunc(slices.Clone(skipped), func(s state.StoredSkip) bool {
		c, is := claimed[s.IssueID]
		return s.Place == 0 || is && c.OwnStatus() != reconcile.StatusQueued
	})
	slices.SortFunc(queue, func(a, b state.StoredSkip) int { return cmp.Compare(a.Place, b.Place) })
	places := map[string]int{}
	for i, s := range queue {
		places[s.IssueID] = i + 1
	}
	return places
}
