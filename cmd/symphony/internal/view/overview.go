// Package view is the read model: what symphony knows of a project, of one issue, and of a period, as typed values. Their
// JSON is the output of ps, show and report with --json (specification 13.7 with additions): times are RFC 3339 in UTC,
// absent values are null, lists are never null. Package render makes text of them.
package view

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/state"
)

// Overview is the state of a project at one moment.
type Overview struct {
	GeneratedAt time.Time `json:"generated_at"`
	Counts      Counts    `json:"counts"`
	Claims
	Kept     []KeptRow    `json:"kept_workspaces"`
	Requests []RequestRow `json:"pending_requests"`
	// PullRequests are those that the tracker has described, the last seen first.
	PullRequests []PullRequestRow     `json:"pull_requests"`
	Totals       Totals               `json:"codex_totals"`
	RateLimits   json.RawMessage      `json:"rate_limits"`
	LastPass     *project.LastPassRow `json:"last_pass"`
	Paused       bool                 `json:"paused"`
	Blocked      *project.BlockedRow  `json:"blocked"`
	Budget       *BudgetRow           `json:"budget"` // null without agent.budget_per_day
	// Schedule is set while cron, a timer or --loop runs passes. Without a schedule no new run starts.
	Schedule bool `json:"schedule_active"`
	// LowUntil is set while too little of the tracker's allowance is left to look for new work.
	LowUntil *time.Time `json:"tracker_low_until"`
	// NextPass is when the schedule's next pass is expected; null where its passes show no rhythm yet.
	NextPass *NextPass  `json:"next_pass"`
	Project  ProjectRow `json:"project"`
	// Error says why a project of several can't be read; left out otherwise.
	Error *reconcile.Error `json:"error,omitzero"`
	// Rows are the issues of all the lists above and below, one row each.
	Rows []Row `json:"issues"`
	// Skipped and Ended are read on request only (see Options), otherwise nil and left out.
	Skipped []SkippedRow `json:"skipped,omitzero"`
	Ended   []RunRow     `json:"ended,omitzero"`

	// Health and Results are read with the ended runs, otherwise nil and left out.
	Health  *Health  `json:"health,omitzero"`
	Results *Results `json:"results,omitzero"`

	// scheduledAt is when the last pass of a schedule began; zero if there was none.
	scheduledAt time.Time
	// SkippedCount is how many candidates the last pass skipped, also where Skipped is not read.
	SkippedCount int `json:"-"`
	// Issues are the identifiers or ids that the overview was confined to, as the caller gave them.
	Issues []string `json:"-"`
}

// Claims are the claims by their status.
type Claims struct {
	Running  []RunningRow  `json:"running"`
	Retrying []RetryingRow `json:"retrying"`
	Held     []HeldRow     `json:"held"`
	// Undelivered are those of them with commits that are not pushed yet.
	Undelivered []UndeliveredRow `json:"undelivered"`
}

// Counts are the numbers of claims by status.
type Counts struct {
	Running  int `json:"running"`
	Retrying int `json:"retrying"`
	Held     int `json:"held"`
	// Undelivered counts those of them with commits that could not be pushed.
	Undelivered int `json:"undelivered"`
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
	Project       string          `json:"project"`
	IssueID       string          `json:"issue_id"`
	Identifier    string          `json:"issue_identifier"`
	IssueURL      *string         `json:"issue_url"`
	Title         string          `json:"title"`
	State         string          `json:"state"`
	Activity      string          `json:"activity"` // the agent's last command, or the first line of its last sentence
	SessionID     *string         `json:"session_id"`
	TurnCount     int             `json:"turn_count"`
	LastEvent     *string         `json:"last_event"`
	LastMessage   string          `json:"last_message"`
	StartedAt     time.Time       `json:"started_at"`
	LastEventAt   *time.Time      `json:"last_event_at"`
	Tokens        Tokens          `json:"tokens"`
	RunID         string          `json:"run_id"`
	PID           *int            `json:"pid"`
	Attempt       *int            `json:"attempt"`
	Phase         reconcile.Phase `json:"phase"`
	StopReason    *string         `json:"stop_reason"`
	HeartbeatAt   *time.Time      `json:"heartbeat_at"`
	ThreadID      *string         `json:"thread_id"`
	WorkspacePath *string         `json:"workspace_path"`
	Host          *string         `json:"host"`
	Alive         bool            `json:"worker_alive"`
	// WaitsFor are the ids of the run's open requests.
	WaitsFor []string `json:"waits_for"`
	run      reconcile.Run
}

