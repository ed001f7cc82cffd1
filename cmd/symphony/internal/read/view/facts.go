package view

import (
	"cmp"
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/obstacle"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/state"
)

// Facts are the known facts about a project, whatever the issue. The views of an issue and of
// a period are made of them, too.
type Facts struct {
	Project *wiring.Project
	Name    string    // of the project
	DB      *state.DB // nil before the first pass
	Now     time.Time
	Only    []string // the ids of the issues that a view is confined to, empty for all

	Config    *workflow.Config
	ConfigErr error
	Recorded  reconcile.State
	Requests  []reconcile.Request // the open ones
	Instant   reconcile.Instant   // now, on the monotonic clock
	Block     *wiring.BlockedRow  // stops every issue
	Conflict  *reconcile.Error    // with another project; passes refuse this one
	LastPass  *wiring.LastPassRow // nil before the first
	Budget    *BudgetRow
	Disk      *DiskRow             // nil if enough space is free
	Today     []reconcile.ModelUse // read with the budget
	Schedule  bool                 // something runs passes
	NextPass  *NextPass            // nil where no rhythm is known yet

	// agents is the policy with the agents that may work on issues; without them if Config is
	// nil.
	agents   reconcile.Policy
	comments map[string]state.Comment
	// lastPlaces are where the last runs of waiting claims worked, by the ids of their issues.
	lastPlaces map[string]state.Place
	rhythm     wiring.Rhythm // of the schedule
	demo       bool          // the project needs no schedule
}

// Open opens the database. Where the command line named only a state directory, Open also finds
// the workflow that owns it.
func (f *Facts) Open(ctx context.Context) error {
	db, err := wiring.OpenForReading(ctx, f.Project)
	f.DB = db
	if err == nil && f.Project.SourceErr != nil {
		f.Project = ownerOf(ctx, f.Project, db)
	}
	f.Name = cmp.Or(f.Name, newProjectRow(f.Project.Path, f.Project.StateDir).Name)
	return err
}

// ownerOf returns the project with the workflow that owns its state directory; the project
// itself if that is not known.
func ownerOf(ctx context.Context, p *wiring.Project, db *state.DB) *wiring.Project {
	path, known, err := db.Meta(ctx, wiring.OwnerKey)
	if err != nil || !known {
		return p
	}
	return wiring.NewProject(p.Env, path, p.StateDir)
}

// Read reads the facts beside the recorded state, which the caller reads before. Without a
// database they come from the workflow and the account.
func (f *Facts) Read(ctx context.Context) error {
	err := f.readAlerts(ctx)
	if err != nil || f.DB == nil {
		return err
	}
	f.Budget, err = f.ReadBudget(ctx)
	if err != nil {
		return err
	}
	f.comments, err = f.DB.Store.Comments(ctx, nil)
	if err != nil {
		return err
	}
	f.NextPass = f.nextPass()
	return nil
}

// nextPass returns the schedule's next pass, nil where no rhythm is known.
func (f *Facts) nextPass() *NextPass {
	r := f.rhythm
	switch {
	case r.First != nil:
		return &NextPass{At: r.First.Due(), Trigger: r.First.Trigger, First: true}
	case r.Gap > 0 && f.Schedule:
		return &NextPass{At: r.Last.StartedAt.Add(r.Gap), Trigger: r.Last.Trigger}
	}
	return nil
}

