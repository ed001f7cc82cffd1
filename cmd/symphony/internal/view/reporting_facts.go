package view

import (
	"cmp"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// facts are a report: what happened in a time, and how things stand where it reaches up to now. Times are RFC 3339 UTC,
// what is absent is null, lists are never null.
type Facts struct {
	GeneratedAt time.Time `json:"generated_at"`
	Since       time.Time `json:"since"`
	Until       time.Time `json:"until"`
	// RunsSince is since when no run is missing.
	RunsSince  time.Time     `json:"runs_complete_since"`
	HandedOver []ReleasedRow `json:"handed_over"`
	// LetGo is what left for other reasons: a label, another assignee, another project, a blocker.
	LetGo    []ReleasedRow `json:"let_go"`
	Failed   []failedRow   `json:"failed"`
	Running  []workingRow  `json:"running"`
	Held     []heldRow     `json:"held"`
	Waiting  []RetryingRow `json:"waiting"`
	Outages  []outageRow   `json:"outages"`
	Schedule scheduleRow   `json:"schedule"`
	Totals   usedTotals    `json:"totals"`
	Issues   []issueRow    `json:"issues"`
	Days     []dayRow      `json:"days"`
}

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
	Tokens     TokensRow        `json:"tokens"`
	Cost       *Money           `json:"cost"`
	Links      []reconcile.Link `json:"links"`
	Created    map[string]int   `json:"created"`
}

type failedRow struct {
	IssueID    string    `json:"issue_id"`
	Identifier string    `json:"issue_identifier"`
	Runs       int       `json:"failed_runs"`
	RunID      string    `json:"last_run_id"`
	Outcome    string    `json:"last_outcome"`
	Error      *string   `json:"last_error"`
	At         time.Time `json:"last_at"`
	// Now is what has become of the issue: handed_over, let_go, running, held, waiting, or null.
	Now *string `json:"now"`
}

type workingRow struct {
	IssueID    string    `json:"issue_id"`
	Identifier string    `json:"issue_identifier"`
	RunID      string    `json:"run_id"`
	StartedAt  time.Time `json:"started_at"`
	Tokens     TokensRow `json:"tokens"`
	model      string
}

type outageRow struct {
	Code    string     `json:"code"`
	Message string     `json:"message"`
	Since   time.Time  `json:"since"`
	Until   *time.Time `json:"until"`
}

type scheduleRow struct {
	Passes int        `json:"passes"`
	Usual  *float64   `json:"usual_gap_seconds"`
	Missed []missedIn `json:"missed"`
}

type missedIn struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Missed int       `json:"missed_passes"`
	Open   bool      `json:"still_missing"`
}

type usedTotals struct {
	Runs      int       `json:"ended_runs"`
	Succeeded int       `json:"succeeded"`
	Failed    int       `json:"failed"`
	Stopped   int       `json:"stopped"` // from outside
	Running   int       `json:"running"`
	Issues    int       `json:"issues"`
	Seconds   float64   `json:"seconds_running"`
	Tokens    TokensRow `json:"tokens"`
	Cost      *Money    `json:"cost"`
}

type issueRow struct {
	IssueID    string    `json:"issue_id"`
	Identifier string    `json:"issue_identifier"`
	Runs       int       `json:"ended_runs"`
	Succeeded  int       `json:"succeeded"`
	Failed     int       `json:"failed"`
	Seconds    float64   `json:"seconds_running"`
	Tokens     TokensRow `json:"tokens"`
	Cost       *Money    `json:"cost"`
	models     []state.ModelUse
}

type dayRow struct {
	Date   string    `json:"day"` // of UTC
	Tokens TokensRow `json:"tokens"`
	Cost   *Money    `json:"cost"`
	models []state.ModelUse
}

func NewFacts(r state.Report, claims []state.Standing, p Purse, now time.Time) Facts {
	f := Facts{
		GeneratedAt: now.UTC(), Since: r.Since.UTC(), Until: r.Until.UTC(), RunsSince: r.RunsSince.UTC(), HandedOver: []ReleasedRow{}, LetGo: []ReleasedRow{},
		Failed: []failedRow{}, Running: []workingRow{}, Held: []heldRow{}, Waiting: []RetryingRow{}, Outages: []outageRow{}, Issues: []issueRow{}, Days: []dayRow{},
	}
	for _, release := range r.Releases {
		f.addRelease(release, p)
	}
	f.addClaims(claims)
	f.addFailures(r.Failures)
	f.addUses(r.Uses, p)
	for _, o := range r.Outages {
		f.Outages = append(f.Outages, outageRow{o.Code, o.Message, o.Since, timeOrNull(o.Until)})
	}
	f.Schedule = newScheduleRow(r.Rhythm)
	f.addDays(r.Days, p)
	return f
}

func (f *Facts) addRelease(r state.Release, p Purse) {
	// What one would look at first stands first.
	slices.SortStableFunc(r.Links, func(a, b reconcile.Link) int { return cmp.Compare(b.Kind, a.Kind) })
	row := ReleasedRow{
		IssueID: r.IssueID, Identifier: r.Identifier, Title: r.Title, URL: term.OrNull(r.URL), Branch: term.OrNull(r.Branch), Reason: r.Reason,
		From: r.From, To: term.OrNull(r.To), ClaimedAt: r.ClaimedAt, At: r.At, Runs: r.Runs, Seconds: r.Runtime.Seconds(),
		Tokens: tokensOf(r.Models), Cost: p.Of(r.Models), Links: r.Links, Created: r.Created,
	}
	if r.Reason == reconcile.StopTerminal || r.Reason == reconcile.StopInactive {
		f.HandedOver = append(f.HandedOver, row)
	} else {
		f.LetGo = append(f.LetGo, row)
	}
}

