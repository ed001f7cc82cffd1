package view

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

// Report is what happened in a period and, where the period reaches up to now, the present claims.
type Report struct {
	GeneratedAt time.Time     `json:"generated_at"`
	Since       time.Time     `json:"since"`
	Until       time.Time     `json:"until"`
	RunsSince   time.Time     `json:"runs_complete_since"` // older runs have been pruned
	HandedOver  []ReleasedRow `json:"handed_over"`
	// LetGo are issues that were released for another reason: a label, an assignee, the project, a blocker.
	LetGo    []ReleasedRow   `json:"let_go"`
	Failed   []FailedRow     `json:"failed"`
	Hooks    []FailedHookRow `json:"failed_hooks"`
	Running  []WorkingRow    `json:"running"`
	Held     []HeldRow       `json:"held"`
	Waiting  []RetryingRow   `json:"waiting"`
	Outages  []OutageRow     `json:"outages"`
	Schedule ScheduleRow     `json:"schedule"`
	Totals   UseTotals       `json:"totals"`
	Issues   []IssueUse      `json:"issues"` // those that used most tokens first
	Days     []DayUse        `json:"days"`

	// Warnings say why there are no estimates of money.
	Warnings []string `json:"-"`
}

// ReleasedRow is an issue that was released, with what it used since it was claimed.
type ReleasedRow struct {
	IssueID    string           `json:"issue_id"`
	Identifier string           `json:"issue_identifier"`
	Title      string           `json:"title"`
	URL        *string          `json:"url"`
	Branch     *string          `json:"branch_name"`
	Reason     string           `json:"reason"`
	From       string           `json:"from_state"`
	To         *string          `json:"to_state"`
	ClaimedAt  time.Time        `json:"claimed_at"`
	At         time.Time        `json:"at"`
	Runs       int              `json:"runs"`
	Seconds    float64          `json:"seconds_running"`
	Tokens     Tokens           `json:"tokens"`
	Cost       *Cost            `json:"cost"`
	Links      []reconcile.Link `json:"links"`
	Created    map[string]int   `json:"created"`
}

// FailedRow is an issue with failed runs, and the last of them.
type FailedRow struct {
	IssueID    string    `json:"issue_id"`
	Identifier string    `json:"issue_identifier"`
	Runs       int       `json:"failed_runs"`
	RunID      string    `json:"last_run_id"`
	Outcome    string    `json:"last_outcome"`
	Error      *string   `json:"last_error"`
	At         time.Time `json:"last_at"`
	Now        *string   `json:"now"` // handed_over, let_go, running, held or waiting
}

// FailedHookRow is an issue with runs whose after_run failed, and the last of them. Their outcomes stand.
type FailedHookRow struct {
	IssueID    string    `json:"issue_id"`
	Identifier string    `json:"issue_identifier"`
	Runs       int       `json:"runs"`
	RunID      string    `json:"last_run_id"`
	Error      string    `json:"last_error"`
	At         time.Time `json:"last_at"`
}

// WorkingRow is a run that has not ended.
type WorkingRow struct {
	IssueID    string    `json:"issue_id"`
	Identifier string    `json:"issue_identifier"`
	RunID      string    `json:"run_id"`
	StartedAt  time.Time `json:"started_at"`
	Tokens     Tokens    `json:"tokens"`
	model      string
}

// OutageRow is a time in which nothing could start. Until is null while it lasts.
type OutageRow struct {
	Code    string     `json:"code"`
	Message string     `json:"message"`
	Since   time.Time  `json:"since"`
	Until   *time.Time `json:"until"`
}

// ScheduleRow is how regularly the schedule's passes came.
type ScheduleRow struct {
	Passes int         `json:"passes"`
	Usual  *float64    `json:"usual_gap_seconds"`
	Missed []MissedRow `json:"missed"`
}

// MissedRow is a time without the usual passes.
type MissedRow struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Missed int       `json:"missed_passes"`
	Open   bool      `json:"still_missing"`
}

// UseTotals is what all runs came to. Stopped runs were ended from outside.
type UseTotals struct {
	Runs      int     `json:"ended_runs"`
	Succeeded int     `json:"succeeded"`
	Failed    int     `json:"failed"`
	Stopped   int     `json:"stopped"`
	Running   int     `json:"running"`
	Issues    int     `json:"issues"`
	Seconds   float64 `json:"seconds_running"`
	Tokens    Tokens  `json:"tokens"`
	Cost      *Cost   `json:"cost"`
}

