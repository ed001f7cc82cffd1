// Package view is the read model: what symphony knows of a project, of one issue, and of a period, as typed values. Their
// JSON is the output of ps, show and report with --json (specification 13.7 with additions): times are RFC 3339 in UTC,
// absent values are null, lists are never null. Package render makes text of them.
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

// Overview is the state of a project at one moment.
type Overview struct {
	GeneratedAt time.Time            `json:"generated_at"`
	Counts      Counts               `json:"counts"`
	Running     []RunningRow         `json:"running"`
	Retrying    []RetryingRow        `json:"retrying"`
	Held        []HeldRow            `json:"held"`
	Requests    []RequestRow         `json:"pending_requests"`
	Totals      Totals               `json:"codex_totals"`
	RateLimits  json.RawMessage      `json:"rate_limits"`
	LastPass    *project.LastPassRow `json:"last_pass"`
	Paused      bool                 `json:"paused"`
	Blocked     *project.BlockedRow  `json:"blocked"`
	// Schedule is set while cron, a timer or --loop runs passes. Without a schedule no new run starts.
	Schedule bool `json:"schedule_active"`
	// LowUntil is set while too little of the tracker's allowance is left to look for new work.
	LowUntil *time.Time `json:"tracker_low_until"`
	// NextPass is when the schedule's next pass is expected; null where its passes show no rhythm yet.
	NextPass *NextPass  `json:"next_pass"`
	Project  ProjectRow `json:"project"`
	// Skipped and Ended are read on request only (see Options), otherwise nil and left out.
	Skipped []SkippedRow `json:"skipped,omitzero"`
	Ended   []EndedRow   `json:"ended,omitzero"`

	// SkippedCount is how many candidates the last pass skipped, also where Skipped is not read.
	SkippedCount int `json:"-"`
	// Issues are the identifiers or ids that the overview was confined to, as the caller gave them.
	Issues []string `json:"-"`
}

// Low reports whether too little of the tracker's allowance is left to look for new work.
func (v Overview) Low() bool { return v.LowUntil != nil && v.LowUntil.After(v.GeneratedAt) }

// Counts are the numbers of claims by status.
type Counts struct {
	Running  int `json:"running"`
	Retrying int `json:"retrying"`
	Held     int `json:"held"`
}

// Tokens are token counts. Cached is part of Input, Reasoning part of Output.
type Tokens struct {
	Input     int64 `json:"input_tokens"`
	Cached    int64 `json:"cached_input_tokens"`
	Output    int64 `json:"output_tokens"`
	Reasoning int64 `json:"reasoning_output_tokens"`
	Total     int64 `json:"total_tokens"`
}

// Totals are what runs have used.
type Totals struct {
	Tokens
	Seconds float64 `json:"seconds_running"`
}

// add counts the run's use so far; a run without an end counts up to now.
func (t *Totals) add(r reconcile.Run, now time.Time) {
	end := r.EndedAt
	if end.IsZero() {
		end = now
	}
	t.Tokens = Tokens(reconcile.Tokens(t.Tokens).Plus(r.Tokens))
	t.Seconds += max(end.Sub(r.StartedAt).Seconds(), 0)
}

// RunningRow is a claim whose run is not settled.
type RunningRow struct {
	IssueID       string     `json:"issue_id"`
	Identifier    string     `json:"issue_identifier"`
	IssueURL      *string    `json:"issue_url"`
	State         string     `json:"state"`
	SessionID     *string    `json:"session_id"`
	TurnCount     int        `json:"turn_count"`
	LastEvent     *string    `json:"last_event"`
	LastMessage   string     `json:"last_message"`
	StartedAt     time.Time  `json:"started_at"`
	LastEventAt   *time.Time `json:"last_event_at"`
	Tokens        Tokens     `json:"tokens"`
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
	// WaitsFor are the ids of the run's open requests.
	WaitsFor []string `json:"waits_for"`
}

// RetryingRow is a claim that waits for its next run.
type RetryingRow struct {
	IssueID    string    `json:"issue_id"`
	Identifier string    `json:"issue_identifier"`
	IssueURL   *string   `json:"issue_url"`
	Attempt    *int      `json:"attempt"`
	DueAt      time.Time `json:"due_at"`
	Error      *string   `json:"error"`
	Kind       string    `json:"kind"`
}

// HeldRow is a claim that waits for an operator or for a change of the issue.
type HeldRow struct {
	IssueID    string    `json:"issue_id"`
	Identifier string    `json:"issue_identifier"`
	IssueURL   *string   `json:"issue_url"`
	Reason     string    `json:"reason"`
	Message    string    `json:"message"`
	HeldAt     time.Time `json:"held_at"`
}

// NextPass is the schedule's next pass.
type NextPass struct {
	At      time.Time `json:"at"`
	Trigger string    `json:"trigger"`
}

