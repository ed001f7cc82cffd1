// Package pass runs a pass and returns its result. A pass takes the project lock, loads the
// workflow, reconciles the tracker with the claims and workers, and records its actions.
package pass

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/answers"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/sharing"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/runner/workers"
	"github.com/symphony-cron/symphony/state"
)

// Options select the kind of pass to run.
type Options struct {
	Trigger     string
	DryRun      bool
	LockTimeout time.Duration
	// Only confines the pass to the issues with these ids; NoIssue confines it to commands
	// about the project. Empty means all issues.
	Only   []string
	AtOnce bool
	// Model is the model of the runs that this pass starts, such as "opus"; empty for the
	// workflow's.
	Model string
	// Taken is the result that an operator takes, which lets the pass merge its pull request.
	Taken Taken
	// DB is the open database of the caller; nil lets the pass open and close its own.
	DB *state.DB
	// Name is the name of the project in the output; empty for the name of its folder.
	Name string
	// Stays is set if this process waits for the runs that the pass starts.
	Stays bool
	// Unlisted keeps the project out of symphony projects, as wiring.KeepUnlisted does.
	Unlisted bool
	// Starts is set if the operator asks for a run, which needs no schedule.
	Starts bool
	// Kept is the database that a loop keeps open; nil for other passes.
	Kept *KeptDB
	// Reported is when a loop last reported a success to monitor.ping_url, zero after a
	// failure; nil for other passes.
	Reported *time.Time
}

// Taken names the operator who takes the result of an issue; By is empty for nobody.
type Taken struct{ IssueID, By string }

// recorded is the trigger under which the pass is recorded. A pass for some issues, such as that of
// symphony run, does not read the others, and what was run by hand says something about all.
func (o Options) recorded() string {
	if len(o.Only) > 0 && o.Trigger == wiring.TriggerManual {
		return wiring.TriggerCommand
	}
	return o.Trigger
}

// NoIssue in Options.Only confines a pass to commands about the project.
const NoIssue = "-"

// Result is the result of a pass.
type Result struct {
	reconcile.Report
	reconcile.Counts // of the claims after the pass, and of the candidates
	// Project is the name of the project.
	Project string
	Pass    state.Pass
	// Holder is the pass that holds the lock; nil if this pass took it.
	Holder *state.Holder
	// Config is the configuration of the pass: the last valid configuration if the current
	// configuration is invalid.
	Config *workflow.Config
	// Warnings are about the workflow and the tracker.
	Warnings []string
	DryRun   bool
	// Unscheduled is set if an operator runs this pass, and nothing runs the next pass.
	Unscheduled bool
}

// addError records an error, unless it is nil. Each fault of a workflow becomes an error of
// its own.
func (r *Result) addError(err error) {
	if err == nil {
		return
	}
	faults := workflow.Faults(err)
	if len(faults) == 0 {
		faults = []*reconcile.Error{exit.From(err)}
	}
	r.Errors = append(r.Errors, faults...)
}

// dropRepeatedErrors keeps the first of equal errors. A fault of the machine, such as a full
// disk or a busy database, fails every step of a pass: it keeps only the first such error with
// each code.
func (r *Result) dropRepeatedErrors() {
	type key struct{ code, message string }
	seen := map[key]bool{}
	r.Errors = slices.DeleteFunc(r.Errors, func(e *reconcile.Error) bool {
		k := key{e.Code, e.Message}
		if reconcile.ClassOf(e) == reconcile.ClassMachine {
			k.message = ""
		}
		repeated := seen[k]
		seen[k] = true
		return repeated
	})
}

func (r *Result) warn(text string) {
	if !slices.Contains(r.Warnings, text) { // a pass may read a folder several times
		r.Warnings = append(r.Warnings, text)
	}
}

// StopGrace is how long a run may take to end after it was asked to.
func (r Result) StopGrace() time.Duration {
	if r.Config == nil {
		return reconcile.ShortestStop
	}
	return wiring.Policy(r.Config).StopGrace
}

