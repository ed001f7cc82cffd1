package view

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/host/local/git"
	"github.com/symphony-cron/symphony/state"
)

// Issue is what symphony knows of one issue, claimed or not.
type Issue struct {
	GeneratedAt time.Time       `json:"generated_at"`
	Issue       KnownIssue      `json:"issue"`
	Claim       *ClaimRow       `json:"claim"`
	Why         Why             `json:"why"`
	Next        Next            `json:"next"`
	Runs        []RunRow        `json:"runs"` // the newest first
	RunsKept    int             `json:"runs_kept"`
	ThreadID    *string         `json:"thread_id"`
	Workspace   *WorkspaceRow   `json:"workspace"`
	Totals      Totals          `json:"codex_totals"`
	Requests    []RequestRow    `json:"pending_requests"`
	LogDir      *string         `json:"log_dir"`
	TrackerErr  *term.ErrorJSON `json:"tracker_error"` // why the tracker did not answer
	// Commands are an operator's commands about the issue that no pass has carried out yet.
	Commands []string   `json:"pending_commands"`
	Schedule bool       `json:"schedule_active"`
	Project  ProjectRow `json:"project"`
}

// The sources of an issue's record, from the newest to the oldest.
const (
	SourceTracker = "tracker" // the tracker's answer of this moment
	SourceClaim   = "claim"   // the tracker's answer at the last pass
	SourceRun     = "run"     // the tracker's answer when the last run started
)

// KnownIssue is the issue's record. Source is null where no more than the name is known.
type KnownIssue struct {
	ID         string   `json:"id"`
	Identifier string   `json:"identifier"`
	Title      *string  `json:"title"`
	State      *string  `json:"state"`
	URL        *string  `json:"url"`
	Labels     []string `json:"labels"`
	BlockedBy  []string `json:"blocked_by"`
	Source     *string  `json:"source"`
}

// ClaimRow is the issue's claim.
type ClaimRow struct {
	Status     string     `json:"status"`
	Kind       *string    `json:"kind"` // of a waiting claim
	Attempt    *int       `json:"attempt"`
	DueAt      *time.Time `json:"due_at"`
	Error      *string    `json:"error"`
	HoldReason *string    `json:"hold_reason"`
	HeldAt     *time.Time `json:"held_at"`
	ClaimedAt  time.Time  `json:"claimed_at"`
	Failures   int        `json:"failures_in_a_row"`
	Runs       int        `json:"runs_since_change"`
}

// RunRow is one run of the issue.
type RunRow struct {
	RunID         string     `json:"run_id"`
	Kind          string     `json:"kind"`
	Attempt       *int       `json:"attempt"`
	Phase         string     `json:"phase"`
	Outcome       *string    `json:"outcome"`
	Error         *string    `json:"error"`
	AfterRunError *string    `json:"after_run_error"` // does not change the outcome
	StartedAt     time.Time  `json:"started_at"`
	EndedAt       *time.Time `json:"ended_at"`
	Turns         int        `json:"turn_count"`
	Tokens        Tokens     `json:"tokens"`
	ThreadID      *string    `json:"thread_id"`
}

// WorkspaceRow is the workspace of the newest run that had one.
type WorkspaceRow struct {
	Path   string          `json:"path"`
	Host   *string         `json:"host"`
	Exists bool            `json:"exists"`
	Git    *GitRow         `json:"git"`   // null without a repository
	Error  *term.ErrorJSON `json:"error"` // why the repository can't be read
}

// GitRow is the state of a workspace's repository.
type GitRow struct {
	Branch *string `json:"branch"` // null for a detached HEAD
	Commit *string `json:"commit"`
	// Base is the branch that the work is compared with, Ahead the number of commits since then.
	Base  *string `json:"base"`
	Ahead *int    `json:"commits_ahead"`
	// RemoteBranch is origin's branch of the same name as the workspace knows it, Unpushed the commits that it lacks.
	RemoteBranch *string       `json:"remote_branch"`
	Unpushed     *int          `json:"commits_not_pushed"`
	ChangedCount int           `json:"changed_count"`
	Changed      []ChangedFile `json:"changed"`
}

