package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
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
	cfg, invalid := p.ConfigWithoutKey()
	if invalid != nil {
		cfg = &workflow.Config{}
	}
	r := newReport(happened, claims, cfg.Agent.Prices, now)
	for _, e := range workflow.Faults(invalid) {
		r.Warnings = append(r.Warnings, "the report has no estimates of money: "+e.Message)
	}
	if invalid == nil && period.Present {
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
		slices.SortStableFunc(released.Links, func(a, b reconcile.Link) int { return cmp.Compare(b.Kind, a.Kind) }) // pull requests first
		row := ReleasedRow{
			IssueID: released.IssueID, Identifier: released.Identifier, Title: released.Title, URL: term.OrNull(released.URL),
			Branch: term.OrNull(released.Branch), Reason: released.Reason, From: released.From, To: term.OrNull(released.To),
			ClaimedAt: released.ClaimedAt, At: released.At, Runs: released.Runs, Seconds: released.Runtime.Seconds(),
			Tokens: sumTokens(released.Models), Cost: costOf(released.Models, prices), Links: released.Links, Created: released.Created,
		}
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
				f.IssueID, f.Identifier, f.Runs, f.RunID, f.Outcome, ErrorText(f.Code, f.Text), f.At, term.OrNull(became[f.IssueID]),
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

// Cost is an estimate of money by agent.prices.
type Cost struct {
	Currency string   `json:"currency"`
	Estimate bool     `json:"estimate"` // always true: it is no bill
	Amount   Amount   `json:"amount"`
	Unpriced int64    `json:"unpriced_tokens"` // of models without a price
	Models   []string `json:"unpriced_models"`
}

// Amount is an amount of money. JSON has four decimals.
type Amount float64

// MarshalJSON implements json.Marshaler.
func (a Amount) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "%.4f", float64(a)), nil }

// unknownModel stands for the model of tokens that were recorded without one.
const unknownModel = "(not recorded)"

// costOf is the estimate for what was used; nil without prices.
func costOf(uses []state.ModelUse, prices workflow.Prices) *Cost {
	if len(prices.Models) == 0 {
		return nil
	}
	c := &Cost{Currency: prices.Currency, Estimate: true, Models: []string{}}
	for _, u := range uses {
		if u.Tokens == (reconcile.Tokens{}) {
			continue
		}
		price, known := prices.Of(u.Model)
		// A name with a plus stands for several models: how much each of them used is not recorded.
		if known && !strings.Contains(u.Model, "+") {
			c.Amount += Amount(price.Cost(u.Tokens))
			continue
		}
		c.Unpriced += u.Tokens.Total
		if name := cmp.Or(u.Model, unknownModel); !slices.Contains(c.Models, name) {
			c.Models = append(c.Models, name)
		}
	}
	return c
}

func sumTokens(uses []state.ModelUse) Tokens {
	var sum reconcile.Tokens
	for _, u := range uses {
		sum = sum.Plus(u.Tokens)
	}
	return Tokens(sum)
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
		if p.Until, err = parseTime("report", "until", until, now, 1); err != nil {
			return p, err
		}
		if p.Until.After(now) {
			p.Until = now
		}
		p.Since, p.Present = p.Until.Add(-usualPeriod), p.Until.Equal(now)
	}
	if since != "" {
		if p.Since, err = ParseTime("report", "since", since, now); err != nil {
			return p, err
		}
	}
	if !p.Since.Before(p.Until) {
		return p, exit.Usage("report: there is no time between %s and %s: --since must be before --until and in the past", term.Rfc3339(p.Since), term.Rfc3339(p.Until))
	}
	return p, nil
}

// ParseTime reads the value of a flag: an age such as 12h or 7d, a day of the local clock, which stands for its beginning,
// or a time.
func ParseTime(command, flag, text string, now time.Time) (time.Time, error) {
	return parseTime(command, flag, text, now, 0)
}

// parseTime takes the beginning of the day that comes so many days after a given day.
func parseTime(command, flag, text string, now time.Time, daysAfter int) (time.Time, error) {
	if age, ok := parseAge(text); ok {
		return now.Add(-age), nil
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		// time.Date also knows the zones in which a day of summer time begins at one o'clock.
		return time.Date(day.Year(), day.Month(), day.Day()+daysAfter, 0, 0, 0, 0, now.Location()), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, exit.Usage("%s: --%s wants an age such as 12h or 7d, a day such as 2026-01-31 or a time such as 2026-01-31T18:00:00Z, not %q", command, flag, text)
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