// About returns the result for a single issue of several, without the actions on the others.
// An error is about another issue if only actions on others failed with it.
func (r Result) About(issueID string) Result {
	all := r.Applied
	r.Applied = text.Filter(all, func(a reconcile.Applied) bool { return a.IssueID == issueID })
	r.Errors = text.Filter(r.Errors, func(e *reconcile.Error) bool {
		failed := func(a reconcile.Applied) bool {
			return a.Err != nil && exit.From(a.Err).Message == e.Message
		}
		return slices.ContainsFunc(r.Applied, failed) || !slices.ContainsFunc(all, failed)
	})
	return r
}

// Released reports whether the pass released an issue, for instance because it is finished.
func (r Result) Released(issueID string) bool {
	return slices.ContainsFunc(r.Applied, func(a reconcile.Applied) bool {
		return a.IssueID == issueID && a.Kind == reconcile.ActRelease && a.Err == nil
	})
}

// ExitCode returns an exit.Only if the pass had errors; the caller prints these. A failed run
// is not an error of the pass.
func (r Result) ExitCode() error {
	code := exit.OK
	for _, e := range r.Errors {
		if c := exit.Code(e); code == exit.OK || c == exit.Workflow {
			code = c
		}
	}
	if code == exit.OK {
		return nil
	}
	return exit.Only(code)
}

// Run runs a pass, and reports it to monitor.ping_url. It returns an error if no pass took
// place; errors during the pass are in the Result.
func Run(ctx context.Context, p *wiring.Project, o Options) (Result, error) {
	m := &passMonitor{p: p, o: o}
	r, err := run(ctx, p, o, m)
	if err == nil && r.Holder == nil && !o.DryRun {
		// Agents without an issue need no schedule, but the processes left by a dead agent
		// should not wait for the next client.
		if err := agents.Reap(context.WithoutCancel(ctx), p.Env); err != nil {
			r.warn("agents without an issue: " + exit.From(err).Message)
		}
	}
	m.end(ctx, r, err)
	return r, err
}

// run checks whether a pass can take place, takes the project lock, and runs the pass. The
// result names the holder of the lock if that is another pass.
func run(ctx context.Context, p *wiring.Project, o Options, m *passMonitor) (r Result, err error) {
	r.Project = cmp.Or(o.Name, p.Name())
	if err := errors.Join(p.Nested(), proc.CheckLimits(), proc.CheckPidfds()); err != nil {
		return r, err
	}
	if o.DryRun {
		return dryRun(ctx, p, o)
	}
	config := configOf(p)
	// beside the opening of the database, which takes longer
	go func() { _, _ = config() }()
	if !p.HasState() {
		if _, err := config(); err != nil {
			return r, err
		}
	}
	self := state.Holder{PID: os.Getpid(), Trigger: o.Trigger, Since: p.Env.Now()}
	// A pass that a worker starts gives way to a pass that waits already, because that pass
	// sees the end of the run, too.
	givesWay := o.Trigger == wiring.TriggerWorker
	release, holder, err := state.Acquire(ctx, p.StateDir, self, o.LockTimeout, givesWay)
	if err != nil || release == nil {
		wiring.NameHolder(p.StateDir, holder)
		r.Holder = holder
		return r, err
	}
	defer func() { err = errors.Join(err, release()) }()
	r.Pass = state.Pass{Trigger: o.recorded(), StartedAt: p.Env.Now(), Mono: proc.Monotonic()}
	if o.LockTimeout > 0 && p.Changed() { // during the wait
		p = wiring.NewProject(p.Env, p.Path, p.StateDir)
		config = configOf(p)
	}
	c := &current{p: p, o: o, r: &r}
	err = c.runLocked(ctx, config, m)
	return r, err
}