// ChangedFile is a file that git status lists.
type ChangedFile struct {
	Status string `json:"status"`
	Path   string `json:"path"`
}

const (
	shownRuns       = 10
	trackerPatience = 10 * time.Second // an operator waits for the tracker's answer
)

// issueReader gathers the facts that an Issue, its reason and its next step are made of.
type issueReader struct {
	p   *project.Project
	db  *state.DB // nil before the first pass
	now time.Time

	id, identifier string
	issue          *reconcile.Issue // nil where only the name is known
	source         string
	trackerErr     error

	cfg      *workflow.Config
	cfgErr   error
	recorded reconcile.State
	claim    *reconcile.Claim
	skip     *state.StoredSkip
	rivals   int             // other claims that are due when this one is
	runs     []reconcile.Run // the newest first
	kept     int
	requests []reconcile.Request
	totals   state.Totals
	schedule bool
	passes   []state.Pass        // of the schedule, the newest first
	block    *project.BlockedRow // stops every issue of the project
	low      time.Time           // until then the tracker's allowance counts as low
}

// ReadIssue reads what is known of an issue by its identifier or id. The tracker is asked about an issue without a claim,
// unless offline is set.
func ReadIssue(ctx context.Context, p *project.Project, ref string, offline bool) (Issue, error) {
	r := &issueReader{p: p, now: p.Env.Now().UTC(), identifier: ref}
	db, err := project.OpenForReading(ctx, p)
	switch {
	case errors.Is(err, state.ErrNoState) && !offline && p.SourceErr == nil: // the tracker may know the issue
	case err != nil:
		return Issue{}, err
	default:
		defer db.Close()
		r.db = db
		if err := r.openWorkflow(ctx); err != nil {
			return Issue{}, err
		}
	}
	r.cfg, r.cfgErr = readConfig(r.p)
	if r.db != nil {
		if err := r.readProject(ctx, ref); err != nil {
			return Issue{}, err
		}
	}
	if r.block = project.BlockedBy(r.recorded); r.block == nil && r.cfg != nil {
		r.block = project.AccountBlock(project.OpenAccount(r.p, r.cfg.Codex.Home), r.now)
	}
	if r.claim == nil {
		if err := r.askTracker(ctx, ref, offline); err != nil {
			return Issue{}, err
		}
	}
	return r.view(ctx)
}

// openWorkflow takes the workflow that the database names where the command line named only a state directory.
func (r *issueReader) openWorkflow(ctx context.Context) error {
	if r.p.SourceErr == nil {
		return nil
	}
	path, known, err := r.db.Meta(ctx, project.OwnerKey)
	if err == nil && known {
		r.p = project.New(r.p.Env, path, r.p.StateDir)
	}
	return err
}

// readProject reads what concerns every issue, then the issue if the database knows it.
func (r *issueReader) readProject(ctx context.Context, ref string) error {
	id, identifier, known, err := r.db.Views.FindIssue(ctx, ref)
	if err != nil {
		return err
	}
	if r.recorded, err = r.db.Views.StateOf(ctx, id); err != nil {
		return err
	}
	if r.passes, err = r.db.Views.ScheduleGaps(ctx); err != nil {
		return err
	}
	if r.schedule, err = project.ScheduleAlive(ctx, r.db, r.now); err != nil {
		return err
	}
	r.schedule = r.schedule || project.Looping(r.p.StateDir)
	if r.low, err = project.LowUntil(ctx, r.p, r.db); err != nil {
		return err
	}
	if known {
		r.id, r.identifier = id, identifier
		if err := r.readIssue(ctx); err != nil {
			return err
		}
	}
	r.rivals, err = r.db.Views.CountDue(ctx, id, latest(r.due(), r.now))
	return err
}