// ProjectRow names the project. Kind and slug are null where the workflow can't be read.
type ProjectRow struct {
	WorkflowPath string  `json:"workflow_path"`
	StateDir     string  `json:"state_dir"`
	TrackerKind  *string `json:"tracker_kind"`
	ProjectSlug  *string `json:"project_slug"`
}

// SkippedRow is a candidate that the last pass did not take.
type SkippedRow struct {
	IssueID    string    `json:"issue_id"`
	Identifier string    `json:"issue_identifier"`
	Reason     string    `json:"reason"`
	Message    string    `json:"message"`
	Since      time.Time `json:"since"`
}

// EndedRow is a run that has ended.
type EndedRow struct {
	RunID         string    `json:"run_id"`
	Identifier    string    `json:"issue_identifier"`
	IssueURL      *string   `json:"issue_url"`
	Kind          string    `json:"kind"`
	Outcome       string    `json:"outcome"`
	Error         *string   `json:"error"`
	AfterRunError *string   `json:"after_run_error"`
	StartedAt     time.Time `json:"started_at"`
	EndedAt       time.Time `json:"ended_at"`
	Turns         int       `json:"turn_count"`
	Tokens        Tokens    `json:"tokens"`
}

// Options say how much of an overview to read.
type Options struct {
	All    bool     // also skipped candidates and ended runs
	Ended  int      // how many ended runs; 0: the usual number
	Issues []string // identifiers or ids to confine the rows to; empty for all
}

// Read reads the overview of a project.
func Read(ctx context.Context, p *project.Project, o Options) (Overview, error) {
	db, err := project.OpenForReading(ctx, p)
	if err != nil {
		return Overview{}, err
	}
	defer db.Close()
	v := Overview{
		GeneratedAt: p.Env.Now().UTC(), Running: []RunningRow{}, Retrying: []RetryingRow{}, Held: []HeldRow{}, Requests: []RequestRow{},
		Project: ProjectRow{WorkflowPath: p.Path, StateDir: p.StateDir}, Issues: o.Issues,
	}
	if path, known, err := db.Meta(ctx, project.OwnerKey); err != nil {
		return v, err
	} else if known && p.SourceErr != nil {
		v.Project.WorkflowPath = path
	}
	only, err := findIssues(ctx, db, o.Issues)
	if err != nil {
		return v, err
	}
	recorded, err := db.Store.State(ctx)
	if err != nil {
		return v, err
	}
	v.Paused = recorded.Paused
	v.addClaims(p, recorded, only)
	v.addBlocks(p, recorded)
	if err := v.addRequests(ctx, p, db, only); err != nil {
		return v, err
	}
	if err := v.addAllowance(ctx, p, db); err != nil {
		return v, err
	}
	if err := v.addSchedule(ctx, p, db); err != nil {
		return v, err
	}
	if err := v.addHistory(ctx, db, recorded); err != nil {
		return v, err
	}
	if err := v.addSkipped(ctx, db, only, o.All || len(o.Issues) > 0); err != nil || !o.All {
		return v, err
	}
	return v, v.addEnded(ctx, db, only, o.Ended)
}

