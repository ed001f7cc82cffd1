// Package detail describes an issue: its claim, its runs, the reason of its status, and its
// next step.
package detail

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/obstacle"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/state"
)

// Issue is everything that symphony knows of an issue, claimed or not.
type Issue struct {
	GeneratedAt time.Time   `json:"generated_at"`
	Status      view.Status `json:"status"`
	// Since is when the issue got the status; null where that is not known.
	Since *time.Time `json:"since"`
	Issue KnownIssue `json:"issue"`
	Claim *ClaimRow  `json:"claim"`
	Why   Why        `json:"why"`
	Next  Next       `json:"next"`
	// Released is the last time a pass released the issue after a run; null if none did.
	Released *state.Release `json:"released"`
	Runs     []view.RunRow  `json:"runs"` // the newest first
	RunsKept int            `json:"runs_kept"`
	// Timeline lists the events since the oldest of these runs, the newest first.
	Timeline []Moment `json:"timeline"`
	ThreadID *string  `json:"thread_id"`
	// Agent names the agent of the newest run; null if the project has no other.
	Agent *string `json:"agent"`
	// HookFailures are the hooks that failed in the newest run.
	HookFailures []HookFailure `json:"hook_failures"`
	// RefusedHosts are the hosts that the sandbox of the newest run's agent has refused, each
	// with the line of WORKFLOW.md that allows it.
	RefusedHosts []agent.RefusedHost `json:"refused_hosts"`
	// the last push; null if nothing was pushed
	Delivered *reconcile.Delivered `json:"delivered"`
	// Verification is how verify ended last in the runs listed here; null if it never ran.
	Verification *reconcile.Verification `json:"verification"`
	// PullRequest belongs to the issue's branch, as the tracker described it last; null if it
	// never described a pull request.
	PullRequest *state.PullRequest `json:"pull_request"`
	// WaitsFor is the wait of the watched pull request, such as for its checks or a review;
	// null if none is watched.
	WaitsFor *reconcile.Waits `json:"pull_request_waits_for"`
	// LookErrors are why the last look at it failed.
	LookErrors []state.LookError `json:"pull_request_errors"`
	// Review is how to look at the result, to take it, and to send it back; null if the agent
	// has not handed it over.
	Review *Review `json:"review"`
	// Links are the pages that the agents named in the runs listed here, such as pull
	// requests.
	Links     []reconcile.Link `json:"links"`
	Workspace *WorkspaceRow    `json:"workspace"`
	// KeptHere are commits of a workspace on another machine that were copied to this machine,
	// and that are in no remote.
	KeptHere []host.Kept `json:"kept_here"`
	// KeptErr is why they are not known; null if they are.
	KeptErr *reconcile.Error `json:"kept_here_error"`

	Totals   view.Totals       `json:"codex_totals"`
	Cost     *view.Cost        `json:"cost"` // of these tokens; null without agent.prices
	Requests []view.RequestRow `json:"pending_requests"`
	// ByLabel is the row of agent.by_label that holds for the issue; null if none does.
	ByLabel *workflow.LabelRow `json:"by_label"`
	// LastMessage is the last message of the newest run's agent, and Log are the last lines of
	// that run's log without minor ones.
	LastMessage *string          `json:"last_message"`
	Log         []eventlog.Line  `json:"log"`
	LogDir      *string          `json:"log_dir"`
	TrackerErr  *reconcile.Error `json:"tracker_error"` // why the tracker did not answer
	// Remarks are what the tracker noticed in the issue and does not obey, each with what to write.
	Remarks []string `json:"remarks"`
	// Commands are an operator's commands about the issue that wait for a pass.
	Commands []string        `json:"pending_commands"`
	Schedule bool            `json:"schedule_active"`
	Project  view.ProjectRow `json:"project"`
	SpecIssue
}

// The statuses that only an Issue can have. It can also have each status of a Row.
const (
	StatusReady    view.Status = "ready"    // a pass starts it
	StatusReleased view.Status = "released" // released for another reason
	// only the tracker knows, and was not asked or did not answer
	StatusUnknown view.Status = "unknown"
)

