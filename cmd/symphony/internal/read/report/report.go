// Package report describes the events in a period: issues handed over, failures, outages, and
// the usage of runs.
package report

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

// Report lists the events in a period, the latest first, and, where the period reaches up to
// now, the present claims.
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
	LetGo  []ReleasedRow `json:"let_go"`
	Failed []FailedRow   `json:"failed"`
	// runs whose after_run failed; their outcomes stand
	Hooks []FailedRow `json:"failed_hooks"`
	// NeedsHelp are the issues whose agents need a person now.
	NeedsHelp []view.HeldRow     `json:"needs_help"`
	Running   []view.RunningRow  `json:"running"`
	Held      []view.HeldRow     `json:"held"`
	Waiting   []view.RetryingRow `json:"waiting"`
	// Undelivered are the present claims with commits that are not pushed yet.
	Undelivered []view.UndeliveredRow `json:"undelivered"`
	Kept        []view.KeptRow        `json:"kept_workspaces"`
	Outages     []OutageRow           `json:"outages"`
	Schedule    state.ScheduleRow     `json:"schedule"`
	Totals      UseTotals             `json:"totals"`
	Issues      []IssueUse            `json:"issues"` // by tokens used, the most first
	Labels      []LabelUse            `json:"labels"` // by tokens used, the most first
	Agents      []AgentUse            `json:"agents"` // by tokens used, the most first
	// Takeovers are the issues that another agent went on with.
	Takeovers []TakeoverRow `json:"takeovers"`
	Days      []DayUse      `json:"days"`
	// the budget of today; null without agent.budget_per_day, and for a past period
	Budget *view.BudgetRow `json:"budget"`

	// Warnings explain why there are no estimates of money.
	Warnings []string `json:"-"`
}

// ReleasedRow is a released issue, with its usage since it was claimed.
type ReleasedRow struct {
	state.Release
	Seconds float64 `json:"seconds_running"`
	view.Spent
	// PullRequest belongs to the issue's branch, as the tracker described it last; null if it
	// never described a pull request.
	PullRequest *state.PullRequest `json:"pull_request"`
}