func (v *Overview) addClaims(p *project.Project, recorded reconcile.State, only issueSet) {
	runs := map[string]reconcile.Run{}
	for _, r := range recorded.Runs {
		runs[r.ID] = r
	}
	for _, c := range recorded.Claims {
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
	v.Counts = Counts{len(v.Running), len(v.Retrying), len(v.Held)}
}

func newRunningRow(p *project.Project, c reconcile.Claim, r reconcile.Run) RunningRow {
	row := RunningRow{
		IssueID: c.IssueID, Identifier: c.Identifier, IssueURL: c.Issue.URL, State: c.Issue.State, TurnCount: r.Turns,
		LastEvent: term.OrNull(r.LastEvent), LastMessage: r.LastMessage, StartedAt: r.StartedAt.UTC(), LastEventAt: timeOrNull(r.LastEventAt),
		Tokens: Tokens(r.Tokens), RunID: c.RunID, Attempt: attemptOrNull(r.Attempt), Phase: string(r.Phase),
		StopReason: term.OrNull(r.StopReason), HeartbeatAt: timeOrNull(r.HeartbeatAt), ThreadID: term.OrNull(r.ThreadID),
		WorkspacePath: term.OrNull(r.WorkspacePath), Host: term.OrNull(r.Host), Alive: r.ID != "" && project.Alive(p.StateDir, r.ID),
		WaitsFor: []string{},
	}
	if r.ThreadID != "" && r.TurnID != "" {
		row.SessionID = new(r.ThreadID + "-" + r.TurnID)
	}
	if r.Worker.PID != 0 {
		row.PID = &r.Worker.PID
	}
	return row
}

func newRetryingRow(c reconcile.Claim) RetryingRow {
	return RetryingRow{
		IssueID: c.IssueID, Identifier: c.Identifier, IssueURL: c.Issue.URL, Attempt: attemptOrNull(c.Attempt), DueAt: c.DueAt.UTC(),
		Error: project.ErrorText(c.ErrorCode, c.ErrorMessage), Kind: string(c.Kind),
	}
}

func newHeldRow(c reconcile.Claim) HeldRow {
	return HeldRow{c.IssueID, c.Identifier, c.Issue.URL, c.HoldReason, c.HoldText(), c.HeldAt.UTC()}
}

// addBlocks adds the project's name and the block that matters most: the tracker's and the machine's come before the
// account's, which comes before the agent's.
func (v *Overview) addBlocks(p *project.Project, recorded reconcile.State) {
	v.Blocked = project.BlockedBy(recorded)
	cfg, err := readConfig(p)
	if err != nil {
		return
	}
	v.Project.TrackerKind, v.Project.ProjectSlug = &cfg.Tracker.Kind, &cfg.Tracker.ProjectSlug
	if recorded.TrackerBlock != nil || recorded.HostBlock != nil {
		return
	}
	if b := project.AccountBlock(project.OpenAccount(p, cfg.Codex.Home), p.Env.Now()); b != nil {
		v.Blocked = b
	}
}

// readConfig parses the workflow without the tracker's key.
func readConfig(p *project.Project) (*workflow.Config, error) {
	switch {
	case p.SourceErr != nil:
		return nil, p.SourceErr
	case p.EnvErr != nil:
		return nil, p.EnvErr
	}
	env := p.Environment(nil)
	env.KeyOptional = true
	return workflow.Parse(p.Source, env)
}

func (v *Overview) addAllowance(ctx context.Context, p *project.Project, db *state.DB) error {
	low, err := project.LowUntil(ctx, p, db)
	if low.After(v.GeneratedAt) {
		v.LowUntil = timeOrNull(low)
	}
	return err
}

func (v *Overview) addSchedule(ctx context.Context, p *project.Project, db *state.DB) error {
	alive, err := project.ScheduleAlive(ctx, db, v.GeneratedAt)
	if err != nil {
		return err
	}
	if v.Schedule = alive || project.Looping(p.StateDir); !v.Schedule {
		return nil
	}
	passes, err := db.Views.ScheduleGaps(ctx)
	if gap, known := project.UsualGap(passes); known {
		v.NextPass = &NextPass{At: passes[0].StartedAt.Add(gap).UTC(), Trigger: passes[0].Trigger}
	}
	return err
}

// addHistory adds the last pass, the rate limits, and the totals: the settled runs and what the others have used so far.
func (v *Overview) addHistory(ctx context.Context, db *state.DB, recorded reconcile.State) error {
	var err error
	if v.LastPass, err = project.LastPass(ctx, db); err != nil {
		return err
	}
	totals, err := db.Views.Totals(ctx)
	if err != nil {
		return err
	}
	v.Totals = Totals{Tokens(totals.Tokens), totals.Runtime.Seconds()}
	for _, r := range recorded.Runs {
		if r.Kind == reconcile.AgentRun {
			v.Totals.add(r, v.GeneratedAt)
		}
	}
	v.RateLimits, err = db.Views.RateLimits(ctx)
	return err
}

func (v *Overview) addSkipped(ctx context.Context, db *state.DB, only issueSet, list bool) error {
	skips, err := db.Views.Skips(ctx)
	if err != nil {
		return err
	}
	if list {
		v.Skipped = []SkippedRow{}
	}
	for _, s := range skips {
		if !only.has(s.IssueID) {
			continue
		}
		v.SkippedCount++
		if list {
			v.Skipped = append(v.Skipped, SkippedRow{s.IssueID, s.Identifier, s.Reason, s.Message, s.Since.UTC()})
		}
	}
	return nil
}

func (v *Overview) addEnded(ctx context.Context, db *state.DB, only issueSet, limit int) error {
	if limit == 0 {
		limit = project.PastRuns
	}
	runs, err := db.Views.EndedRuns(ctx, only.ids(), limit)
	v.Ended = []EndedRow{}
	for _, r := range runs {
		v.Ended = append(v.Ended, EndedRow{
			RunID: r.ID, Identifier: r.Identifier, IssueURL: r.Issue.URL, Kind: string(r.Kind), Outcome: string(r.Outcome),
			Error: project.ErrorText(r.ErrorCode, r.ErrorText), AfterRunError: term.OrNull(r.AfterRunError), StartedAt: r.StartedAt.UTC(),
			EndedAt: r.EndedAt.UTC(), Turns: r.Turns, Tokens: Tokens(r.Tokens),
		})
	}
	return err
}

// attemptOrNull is null for a first run (specification 4.1.5).
func attemptOrNull(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}