// readAlerts reads the facts that Options.Alerts asks for.
func (f *Facts) readAlerts(ctx context.Context) error {
	f.Config, f.ConfigErr = f.Project.ConfigWithoutKey()
	if f.Config != nil {
		f.agents = wiring.PassPolicy(f.Project, f.Config)
		f.Conflict = wiring.Conflict(f.Project, f.Config)
	}
	f.Block = f.readBlock()
	f.Disk = f.readDisk(ctx)
	var err error
	f.Instant, err = Instant()
	if err != nil || f.DB == nil {
		return err
	}
	f.Requests, err = OpenRequests(ctx, f.Project, f.DB)
	if err != nil {
		return err
	}
	f.LastPass, err = wiring.LastPass(ctx, f.DB)
	if err != nil {
		return err
	}
	f.lookForWorkflow()
	f.rhythm, err = wiring.ReadRhythm(ctx, f.DB, f.Now)
	if err != nil {
		return err
	}
	f.Schedule = f.rhythm.Alive || wiring.Looping(f.Project.StateDir)
	f.demo, err = wiring.IsUnlisted(ctx, f.DB)
	return err
}

// lookForWorkflow makes the errors of the last pass say whether there is a workflow now: it may have
// been deleted since, or be there again, perhaps at another path.
func (f *Facts) lookForWorkflow() {
	if f.LastPass == nil {
		return
	}
	isMissing := func(e reconcile.Error) bool { return e.Code == workflow.CodeMissingFile }
	f.LastPass.Errors = slices.DeleteFunc(f.LastPass.Errors, isMissing)
	gone, ok := errors.AsType[*reconcile.Error](f.Project.SourceErr)
	if ok && isMissing(*gone) {
		f.LastPass.Errors = append(f.LastPass.Errors, *gone)
	}
}

// readBlock returns the block that matters most: a full disk, which keeps passes from recording
// any other, then a conflict with another project, then the tracker's and the machine's, then the
// accounts', then the agent's; nil if there is none.
func (f *Facts) readBlock() *wiring.BlockedRow {
	var full *reconcile.Error
	if errors.As(state.CheckSpace(f.Project.StateDir), &full) {
		now := f.Now.UTC()
		return &wiring.BlockedRow{Since: now, Reason: full.Code, Message: full.Message, NextTry: now}
	}
	if c := f.Conflict; c != nil {
		now := f.Now.UTC()
		message := c.Message + "; " + c.Hint
		return &wiring.BlockedRow{Since: now, Reason: c.Code, Message: message, NextTry: now}
	}
	recorded := wiring.BlockedBy(f.Recorded)
	if f.Config == nil || f.Recorded.TrackerBlock != nil || f.Recorded.MachineBlock != nil {
		return recorded
	}
	return cmp.Or(wiring.AgentsBlock(f.Project, f.Config, f.Now), recorded)
}

// Obstacles lists what stops the project. A pass may find more.
func (f *Facts) Obstacles() []obstacle.Obstacle { return Obstacles(f.project(), f.ConfigErr) }

// project is the overview of the project alone, without its issues.
func (f *Facts) project() Overview {
	v := Overview{
		GeneratedAt:  f.Now,
		Paused:       f.Recorded.Paused,
		ProjectBlock: f.Block,
		Accounts:     f.accounts(),
		Budget:       f.Budget,
		Disk:         f.Disk,
		Schedule:     f.Schedule,
		LastPass:     f.LastPass,
		NextPass:     f.NextPass,
		Project:      f.ProjectRow(),
		Hosts:        []HostRow{},
		Demo:         f.demo,
		scheduledAt:  f.rhythm.Last.StartedAt,
	}
	if f.Config != nil {
		v.Hosts = Hosts(f.Config.Policy, f.Recorded, f.Now)
	}
	return v
}

// DiskRow is a lack of space for workspaces: no run starts.
type DiskRow struct {
	Root    string `json:"workspace_root"`
	Free    int64  `json:"free_bytes"`
	Least   int64  `json:"min_free_bytes"`
	Message string `json:"message"`
}

// readDisk returns a lack of space for workspaces on this machine; nil if there is none.
func (f *Facts) readDisk(ctx context.Context) *DiskRow {
	if f.Config == nil || len(f.Config.Policy.Hosts) > 0 {
		return nil
	}
	root := paths.Real(f.Config.Workspace.Root)
	free, err := wiring.ThisMachine().FreeBytes(ctx, root)
	least := f.Config.Policy.MinFreeBytes
	if err != nil || free >= least {
		return nil
	}
	return &DiskRow{Root: root, Free: free, Least: least, Message: reconcile.DiskLowText(root, free, least)}
}