// FailedRow is an issue with runs that failed, or whose after_run did, and the last of them.
type FailedRow struct {
	IssueID    string            `json:"issue_id"`
	Identifier string            `json:"issue_identifier"`
	Title      string            `json:"title"`
	Runs       int               `json:"failed_runs"`
	RunID      string            `json:"last_run_id"`
	Outcome    reconcile.Outcome `json:"last_outcome"`
	At         time.Time         `json:"last_at"`
	Error      *string           `json:"last_error"`
	// handed_over, released, running, needs_help, held or waiting
	Now *string `json:"now"`
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
	if err != nil {
		return Report{}, err
	}
	kept := []view.KeptRow{}
	if period.Present {
		f.Recorded, err = f.DB.Store.State(ctx)
		if err != nil {
			return Report{}, err
		}
		kept, err = f.KeptRows(ctx)
		if err != nil {
			return Report{}, err
		}
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
	if invalid != nil || !period.Present {
		return r, nil
	}
	f.Config = cfg
	r.Budget, err = f.ReadBudget(ctx)
	if err != nil {
		return Report{}, err
	}
	r.addAccountBlock(wiring.AgentsBlock(f.Project, cfg, f.Now), period.Until)
	return r, nil
}

func newReport(s state.Report, now view.Claims, prices reconcile.Prices, at time.Time) Report {
	r := Report{
		GeneratedAt: at,
		Since:       s.Since.UTC(),
		Until:       s.Until.UTC(),
		RunsSince:   s.RunsSince.UTC(),
		NeedsHelp:   now.NeedsHelp,
		Held:        now.Held,
		Waiting:     now.Retrying,
		Undelivered: now.Undelivered,
		Handovers:   text.OrNull(s.Handovers),
		HandedOver:  []ReleasedRow{},
		LetGo:       []ReleasedRow{},
		Outages:     []OutageRow{},
		Issues:      []IssueUse{},
		Labels:      []LabelUse{},
		Agents:      []AgentUse{},
		Days:        []DayUse{},
		Schedule:    s.Schedule,
	}
	// An ended run belongs to the runs of the period, whether it is settled or not.
	r.Running = text.Filter(now.Running, func(w view.RunningRow) bool {
		return w.Run.ID != "" && w.Run.Outcome == ""
	})
	latestFirst := func(a, b view.HeldRow) int { return b.HeldAt.Compare(a.HeldAt) }
	slices.SortStableFunc(r.NeedsHelp, latestFirst)
	slices.SortStableFunc(r.Held, latestFirst)
	slices.SortStableFunc(r.Waiting, func(a, b view.RetryingRow) int { return a.DueAt.Compare(b.DueAt) })
	r.addReleases(s.Releases, s.PullRequests, prices)
	became := r.became()
	r.Failed = failures(s.Runs, became, runFailure)
	r.Hooks = failures(s.Runs, became, hookFailure)
	r.Schedule.Missed = append([]state.Gap{}, r.Schedule.Missed...) // in JSON an empty list
	slices.Reverse(r.Schedule.Missed)
	for _, o := range slices.Backward(s.Outages) {
		r.Outages = append(r.Outages, OutageRow{o.Code, o.Message, o.Since, text.OrNull(o.Until)})
	}
	r.addUses(s.Runs, prices)
	ended := text.Map(s.Runs, func(run state.EndedRun) reconcile.Run { return run.Run })
	running := text.Map(r.Running, func(w view.RunningRow) reconcile.Run { return w.Run })
	r.Takeovers = takeovers(slices.Concat(ended, running))
	r.addDays(s.Days, prices)
	return r
}

// addReleases adds the issues that were handed over or let go, the latest first.
func (r *Report) addReleases(
	releases []state.Release,
	pulls map[string]state.PullRequest,
	prices reconcile.Prices,
) {
	slices.SortStableFunc(releases, func(a, b state.Release) int {
		return cmp.Or(b.At.Compare(a.At), text.CompareNatural(a.Identifier, b.Identifier))
	})
	for _, released := range releases {
		sortLinks(released.Links)
		row := ReleasedRow{
			Release: released,
			Seconds: released.Runtime.Seconds(),
			Spent:   view.Spend(prices, released.Models...),
		}
		if p, found := pulls[released.IssueID]; found {
			row.PullRequest = &p
		}
		if row.HandedOver() {
			r.HandedOver = append(r.HandedOver, row)
		} else {
			r.LetGo = append(r.LetGo, row)
		}
	}
}

// became maps each issue of the report, by id, to its outcome. A present claim says more than
// an earlier release, and a handover more than a release for another reason.
func (r *Report) became() map[string]string {
	became := map[string]string{}
	for _, row := range r.LetGo {
		became[row.IssueID] = "released"
	}
	for _, row := range r.HandedOver {
		became[row.IssueID] = "handed_over"
	}
	for _, w := range r.Running {
		became[w.IssueID] = "running"
	}
	for _, w := range r.Waiting {
		became[w.IssueID] = string(w.Claim.OwnStatus())
	}
	for _, h := range r.Held {
		became[h.IssueID] = string(reconcile.StatusHeld)
	}
	for _, h := range r.NeedsHelp {
		became[h.IssueID] = string(reconcile.StatusNeedsHelp)
	}
	return became
}

// failedOutcomes are the outcomes of runs that failed by themselves. Others were stopped.
var failedOutcomes = []reconcile.Outcome{
	reconcile.Failed, reconcile.TimedOut, reconcile.Stalled, reconcile.Lost,
}

// runFailure is why a run failed by itself; false if it did not.
func runFailure(run state.EndedRun) (why *string, failed bool) {
	if !slices.Contains(failedOutcomes, run.Outcome) {
		return nil, false
	}
	return view.ErrorText(run.ErrorCode, run.ErrorText), true
}

// hookFailure is why the after_run of a run failed; false if it did not.
func hookFailure(run state.EndedRun) (why *string, failed bool) {
	return &run.AfterRunError, run.AfterRunError != ""
}

// failures sums up by issue the runs with a failure, the issue with the last of them first.
func failures(
	runs []state.EndedRun,
	became map[string]string,
	failure func(state.EndedRun) (why *string, failed bool),
) []FailedRow {
	rows := []FailedRow{}
	at := map[string]int{} // in rows, by the ids of the issues
	for _, run := range slices.Backward(runs) {
		why, failed := failure(run)
		if !failed {
			continue
		}
		i, known := at[run.IssueID]
		if known {
			rows[i].Runs++
			continue
		}
		at[run.IssueID] = len(rows)
		rows = append(rows, FailedRow{
			IssueID:    run.IssueID,
			Identifier: run.Identifier,
			Title:      run.Issue.Title,
			Runs:       1,
			RunID:      run.ID,
			Outcome:    run.Outcome,
			At:         run.EndedAt,
			Error:      why,
			Now:        text.OrNull(became[run.IssueID]),
		})
	}
	return rows
}

// sortLinks puts pull requests first.
func sortLinks(links []reconcile.Link) {
	slices.SortStableFunc(links, func(a, b reconcile.Link) int { return cmp.Compare(b.Kind, a.Kind) })
}

// addAccountBlock adds a fault that stops all usual agents now: another project may have
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
