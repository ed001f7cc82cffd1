package view

import (
	"context"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
)

// issueView is all that symphony knows of one issue. Times are RFC 3339 UTC, what is absent is null, lists are never
// null.
type IssueView struct {
	GeneratedAt time.Time  `json:"generated_at"`
	Issue       KnownIssue `json:"issue"`
	Claim       *claimRow  `json:"claim"`
	Why         reasonRow  `json:"why"`
	Next        nextRow    `json:"next"`
	Runs        []issueRun `json:"runs"` // the newest first
	RunsKept    int        `json:"runs_kept"`
	ThreadID    *string    `json:"thread_id"`
	Workspace   *PlaceRow  `json:"workspace"`
	Tokens      TotalsRow  `json:"codex_totals"`
	// Requests that wait for a person.
	Requests []PendingRow `json:"pending_requests"`
	LogDir   *string      `json:"log_dir"`
	// TrackerError says why the tracker could not be asked.
	TrackerError *term.ErrorJSON `json:"tracker_error"`
	// Commands of an operator about it that no pass has taken up yet.
	Commands []string   `json:"pending_commands"`
	Schedule bool       `json:"schedule_active"`
	Project  projectRow `json:"project"`
}

type KnownIssue struct {
	ID         string   `json:"id"`
	Identifier string   `json:"identifier"`
	Title      *string  `json:"title"`
	State      *string  `json:"state"`
	URL        *string  `json:"url"`
	Labels     []string `json:"labels"`
	BlockedBy  []string `json:"blocked_by"`
	// Source says how old this is: tracker (just asked), claim (the last pass), run (when its last run began), or null.
	Source *string `json:"source"`
}

type claimRow struct {
	Status     string     `json:"status"`
	Kind       *string    `json:"kind"` // of waiting
	Attempt    *int       `json:"attempt"`
	DueAt      *time.Time `json:"due_at"`
	Error      *string    `json:"error"`
	HoldReason *string    `json:"hold_reason"`
	HeldAt     *time.Time `json:"held_at"`
	ClaimedAt  time.Time  `json:"claimed_at"`
	Failures   int        `json:"failures_in_a_row"`
	Runs       int        `json:"runs_since_change"`
}

// reasonRow says why the issue runs or does not: a code, and the same in words.
type reasonRow struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// nextRow is what happens next; At is null where that depends on something else than time.
type nextRow struct {
	Message string     `json:"message"`
	At      *time.Time `json:"at"`
	// NeedsPass: nothing but a pass brings it about.
	NeedsPass bool `json:"needs_pass"`
}

type issueRun struct {
	RunID     string     `json:"run_id"`
	Kind      string     `json:"kind"`
	Attempt   *int       `json:"attempt"`
	Phase     string     `json:"phase"`
	Outcome   *string    `json:"outcome"`
	Error     *string    `json:"error"`
	StartedAt time.Time  `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at"`
	Turns     int        `json:"turn_count"`
	Tokens    TokensRow  `json:"tokens"`
	ThreadID  *string    `json:"thread_id"`
	// AfterRunError says why after_run failed, which does not change the outcome.
	AfterRunError *string `json:"after_run_error"`
}

// issueView puts the facts into their shape.
func viewIssue(ctx context.Context, p *project.Project, f *issueFacts) (IssueView, error) {
	v := IssueView{
		GeneratedAt: f.now, Issue: f.row(), Claim: f.claimRow(), Runs: []issueRun{}, RunsKept: f.kept,
		Requests: []PendingRow{}, Commands: []string{}, Schedule: f.schedule,
		Tokens:  TotalsRow{TokensRow(f.totals.Tokens), f.totals.Runtime.Seconds()},
		Project: projectRow{WorkflowPath: p.Path, StateDir: p.StateDir},
	}
	if f.cfg != nil {
		v.Project.TrackerKind, v.Project.ProjectSlug = &f.cfg.Tracker.Kind, &f.cfg.Tracker.ProjectSlug
	}
	if f.asked != nil {
		e := exit.From(f.asked)
		v.TrackerError = new(term.ErrorOf(e))
	}
	for _, c := range f.rec.Commands {
		if c.IssueID == f.id {
			v.Commands = append(v.Commands, string(c.Verb))
		}
	}
	if err := v.addRequests(f); err != nil {
		return v, err
	}
	v.addRuns(p, f)
	if err := v.addWorkspace(ctx, f); err != nil {
		return v, err
	}
	plan, err := planFor(ctx, p, f)
	if err != nil {
		return v, err
	}
	v.Why = f.why(plan)
	v.Next = f.next(v.Why, plan)
	return v, nil
}