// RetryingRow is a claim that waits for its next run.
type RetryingRow struct {
	Project    string              `json:"project"`
	IssueID    string              `json:"issue_id"`
	Identifier string              `json:"issue_identifier"`
	IssueURL   *string             `json:"issue_url"`
	Title      string              `json:"title"`
	Attempt    *int                `json:"attempt"`
	DueAt      time.Time           `json:"due_at"`
	Error      *string             `json:"error"`
	Kind       reconcile.RetryKind `json:"kind"`

	ErrorCode string `json:"-"` // of Error
}

// HeldRow is a claim that waits for an operator or for a change of the issue.
type HeldRow struct {
	Project    string    `json:"project"`
	IssueID    string    `json:"issue_id"`
	Identifier string    `json:"issue_identifier"`
	IssueURL   *string   `json:"issue_url"`
	Title      string    `json:"title"`
	Reason     string    `json:"reason"`
	Message    string    `json:"message"`
	HeldAt     time.Time `json:"held_at"`

	ErrorCode string `json:"-"` // of the last run
	text      string // Message, with what went wrong near its beginning
}

func (f *facts) heldRow(c reconcile.Claim) HeldRow {
	row := HeldRow{f.name, c.IssueID, c.Identifier, c.Issue.URL, c.Issue.Title, c.HoldReason, c.HoldText(), c.HeldAt, c.ErrorCode, c.HoldText()}
	if c.HoldReason == reconcile.HoldMaxFailures {
		c.HoldMessage = text.Plural(c.Failures, "run") + " failed: " + cmp.Or(c.ErrorMessage, c.ErrorCode)
		row.text = c.HoldText()
	}
	return row
}

// UndeliveredRow is a claim with commits that are not pushed yet. Nothing failed if Error is null: they are pushed next.
type UndeliveredRow struct {
	Project    string     `json:"project"`
	IssueID    string     `json:"issue_id"`
	Identifier string     `json:"issue_identifier"`
	IssueURL   *string    `json:"issue_url"`
	Title      string     `json:"title"`
	Tries      int        `json:"failed_tries"` // in a row
	Since      *time.Time `json:"since"`        // when the first of them failed
	Error      *string    `json:"error"`        // of the last of them
}

// RunRow is one run.
type RunRow struct {
	Project       string             `json:"project"`
	RunID         string             `json:"run_id"`
	Identifier    string             `json:"issue_identifier"`
	IssueURL      *string            `json:"issue_url"`
	Title         string             `json:"title"`
	Kind          reconcile.RunKind  `json:"kind"`
	Attempt       *int               `json:"attempt"`
	Phase         reconcile.Phase    `json:"phase"`
	Outcome       *reconcile.Outcome `json:"outcome"`
	Error         *string            `json:"error"`
	AfterRunError *string            `json:"after_run_error"` // does not change the outcome
	// Delivery is what became of the commits; null where no delivery was tried. It does not change the outcome of an agent's run.
	Delivery  *reconcile.DeliveryResult `json:"delivery"`
	StartedAt time.Time                 `json:"started_at"`
	EndedAt   *time.Time                `json:"ended_at"`
	Turns     int                       `json:"turn_count"`
	Tokens    Tokens                    `json:"tokens"`
	Cost      *Cost                     `json:"cost"` // of these tokens; null without agent.prices
	ThreadID  *string                   `json:"thread_id"`
	issueID   string
}

