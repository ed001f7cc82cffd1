// Package report is what happened in a period: issues handed over, failures, outages, and what
// runs used.
package report

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

// Report is what happened in a period and, where the period reaches up to now, the present
// claims. What happened last comes first.
type Report struct {
	GeneratedAt time.Time     `json:"generated_at"`
	Since       time.Time     `json:"since"`
	Until       time.Time     `json:"until"`
	RunsSince   time.Time     `json:"runs_complete_since"` // older runs have been pruned
	HandedOver  []ReleasedRow `json:"handed_over"`
	// Handovers counts the issues that were handed over; null if there are none.
	Handovers *state.Handovers `json:"handovers"`
	// LetGo are issues that were released for another reason: a label, an assignee, the
	// project, a blocker.
	LetGo  []ReleasedRow     `json:"let_go"`
	Failed []state.FailedRow `json:"failed"`
	// runs whose after_run failed; their outcomes stand
	Hooks   []state.FailedRow  `json:"failed_hooks"`
	Running []view.RunningRow  `json:"running"`
	Held    []view.HeldRow     `json:"held"`
	Waiting []view.RetryingRow `json:"waiting"`
	// Undelivered are the present claims with commits that are not pushed yet.
	Undelivered []view.UndeliveredRow `json:"undelivered"`
	Kept        []view.KeptRow        `json:"kept_workspaces"`
	Outages     []OutageRow           `json:"outages"`
	Schedule    state.ScheduleRow     `json:"schedule"`
	Totals      UseTotals             `json:"totals"`
	Issues      []IssueUse            `json:"issues"` // those that used most tokens first
	Labels      []LabelUse            `json:"labels"` // those that used most tokens first
	Days        []DayUse              `json:"days"`
	// that of today; null without agent.budget_per_day, and of a past period
	Budget *view.BudgetRow `json:"budget"`

	// Warnings explain why there are no estimates of money.
	Warnings []string `json:"-"`
}

// ReleasedRow is an issue that was released, with what it used since it was claimed.
type ReleasedRow struct {
	state.Release
	Seconds float64 `json:"seconds_running"`
	view.Spent
	// PullRequest is that of the issue's branch as the tracker described it last; null if it
	// has described none.
	PullRequest *state.PullRequest `json:"pull_request"`
}

// OutageRow is a time in which nothing could start. Until is null while it lasts.
type OutageRow struct {
	Code    string     `json:"code"`
	Message string     `json:"message"`
	Since   time.Time  `json:"since"`
	Until   *time.Time `json:"until"`
}

// Read reads the report of a period.
func Read(ctx context.Context, p *wiring.Project, period Period) (Report, error) {
	f := view.Facts{Project: p, Now: p.Env.Now().UTC()}
	if err := f.Open(ctx); err != nil {
		return Report{}, err
	}
	defer f.DB.Close()
	happened, err := f.DB.Views.Report(ctx, f.Now, period.Since, period.Until)
	kept := []view.KeptRow{}
	if err == nil && period.Present {
		if f.Recorded, err = f.DB.Store.State(ctx); err == nil {
			kept, err = f.KeptRows(ctx)
		}
	}
	if err != nil {
		return Report{}, err
	}
	cfg, invalid := f.Project.ConfigWithoutKey()
	if invalid != nil {
		cfg = &workflow.Config{}
	}
	r := newReport(happened, f.Claims(), cfg.Agent.Prices, f.Now)
	r.Kept = kept
	for _, e := range workflow.Faults(invalid) {
		r.Warnings = append(r.Warnings, "the report has no estimates of money: "+e.Message)
	}
	if invalid == nil && period.Present {
		f.Config = cfg
		if r.Budget, err = f.ReadBudget(ctx); err != nil {
			return Report{}, err
		}
		r.addAccountBlock(
			wiring.AccountBlock(wiring.OpenAccount(f.Project, cfg.Codex.Home), f.Now),
			period.Until,
		)
	}
	return r, nil
}