func (f *issueFacts) row() KnownIssue {
	row := KnownIssue{ID: f.id, Identifier: f.identifier, Labels: []string{}, BlockedBy: []string{}}
	if f.issue == nil {
		return row
	}
	row.Title, row.State, row.URL, row.Source = &f.issue.Title, &f.issue.State, f.issue.URL, &f.source
	row.Labels = append(row.Labels, f.issue.Labels...)
	for _, b := range f.issue.BlockedBy {
		if b.Identifier != nil {
			row.BlockedBy = append(row.BlockedBy, *b.Identifier)
		}
	}
	return row
}

func (f *issueFacts) claimRow() *claimRow {
	c := f.claim
	if c == nil {
		return nil
	}
	row := &claimRow{
		Status: string(c.Status), Attempt: attemptOf(c.Attempt), ClaimedAt: c.ClaimedAt.UTC(), Failures: c.Failures, Runs: c.Runs,
	}
	switch c.Status {
	case reconcile.Waiting:
		row.Kind, row.DueAt, row.Error = term.OrNull(string(c.Kind)), timeOrNull(c.DueAt), project.ErrorText(c.ErrorCode, c.ErrorMessage)
	case reconcile.Held:
		row.HoldReason, row.HeldAt, row.Error = term.OrNull(c.HoldReason), timeOrNull(c.HeldAt), project.ErrorText(c.ErrorCode, c.ErrorMessage)
	case reconcile.Running:
	}
	return row
}

func (v *IssueView) addRequests(f *issueFacts) error {
	if len(f.requests) == 0 {
		return nil
	}
	at, err := Instant()
	for _, r := range f.requests {
		v.Requests = append(v.Requests, newPendingRow(r, f.now, at))
	}
	return err
}

// addRuns adds the timeline, and to the totals what is not settled yet.
func (v *IssueView) addRuns(p *project.Project, f *issueFacts) {
	for _, r := range f.runs {
		v.Runs = append(v.Runs, issueRun{
			RunID: r.ID, Kind: string(r.Kind), Attempt: attemptOf(r.Attempt), Phase: string(r.Phase), Outcome: term.OrNull(string(r.Outcome)),
			Error: project.ErrorText(r.ErrorCode, r.ErrorText), StartedAt: r.StartedAt.UTC(), EndedAt: timeOrNull(r.EndedAt),
			Turns: r.Turns, Tokens: TokensRow(r.Tokens), ThreadID: term.OrNull(r.ThreadID), AfterRunError: term.OrNull(r.AfterRunError),
		})
		if r.Kind != reconcile.AgentRun {
			continue
		}
		if v.LogDir == nil {
			v.LogDir = term.OrNull(runner.RunDir(p.StateDir, r.ID))
		}
		if v.ThreadID == nil {
			v.ThreadID = term.OrNull(r.ThreadID)
		}
		if !r.Settled {
			f.workerGone = project.WorkerDead(p, r)
			v.Tokens.TokensRow = TokensRow(reconcile.Tokens(v.Tokens.TokensRow).Plus(r.Tokens))
			end := r.EndedAt
			if end.IsZero() {
				end = f.now
			}
			v.Tokens.Seconds += max(end.Sub(r.StartedAt).Seconds(), 0)
		}
	}
}