// IssueUse is what the runs of one issue came to.
type IssueUse struct {
	IssueID    string  `json:"issue_id"`
	Identifier string  `json:"issue_identifier"`
	Runs       int     `json:"ended_runs"`
	Succeeded  int     `json:"succeeded"`
	Failed     int     `json:"failed"`
	Seconds    float64 `json:"seconds_running"`
	Tokens     Tokens  `json:"tokens"`
	Cost       *Cost   `json:"cost"`
	models     []state.ModelUse
}

// DayUse is what was used on one day of UTC.
type DayUse struct {
	Date   string `json:"day"`
	Tokens Tokens `json:"tokens"`
	Cost   *Cost  `json:"cost"`
	models []state.ModelUse
}

// ReadReport reads the report of a period.
func ReadReport(ctx context.Context, p *project.Project, period Period) (Report, error) {
	db, err := project.OpenForReading(ctx, p)
	if err != nil {
		return Report{}, err
	}
	defer db.Close()
	now := p.Env.Now()
	happened, err := db.Views.Report(ctx, now, period.Since, period.Until)
	if err != nil {
		return Report{}, err
	}
	var claims []state.Standing
	if period.Present {
		if claims, err = db.Views.Standings(ctx); err != nil {
			return Report{}, err
		}
	}
	cfg, err := readConfig(p)
	if err != nil {
		r := newReport(happened, claims, workflow.Prices{}, now)
		for _, e := range workflow.Faults(err) {
			r.Warnings = append(r.Warnings, "the report has no estimates of money: "+e.Message)
		}
		return r, nil
	}
	r := newReport(happened, claims, cfg.Agent.Prices, now)
	if period.Present {
		r.addAccountBlock(project.AccountBlock(project.OpenAccount(p, cfg.Codex.Home), now), period.Until)
	}
	return r, nil
}

func newReport(s state.Report, claims []state.Standing, prices workflow.Prices, now time.Time) Report {
	r := Report{
		GeneratedAt: now.UTC(), Since: s.Since.UTC(), Until: s.Until.UTC(), RunsSince: s.RunsSince.UTC(), HandedOver: []ReleasedRow{}, LetGo: []ReleasedRow{},
		Failed: []FailedRow{}, Hooks: []FailedHookRow{}, Running: []WorkingRow{}, Held: []HeldRow{}, Waiting: []RetryingRow{}, Outages: []OutageRow{},
		Issues: []IssueUse{}, Days: []DayUse{}, Schedule: ScheduleRow{Passes: s.Rhythm.Passes, Missed: []MissedRow{}},
	}
	for _, released := range s.Releases {
		r.addRelease(released, prices)
	}
	r.addClaims(claims)
	fates := r.fates()
	for _, f := range s.Failures {
		r.Failed = append(r.Failed, FailedRow{
			f.IssueID, f.Identifier, f.Runs, f.RunID, string(f.Outcome), project.ErrorText(f.Code, f.Text), f.At, term.OrNull(fates[f.IssueID]),
		})
	}
	for _, h := range s.FailedHooks {
		r.Hooks = append(r.Hooks, FailedHookRow{h.IssueID, h.Identifier, h.Runs, h.RunID, h.Text, h.At})
	}
	r.addUses(s.Uses, prices)
	for _, o := range s.Outages {
		r.Outages = append(r.Outages, OutageRow{o.Code, o.Message, o.Since, timeOrNull(o.Until)})
	}
	if s.Rhythm.Usual > 0 {
		r.Schedule.Usual = new(s.Rhythm.Usual.Seconds())
	}
	for _, g := range s.Rhythm.Gaps {
		r.Schedule.Missed = append(r.Schedule.Missed, MissedRow(g))
	}
	r.addDays(s.Days, prices)
	return r
}

func (r *Report) addRelease(s state.Release, prices workflow.Prices) {
	slices.SortStableFunc(s.Links, func(a, b reconcile.Link) int { return cmp.Compare(b.Kind, a.Kind) }) // pull requests first
	row := ReleasedRow{
		IssueID: s.IssueID, Identifier: s.Identifier, Title: s.Title, URL: term.OrNull(s.URL), Branch: term.OrNull(s.Branch), Reason: s.Reason,
		From: s.From, To: term.OrNull(s.To), ClaimedAt: s.ClaimedAt, At: s.At, Runs: s.Runs, Seconds: s.Runtime.Seconds(),
		Tokens: sumTokens(s.Models), Cost: costOf(s.Models, prices), Links: s.Links, Created: s.Created,
	}
	if s.Reason == reconcile.StopTerminal || s.Reason == reconcile.StopInactive {
		r.HandedOver = append(r.HandedOver, row)
	} else {
		r.LetGo = append(r.LetGo, row)
	}
}

