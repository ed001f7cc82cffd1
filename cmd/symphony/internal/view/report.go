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
	LetGo    []ReleasedRow `json:"let_go"`
	Failed   []FailedRow   `json:"failed"`
	Hooks    []FailedRow   `json:"failed_hooks"` // runs whose after_run failed; their outcomes stand
	Running  []WorkingRow  `json:"running"`
	Held     []HeldRow     `json:"held"`
	Waiting  []RetryingRow `json:"waiting"`
	Outages  []OutageRow   `json:"outages"`
	Schedule ScheduleRow   `json:"schedule"`
	Totals   UseTotals     `json:"totals"`
	Issues   []IssueUse    `json:"issues"` // those that used most tokens first
	Days     []DayUse      `json:"days"`

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

// FailedRow is an issue with runs that failed, or whose after_run did, and the last of them.
type FailedRow struct {
	IssueID    string            `json:"issue_id"`
	Identifier string            `json:"issue_identifier"`
	Runs       int               `json:"failed_runs"`
	RunID      string            `json:"last_run_id"`
	Outcome    reconcile.Outcome `json:"last_outcome"`
	Error      *string           `json:"last_error"`
	At         time.Time         `json:"last_at"`
	Now        *string           `json:"now"` // handed_over, let_go, running, held or waiting
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
	Missed []state.Gap `json:"missed"`
}

// Use is what runs came to. The prices decide Cost; without any it is null.
type Use struct {
	Runs      int     `json:"ended_runs"`
	Succeeded int     `json:"succeeded"`
	Failed    int     `json:"failed"`
	Seconds   float64 `json:"seconds_running"`
	Tokens    Tokens  `json:"tokens"`
	Cost      *Cost   `json:"cost"`
	models    []state.ModelUse
}

// UseTotals is what all runs came to. Stopped runs were ended from outside.
type UseTotals struct {
	Use
	Stopped int `json:"stopped"`
	Running int `json:"running"`
	Issues  int `json:"issues"`
}

// IssueUse is what the runs of one issue came to.
type IssueUse struct {
	IssueID    string `json:"issue_id"`
	Identifier string `json:"issue_identifier"`
	Use
}

// DayUse is what was used on one day of UTC.
type DayUse struct {
	Date   string `json:"day"`
	Tokens Tokens `json:"tokens"`
	Cost   *Cost  `json:"cost"`
}

// ReadReport reads the report of a period.
func ReadReport(ctx context.Context, p *project.Project, period Period) (Report, error) {
	db, err := project.OpenForReading(ctx, p)
	if err != nil {
		return Report{}, err
	}
	defer db.Close()
	now := p.Env.Now().UTC()
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
		GeneratedAt: now, Since: s.Since.UTC(), Until: s.Until.UTC(), RunsSince: s.RunsSince.UTC(), HandedOver: []ReleasedRow{}, LetGo: []ReleasedRow{},
		Running: []WorkingRow{}, Held: []HeldRow{}, Waiting: []RetryingRow{}, Outages: []OutageRow{},
		Issues: []IssueUse{}, Days: []DayUse{}, Schedule: ScheduleRow{Passes: s.Rhythm.Passes, Missed: []state.Gap{}},
	}
	became := map[string]string{} // what has become of issues, by id; a present claim says more than an earlier release
	for _, released := range s.Releases {
		row := newReleasedRow(released, prices)
		if row.Reason == reconcile.StopTerminal || row.Reason == reconcile.StopInactive {
			r.HandedOver = append(r.HandedOver, row)
			became[row.IssueID] = "handed_over"
		} else {
			r.LetGo = append(r.LetGo, row)
			became[row.IssueID] = cmp.Or(became[row.IssueID], "let_go")
		}
	}
	for _, c := range claims {
		switch {
		case c.Status == reconcile.Running && c.RunID != "":
			r.Running = append(r.Running, WorkingRow{c.IssueID, c.Identifier, c.RunID, c.StartedAt, Tokens(c.Tokens), c.Model})
			became[c.IssueID] = "running"
		case c.Status == reconcile.Waiting:
			r.Waiting = append(r.Waiting, newRetryingRow(c.Claim))
			became[c.IssueID] = "waiting"
		case c.Status == reconcile.Held:
			r.Held = append(r.Held, newHeldRow(c.Claim))
			became[c.IssueID] = "held"
		}
	}
	slices.SortStableFunc(r.Held, func(a, b HeldRow) int { return b.HeldAt.Compare(a.HeldAt) })
	slices.SortStableFunc(r.Waiting, func(a, b RetryingRow) int { return a.DueAt.Compare(b.DueAt) })
	failed := func(list []state.Failure) []FailedRow {
		rows := []FailedRow{}
		for _, f := range list {
			rows = append(rows, FailedRow{
				f.IssueID, f.Identifier, f.Runs, f.RunID, f.Outcome, project.ErrorText(f.Code, f.Text), f.At, term.OrNull(became[f.IssueID]),
			})
		}
		return rows
	}
	r.Failed, r.Hooks = failed(s.Failures), failed(s.FailedHooks)
	for _, o := range s.Outages {
		r.Outages = append(r.Outages, OutageRow{o.Code, o.Message, o.Since, term.OrNull(o.Until)})
	}
	r.Schedule.Usual = term.OrNull(s.Rhythm.Usual.Seconds())
	r.Schedule.Missed = append(r.Schedule.Missed, s.Rhythm.Gaps...)
	r.addUses(s.Uses, prices)
	for days := s.Days; len(days) > 0; {
		end := slices.IndexFunc(days, func(d state.ModelDay) bool { return d.Date != days[0].Date })
		if end < 0 {
			end = len(days)
		}
		var models []state.ModelUse
		for _, d := range days[:end] {
			models = append(models, d.ModelUse)
		}
		r.Days = append(r.Days, DayUse{days[0].Date, sumTokens(models), costOf(models, prices)})
		days = days[end:]
	}
	return r
}