func (f *Facts) wants(issueID string) bool {
	return len(f.Only) == 0 || slices.Contains(f.Only, issueID)
}

// ProjectRow is the row of the project.
func (f *Facts) ProjectRow() ProjectRow {
	row := newProjectRow(f.Project.Path, f.Project.StateDir)
	row.Name = f.Name
	if f.Config != nil {
		row.TrackerKind = &f.Config.Tracker.Kind
		row.ProjectSlug = &f.Config.Tracker.Place
	}
	return row
}

// Instant is the present moment on the monotonic clock, with the boot that it belongs to.
func Instant() (reconcile.Instant, error) {
	boot, err := proc.BootID()
	return reconcile.Instant{Boot: boot, Mono: proc.Monotonic()}, err
}

// OpenRequests are the unanswered requests of living workers. A request ends with its worker.
func OpenRequests(ctx context.Context, p *wiring.Project, db *state.DB) ([]reconcile.Request, error) {
	all, err := db.Views.OpenRequests(ctx)
	if err != nil {
		return nil, err
	}
	return text.Filter(all, func(r reconcile.Request) bool { return wiring.Alive(p.StateDir, r.RunID) }), nil
}

// NextPass is the schedule's next pass.
type NextPass struct {
	At      time.Time `json:"at"`
	Trigger string    `json:"trigger"`
	// First: the schedule was just installed. At is when its first pass comes at the latest.
	First bool `json:"first"`
}

// ProjectRow names the project. Kind and slug are null where the workflow can't be read.
type ProjectRow struct {
	// Name is the name of the folder of WORKFLOW.md, or of the state directory where the
	// workflow is not known. In the rows of several projects with the same name, the later ones
	// have a number behind it.
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

// BudgetRow is agent.budget_per_day, and the part that runs used on this day of UTC.
type BudgetRow struct {
	Written string    `json:"budget"` // such as "5M tokens" or "20 USD"
	Unit    string    `json:"unit"`   // tokens, or the currency of agent.prices
	Most    float64   `json:"most"`   // in that unit
	Used    float64   `json:"used"`
	Reached bool      `json:"reached"` // passes start nothing more on this day
	Until   time.Time `json:"until"`   // the end of the day
	// Message says that it is reached and until when; null if it is not.
	Message *string `json:"message"`
}

// UsedToday returns the usage of runs on this day of UTC; nil without a budget, and before the
// first pass.
func UsedToday(ctx context.Context, p *wiring.Project, cfg *workflow.Config) ([]reconcile.ModelUse, error) {
	if !cfg.Policy.DailyBudget.Set() || !p.HasState() {
		return nil, nil
	}
	db, err := wiring.OpenForReading(ctx, p)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return db.Store.UsedOn(ctx, p.Env.Now())
}

// ReadBudget reads the part of the budget that was used today; nil if the workflow sets none.
func (f *Facts) ReadBudget(ctx context.Context) (*BudgetRow, error) {
	if f.Config == nil || !f.Config.Policy.DailyBudget.Set() {
		return nil, nil
	}
	b := f.Config.Policy.DailyBudget
	var err error
	f.Today, err = f.DB.Store.UsedOn(ctx, f.Now)
	if err != nil {
		return nil, err
	}
	row := &BudgetRow{
		Written: b.Written,
		Unit:    "tokens",
		Most:    b.Most(),
		Used:    math.Round(b.Used(f.Today)*1e4) / 1e4, // as Amount
		Reached: b.Reached(f.Today),
		Until:   reconcile.DayEnd(f.Now),
	}
	if b.Amount > 0 {
		row.Unit = b.Prices.Currency
	}
	if row.Reached {
		row.Message = new(b.Text(f.Project.Env.Now()))
	}
	return row, nil
}