// addClaims adds the present claims: the newest hold first, the waiting ones in the order in which they are due.
func (r *Report) addClaims(claims []state.Standing) {
	for _, c := range claims {
		switch c.Status {
		case reconcile.Running:
			if c.RunID != "" {
				r.Running = append(r.Running, WorkingRow{c.IssueID, c.Identifier, c.RunID, c.StartedAt, Tokens(c.Tokens), c.Model})
			}
		case reconcile.Waiting:
			r.Waiting = append(r.Waiting, newRetryingRow(c.Claim))
		case reconcile.Held:
			r.Held = append(r.Held, newHeldRow(c.Claim))
		}
	}
	slices.SortStableFunc(r.Held, func(a, b HeldRow) int { return b.HeldAt.Compare(a.HeldAt) })
	slices.SortStableFunc(r.Waiting, func(a, b RetryingRow) int { return a.DueAt.Compare(b.DueAt) })
}

// fates are what has become of issues, by id. A present claim says more than an earlier release.
func (r *Report) fates() map[string]string {
	fates := map[string]string{}
	for _, row := range r.LetGo {
		fates[row.IssueID] = "let_go"
	}
	for _, row := range r.HandedOver {
		fates[row.IssueID] = "handed_over"
	}
	for _, row := range r.Waiting {
		fates[row.IssueID] = "waiting"
	}
	for _, row := range r.Held {
		fates[row.IssueID] = "held"
	}
	for _, row := range r.Running {
		fates[row.IssueID] = "running"
	}
	return fates
}

// addUses adds up the runs by issue and in all. Runs that have not ended count with what they have used so far.
func (r *Report) addUses(uses []state.RunUse, prices workflow.Prices) {
	index := map[string]int{}
	row := func(id, identifier string) *IssueUse {
		i, known := index[id]
		if !known {
			i = len(r.Issues)
			index[id] = i
			r.Issues = append(r.Issues, IssueUse{IssueID: id, Identifier: identifier})
		}
		return &r.Issues[i]
	}
	t := &r.Totals
	var all []state.ModelUse
	for _, u := range uses {
		i := row(u.IssueID, u.Identifier)
		i.Runs, i.Succeeded, i.Failed = i.Runs+u.Runs, i.Succeeded+u.Succeeded, i.Failed+u.Failed
		t.Runs, t.Succeeded, t.Failed = t.Runs+u.Runs, t.Succeeded+u.Succeeded, t.Failed+u.Failed
		i.Seconds, t.Seconds = i.Seconds+u.Runtime.Seconds(), t.Seconds+u.Runtime.Seconds()
		i.models, all = append(i.models, u.ModelUse), append(all, u.ModelUse)
	}
	for _, w := range r.Running {
		i, use := row(w.IssueID, w.Identifier), state.ModelUse{Model: w.model, Tokens: reconcile.Tokens(w.Tokens)}
		lasted := max(r.GeneratedAt.Sub(w.StartedAt).Seconds(), 0)
		i.Seconds, t.Seconds = i.Seconds+lasted, t.Seconds+lasted
		i.models, all = append(i.models, use), append(all, use)
	}
	for n := range r.Issues {
		i := &r.Issues[n]
		i.Tokens, i.Cost = sumTokens(i.models), costOf(i.models, prices)
	}
	slices.SortStableFunc(r.Issues, func(a, b IssueUse) int { return cmp.Compare(b.Tokens.Total, a.Tokens.Total) })
	t.Stopped, t.Running, t.Issues = t.Runs-t.Succeeded-t.Failed, len(r.Running), len(r.Issues)
	t.Tokens, t.Cost = sumTokens(all), costOf(all, prices)
}

func (r *Report) addDays(days []state.ModelDay, prices workflow.Prices) {
	for _, d := range days {
		if n := len(r.Days); n == 0 || r.Days[n-1].Date != d.Date {
			r.Days = append(r.Days, DayUse{Date: d.Date})
		}
		row := &r.Days[len(r.Days)-1]
		row.models = append(row.models, d.ModelUse)
	}
	for n := range r.Days {
		row := &r.Days[n]
		row.Tokens, row.Cost = sumTokens(row.models), costOf(row.models, prices)
	}
}

// addAccountBlock adds what stops all projects of the account now: another project may have recorded it.
func (r *Report) addAccountBlock(b *project.BlockedRow, until time.Time) {
	if b == nil || !b.Since.Before(until) {
		return
	}
	if !slices.ContainsFunc(r.Outages, func(o OutageRow) bool { return o.Code == b.Reason && o.Until == nil }) {
		r.Outages = append(r.Outages, OutageRow{Code: b.Reason, Message: b.Message, Since: b.Since})
	}
}