// configOf returns a function that reads the configuration of a pass when it is first called.
// Every caller gets the same result.
func configOf(p *wiring.Project) func() (*workflow.Config, error) {
	return sync.OnceValues(func() (*workflow.Config, error) { return ReadConfig(p) })
}

// current is the pass that this process runs.
type current struct {
	p       *wiring.Project
	o       Options
	db      *state.DB // nil in a dry run before the first pass
	r       *Result
	team    *sharing.Team // nil without a team
	warning sync.Mutex    // a pass makes two requests at once
}

// warn adds a warning of the tracker to the result.
func (c *current) warn(text string) {
	c.warning.Lock()
	defer c.warning.Unlock()
	c.r.warn(text)
}

// runLocked runs a pass that holds the lock. The error of config is why the configuration can't
// be used. After a signal, too, the pass opens the database, because an interrupted pass is
// recorded: its record shows that the schedule is active.
func (c *current) runLocked(
	ctx context.Context,
	config func() (*workflow.Config, error),
	m *passMonitor,
) (err error) {
	uninterrupted := context.WithoutCancel(ctx)
	db, closeDB, err := openDB(uninterrupted, c.p.StateDir, c.o, c.r.Pass.StartedAt)
	cfg, cfgErr := config()
	m.cfg = cfg
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDB()) }()
	c.db = db
	if err := wiring.TakeOwnership(ctx, c.p, db); err != nil {
		return err
	}
	if c.o.Unlisted {
		if err := wiring.KeepUnlisted(ctx, db); err != nil {
			return err
		}
	}
	c.reconcile(ctx, cfg, cfgErr)
	if o := c.r.Obstacle; o != nil && cfgErr == nil { // views read the workflow themselves
		c.r.Pass.Obstacle = o.Reason
	}
	c.r.addError(c.count(uninterrupted))
	m.readReported(ctx, db, c.r.Config)
	if err := wiring.RegisterProject(ctx, c.p, db); err != nil {
		c.r.warn(err.Error() + "; symphony projects will not list this project")
	}
	c.notifyPeople(ctx)
	c.record(uninterrupted)
	return nil
}

// openDB returns the database of the caller or of the loop, or opens it for this pass. closeDB
// closes only a database that openDB opened.
func openDB(
	ctx context.Context,
	stateDir string,
	o Options,
	now time.Time,
) (db *state.DB, closeDB func() error, err error) {
	leaveOpen := func() error { return nil }
	if o.Kept != nil {
		db, err = o.Kept.open(ctx, stateDir, now)
		return db, leaveOpen, err
	}
	if o.DB != nil {
		return o.DB, leaveOpen, nil
	}
	db, err = state.Create(ctx, stateDir, now)
	if err != nil {
		return nil, nil, err
	}
	return db, db.Close, nil
}

// record stores the pass, removes old runs, and finds out whether anything runs the next pass.
func (c *current) record(ctx context.Context) {
	r := c.r
	r.dropRepeatedErrors()
	boot, err := proc.BootID()
	r.addError(err)
	r.Pass.Duration = proc.Monotonic() - r.Pass.Mono
	r.Pass.BootID = boot
	r.Pass.Actions = len(r.Applied)
	r.Pass.Skipped = len(r.Skips)
	r.Pass.Errors = text.Map(r.Errors, func(e *reconcile.Error) reconcile.Error {
		return reconcile.Error{Code: e.Code, Message: e.Message, Hint: e.Hint, Status: e.Status}
	})
	r.Pass.ID, err = c.db.Store.SavePass(ctx, r.Pass)
	r.addError(err)
	c.removeOldRuns(ctx)
	if c.o.Trigger == wiring.TriggerManual && !c.o.Stays {
		alive, err := wiring.ScheduleAlive(ctx, c.db, c.p.Env.Now())
		r.addError(err)
		r.Unscheduled = !alive && !wiring.Looping(c.p.StateDir)
	}
	r.dropRepeatedErrors()
}