// NextPass is the schedule's next pass.
type NextPass struct {
	At      time.Time `json:"at"`
	Trigger string    `json:"trigger"`
}

// SkippedRow is a candidate that the last pass that fetched candidates did not start.
type SkippedRow struct {
	Project string `json:"project"`
	state.StoredSkip
}

// PullRequestRow is the pull request of an issue's branch.
type PullRequestRow struct {
	Project string `json:"project"`
	state.PullRequest
}

// ProjectRow names the project. Kind and slug are null where the workflow can't be read.
type ProjectRow struct {
	// Name is that of the folder of WORKFLOW.md, or of the state directory where the workflow is not known. In the rows of several
	// projects with the same name, the later ones have a number behind it.
	Name         string  `json:"name"`
	WorkflowPath string  `json:"workflow_path"`
	StateDir     string  `json:"state_dir"`
	TrackerKind  *string `json:"tracker_kind"`
	ProjectSlug  *string `json:"project_slug"`
}

func newProjectRow(workflowPath, stateDir string) ProjectRow {
	name := filepath.Base(stateDir)
	if workflowPath != "" {
		name = filepath.Base(filepath.Dir(workflowPath))
	}
	return ProjectRow{Name: name, WorkflowPath: workflowPath, StateDir: stateDir}
}

// Options say how much of an overview to read.
type Options struct {
	All    bool     // also skipped candidates and ended runs
	Ended  int      // how many ended runs; 0: the usual number
	Issues []string // identifiers or ids to confine the rows to; empty for all
	Name   string   // of the project; empty for that of its folder
}

// Read reads the overview of a project.
func Read(ctx context.Context, p *project.Project, o Options) (Overview, error) {
	f := facts{p: p, name: o.Name, now: p.Env.Now().UTC()}
	if err := f.open(ctx); err != nil {
		return Overview{}, err
	}
	defer f.db.Close()
	for _, ref := range o.Issues {
		id, _, known, err := f.db.Views.FindIssue(ctx, ref)
		if err == nil && !known {
			err = UnknownIssue(ctx, f.db, ref, "it is neither claimed nor skipped, and has had no run")
		}
		if err != nil {
			return Overview{}, err
		}
		f.only = append(f.only, id)
	}
	var err error
	if f.recorded, err = f.db.Store.State(ctx); err != nil {
		return Overview{}, err
	}
	if err := f.read(ctx); err != nil {
		return Overview{}, err
	}
	kept, err := f.keptRows(ctx)
	if err != nil {
		return Overview{}, err
	}
	v := Overview{
		GeneratedAt: f.now, Claims: f.claims(), Kept: kept, Requests: []RequestRow{}, Issues: o.Issues, Paused: f.recorded.Paused,
		Blocked: f.block, Budget: f.budget, Schedule: f.schedule, NextPass: f.nextPass, Project: f.project(),
		scheduledAt: f.rhythm.Last.StartedAt,
	}
	v.count()
	if f.low.After(f.now) {
		v.LowUntil = &f.low
	}
	for _, r := range f.recorded.Runs {
		if r.Kind == reconcile.AgentRun {
			v.Totals.add(r, f.now)
		}
	}
	for _, r := range f.requests {
		if !f.wants(r.IssueID) {
			continue
		}
		row := f.requestRow(r)
		if i := slices.IndexFunc(v.Running, func(run RunningRow) bool { return run.RunID == r.RunID }); i >= 0 {
			row.IssueURL, row.Title = v.Running[i].IssueURL, v.Running[i].Title
		}
		v.Requests = append(v.Requests, row)
	}
	if err := v.addHistory(ctx, f, o); err != nil {
		return v, err
	}
	v.Rows = v.rows()
	return v, nil
}

// count counts the claims of the overview.
func (v *Overview) count() {
	v.Counts = Counts{len(v.Running), len(v.Retrying), len(v.Held), 0}
	for _, u := range v.Undelivered {
		if u.Error != nil {
			v.Counts.Undelivered++
		}
	}
}