// The sources of an issue's record, from the newest to the oldest.
const (
	SourceTracker = "tracker" // the tracker's answer of this moment
	SourceClaim   = "claim"   // the tracker's answer at the last pass
	SourceRelease = "release" // the tracker's answer when a pass released the issue
	SourceRun     = "run"     // the tracker's answer when the last run started
)

// KnownIssue is the issue's record. Source is null where no more than the name is known.
type KnownIssue struct {
	ID          string   `json:"id"`
	Identifier  string   `json:"identifier"`
	Title       *string  `json:"title"`
	Description *string  `json:"description"` // Markdown; the server returns it only with the token
	State       *string  `json:"state"`
	Priority    *int     `json:"priority"` // 1 is the most urgent
	Assignee    *string  `json:"assignee"` // the e-mail address, or else the id
	URL         *string  `json:"url"`
	File        *string  `json:"file"` // with its text, in a folder of issues; null if it is not there
	Labels      []string `json:"labels"`
	BlockedBy   []string `json:"blocked_by"`
	Blocks      []string `json:"blocks"` // the issues of the last passes that it blocks
	Source      *string  `json:"source"`

	Recorded map[string]bool `json:"-"` // which of BlockedBy have a page, too
}

// ClaimRow is the issue's claim.
type ClaimRow struct {
	Status     reconcile.ClaimStatus `json:"status"`
	Kind       *reconcile.RetryKind  `json:"kind"`    // of a waiting claim
	Attempt    int                   `json:"attempt"` // 0 for the first run
	DueAt      *time.Time            `json:"due_at"`
	Error      *string               `json:"error"`
	HoldReason *string               `json:"hold_reason"`
	HeldAt     *time.Time            `json:"held_at"`
	// Delivery is the work that remains to be done about the commits; null if nothing remains.
	Delivery  *reconcile.Delivery `json:"delivery"`
	ClaimedAt time.Time           `json:"claimed_at"`
	Failures  int                 `json:"failures_in_a_row"`
	Runs      int                 `json:"runs_since_change"`

	ErrorCode string `json:"-"` // of Error
	HeldNext  bool   `json:"-"` // it is held when its run ends
}

// WorkspaceRow is the workspace of the newest run with a workspace.
type WorkspaceRow struct {
	Path   string           `json:"path"`
	Host   *string          `json:"host"`
	Exists bool             `json:"exists"`
	Git    *host.GitStatus  `json:"git"`   // null without a repository
	Kept   *view.KeptRow    `json:"kept"`  // why it is kept although the issue is finished
	Error  *reconcile.Error `json:"error"` // why the repository can't be read
}

const (
	shownRuns       = 10
	shownLines      = 10               // of the newest run's log
	trackerPatience = 10 * time.Second // an operator waits for the tracker's answer
)

// issueReader gathers the facts that an Issue, its reason and its next step are made of.
type issueReader struct {
	view.Facts
	id, identifier string
	issue          *reconcile.Issue // nil where only the name is known
	source         string
	claim          *reconcile.Claim
	skip           state.StoredSkip // of the last pass, if it was skipped
	skipped        bool
	releases       []state.Release // the newest first
	obstacles      []obstacle.Obstacle
	runs           []reconcile.Run // the newest first
	blocks         []string        // the issues that it blocks
	uses           []reconcile.ModelUse
}

// Options say how much to read of an issue.
type Options struct {
	Offline bool   // the tracker is not asked; otherwise it is asked about an issue without a claim
	Brief   bool   // without the workspace, the log and the timeline
	Name    string // of the project; empty for the name of its folder
	Lines   int    // how many of the last lines of the log; 0: the usual number
}