// ReadConfig reads the configuration of a pass, including SYMPHONY_MAX_AGENTS. If that
// variable is invalid it returns the workflow beside the error: the pass then starts nothing
// and reconciles current runs.
func ReadConfig(p *wiring.Project) (*workflow.Config, error) {
	cfg, err := p.Config()
	if err != nil {
		return nil, err
	}
	_, err = wiring.MaxAgents(p)
	return cfg, err
}

// reconcile plans and applies on an open database. cfg is nil if the workflow is invalid: then
// the last valid workflow counts, with which nothing is started.
func (c *current) reconcile(interruptible context.Context, cfg *workflow.Config, cfgErr error) {
	// A signal ends requests to the tracker, and nothing else.
	ctx := context.WithoutCancel(interruptible)
	r := c.r
	askTracker := !slices.Contains(c.o.Only, NoIssue)
	r.addObstacle(cfgErr)
	if cfg != nil {
		r.Warnings = workflowWarnings(cfg)
	} else {
		var hasKey bool
		cfg, hasKey = c.lastGoodConfig(ctx)
		if cfg == nil {
			return
		}
		askTracker = askTracker && hasKey
		r.Warnings = nil // the lines of an older text would mislead
	}
	r.Config = cfg
	r.addError(c.p.WriteCertificates(cfg))
	rootErr := wiring.ClaimRoot(ctx, c.p, cfg, c.warn)
	r.addObstacle(rootErr)
	deps, runners, err := c.newDeps(cfg)
	if err != nil {
		r.addObstacle(err)
		return
	}
	defer func() { r.addError(c.team.Close(ctx)) }()
	if askTracker {
		deps.Tracker, err = c.newTracker(cfg)
		if err != nil {
			r.addObstacle(err)
			return
		}
		rights := wiring.Rights{Project: c.p, Config: cfg, DB: c.db, Tracker: deps.Tracker}
		deps.Claims = append([]reconcile.IssueClaims{rights}, deps.Claims...)
	}
	runners.Logins, err = proc.SharedFile()
	if err != nil {
		r.addObstacle(err)
		return
	}
	defer runners.Logins.Close()
	deps.Store = c.db.Store
	r.addError(loadOldRoots(ctx, c.db, runners, cfg, rootErr != nil))
	if rootErr != nil {
		deps.Runners = handsOff{runners}
	}
	if cfgErr == nil {
		r.addError(noteWorkflow(ctx, c.p, c.db, cfg))
	}
	deps = crash.Deps(deps)
	waits := c.waitsForSchedule(ctx)
	c.takeOver(interruptible, deps.Tracker)
	guarded := c.team.Guarded(deps.Tracker)
	c.moveOrdered(interruptible, guarded)
	r.addReport(reconcile.Tick(interruptible, deps, reconcile.Options{
		DispatchOff: cfgErr != nil || rootErr != nil || waits,
		Only:        c.o.Only,
		AtOnce:      c.o.AtOnce,
	}))
	c.exchangeComments(interruptible, guarded)
	if taken := c.o.Taken; taken.By != "" {
		r.addError(c.db.Operator.TakeResult(ctx, taken.IssueID, taken.By))
	}
	c.watchPulls(interruptible, deps.Tracker)
	c.sendBackAnswered(interruptible, guarded)
}

// waitsForSchedule reports whether a pass starts no run because no schedule is active: passes
// of workers and commands start runs only then, so that stopping the timer stops the system.
func (c *current) waitsForSchedule(ctx context.Context) bool {
	byItself := c.o.Trigger == wiring.TriggerWorker || c.o.Trigger == wiring.TriggerCommand
	if !byItself || c.o.Starts {
		return false
	}
	alive, err := wiring.ScheduleAlive(ctx, c.db, c.p.Env.Now())
	c.r.addError(err)
	return !alive
}