// claims makes a row of each claim.
func (f *facts) claims() Claims {
	v := Claims{[]RunningRow{}, []RetryingRow{}, []HeldRow{}, []UndeliveredRow{}}
	runs := map[string]reconcile.Run{}
	for _, r := range f.recorded.Runs {
		runs[r.ID] = r
	}
	for _, c := range f.recorded.Claims {
		if !f.wants(c.IssueID) {
			continue
		}
		if d := c.Delivery; d.Due {
			v.Undelivered = append(v.Undelivered, UndeliveredRow{
				f.name, c.IssueID, c.Identifier, c.Issue.URL, c.Issue.Title, d.Tries, term.OrNull(d.FailedAt), ErrorText(d.Code, d.Message),
			})
		}
		switch c.Status {
		case reconcile.Running:
			r := runs[c.RunID]
			row := RunningRow{
				Project: f.name, IssueID: c.IssueID, Identifier: c.Identifier, IssueURL: c.Issue.URL, Title: c.Issue.Title, State: c.Issue.State, Activity: r.Activity, TurnCount: r.Turns,
				LastEvent: term.OrNull(r.LastEvent), LastMessage: r.LastMessage, StartedAt: r.StartedAt, LastEventAt: term.OrNull(r.LastEventAt),
				Tokens: Tokens(r.Tokens), RunID: c.RunID, PID: term.OrNull(r.Worker.PID), Attempt: term.OrNull(r.Attempt), Phase: r.Phase,
				StopReason: term.OrNull(r.StopReason), HeartbeatAt: term.OrNull(r.HeartbeatAt), ThreadID: term.OrNull(r.ThreadID),
				WorkspacePath: term.OrNull(r.WorkspacePath), Host: term.OrNull(r.Host), Alive: r.ID != "" && project.Alive(f.p.StateDir, r.ID),
				WaitsFor: []string{}, run: r,
			}
			if r.ThreadID != "" && r.TurnID != "" {
				row.SessionID = new(r.ThreadID + "-" + r.TurnID)
			}
			for _, q := range f.requests {
				if q.RunID == c.RunID {
					row.WaitsFor = append(row.WaitsFor, q.ID())
				}
			}
			v.Running = append(v.Running, row)
		case reconcile.Waiting:
			code, message := c.Fault()
			v.Retrying = append(v.Retrying, RetryingRow{
				f.name, c.IssueID, c.Identifier, c.Issue.URL, c.Issue.Title, term.OrNull(c.Attempt), c.DueAt, ErrorText(code, message), c.Kind, code,
			})
		case reconcile.Held:
			v.Held = append(v.Held, f.heldRow(c))
		}
	}
	return v
}

// addHistory adds the last pass, the rate limits, the totals of settled runs, and what Options ask for.
func (v *Overview) addHistory(ctx context.Context, f facts, o Options) error {
	var errs [8]error
	v.LastPass, errs[0] = project.LastPass(ctx, f.db)
	v.RateLimits, errs[1] = f.db.Views.RateLimits(ctx)
	totals, err := f.db.Views.Totals(ctx)
	v.Totals.Tokens = Tokens(reconcile.Tokens(v.Totals.Tokens).Plus(totals.Tokens))
	v.Totals.Seconds += totals.Runtime.Seconds()
	errs[2] = err
	skipped, err := f.db.Views.Skips(ctx)
	claimed := map[string]bool{} // since the pass that skipped the issue
	for _, c := range f.recorded.Claims {
		claimed[c.IssueID] = true
	}
	rows := []SkippedRow{}
	for _, s := range skipped {
		if !claimed[s.IssueID] && f.wants(s.IssueID) {
			rows = append(rows, SkippedRow{f.name, s})
		}
	}
	if v.SkippedCount = len(rows); o.All || len(o.Issues) > 0 {
		v.Skipped = rows
	}
	errs[3] = err
	pulls, err := f.db.Views.PullRequests(ctx)
	errs[5], v.PullRequests = err, []PullRequestRow{}
	for _, p := range pulls {
		if f.wants(p.IssueID) {
			v.PullRequests = append(v.PullRequests, PullRequestRow{f.name, p})
		}
	}
	slices.SortFunc(v.PullRequests, func(a, b PullRequestRow) int {
		return cmp.Or(b.SeenAt.Compare(a.SeenAt), cmp.Compare(a.Identifier, b.Identifier))
	})
	if o.All {
		runs, err := f.db.Views.EndedRuns(ctx, f.only, cmp.Or(o.Ended, project.PastRuns))
		v.Ended = []RunRow{}
		for _, r := range runs {
			v.Ended = append(v.Ended, f.runRow(r))
		}
		errs[4] = err
		v.Health, errs[6] = f.health(ctx)
		v.Results, errs[7] = f.results(ctx)
	}
	return errors.Join(errs[:]...)
}