// addClaims tells how things stand: what was held last comes first, what waits is in the order in which it is due.
func (f *Facts) addClaims(claims []state.Standing) {
	for _, c := range claims {
		switch c.Status {
		case reconcile.Running:
			if c.RunID != "" {
				f.Running = append(f.Running, workingRow{c.IssueID, c.Identifier, c.RunID, c.StartedAt, TokensRow(c.Tokens), c.Model})
			}
		case reconcile.Waiting:
			f.Waiting = append(f.Waiting, newRetryingRow(c.Claim))
		case reconcile.Held:
			f.Held = append(f.Held, newHeldRow(c.Claim))
		}
	}
	slices.SortStableFunc(f.Held, func(a, b heldRow) int { return b.HeldAt.Compare(a.HeldAt) })
	slices.SortStableFunc(f.Waiting, func(a, b RetryingRow) int { return a.DueAt.Compare(b.DueAt) })
}

func (f *Facts) addFailures(failures []state.Failure) {
	stands := f.standing()
	for _, x := range failures {
		f.Failed = append(f.Failed, failedRow{
			x.IssueID, x.Identifier, x.Runs, x.RunID, string(x.Outcome), project.ErrorText(x.Code, x.Text), x.At, term.OrNull(stands[x.IssueID]),
		})
	}
}

// standing is what has become of the issues; a claim of today says more than the end of an earlier one.
func (f *Facts) standing() map[string]string {
	stands := map[string]string{}
	for _, r := range f.LetGo {
		stands[r.IssueID] = "let_go"
	}
	for _, r := range f.HandedOver {
		stands[r.IssueID] = "handed_over"
	}
	for _, r := range f.Waiting {
		stands[r.IssueID] = "waiting"
	}
	for _, r := range f.Held {
		stands[r.IssueID] = "held"
	}
	for _, r := range f.Running {
		stands[r.IssueID] = "running"
	}
	return stands
}

// addUses makes one row of each issue, those that used most first. What runs on counts with what it has used so far.
func (f *Facts) addUses(uses []state.RunUse, p Purse) {
	at := map[string]int{}
	row := func(id, identifier string) *issueRow {
		i, known := at[id]
		if !known {
			i = len(f.Issues)
			at[id] = i
			f.Issues = append(f.Issues, issueRow{IssueID: id, Identifier: identifier})
		}
		return &f.Issues[i]
	}
	var all []state.ModelUse
	for _, u := range uses {
		r := row(u.IssueID, u.Identifier)
		r.Runs, r.Succeeded, r.Failed = r.Runs+u.Runs, r.Succeeded+u.Succeeded, r.Failed+u.Failed
		r.Seconds += u.Runtime.Seconds()
		r.models = append(r.models, u.ModelUse)
		all = append(all, u.ModelUse)
		f.Totals.Runs, f.Totals.Succeeded, f.Totals.Failed = f.Totals.Runs+u.Runs, f.Totals.Succeeded+u.Succeeded, f.Totals.Failed+u.Failed
		f.Totals.Seconds += u.Runtime.Seconds()
	}
	for _, w := range f.Running {
		r, use := row(w.IssueID, w.Identifier), state.ModelUse{Model: w.model, Tokens: reconcile.Tokens(w.Tokens)}
		lasted := max(f.GeneratedAt.Sub(w.StartedAt).Seconds(), 0)
		r.Seconds, f.Totals.Seconds = r.Seconds+lasted, f.Totals.Seconds+lasted
		r.models, all = append(r.models, use), append(all, use)
	}
	for i := range f.Issues {
		r := &f.Issues[i]
		r.Tokens, r.Cost = tokensOf(r.models), p.Of(usedBy(r.models))
	}
	slices.SortStableFunc(f.Issues, func(a, b issueRow) int { return cmp.Compare(b.Tokens.Total, a.Tokens.Total) })
	t := &f.Totals
	t.Stopped, t.Running, t.Issues = t.Runs-t.Succeeded-t.Failed, len(f.Running), len(f.Issues)
	t.Tokens, t.Cost = tokensOf(all), p.Of(usedBy(all))
}

func (f *Facts) addDays(days []state.ModelDay, p Purse) {
	for _, d := range days {
		if n := len(f.Days); n == 0 || f.Days[n-1].Date != d.Date {
			f.Days = append(f.Days, dayRow{Date: d.Date})
		}
		row := &f.Days[len(f.Days)-1]
		row.models = append(row.models, d.ModelUse)
	}
	for i := range f.Days {
		row := &f.Days[i]
		row.Tokens, row.Cost = tokensOf(row.models), p.Of(row.models)
	}
}

// addAccount adds what stops all projects of the account now: another project may have found it out.
func (f *Facts) AddAccount(b project.BlockedRow, when Window) {
	known := slices.ContainsFunc(f.Outages, func(o outageRow) bool { return o.Code == b.Reason && o.Until == nil })
	if !known && b.Since.Before(when.Until) {
		f.Outages = append(f.Outages, outageRow{Code: b.Reason, Message: b.Message, Since: b.Since})
	}
}

func newScheduleRow(r state.Rhythm) scheduleRow {
	row := scheduleRow{Passes: r.Passes, Missed: []missedIn{}}
	if r.Usual > 0 {
		seconds := r.Usual.Seconds()
		row.Usual = &seconds
	}
	for _, g := range r.Gaps {
		row.Missed = append(row.Missed, missedIn(g))
	}
	return row
}