// addObstacle adds an error, unless it is nil, for which the pass starts nothing. The first
// such error is its obstacle.
func (r *Result) addObstacle(err error) {
	before := len(r.Errors)
	r.addError(err)
	if r.Obstacle == nil && len(r.Errors) > before {
		r.Obstacle = &reconcile.Obstacle{
			Reason:  r.Errors[before].Code,
			Message: r.Errors[before].Message,
		}
	}
}

// addReport takes over a report. Its errors are appended, and its obstacle counts unless the
// result already names an obstacle.
func (r *Result) addReport(report reconcile.Report) {
	report.Errors = slices.Concat(r.Errors, report.Errors)
	report.Obstacle = cmp.Or(r.Obstacle, report.Obstacle)
	r.Report = report
}

// count counts the issues as all views do: with the open requests, and with the candidates of
// an earlier pass if this pass did not read all of them. A dry run before the first pass runs
// without a database.
func (c *current) count(ctx context.Context) error {
	r := c.r
	skips := r.Skips
	if c.db == nil {
		r.Counts = reconcile.Count(r.Claims, nil, skips, r.Obstacle != nil)
		return nil
	}
	if skips == nil || len(c.o.Only) > 0 {
		stored, err := c.db.Views.Skips(ctx)
		if err != nil {
			return err
		}
		skips = text.Map(stored, func(s state.StoredSkip) reconcile.Skip { return s.Skip })
	}
	asking, err := c.asking(ctx) // nil if they can't be read
	r.Counts = reconcile.Count(r.Claims, asking, skips, r.Obstacle != nil)
	var reviewsErr error
	r.HandedOver, reviewsErr = c.db.Views.CountReviews(ctx)
	return errors.Join(err, reviewsErr)
}

// asking returns the ids of the runs whose agents wait for an answer.
func (c *current) asking(ctx context.Context) (map[string]bool, error) {
	isRunning := func(claim reconcile.Claim) bool { return claim.Status == reconcile.Running }
	if !slices.ContainsFunc(c.r.Claims, isRunning) {
		return nil, nil
	}
	open, err := view.OpenRequests(ctx, c.p, c.db)
	if err != nil {
		return nil, err
	}
	asking := map[string]bool{}
	for _, request := range open {
		asking[request.RunID] = true
	}
	return asking, nil
}

// newDeps builds the parts that reconcile.Tick works with, except the store and the tracker.
func (c *current) newDeps(cfg *workflow.Config) (reconcile.Deps, *workers.Local, error) {
	p := c.p
	runners, err := wiring.NewRunners(p, cfg)
	if err != nil {
		return reconcile.Deps{}, nil, err
	}
	policy := wiring.PassPolicy(p, cfg)
	accounts := wiring.OpenPassAccounts(p, policy, c.r.warn)
	runners.Model = c.o.Model
	runners.Stays = c.o.Stays
	runners.NextSlot = accounts.NextSlot
	boot, err := proc.BootID()
	if err != nil {
		return reconcile.Deps{}, nil, fmt.Errorf("boot id: %w", err)
	}
	claims := []reconcile.IssueClaims{wiring.NewOthers(p, policy.Project, c.r.warn)}
	c.team, err = sharing.Open(p, cfg, c.db)
	if err != nil {
		return reconcile.Deps{}, nil, err
	}
	if c.team != nil {
		claims = append(claims, c.team)
	}
	return reconcile.Deps{
		Policy:       policy,
		Runners:      runners,
		Accounts:     accounts,
		Claims:       claims,
		CheckMachine: runners.Shelter,
		Now:          p.Env.Now,
		Mono:         proc.Monotonic,
		Sleep:        time.Sleep,
		Boot:         boot,
		NewRunID:     wiring.RunIDs(c.db, p.Env.Now),
	}, runners, nil
}