func (f *facts) runRow(r reconcile.Run) RunRow {
	row := RunRow{
		Project: f.name, RunID: r.ID, issueID: r.IssueID, Identifier: r.Identifier, IssueURL: r.Issue.URL, Title: r.Issue.Title, Kind: r.Kind, Attempt: term.OrNull(r.Attempt), Phase: r.Phase,
		Outcome: term.OrNull(r.Outcome), Error: ErrorText(r.ErrorCode, r.ErrorText), AfterRunError: term.OrNull(r.AfterRunError),
		Delivery:  term.OrNull(r.Delivery),
		StartedAt: r.StartedAt, EndedAt: term.OrNull(r.EndedAt), Turns: r.Turns, Tokens: Tokens(r.Tokens), ThreadID: term.OrNull(r.ThreadID),
	}
	if f.cfg != nil {
		row.Cost = spend(f.cfg.Agent.Prices, reconcile.ModelUse{Model: r.Model, Tokens: r.Tokens}).Cost
	}
	return row
}

// facts are what is known of a project, whatever the issue.
type facts struct {
	p    *project.Project
	name string    // of the project
	db   *state.DB // nil before the first pass
	now  time.Time
	// only are the ids of the issues that a view is confined to, empty for all.
	only []string

	cfg      *workflow.Config
	cfgErr   error
	recorded reconcile.State
	requests []reconcile.Request // the open ones
	comments map[string]state.Comment
	instant  reconcile.Instant   // now, on the monotonic clock
	block    *project.BlockedRow // stops every issue
	low      time.Time           // until then the tracker's allowance counts as low
	budget   *BudgetRow
	today    []reconcile.ModelUse // read with the budget
	rhythm   project.Rhythm       // of the schedule
	schedule bool                 // something runs passes
	nextPass *NextPass            // nil where the schedule's passes show no rhythm yet
}

// open opens the database. Where the command line named only a state directory, the workflow is the one that it belongs to.
func (f *facts) open(ctx context.Context) (err error) {
	f.db, err = project.OpenForReading(ctx, f.p)
	if err == nil && f.p.SourceErr != nil {
		f.p = ownerOf(ctx, f.p, f.db)
	}
	f.name = cmp.Or(f.name, newProjectRow(f.p.Path, f.p.StateDir).Name)
	return err
}

// ownerOf returns the project with the workflow that owns its state directory; the project itself if that is not known.
func ownerOf(ctx context.Context, p *project.Project, db *state.DB) *project.Project {
	if path, known, err := db.Meta(ctx, project.OwnerKey); err == nil && known {
		return project.New(p.Env, path, p.StateDir)
	}
	return p
}