func (r *issueReader) readIssue(ctx context.Context) (err error) {
	if r.runs, err = r.db.Views.RunsOfIssue(ctx, r.id, shownRuns); err != nil {
		return err
	}
	if r.kept, err = r.db.Views.CountRuns(ctx, r.id); err != nil {
		return err
	}
	if r.totals, err = r.db.Views.IssueTotals(ctx, r.id); err != nil {
		return err
	}
	skip, skipped, err := r.db.Views.SkipOf(ctx, r.id)
	if err != nil {
		return err
	}
	if skipped {
		r.skip = &skip
	}
	if len(r.runs) > 0 {
		r.issue, r.source = &r.runs[0].Issue, SourceRun
	}
	for i := range r.recorded.Claims {
		if c := &r.recorded.Claims[i]; c.IssueID == r.id {
			r.claim, r.issue, r.source = c, &c.Issue, SourceClaim
		}
	}
	open, err := OpenRequests(ctx, r.p, r.db)
	for _, request := range open {
		if request.IssueID == r.id {
			r.requests = append(r.requests, request)
		}
	}
	return err
}

// askTracker asks the tracker about an issue without a claim. If it does not answer, what the database knows is shown.
func (r *issueReader) askTracker(ctx context.Context, ref string, offline bool) error {
	if offline {
		if r.id == "" {
			return UnknownIssue(ctx, r.db, ref, "without --offline the tracker is asked")
		}
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, trackerPatience)
	defer cancel()
	if r.id != "" {
		ref = r.id
	}
	issue, err := project.FetchIssue(bounded, r.p, ref)
	switch {
	case err == nil:
		r.id, r.identifier, r.issue, r.source = issue.ID, issue.Identifier, issue, SourceTracker
	case r.id != "":
		r.trackerErr = err
	case r.db != nil && exit.From(err).Code == "issue_not_found":
		return UnknownIssue(ctx, r.db, ref, "the tracker has no such issue, or hides it from this key")
	default:
		return err
	}
	return nil
}

// view puts the facts into their shape.
func (r *issueReader) view(ctx context.Context) (Issue, error) {
	v := Issue{
		GeneratedAt: r.now, Issue: r.knownIssue(), Claim: newClaimRow(r.claim), Runs: []RunRow{}, RunsKept: r.kept,
		Requests: []RequestRow{}, Commands: []string{}, Schedule: r.schedule,
		Totals:  Totals{Tokens(r.totals.Tokens), r.totals.Runtime.Seconds()},
		Project: ProjectRow{WorkflowPath: r.p.Path, StateDir: r.p.StateDir},
	}
	if r.cfg != nil {
		v.Project.TrackerKind, v.Project.ProjectSlug = &r.cfg.Tracker.Kind, &r.cfg.Tracker.ProjectSlug
	}
	if r.trackerErr != nil {
		v.TrackerErr = new(term.ErrorOf(exit.From(r.trackerErr)))
	}
	for _, c := range r.recorded.Commands {
		if c.IssueID == r.id {
			v.Commands = append(v.Commands, string(c.Verb))
		}
	}
	if len(r.requests) > 0 {
		at, err := Instant()
		if err != nil {
			return v, err
		}
		for _, request := range r.requests {
			row := newRequestRow(request, r.now, at)
			row.IssueURL = v.Issue.URL
			v.Requests = append(v.Requests, row)
		}
	}
	for _, run := range r.runs {
		v.addRun(run, r.p.StateDir)
	}
	var err error
	if v.Workspace, err = readWorkspace(ctx, r.runs); err != nil {
		return v, err
	}
	plan, err := r.forecast(ctx)
	if err != nil {
		return v, err
	}
	v.Why = r.why(plan)
	v.Next = r.next(v.Why, plan)
	return v, nil
}