func newReleasedRow(s state.Release, prices workflow.Prices) ReleasedRow {
	slices.SortStableFunc(s.Links, func(a, b reconcile.Link) int { return cmp.Compare(b.Kind, a.Kind) }) // pull requests first
	return ReleasedRow{
		IssueID: s.IssueID, Identifier: s.Identifier, Title: s.Title, URL: term.OrNull(s.URL), Branch: term.OrNull(s.Branch), Reason: s.Reason,
		From: s.From, To: term.OrNull(s.To), ClaimedAt: s.ClaimedAt, At: s.At, Runs: s.Runs, Seconds: s.Runtime.Seconds(),
		Tokens: sumTokens(s.Models), Cost: costOf(s.Models, prices), Links: s.Links, Created: s.Created,
	}
}

// addUses adds up the runs by issue and in all. Runs that have not ended count with what they have used so far.
func (r *Report) addUses(uses []state.RunUse, prices workflow.Prices) {
	for _, w := range r.Running {
		lasted := max(r.GeneratedAt.Sub(w.StartedAt), 0)
		use := state.ModelUse{Model: w.model, Tokens: reconcile.Tokens(w.Tokens)}
		uses = append(uses, state.RunUse{IssueID: w.IssueID, Identifier: w.Identifier, Runtime: lasted, ModelUse: use})
	}
	index := map[string]int{}
	t := &r.Totals
	for _, u := range uses {
		i, known := index[u.IssueID]
		if !known {
			i = len(r.Issues)
			index[u.IssueID] = i
			r.Issues = append(r.Issues, IssueUse{IssueID: u.IssueID, Identifier: u.Identifier})
		}
		for _, sum := range []*Use{&r.Issues[i].Use, &t.Use} {
			sum.Runs, sum.Succeeded, sum.Failed = sum.Runs+u.Runs, sum.Succeeded+u.Succeeded, sum.Failed+u.Failed
			sum.Seconds += u.Runtime.Seconds()
			sum.models = append(sum.models, u.ModelUse)
		}
	}
	t.Stopped, t.Running, t.Issues = t.Runs-t.Succeeded-t.Failed, len(r.Running), len(r.Issues)
	t.Tokens, t.Cost = sumTokens(t.models), costOf(t.models, prices)
	for n := range r.Issues {
		i := &r.Issues[n].Use
		i.Tokens, i.Cost = sumTokens(i.models), costOf(i.models, prices)
	}
	slices.SortStableFunc(r.Issues, func(a, b IssueUse) int { return cmp.Compare(b.Tokens.Total, a.Tokens.Total) })
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
