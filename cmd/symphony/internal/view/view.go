package view

import (
	"context"
	"encoding/json"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

// view is what symphony knows at one instant, in the shape of the specification's 13.7 with our additions.
// Times are RFC 3339 UTC, what is absent is null, lists are never null.
type View struct {
	GeneratedAt time.Time            `json:"generated_at"`
	Counts      ViewCounts           `json:"counts"`
	Running     []RunningRow         `json:"running"`
	Retrying    []RetryingRow        `json:"retrying"`
	Held        []heldRow            `json:"held"`
	Requests    []PendingRow         `json:"pending_requests"`
	Totals      TotalsRow            `json:"codex_totals"`
	RateLimits  json.RawMessage      `json:"rate_limits"`
	LastPass    *project.LastPassRow `json:"last_pass"`
	Paused      bool                 `json:"paused"`
	Blocked     *project.BlockedRow  `json:"blocked"`
	// Schedule says that passes are run by cron, a timer or --loop; without one nothing new is started.
	Schedule bool `json:"schedule_active"`
	// LowUntil is set while too little of the tracker's allowance is left to look for new work; null otherwise.
	LowUntil *time.Time `json:"tracker_low_until"`
	// NextPass is when the schedule comes again; null where its passes show no rhythm yet.
	NextPass *nextPassRow `json:"next_pass"`
	Project  projectRow   `json:"project"`
	// Skipped and Ended are part of ps --all only, Skipped also where issues are named: nil otherwise.
	Skipped []skippedRow `json:"skipped,omitzero"`
	Ended   []endedRow   `json:"ended,omitzero"`
	Skips   int          // how many candidates the last pass skipped
	Chosen  []string     // the issues that it is confined to
}

type ViewCounts struct {
	Running  int `json:"running"`
	Retrying int `json:"retrying"`
	Held     int `json:"held"`
}

type TokensRow struct {
	Input     int64 `json:"input_tokens"`
	Cached    int64 `json:"cached_input_tokens"` // part of Input
	Output    int64 `json:"output_tokens"`
	Reasoning int64 `json:"reasoning_output_tokens"` // part of Output
	Total     int64 `json:"total_tokens"`
}

type TotalsRow struct {
	TokensRow
	Seconds float64 `json:"seconds_running"`
}

type RunningRow struct {
	IssueID       string     `json:"issue_id"`
	Identifier    string     `json:"issue_identifier"`
	State         string     `json:"state"`
	SessionID     *string    `json:"session_id"`
	TurnCount     int        `json:"turn_count"`
	LastEvent     *string    `json:"last_event"`
	LastMessage   string     `json:"last_message"`
	StartedAt     time.Time  `json:"started_at"`
	LastEventAt   *time.Time `json:"last_event_at"`
	Tokens        TokensRow  `json:"tokens"`
	RunID         string     `json:"run_id"`
	PID           *int       `json:"pid"`
	Attempt       *int       `json:"attempt"`
	Phase         string     `json:"phase"`
	StopReason    *string    `json:"stop_reason"`
	HeartbeatAt   *time.Time `json:"heartbeat_at"`
	ThreadID      *string    `json:"thread_id"`
	WorkspacePath *string    `json:"workspace_path"`
	Host          *string    `json:"host"`
	Alive         bool       `json:"worker_alive"`
	// WaitsFor names the requests of the run that a person is to decide.
	WaitsFor []string `json:"waits_for"`
}

type RetryingRow struct {
	IssueID    string    `json:"issue_id"`
	Identifier string    `json:"issue_identifier"`
	Attempt    *int      `json:"attempt"`
	DueAt      time.Time `json:"due_at"`
	Error      *string   `json:"error"`
	Kind       string    `json:"kind"`
}

type heldRow struct {
	IssueID    string    `json:"issue_id"`
	Identifier string    `json:"issue_identifier"`
	Reason     string    `json:"reason"`
	Message    string    `json:"message"`
	HeldAt     time.Time `json:"held_at"`
}

type projectRow struct {
	WorkflowPath string  `json:"workflow_path"`
	StateDir     string  `json:"state_dir"`
	TrackerKind  *string `json:"tracker_kind"`
	ProjectSlug  *string `json:"project_slug"`
}

type skippedRow struct {
	IssueID    string    `json:"issue_id"`
	Identifier string    `json:"issue_identifier"`
	Reason     string    `json:"reason"`
	Message    string    `json:"message"`
	Since      time.Time `json:"since"`
}

type endedRow struct {
	RunID      string    `json:"run_id"`
	Identifier string    `json:"issue_identifier"`
	Kind       string    `json:"kind"`
	Outcome    string    `json:"outcome"`
	Error      *string   `json:"error"`
	StartedAt  time.Time `json:"started_at"`
	EndedAt    time.Time `json:"ended_at"`
	Turns      int       `json:"turn_count"`
	Tokens     TokensRow `json:"tokens"`
}

// look reads the view; all is true for what has ended and what was skipped, too.
func ReadView(ctx context.Context, p *project.Project, all bool) (View, error) {
	return ReadViewFor(ctx, p, ViewOptions{All: all, Ended: project.PastRuns})
}

// viewOptions say what of the view is wanted.
type ViewOptions struct {
	All   bool // also what was skipped, and the runs that have ended
	Ended int  // how many of those
	// issues confines the rows to them; empty for all.
	Issues []string
}

func ReadViewFor(ctx context.Context, p *project.Project, o ViewOptions) (View, error) {
	db, err := project.OpenForReading(ctx, p)
	if err != nil {
		return View{}, err
	}
	defer db.Close()
	return viewOf(ctx, p, db, o)
}

// lookAt reads the view from an open database.
func viewOf(ctx context.Context, p *project.Project, db *state.DB, o ViewOptions) (View, error) {
	v := View{
		GeneratedAt: p.Env.Now().UTC(), Running: []RunningRow{}, Retrying: []RetryingRow{}, Held: []heldRow{}, Requests: []PendingRow{},
		Project: projectRow{WorkflowPath: p.Path, StateDir: p.StateDir},
	}
	if path, known, err := db.Meta(ctx, project.OwnerKey); err != nil {
		return v, err
	} else if known && p.SourceErr != nil {
		v.Project.WorkflowPath = path
	}
	only, err := choose(ctx, db, o.Issues)
	if err != nil {
		return v, err
	}
	rec, err := db.State(ctx)
	if err != nil {
		return v, err
	}
	v.Chosen = o.Issues
	v.claims(p, rec, only)
	if err := v.requests(ctx, p, db, only); err != nil {
		return v, err
	}
	v.Paused, v.Blocked = rec.Paused, project.BlockedBy(rec)
	v.tracker(p, rec)
	low, err := project.LowUntil(ctx, p, db)
	if err != nil {
		return v, err
	}
	if low.After(v.GeneratedAt) {
		v.LowUntil = timeOrNull(low)
	}
	if err := v.next(ctx, p, db); err != nil {
		return v, err
	}
	if err := v.skipped(ctx, db, only, o.All || len(o.Issues) > 0); err != nil {
		return v, err
	}
	if err := v.history(ctx, db, rec); err != nil || !o.All {
		return v, err
	}
	return v, v.past(ctx, db, only, o.Ended)
}

func (v *View) claims(p *project.Project, rec reconcile.State, only chosenIssues) {
	runs := map[string]reconcile.Run{}
	for _, r := range rec.Runs {
		runs[r.ID] = r
	}
	for _, c := range rec.Claims {
		if !only.has(c.IssueID) {
			continue
		}
		switch c.Status {
		case reconcile.Running:
			v.Running = append(v.Running, newRunningRow(p, c, runs[c.RunID]))
		case reconcile.Waiting:
			v.Retrying = append(v.Retrying, newRetryingRow(c))
		case reconcile.Held:
			v.Held = append(v.Held, newHeldRow(c))
		}
	}
	v.Counts = ViewCounts{len(v.Running), len(v.Retrying), len(v.Held)}
}

func newRetryingRow(c reconcile.Claim) RetryingRow {
	return RetryingRow{
		IssueID: c.IssueID, Identifier: c.Identifier, Attempt: attemptOf(c.Attempt), DueAt: c.DueAt.UTC(),
		Error: project.ErrorText(c.ErrorCode, c.ErrorMessage), Kind: string(c.Kind),
	}
}

func newHeldRow(c reconcile.Claim) heldRow {
	return heldRow{c.IssueID, c.Identifier, c.HoldReason, c.HoldText(), c.HeldAt.UTC()}
}

func newRunningRow(p *project.Project, c reconcile.Claim, r reconcile.Run) RunningRow {
	row := RunningRow{
		IssueID: c.IssueID, Identifier: c.Identifier, State: c.Issue.State, TurnCount: r.Turns,
		LastEvent: term.OrNull(r.LastEvent), LastMessage: r.LastMessage, StartedAt: r.StartedAt.UTC(), LastEventAt: timeOrNull(r.LastEventAt),
		Tokens: TokensRow(r.Tokens), RunID: c.RunID, Attempt: attemptOf(r.Attempt), Phase: string(r.Phase),
		StopReason: term.OrNull(r.StopReason), HeartbeatAt: timeOrNull(r.HeartbeatAt), ThreadID: term.OrNull(r.ThreadID),
		WorkspacePath: term.OrNull(r.WorkspacePath), Host: term.OrNull(r.Host), Alive: r.ID != "" && project.Alive(p.StateDir, r.ID),
		WaitsFor: []string{},
	}
	if r.ThreadID != "" && r.TurnID != "" {
		row.SessionID = term.OrNull(r.ThreadID + "-" + r.TurnID)
	}
	if r.Worker.PID != 0 {
		row.PID = &r.Worker.PID
	}
	return row
}

// attemptOf is null for a first run (specification 4.1.5).
func attemptOf(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// tracker names the project and what stops its account, as far as the workflow can be read.
func (v *View) tracker(p *project.Project, rec reconcile.State) {
	env := p.Environment(nil)
	env.KeyOptional = true
	if p.SourceErr != nil {
		return
	}
	if cfg, err := workflow.Parse(p.Source, env); err == nil {
		v.Project.TrackerKind, v.Project.ProjectSlug = &cfg.Tracker.Kind, &cfg.Tracker.ProjectSlug
		// What the account stops comes behind what stops everything else.
		if b := project.AccountBlock(project.OpenAccount(p, cfg.Codex.Home), p.Env.Now()); b != nil && rec.TrackerBlock == nil && rec.HostBlock == nil {
			v.Blocked = b
		}
	}
}

// history adds the last pass and the totals: settled runs, and what the running ones have used so far.
func (v *View) history(ctx context.Context, db *state.DB, rec reconcile.State) error {
	last, known, err := db.LastPass(ctx)
	if err != nil {
		return err
	}
	if known {
		v.LastPass = &project.LastPassRow{ID: last.ID, Trigger: last.Trigger, StartedAt: last.StartedAt.UTC(), DurationMS: last.Duration.Milliseconds(), Errors: []term.ErrorJSON{}}
		for _, e := range last.Errors {
			v.LastPass.Errors = append(v.LastPass.Errors, term.ErrorJSON{Code: e.Code, Message: e.Message})
		}
	}
	totals, err := db.Totals(ctx)
	if err != nil {
		return err
	}
	v.Totals = TotalsRow{TokensRow(totals.Tokens), totals.Runtime.Seconds()}
	for _, r := range rec.Runs {
		if r.Kind != reconcile.AgentRun {
			continue
		}
		end := r.EndedAt
		if end.IsZero() {
			end = v.GeneratedAt
		}
		v.Totals.TokensRow = TokensRow(reconcile.Tokens(v.Totals.TokensRow).Plus(r.Tokens))
		v.Totals.Seconds += max(end.Sub(r.StartedAt).Seconds(), 0)
	}
	v.RateLimits, err = db.RateLimits(ctx)
	return err
}

// skipped counts what the last pass skipped, and lists it where that is asked for.
func (v *View) skipped(ctx context.Context, db *state.DB, only chosenIssues, list bool) error {
	skips, err := db.Skips(ctx)
	if err != nil {
		return err
	}
	if list {
		v.Skipped = []skippedRow{}
	}
	for _, s := range skips {
		if !only.has(s.IssueID) {
			continue
		}
		v.Skips++
		if list {
			v.Skipped = append(v.Skipped, skippedRow{s.IssueID, s.Identifier, s.Reason, s.Message, s.Since.UTC()})
		}
	}
	return nil
}

func (v *View) past(ctx context.Context, db *state.DB, only chosenIssues, limit int) error {
	runs, err := db.EndedRuns(ctx, only.ids(), limit)
	if err != nil {
		return err
	}
	v.Ended = []endedRow{}
	for _, r := range runs {
		v.Ended = append(v.Ended, endedRow{
			RunID: r.ID, Identifier: r.Identifier, Kind: string(r.Kind), Outcome: string(r.Outcome),
			Error: project.ErrorText(r.ErrorCode, r.ErrorText), StartedAt: r.StartedAt.UTC(), EndedAt: r.EndedAt.UTC(),
			Turns: r.Turns, Tokens: TokensRow(r.Tokens),
		})
	}
	return nil
}

// Low reports whether too little of the tracker's allowance is left to look for new work.
func (v *View) Low() bool { return v.LowUntil != nil && v.LowUntil.After(v.GeneratedAt) }