func newReport(s state.Report, now view.Claims, prices reconcile.Prices, at time.Time) Report {
	r := Report{
		GeneratedAt: at,
		Since:       s.Since.UTC(),
		Until:       s.Until.UTC(),
		RunsSince:   s.RunsSince.UTC(),
		Running:     now.Running,
		Held:        now.Held,
		Waiting:     now.Retrying,
		Undelivered: now.Undelivered,
		Handovers:   text.OrNull(s.Handovers),
		HandedOver:  []ReleasedRow{},
		LetGo:       []ReleasedRow{},
		Outages:     []OutageRow{},
		Issues:      []IssueUse{},
		Labels:      []LabelUse{},
		Days:        []DayUse{},
		Failed:      s.Failures,
		Hooks:       s.FailedHooks,
		Schedule:    s.Schedule,
	}
	// A run that has ended is one of the runs of the period, whether it is settled or not.
	r.Running = slices.DeleteFunc(
		r.Running,
		func(w view.RunningRow) bool { return w.Run.ID == "" || w.Run.Outcome != "" },
	)
	slices.SortStableFunc(r.Held, func(a, b view.HeldRow) int { return b.HeldAt.Compare(a.HeldAt) })
	slices.SortStableFunc(r.Waiting, func(a, b view.RetryingRow) int { return a.DueAt.Compare(b.DueAt) })
	// what has become of issues, by id; a present claim says more than an earlier release
	became := map[string]string{}
	slices.SortStableFunc(s.Releases, func(a, b state.Release) int {
		return cmp.Or(b.At.Compare(a.At), text.CompareNatural(a.Identifier, b.Identifier))
	})
	for _, released := range s.Releases {
		sortLinks(released.Links)
		row := ReleasedRow{
			Release: released,
			Seconds: released.Runtime.Seconds(),
			Spent:   view.Spend(prices, released.Models...),
		}
		if p, found := s.PullRequests[released.IssueID]; found {
			row.PullRequest = &p
		}
		if row.Reason == reconcile.StopTerminal || row.Reason == reconcile.StopInactive {
			r.HandedOver = append(r.HandedOver, row)
			became[row.IssueID] = "handed_over"
		} else {
			r.LetGo = append(r.LetGo, row)
			became[row.IssueID] = cmp.Or(became[row.IssueID], "released")
		}
	}
	for _, w := range r.Running {
		became[w.IssueID] = "running"
	}
	for _, w := range r.Waiting {
		became[w.IssueID] = string(w.Claim.IssueStatus(false, false))
	}
	for _, h := range r.Held {
		became[h.IssueID] = "held"
	}
	for _, list := range [][]state.FailedRow{r.Failed, r.Hooks} {
		for i, f := range list {
			list[i].Error = view.ErrorText(f.Code, f.Text)
			list[i].Now = text.OrNull(became[f.IssueID])
		}
	}
	r.Schedule.Missed = append([]state.Gap{}, r.Schedule.Missed...) // in JSON an empty list
	slices.Reverse(r.Schedule.Missed)
	for _, o := range slices.Backward(s.Outages) {
		r.Outages = append(r.Outages, OutageRow{o.Code, o.Message, o.Since, text.OrNull(o.Until)})
	}
	r.addUses(s.Uses, prices)
	r.addDays(s.Days, prices)
	return r
}

// sortLinks puts pull requests first.
func sortLinks(links []reconcile.Link) {
	slices.SortStableFunc(links, func(a, b reconcile.Link) int { return cmp.Compare(b.Kind, a.Kind) })
}

// addAccountBlock adds what stops all projects of the account now: another project may have
// recorded it.
func (r *Report) addAccountBlock(b *wiring.BlockedRow, until time.Time) {
	if b == nil || !b.Since.Before(until) {
		return
	}
	isOpen := func(o OutageRow) bool { return o.Code == b.Reason && o.Until == nil }
	if !slices.ContainsFunc(r.Outages, isOpen) {
		r.Outages = slices.Insert(r.Outages, 0, OutageRow{
			Code:    b.Reason,
			Message: b.Message,
			Since:   b.Since,
		})
	}
}

// usualPeriod is how far back a report reaches without --since: a night.
const usualPeriod = 12 * time.Hour

// Period is the time of a report. Since is part of it, Until is not.
type Period struct {
	Since, Until time.Time
	Present      bool // it reaches up to now, so that the present claims belong to it
}

// ParsePeriod reads --since and --until of report.
func ParsePeriod(since, until string, now time.Time) (Period, error) {
	p := Period{now.Add(-usualPeriod), now, true}
	var err error
	if until != "" {
		if p.Until, err = ParseTime("report", "until", until, now, 1); err != nil {
			return p, err
		}
		if p.Until.After(now) {
			p.Until = now
		}
		p.Since = p.Until.Add(-usualPeriod)
		p.Present = p.Until.Equal(now)
	}
	if since != "" {
		if p.Since, err = ParseTime("report", "since", since, now, 0); err != nil {
			return p, err
		}
	}
	if !p.Since.Before(p.Until) {
		return p, exit.Usage(
			"report: there is no time between %s and %s: --since must be before --until and in the past",
			text.Rfc3339(p.Since),
			text.Rfc3339(p.Until),
		)
	}
	return p, nil
}

// ParseTime reads the value of a flag: an age such as 12h or 7d, a time, or a day of the local
// clock, which stands for the beginning of the day that comes so many days after it.
func ParseTime(command, flag, text string, now time.Time, daysAfter int) (time.Time, error) {
	if age, ok := parseAge(text); ok {
		return now.Add(-age), nil
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		// time.Date also knows the zones in which a day of summer time begins at one o'clock.
		return time.Date(day.Year(), day.Month(), day.Day()+daysAfter, 0, 0, 0, 0, now.Location()), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, exit.Usage("%s: --%s needs an age such as 12h or 7d, a day such as 2026-01-31 or "+
			"a time such as 2026-01-31T18:00:00Z, not %q", command, flag, text)
	}
	return t, nil
}