func (r *issueReader) knownIssue() KnownIssue {
	row := KnownIssue{ID: r.id, Identifier: r.identifier, Labels: []string{}, BlockedBy: []string{}}
	if r.issue == nil {
		return row
	}
	row.Title, row.State, row.URL, row.Source = &r.issue.Title, &r.issue.State, r.issue.URL, &r.source
	row.Labels = append(row.Labels, r.issue.Labels...)
	for _, b := range r.issue.BlockedBy {
		if b.Identifier != nil {
			row.BlockedBy = append(row.BlockedBy, *b.Identifier)
		}
	}
	return row
}

func newClaimRow(c *reconcile.Claim) *ClaimRow {
	if c == nil {
		return nil
	}
	row := &ClaimRow{Status: string(c.Status), Attempt: attemptOrNull(c.Attempt), ClaimedAt: c.ClaimedAt.UTC(), Failures: c.Failures, Runs: c.Runs}
	switch c.Status {
	case reconcile.Waiting:
		row.Kind, row.DueAt, row.Error = term.OrNull(string(c.Kind)), timeOrNull(c.DueAt), project.ErrorText(c.ErrorCode, c.ErrorMessage)
	case reconcile.Held:
		row.HoldReason, row.HeldAt, row.Error = term.OrNull(c.HoldReason), timeOrNull(c.HeldAt), project.ErrorText(c.ErrorCode, c.ErrorMessage)
	case reconcile.Running:
	}
	return row
}

// addRun adds a run; what it used is added to the totals unless a pass has done that already.
func (v *Issue) addRun(r reconcile.Run, stateDir string) {
	v.Runs = append(v.Runs, RunRow{
		RunID: r.ID, Kind: string(r.Kind), Attempt: attemptOrNull(r.Attempt), Phase: string(r.Phase), Outcome: term.OrNull(string(r.Outcome)),
		Error: project.ErrorText(r.ErrorCode, r.ErrorText), AfterRunError: term.OrNull(r.AfterRunError), StartedAt: r.StartedAt.UTC(),
		EndedAt: timeOrNull(r.EndedAt), Turns: r.Turns, Tokens: Tokens(r.Tokens), ThreadID: term.OrNull(r.ThreadID),
	})
	if r.Kind != reconcile.AgentRun {
		return
	}
	if v.LogDir == nil {
		v.LogDir = new(runner.RunDir(stateDir, r.ID))
	}
	if v.ThreadID == nil {
		v.ThreadID = term.OrNull(r.ThreadID)
	}
	if !r.Settled {
		v.Totals.add(r, v.GeneratedAt)
	}
}

// readWorkspace looks at the workspace of the newest run that had one.
func readWorkspace(ctx context.Context, runs []reconcile.Run) (*WorkspaceRow, error) {
	for _, r := range runs {
		if r.WorkspacePath == "" {
			continue
		}
		row := &WorkspaceRow{Path: r.WorkspacePath, Host: term.OrNull(r.Host)}
		info, err := os.Stat(r.WorkspacePath)
		if row.Exists = err == nil && info.IsDir(); !row.Exists {
			return row, nil
		}
		inspected, found, err := git.Inspect(ctx, r.WorkspacePath)
		if err != nil {
			row.Error = new(term.ErrorOf(exit.From(err)))
		}
		if found {
			row.Git = newGitRow(inspected)
		}
		return row, ctx.Err()
	}
	return nil, nil
}

func newGitRow(g git.Status) *GitRow {
	row := &GitRow{Branch: term.OrNull(g.Branch), Commit: term.OrNull(g.Commit), Base: term.OrNull(g.Base), ChangedCount: g.Count, Changed: []ChangedFile{}}
	if g.Base != "" {
		row.Ahead = &g.Ahead
	}
	if g.Remote != "" {
		row.RemoteBranch, row.Unpushed = &g.Remote, &g.Unpushed
	}
	for _, c := range g.Changed {
		row.Changed = append(row.Changed, ChangedFile(c))
	}
	return row
}

// due is when a waiting claim may go on, the zero time for all others.
func (r *issueReader) due() time.Time {
	if r.claim == nil || r.claim.Status != reconcile.Waiting {
		return time.Time{}
	}
	return r.claim.DueAt
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