// newTracker builds the tracker's adapter for a pass. Without a database, as in a dry run, it
// remembers nothing.
func (c *current) newTracker(cfg *workflow.Config) (*reconcile.TrackerAdapter, error) {
	options := wiring.TrackerOptions{Warn: c.warn}
	if len(c.o.Only) > 0 && cfg.Tracker.Folder != "" { // a command about one issue
		options.Warn = func(string) {}
	}
	if c.db != nil {
		options.Memory = c.db
	}
	t, err := wiring.NewTracker(c.p, cfg, options)
	if err != nil {
		return nil, err
	}
	t = wiring.VerifyNames(t, c.db, cfg, c.p.Path, c.warn)
	if c.db != nil && t.Comments != nil {
		t = answers.KeepHolds(t, c.db, c.db.Store.KeepHold, c.p.Env.Now, c.warn) // its own comments end no hold
	}
	return t, nil
}

// handsOff are the runners of a pass that must not use its workspace root: they watch runs,
// but remove nothing in the root.
type handsOff struct{ reconcile.Runners }

func (handsOff) Workspaces(context.Context) ([]reconcile.Workspace, error) { return nil, nil }
func (handsOff) TrashDue(time.Time, int64) (bool, error)                   { return false, nil }

// dryRun plans a pass and changes nothing: no lock, no directory, no row.
func dryRun(ctx context.Context, p *wiring.Project, o Options) (r Result, err error) {
	r.DryRun = true
	r.Project = cmp.Or(o.Name, p.Name())
	cfg, err := ReadConfig(p)
	if err != nil {
		return r, err
	}
	r.Config = cfg
	r.Warnings = workflowWarnings(cfg)
	if err := wiring.CheckRoot(ctx, p, cfg); err != nil {
		return r, err
	}
	c := &current{p: p, o: o, r: &r}
	tracker, err := c.newTracker(cfg) // without a database it stores nothing
	if err != nil {
		return r, err
	}
	var store reconcile.Store = emptyStore{}
	if p.HasState() {
		c.db, err = state.OpenReadOnly(ctx, p.StateDir)
		if err != nil {
			return r, err
		}
		defer c.db.Close()
		store = c.db.Store
		if tracker.Comments != nil {
			tracker = answers.KeepHolds(tracker, c.db, nil, p.Env.Now, c.warn)
		}
	}
	deps, runners, err := c.newDeps(cfg)
	if err != nil {
		return r, err
	}
	deps.Tracker = tracker
	deps.Store = store
	if c.db != nil {
		_, placeErr := wiring.OriginalPath(ctx, p, c.db)
		_, ownerErr := wiring.OwnerPath(ctx, p, c.db)
		rootsErr := loadOldRoots(ctx, c.db, runners, cfg, true)
		if err := errors.Join(placeErr, ownerErr, rootsErr); err != nil {
			return r, err
		}
	}
	r.Pass = state.Pass{Trigger: o.Trigger, StartedAt: p.Env.Now()}
	r.addReport(reconcile.Tick(ctx, deps, reconcile.Options{
		DryRun: true,
		Only:   o.Only,
		AtOnce: o.AtOnce,
	}))
	r.addError(c.count(ctx))
	r.Pass.Duration = p.Env.Now().Sub(r.Pass.StartedAt)
	return r, nil
}

// emptyStore is the store of a dry run before the first pass. A dry run calls nothing but
// State.
type emptyStore struct{ reconcile.Store }

func (emptyStore) State(context.Context) (reconcile.State, error) { return reconcile.State{}, nil }

func workflowWarnings(cfg *workflow.Config) []string {
	list := text.Map(slices.Concat(cfg.Warnings, cfg.Prompt.Same()), workflow.Warning.String)
	for _, problem := range cfg.Prompt.Check() {
		list = append(list, problem.String()+" (a run that renders it fails)")
	}
	return list
}