// Read reads an issue by its identifier or id.
func Read(ctx context.Context, p *wiring.Project, ref string, o Options) (v Issue, err error) {
	r := &issueReader{
		Facts:      view.Facts{Project: p, Name: o.Name, Now: p.Env.Now().UTC()},
		identifier: ref,
	}
	v = Issue{
		GeneratedAt:  r.Now,
		Runs:         []view.RunRow{},
		HookFailures: []HookFailure{},
		RefusedHosts: []agent.RefusedHost{},
		Links:        []reconcile.Link{},
		Requests:     []view.RequestRow{},
		LookErrors:   []state.LookError{},
		Commands:     []string{},
		Log:          []eventlog.Line{},
		Timeline:     []Moment{},
		Remarks:      []string{},
		KeptHere:     []host.Kept{},
	}
	if err := r.open(ctx, o); err != nil {
		return v, err
	}
	if r.DB != nil {
		defer r.DB.Close()
		if err := r.readIssue(ctx, ref, &v); err != nil {
			return v, err
		}
	}
	if err := r.Read(ctx); err != nil {
		return v, err
	}
	if err := r.readWatch(ctx, &v); err != nil {
		return v, err
	}
	if err := r.askTracker(ctx, o.Offline, &v); err != nil {
		return v, err
	}
	if r.Config != nil && r.issue != nil {
		v.ByLabel = r.Config.Agent.RowFor(r.issue.Labels)
	}
	v.Issue = r.knownIssue(ctx)
	v.Claim = newClaimRow(r.claim)
	v.Schedule = r.Schedule
	v.Project = r.ProjectRow()
	v.Released = r.released()
	r.addOpen(&v)
	if err := r.addOrders(ctx, &v); err != nil {
		return v, err
	}
	r.addRuns(&v)
	if !o.Brief {
		v.Issue.File = text.OrNull(r.inFolder(ctx)[r.id].File())
		if err := r.addWork(ctx, &v, cmp.Or(o.Lines, shownLines)); err != nil {
			return v, err
		}
	}
	v.SpecIssue, err = r.specIssue(ctx, v)
	if err != nil {
		return v, err
	}
	plan, err := r.forecast(ctx)
	r.obstacles = r.Obstacles()
	r.explain(ctx, &v, plan)
	r.addNameFaults(ctx, &v, plan)
	v.Review = r.review(ctx, v)
	if err == nil {
		err = ctx.Err()
	}
	return v, err
}

// addNameFaults adds what is wrong with the names in the workflow, for an issue that lacks one of its
// labels, or its assignee: perhaps no issue can have it.
func (r *issueReader) addNameFaults(ctx context.Context, v *Issue, f forecast) {
	names := []string{reconcile.SkipLabel, reconcile.SkipAssignee}
	if r.source != SourceTracker || !slices.Contains(names, f.reason) {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, trackerPatience)
	defer cancel()
	faults, err := wiring.NameFaults(bounded, r.Project)
	if err == nil { // without them the issue is explained all the same
		v.Remarks = append(v.Remarks, faults...)
	}
}

// open opens the database. DB stays nil before the first pass, when only the tracker may know
// the issue.
func (r *issueReader) open(ctx context.Context, o Options) error {
	mayAsk := !o.Offline && r.Project.SourceErr == nil
	err := r.Open(ctx)
	if wiring.BeforeFirstPass(err) && mayAsk {
		r.DB = nil
		return nil
	}
	return err
}

// addWork adds the workspace, the end of the log and the timeline.
func (r *issueReader) addWork(ctx context.Context, v *Issue, lines int) error {
	var err error
	v.Workspace, err = r.workspace(ctx)
	if err != nil {
		return err
	}
	kept, err := wiring.KeptHere(ctx, r.Project, r.DB, r.id)
	if err != nil {
		v.KeptErr = exit.From(err)
	} else {
		v.KeptHere = kept
	}
	if err := r.addLog(v, lines); err != nil {
		return err
	}
	v.Timeline, err = r.timeline(ctx)
	return err
}

// lastOfAgent is the agent's newest run; the zero value if there is none.
func (r *issueReader) lastOfAgent() reconcile.Run {
	return text.First(r.runs, func(run reconcile.Run) bool { return run.Kind == reconcile.AgentRun })
}

// released is the newest release; nil if there was none.
func (r *issueReader) released() *state.Release {
	if len(r.releases) == 0 {
		return nil
	}
	return &r.releases[0]
}

// addOpen adds the open requests and the commands that wait for a pass.
func (r *issueReader) addOpen(v *Issue) {
	for _, request := range r.Requests {
		if request.IssueID == r.id {
			row := r.RequestRow(request)
			row.IssueURL = v.Issue.URL
			v.Requests = append(v.Requests, row)
		}
	}
	for _, c := range r.Recorded.Commands {
		if c.IssueID == r.id {
			v.Commands = append(v.Commands, string(c.Verb))
		}
	}
}