// parseAge reads a duration; days are whole and at most a century, which a Duration can hold.
func parseAge(text string) (time.Duration, bool) {
	if number, isDays := strings.CutSuffix(text, "d"); isDays {
		n, err := strconv.ParseUint(number, 10, 32)
		return time.Duration(n) * 24 * time.Hour, err == nil && n <= 36500
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d >= 0
}

// Use is what runs came to.
type Use struct {
	Runs int `json:"ended_runs"`
	// runs that have not ended; what they have used so far is counted
	Running   int     `json:"running"`
	Succeeded int     `json:"succeeded"`
	Failed    int     `json:"failed"`
	Seconds   float64 `json:"seconds_running"`
	view.Spent
}

func (u *Use) add(more state.RunUse, prices reconcile.Prices) {
	u.Running += more.Running
	u.Runs = u.Runs + more.Runs
	u.Succeeded = u.Succeeded + more.Succeeded
	u.Failed = u.Failed + more.Failed
	u.Seconds += more.Runtime.Seconds()
	u.Add(more.ModelUse, prices)
}

// UseTotals is what all runs came to. Stopped runs were ended from outside.
type UseTotals struct {
	Use
	Stopped int `json:"stopped"`
	Issues  int `json:"issues"`
}

// IssueUse is what the runs of one issue came to.
type IssueUse struct {
	IssueID    string  `json:"issue_id"`
	Identifier string  `json:"issue_identifier"`
	Title      string  `json:"title"`
	IssueURL   *string `json:"issue_url"`
	Use
}

// LabelUse is what the runs of all issues with a label came to. A run of an issue with several
// labels counts for each of them.
type LabelUse struct {
	Label  *string `json:"label"` // null for the issues without one
	Issues int     `json:"issues"`
	Use
}

// DayUse is what was used on one day of UTC, and how many issues of the period were handed
// over on it.
type DayUse struct {
	Date       string `json:"day"`
	HandedOver int    `json:"handed_over"`
	view.Spent
}

// addUses adds up the runs by issue, by label and in total. Runs that have not ended count
// with what they have used so far.
func (r *Report) addUses(uses []state.RunUse, prices reconcile.Prices) {
	for _, w := range r.Running {
		uses = append(uses, state.RunUse{
			IssueID:    w.IssueID,
			Identifier: w.Identifier,
			Title:      w.Title,
			URL:        text.OrEmpty(w.IssueURL),
			Labels:     w.Run.Issue.Labels,
			Running:    1,
			Runtime:    max(r.GeneratedAt.Sub(w.StartedAt), 0),
			ModelUse:   reconcile.ModelUse{Model: w.Run.Model, Tokens: w.Run.Tokens},
		})
	}
	issues := map[string]*IssueUse{}
	labels := map[string]*LabelUse{}
	counted := map[[2]string]bool{} // labels of issues
	t := &r.Totals
	t.Spent = view.Spend(prices)
	for _, u := range uses {
		i := issues[u.IssueID]
		if i == nil {
			i = &IssueUse{
				IssueID:    u.IssueID,
				Identifier: u.Identifier,
				Use:        Use{Spent: view.Spend(prices)},
			}
			issues[u.IssueID] = i
		}
		i.Title = u.Title
		i.IssueURL = text.OrNull(u.URL)
		i.add(u, prices)
		t.add(u, prices)
		if len(u.Labels) == 0 {
			u.Labels = []string{""}
		}
		for _, name := range u.Labels {
			l := labels[name]
			if l == nil {
				l = &LabelUse{Label: text.OrNull(name), Use: Use{Spent: view.Spend(prices)}}
				labels[name] = l
			}
			if key := [2]string{name, u.IssueID}; !counted[key] {
				counted[key] = true
				l.Issues++
			}
			l.add(u, prices)
		}
	}
	t.Stopped = t.Runs - t.Succeeded - t.Failed
	t.Issues = len(issues)
	for _, i := range issues {
		r.Issues = append(r.Issues, *i)
	}
	for _, l := range labels {
		r.Labels = append(r.Labels, *l)
	}
	slices.SortFunc(r.Issues, func(a, b IssueUse) int {
		return cmp.Or(
			cmp.Compare(b.Tokens.Total, a.Tokens.Total),
			text.CompareNatural(a.Identifier, b.Identifier),
		)
	})
	slices.SortFunc(r.Labels, func(a, b LabelUse) int {
		return cmp.Or(
			cmp.Compare(b.Tokens.Total, a.Tokens.Total),
			cmp.Compare(text.OrEmpty(a.Label), text.OrEmpty(b.Label)),
		)
	})
}

// addDays adds up the tokens by day, the last day first.
func (r *Report) addDays(days []state.ModelDay, prices reconcile.Prices) {
	for _, d := range slices.Backward(days) {
		if n := len(r.Days); n == 0 || r.Days[n-1].Date != d.Date {
			r.Days = append(r.Days, DayUse{Date: d.Date, Spent: view.Spend(prices)})
		}
		r.Days[len(r.Days)-1].Add(d.ModelUse, prices)
	}
	for _, h := range r.HandedOver {
		if i := slices.IndexFunc(r.Days, func(d DayUse) bool { return d.Date == reconcile.DayOf(h.At) }); i >= 0 {
			r.Days[i].HandedOver++
		}
	}
}