// read reads the facts beside the recorded state, which the caller has read. Without a database they come from the workflow
// and the account.
func (f *facts) read(ctx context.Context) (err error) {
	f.cfg, f.cfgErr = f.p.ConfigWithoutKey()
	// The tracker's and the machine's block matter most, then the account's, then the agent's.
	f.block = project.BlockedBy(f.recorded)
	if f.cfg != nil && f.recorded.TrackerBlock == nil && f.recorded.HostBlock == nil {
		if b := project.AccountBlock(project.OpenAccount(f.p, f.cfg.Codex.Home), f.now); b != nil {
			f.block = b
		}
	}
	if f.instant, err = Instant(); err != nil || f.db == nil {
		return err
	}
	var errs [5]error
	f.budget, errs[3] = f.readBudget(ctx)
	f.requests, errs[0] = OpenRequests(ctx, f.p, f.db)
	f.comments, errs[4] = f.db.Store.Comments(ctx, nil)
	f.low, errs[1] = project.LowUntil(ctx, f.p, f.db)
	f.rhythm, errs[2] = project.ReadRhythm(ctx, f.db, f.now)
	f.schedule = f.rhythm.Alive || project.Looping(f.p.StateDir)
	if f.rhythm.Gap > 0 && f.schedule {
		f.nextPass = &NextPass{At: f.rhythm.Last.StartedAt.Add(f.rhythm.Gap), Trigger: f.rhythm.Last.Trigger}
	}
	return errors.Join(errs[:]...)
}

func (f *facts) wants(issueID string) bool {
	return len(f.only) == 0 || slices.Contains(f.only, issueID)
}

func (f *facts) project() ProjectRow {
	row := newProjectRow(f.p.Path, f.p.StateDir)
	row.Name = f.name
	if f.cfg != nil {
		row.TrackerKind, row.ProjectSlug = &f.cfg.Tracker.Kind, &f.cfg.Tracker.Place
	}
	return row
}

// Instant is the present moment on the monotonic clock, with the boot that it belongs to.
func Instant() (reconcile.Instant, error) {
	boot, err := proc.BootID()
	return reconcile.Instant{Boot: boot, Mono: proc.Monotonic()}, err
}

// UnknownIssue is the error for an issue that the database does not know. It suggests a similar identifier, and to ask the
// tracker unless that was done.
func UnknownIssue(ctx context.Context, db *state.DB, ref, why string) error {
	names, err := db.Views.Identifiers(ctx)
	if err != nil {
		return err
	}
	if same := project.WithNumber(names, ref); len(same) > 1 {
		return project.NumberOfSeveral(ref, same)
	}
	hint := "symphony ps --all lists the known issues"
	if why != notInTracker {
		hint += "; symphony show " + ref + " asks the tracker"
	}
	return &reconcile.Error{Code: "issue_not_found", Message: ref + " is not known here: " + why + text.DidYouMean(ref, names, "%s"), Hint: hint}
}

// WorkspacePath is the workspace of an issue's last run.
func WorkspacePath(ctx context.Context, p *project.Project, ref string) (path, identifier string, err error) {
	db, err := project.OpenForReading(ctx, p)
	if err != nil {
		return "", "", err
	}
	defer db.Close()
	id, identifier, known, err := db.Views.FindIssue(ctx, ref)
	if err != nil {
		return "", "", err
	}
	if !known {
		return "", "", UnknownIssue(ctx, db, ref, "it has no workspace")
	}
	run, _, err := db.Views.LastRun(ctx, id)
	if err == nil && run.WorkspacePath == "" {
		err = &reconcile.Error{Code: "workspace_not_found", Message: identifier + " has had no workspace yet", Hint: "symphony show " + identifier + " says why"}
	}
	return run.WorkspacePath, identifier, err
}

// ErrorText is "<code>: <message>", nil where there is neither. The errors that the specification words itself stand without
// a code.
func ErrorText(code, message string) *string {
	switch {
	case code == "" && message == "":
		return nil
	case code == "" || code == reconcile.CodeSpawnFailed || code == string(reconcile.Stalled):
		return &message
	case message == "":
		return &code
	}
	return new(code + ": " + message)
}