// addOrders adds the orders to move the issue that wait for a pass.
func (r *issueReader) addOrders(ctx context.Context, v *Issue) error {
	if r.DB == nil {
		return nil
	}
	orders, err := r.DB.Views.Moves(ctx)
	if err != nil {
		return err
	}
	for _, order := range orders {
		switch {
		case order.IssueID != r.id:
		case order.GoesBack():
			v.Commands = append(v.Commands, "tell")
		default:
			v.Commands = append(v.Commands, "done")
		}
	}
	return nil
}

// addRuns adds the runs, their usage, and where the newest left its log.
func (r *issueReader) addRuns(v *Issue) {
	for _, run := range r.runs {
		v.Runs = append(v.Runs, r.RunRow(run))
		v.Verification = cmp.Or(v.Verification, run.Delivery.Verification())
		v.Links = reconcile.MergeLinks(v.Links, run.Links)
		if run.Kind != reconcile.AgentRun {
			continue
		}
		if v.LogDir == nil {
			v.LogDir = new(host.RunDir(r.Project.StateDir, run.ID))
			v.HookFailures = HookFailures(r.Project, run)
		}
		v.ThreadID = cmp.Or(v.ThreadID, text.OrNull(run.ThreadID))
		if !run.Settled { // a pass adds the use of settled runs
			v.Totals.Add(run, v.GeneratedAt)
		}
	}
	v.Agent = text.OrNull(r.LastAgent(r.runs))
	if v.Released != nil {
		v.Links = reconcile.MergeLinks(v.Links, v.Released.Links)
	}
	if r.Config == nil {
		return
	}
	spent := view.Spend(r.Config.Agent.Prices, r.uses...)
	pruned := v.Totals.Total - spent.Tokens.Total // the tokens of runs that are no longer recorded
	if pruned > 0 {
		spent.Add(reconcile.ModelUse{Tokens: reconcile.Tokens{Total: pruned}}, r.Config.Agent.Prices)
	}
	v.Cost = spent.Cost
}

// addLog adds the end of the log of the agent's newest run.
func (r *issueReader) addLog(v *Issue, lines int) error {
	run := r.lastOfAgent()
	if run.ID == "" {
		return nil
	}
	ended := run.Outcome != "" || wiring.WorkerDead(r.Project, run)
	tail, err := eventlog.ReadTail(r.Project.StateDir, run, lines, r.Now, ended)
	if err != nil {
		return err
	}
	refused, limits, err := eventlog.Noted(r.Project.StateDir, run.ID)
	if err != nil {
		return err
	}
	if limits != "" {
		v.Remarks = append(v.Remarks, limits)
	}
	v.RefusedHosts = append(v.RefusedHosts, refused...)
	v.Log = append(v.Log, tail.Lines...)
	v.LastMessage = text.OrNull(tail.Message)
	return nil
}

// readIssue reads the records of the issue from the database.
func (r *issueReader) readIssue(ctx context.Context, ref string, v *Issue) error {
	id, identifier, known, err := r.DB.Views.FindIssue(ctx, ref)
	if err != nil {
		return err
	}
	r.Recorded, err = r.DB.Views.StateOf(ctx, id)
	if err != nil {
		return err
	}
	if known {
		r.id = id
		r.identifier = identifier
		if err := r.readRuns(ctx, v); err != nil {
			return err
		}
		if err := r.readOutside(ctx, v); err != nil {
			return err
		}
	}
	if len(r.runs) > 0 {
		r.issue = &r.runs[0].Issue
		r.source = SourceRun
	}
	for i := range r.Recorded.Claims {
		c := &r.Recorded.Claims[i]
		if c.IssueID == r.id {
			r.claim = c
			r.issue = &c.Issue
			r.source = SourceClaim
		}
	}
	return nil
}

// readRuns reads the runs of the issue, and the usage of all of them.
func (r *issueReader) readRuns(ctx context.Context, v *Issue) error {
	var err error
	r.runs, err = r.DB.Runs.OfIssue(ctx, r.id, shownRuns)
	if err != nil {
		return err
	}
	v.RunsKept, err = r.DB.Runs.Count(ctx, r.id)
	if err != nil {
		return err
	}
	r.uses, err = r.DB.Runs.UseOf(ctx, r.id)
	if err != nil {
		return err
	}
	totals, err := r.DB.Runs.TotalsOf(ctx, r.id)
	if err != nil {
		return err
	}
	v.Totals = view.Totals{Tokens: view.Tokens(totals.Tokens), Seconds: totals.Runtime.Seconds()}
	return nil
}