// noteWorkflow saves the valid workflow, before anything is started: the next pass needs it if
// this pass is killed. If it changed, this pass ends every wait after a fault, which the
// change may have repaired.
func noteWorkflow(ctx context.Context, p *wiring.Project, db *state.DB, cfg *workflow.Config) error {
	last, known, err := db.Meta(ctx, wiring.LastGoodKey)
	if err != nil {
		return fmt.Errorf("read the last valid workflow: %w", err)
	}
	now := string(cfg.Redacted)
	if known && last != now {
		err = endWaits(ctx, p, db, cfg)
	}
	if err != nil {
		return err // the next pass ends the waits
	}
	return db.SetMeta(ctx, wiring.LastGoodKey, now)
}

// endWaits ends the waits after a fault: limits of the tracker, blocks of the accounts, and,
// in this pass, blocks of the project and the backoff of its issues.
func endWaits(ctx context.Context, p *wiring.Project, db *state.DB, cfg *workflow.Config) error {
	now := p.Env.Now()
	tryNow := func(a *state.Account) error { return a.TryNow(ctx, now) }
	_, err := db.Operator.AddCommand(ctx, reconcile.Command{
		Verb:      reconcile.VerbUnblock,
		CreatedAt: now,
	})
	return errors.Join(err, wiring.ForgetLimits(ctx, db), wiring.ForEachAccount(p, cfg, tryNow))
}

// lastGoodConfig returns the last valid configuration, with which runs are reconciled while
// the current configuration is invalid. hasKey is false if the file itself contained the
// tracker's key: that is never stored, so the tracker can't be asked.
func (c *current) lastGoodConfig(ctx context.Context) (cfg *workflow.Config, hasKey bool) {
	cfg, text, err := wiring.LastGood(ctx, c.p, c.db, c.p.Path)
	if err != nil {
		c.r.addError(err)
		return nil, false
	}
	if cfg == nil {
		return nil, false
	}
	if cfg.Tracker.APIKey == "" && strings.Contains(text, "$"+workflow.LiteralKeyVar) {
		c.r.Errors[0].Hint += "; until then the tracker can't be asked, " +
			"because the key was in the workflow file and is never stored: write api_key: $" + cfg.KeyVar
	}
	return cfg, cfg.Tracker.APIKey != ""
}

// rootsKept is how many former workspace roots are remembered: every pass looks at each.
const rootsKept = 5

// loadOldRoots gives the former workspace roots to the runners, which remove workspaces there
// when their issues are done. Unless readOnly is set, it stores the current root. If agents
// work elsewhere, only roots are looked at in which they have worked before: the root that the
// workflow names may be another account's here.
func loadOldRoots(
	ctx context.Context,
	db *state.DB,
	runners *workers.Local,
	cfg *workflow.Config,
	readOnly bool,
) error {
	roots, err := wiring.RootsOf(ctx, db)
	if err != nil {
		return err
	}
	elsewhere := len(cfg.Policy.Hosts) > 0
	current := wiring.Policy(cfg).WorkspaceRoot
	if elsewhere && slices.Contains(roots, current) {
		runners.Root = current
	}
	runners.OldRoots = text.Filter(roots, func(root string) bool { return root != runners.Root })
	isStored := len(roots) > 0 && roots[0] == runners.Root
	if readOnly || elsewhere || isStored {
		return nil
	}
	roots = append([]string{runners.Root}, runners.OldRoots...)
	roots = roots[:min(len(roots), rootsKept)]
	return db.SetMeta(ctx, wiring.RootsKey, string(text.JSON(roots)))
}

// prunedPerPass is how many old runs a pass deletes.
const prunedPerPass = 50

// removeOldRuns deletes old runs and their directories. symphony prune removes the directories
// that a killed pass leaves.
func (c *current) removeOldRuns(ctx context.Context) {
	ids, err := c.db.Store.Prune(ctx, c.p.Env.Now(), prunedPerPass)
	c.r.addError(err)
	for _, id := range ids {
		crash.At("tidy.pruned")
		if err := os.RemoveAll(host.RunDir(c.p.StateDir, id)); err != nil {
			c.r.addError(fmt.Errorf("old run: %w", err))
		}
	}
}