// readOutside reads the findings of passes in the tracker and in the repository: the skip, the
// releases, the pull request, the delivery.
func (r *issueReader) readOutside(ctx context.Context, v *Issue) error {
	var err error
	r.blocks, err = r.DB.Views.BlockedByIssue(ctx, r.identifier)
	if err != nil {
		return err
	}
	r.skip, r.skipped, err = r.DB.Views.SkipOf(ctx, r.id)
	if err != nil {
		return err
	}
	r.releases, err = r.DB.Views.Releases(ctx, r.id, shownMoments)
	if err != nil {
		return err
	}
	pulls, err := r.DB.Views.PullRequests(ctx)
	if err != nil {
		return err
	}
	if pull, found := pulls[r.id]; found {
		v.PullRequest = &pull
	}
	delivered, found, err := r.DB.Views.Delivered(ctx, r.id)
	if found {
		v.Delivered = &delivered
	}
	return err
}

// readWatch reads why the issue's watched pull request waits, such as for its checks.
func (r *issueReader) readWatch(ctx context.Context, v *Issue) error {
	feedback, on := r.Feedback()
	if r.DB == nil || r.id == "" || !on {
		return nil
	}
	watch, found, err := r.DB.Watch(ctx, r.id)
	if err != nil || !found || watch.Ended {
		return err
	}
	v.WaitsFor = watch.WaitsFor(feedback, v.GeneratedAt)
	failed, err := r.DB.Views.LookErrors(ctx)
	if err != nil {
		return err
	}
	for _, e := range failed {
		if e.PullRequest == "" || e.PullRequest == watch.Pull.URL {
			v.LookErrors = append(v.LookErrors, e)
		}
	}
	return nil
}

// askTracker asks the tracker about an unclaimed issue. If the tracker does not answer, the
// records of the database are shown.
func (r *issueReader) askTracker(ctx context.Context, offline bool, v *Issue) error {
	isKnown := r.id != ""
	if r.claim != nil || offline && isKnown {
		return nil
	}
	if offline {
		return wiring.UnknownIssue(ctx, r.DB, r.identifier, "the tracker was not asked")
	}
	bounded, cancel := context.WithTimeout(ctx, trackerPatience)
	defer cancel()
	issue, err := wiring.FetchIssue(bounded, r.Project, cmp.Or(r.id, r.identifier))
	if err != nil && isKnown {
		v.TrackerErr = exit.From(err)
		return nil
	}
	if err != nil {
		return err
	}
	if !isKnown && r.DB != nil {
		if err := r.readIssue(ctx, issue.ID, v); err != nil { // the name was that of its file
			return err
		}
		if err := r.readWatch(ctx, v); err != nil {
			return err
		}
	}
	r.id = issue.ID
	r.identifier = issue.Identifier
	if r.claim == nil {
		r.issue = issue
		r.source = SourceTracker
		v.Remarks = append(v.Remarks, issue.Remarks...)
	}
	return nil
}

// knownIssue is the newest record of the issue.
func (r *issueReader) knownIssue(ctx context.Context) KnownIssue {
	row := KnownIssue{
		ID:         r.id,
		Identifier: r.identifier,
		Labels:     []string{},
		BlockedBy:  []string{},
		Blocks:     append([]string{}, r.blocks...),
		Recorded:   map[string]bool{},
	}
	if r.issue == nil {
		if r.skipped {
			row.Title = text.OrNull(r.skip.Title)
			row.URL = text.OrNull(r.skip.URL)
		}
		return row
	}
	row.Title = &r.issue.Title
	row.State = &r.issue.State
	row.URL = r.issue.URL
	row.Source = &r.source
	row.Description = r.issue.Description
	row.Priority = text.OrNull(text.OrEmpty(r.issue.Priority))
	if a := r.issue.Assignee; a != nil {
		row.Assignee = text.OrNull(cmp.Or(a.Email, a.ID))
	}
	release := r.released()
	if r.source == SourceRun && release != nil && release.To != nil && release.At.After(r.runs[0].StartedAt) {
		row.State = release.To
		row.Source = new(SourceRelease)
	}
	row.Labels = append(row.Labels, r.issue.Labels...)
	for _, b := range r.issue.BlockedBy {
		if b.Identifier == nil {
			continue
		}
		row.BlockedBy = append(row.BlockedBy, *b.Identifier)
		if r.DB != nil {
			// after an error it gets no link
			_, _, row.Recorded[*b.Identifier], _ = r.DB.Views.FindIssue(ctx, *b.Identifier)
		}
	}
	return row
}

func newClaimRow(c *reconcile.Claim) *ClaimRow {
	if c == nil {
		return nil
	}
	row := &ClaimRow{
		Status:    c.Status,
		Attempt:   c.Attempt,
		Delivery:  text.OrNull(c.Delivery),
		ClaimedAt: c.ClaimedAt,
		Failures:  c.Failures,
		Runs:      c.Runs,
		HeldNext:  c.HoldNext,
	}
	if c.Status != reconcile.Running {
		code, message := c.Fault()
		row.Error = view.ErrorText(code, message)
		row.ErrorCode = code
	}
	switch c.Status {
	case reconcile.Waiting:
		row.Kind = text.OrNull(c.Kind)
		row.DueAt = text.OrNull(c.DueAt)
	case reconcile.Held:
		row.HoldReason = text.OrNull(c.HoldReason)
		row.HeldAt = text.OrNull(c.HeldAt)
	case reconcile.Running:
	}
	return row
}

// workspace looks at the workspace of the newest run with a workspace; nil if there is none.
func (r *issueReader) workspace(ctx context.Context) (*WorkspaceRow, error) {
	run := text.First(r.runs, func(run reconcile.Run) bool { return run.WorkspacePath != "" })
	if run.ID == "" {
		return nil, nil
	}
	if run.Host != "" {
		return r.remoteWorkspace(run), nil
	}
	row := &WorkspaceRow{Path: run.WorkspacePath}
	found, inspectErr := wiring.ThisMachine().Inspect(ctx, host.WorkspaceRequest{Path: row.Path})
	if !found.Exists {
		return row, nil
	}
	row.Exists = true
	row.Git = found.Git
	if inspectErr != nil {
		row.Error = exit.From(inspectErr)
	}
	kept, err := view.Kept(ctx, r.Project.StateDir, r.DB, r.Recorded)
	if err != nil {
		return nil, err
	}
	for _, k := range kept {
		if k.Path == row.Path {
			row.Kept = new(r.KeptRow(k, run))
		}
	}
	return row, ctx.Err()
}

// remoteWorkspace is the workspace of a run on another machine, as the last run there
// described it.
func (r *issueReader) remoteWorkspace(run reconcile.Run) *WorkspaceRow {
	row := &WorkspaceRow{
		Path:   run.WorkspacePath,
		Host:   &run.Host,
		Exists: run.Remote == reconcile.RemoteBegun, // it was not looked for yet
	}
	for _, w := range r.Recorded.RemoteWorkspaces {
		if w.Host != run.Host || w.Path != run.WorkspacePath {
			continue
		}
		row.Exists = true
		if w.Unsaved != "" {
			row.Kept = new(r.KeptRow(w, run))
		}
	}
	return row
}

// Address is the address of the issue's page; empty if none is known.
func (v Issue) Address() string { return text.OrEmpty(v.Issue.URL) }

// pullWords are what people call the issue's pull request.
func (v Issue) pullWords() reconcile.PullWords {
	return reconcile.PullWordsOf(v.PullRequestAddress())
}

// PullRequestAddress is the address of the issue's pull request; empty if none is known.
func (v Issue) PullRequestAddress() string {
	if v.PullRequest != nil {
		return v.PullRequest.URL
	}
	if v.Delivered != nil && v.Delivered.PullRequest != "" {
		return v.Delivered.PullRequest
	}
	for _, l := range v.Links { // of the newest run first
		if l.Kind == "pull_request" {
			return l.URL
		}
	}
	return ""
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
