// Package pass runs one pass and returns what it did. A pass takes the project lock, loads the
// workflow, reconciles the tracker with the claims and workers, and records what it did.
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
	// Model is that of the runs which this pass starts; empty for that of the workflow.
	Model string
	// DB is the open database of the caller; nil lets the pass open and close its own.
	DB *state.DB
	// Name is that of the project in the output; empty for that of its folder.
	Name string
	// Stays is set if this process waits for the runs that the pass starts.
	Stays bool
	// Delivers is set if the operator asks for a delivery, which needs no schedule.
	Delivers bool
	// Kept is the database that a loop keeps open; nil for other passes.
	Kept *KeptDB
	// Reported is when a loop has last reported a success to monitor.ping_url, zero after a
	// failure; nil for other passes.
	Reported *time.Time
}

// NoIssue in Options.Only confines a pass to commands about the project.
const NoIssue = "-"

// Result is what a pass did.
type Result struct {
	reconcile.Report
	reconcile.Counts // of the claims after the pass, and of the candidates
	// Project is the name of the project.
	Project string
	Pass    state.Pass
	// Holder is the pass that holds the lock; nil if this pass took it.
	Holder *state.Holder
	// Config is the configuration of the pass: the last valid one if the current one is
	// invalid.
	Config *workflow.Config
	// Warnings are about the workflow and the tracker.
	Warnings []string
	DryRun   bool
	// Unscheduled is set if an operator has run this pass, and nothing runs the next one.
	Unscheduled bool
}

// addError records err unless it is nil. Each fault of a workflow becomes one error.
func (r *Result) addError(err error) {
	faults := workflow.Faults(err)
	if err != nil && len(faults) == 0 {
		faults = []*reconcile.Error{exit.From(err)}
	}
	r.Errors = append(r.Errors, faults...)
}

// dropRepeatedErrors keeps the first of equal errors. A fault of the machine, such as a full
// disk or a busy database, fails every step of a pass: of those errors it keeps the first with
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

func (r *Result) warn(text string) { r.Warnings = append(r.Warnings, text) }

// StopGrace is how long a run may take to end after it was asked to.
func (r Result) StopGrace() time.Duration {
	if r.Config == nil {
		return reconcile.ShortestStop
	}
	return wiring.Policy(r.Config).StopGrace
}

// About returns the result for one of several issues, without what the pass did about the
// others.
func (r Result) About(issueID string) Result {
	all := r.Applied
	r.Applied = text.Filter(all, func(a reconcile.Applied) bool { return a.IssueID == issueID })
	r.Errors = text.Filter(r.Errors, func(e *reconcile.Error) bool {
		fails := func(a reconcile.Applied) bool { return a.Err != nil && exit.From(a.Err).Message == e.Message }
		return slices.ContainsFunc(r.Applied, fails) || !slices.ContainsFunc(all, fails)
	})
	return r
}

// ExitCode returns an exit.Only if the pass had errors, which the caller has printed. A failed
// run is not an error of the pass.
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

// Run runs one pass, and reports it to monitor.ping_url and in monitor.metrics_file. It
// returns an error if no pass took place; errors during the pass are in the Result.
func Run(ctx context.Context, p *wiring.Project, o Options) (Result, error) {
	m := &passMonitor{p: p, o: o}
	r, err := run(ctx, p, o, m)
	if err == nil && r.Holder == nil && !o.DryRun {
		// Agents without an issue need no schedule, but what a dead one has left should not
		// wait for the next client.
		if err := agents.Reap(context.WithoutCancel(ctx), p.Env); err != nil {
			r.warn("agents without an issue: " + exit.From(err).Message)
		}
	}
	m.end(ctx, r, err)
	return r, err
}

// run runs one pass.
func run(ctx context.Context, p *wiring.Project, o Options, m *passMonitor) (r Result, err error) {
	r.Project = cmp.Or(o.Name, p.Name())
	if err := errors.Join(p.Nested(), proc.CheckLimits(), proc.CheckPidfds()); err != nil {
		return r, err
	}
	cfg, cfgErr := ReadConfig(p)
	if cfgErr != nil && !p.HasState() {
		return r, cfgErr
	}
	if o.DryRun {
		return dryRun(ctx, p, o, cfg, cfgErr)
	}
	// A pass that a worker starts gives way to one that waits already: that one sees the end
	// of the run, too.
	self := state.Holder{PID: os.Getpid(), Trigger: o.Trigger, Since: p.Env.Now()}
	release, holder, err := state.Acquire(
		ctx,
		p.StateDir,
		self,
		o.LockTimeout,
		o.Trigger == wiring.TriggerWorker,
	)
	if err != nil || release == nil {
		wiring.NameHolder(p.StateDir, holder)
		r.Holder = holder
		return r, err
	}
	defer func() { err = errors.Join(err, release()) }()
	r.Pass = state.Pass{Trigger: o.Trigger, StartedAt: p.Env.Now(), Mono: proc.Monotonic()}
	if o.LockTimeout > 0 && p.Changed() { // during the wait
		p = wiring.NewProject(p.Env, p.Path, p.StateDir)
		cfg, cfgErr = ReadConfig(p)
	}
	m.begin(cfg)
	// After a signal, too, the holder of the lock opens the database, because an interrupted
	// pass is recorded.
	db := o.DB
	switch {
	case o.Kept != nil:
		db, err = o.Kept.open(context.WithoutCancel(ctx), p.StateDir, r.Pass.StartedAt)
	case db == nil:
		if db, err = state.Create(context.WithoutCancel(ctx), p.StateDir, r.Pass.StartedAt); err == nil {
			defer func() { err = errors.Join(err, db.Close()) }()
		}
	}
	if err != nil {
		return r, err
	}
	if err := wiring.TakeOwnership(ctx, p, db); err != nil {
		return r, err
	}

	reconcileOnce(ctx, p, db, o, cfg, cfgErr, &r)
	r.addError(r.count(context.WithoutCancel(ctx), p, db, o))
	m.readReported(ctx, db, r.Config)
	if err := wiring.RegisterProject(p); err != nil {
		r.warn(err.Error() + "; symphony projects will not list this project")
	}
	notifyPeople(ctx, p, db, &r)
	// also an interrupted pass: its record shows that the schedule is active
	r.record(context.WithoutCancel(ctx), p, db, o)
	return r, nil
}

// record stores the pass, removes old runs, and finds out whether anything runs the next pass.
func (r *Result) record(ctx context.Context, p *wiring.Project, db *state.DB, o Options) {
	r.dropRepeatedErrors()
	boot, err := proc.BootID()
	r.addError(err)
	r.Pass.Duration = proc.Monotonic() - r.Pass.Mono
	r.Pass.BootID = boot
	r.Pass.Actions = len(r.Applied)
	r.Pass.Skipped = len(r.Skips)
	r.Pass.Errors = text.Map(r.Errors, func(e *reconcile.Error) reconcile.Error {
		return reconcile.Error{Code: e.Code, Message: e.Message, Status: e.Status}
	})
	r.Pass.ID, err = db.Store.SavePass(ctx, r.Pass)
	r.addError(err)
	removeOldRuns(ctx, p, db, r)
	if o.Trigger == wiring.TriggerManual && !o.Stays {
		alive, err := wiring.ScheduleAlive(ctx, db, p.Env.Now())
		r.addError(err)
		r.Unscheduled = !alive && !wiring.Looping(p.StateDir)
	}
	r.dropRepeatedErrors()
}

// ReadConfig reads the configuration of a pass, including SYMPHONY_MAX_AGENTS. If that
// variable is invalid it returns the workflow beside the error: the pass then starts nothing
// and reconciles current runs.
func ReadConfig(p *wiring.Project) (*workflow.Config, error) {
	cfg, err := p.Config()
	if err == nil {
		_, err = wiring.MaxAgents(p)
	}
	return cfg, err
}

// reconcileOnce plans and applies on an open database.
func reconcileOnce(
	ctx context.Context,
	p *wiring.Project,
	db *state.DB,
	o Options,
	cfg *workflow.Config,
	cfgErr error,
	r *Result,
) {
	interruptible := ctx // a signal ends requests to the tracker, and nothing else
	ctx = context.WithoutCancel(ctx)
	askTracker := !slices.Contains(o.Only, NoIssue)
	r.addObstacle(cfgErr)
	current := cfg != nil
	if !current {
		var hasKey bool
		if cfg, hasKey = lastGoodConfig(ctx, p, db, r); cfg == nil {
			return
		}
		askTracker = askTracker && hasKey
	}
	r.Config = cfg
	r.Warnings = nil
	if current { // the lines of an older text would mislead
		r.Warnings = workflowWarnings(cfg)
	}
	rootErr := wiring.RootFits(ctx, p, cfg, false)
	r.addObstacle(rootErr)
	options := reconcile.Options{
		DispatchOff: cfgErr != nil || rootErr != nil,
		Only:        o.Only,
		AtOnce:      o.AtOnce,
	}
	if !o.Delivers && (o.Trigger == wiring.TriggerWorker || o.Trigger == wiring.TriggerCommand) {
		alive, err := wiring.ScheduleAlive(ctx, db, p.Env.Now())
		r.addError(err)
		options.DispatchOff = options.DispatchOff || !alive
	}
	deps, runners, err := newDeps(p, db, cfg, o, askTracker, r)
	if err == nil {
		runners.Logins, err = proc.SharedFile()
	}
	if err != nil {
		r.addObstacle(err)
		return
	}
	defer runners.Logins.Close()
	deps.Store = db.Store
	r.addError(loadOldRoots(ctx, db, runners, cfg, rootErr != nil))
	if rootErr != nil {
		deps.Runners = handsOff{runners}
	}
	if cfgErr == nil {
		r.addError(noteWorkflow(ctx, p, db, cfg))
	}
	low, err := wiring.LowUntil(ctx, p, db)
	r.addError(err)
	options.TrackerLow = low.After(p.Env.Now())
	deps = crash.Deps(deps)
	r.addReport(reconcile.Tick(interruptible, deps, options))
	exchangeComments(interruptible, p, db, o, deps.Tracker, r)
	watchPulls(interruptible, p, db, o, deps.Tracker, r)
	r.addError(saveLowBudget(ctx, p, db, deps.Tracker, low, r))
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

// addReport takes over a report. Its errors follow those of the result, and its obstacle
// counts if the result has none.
func (r *Result) addReport(report reconcile.Report) {
	report.Errors = slices.Concat(r.Errors, report.Errors)
	report.Obstacle = cmp.Or(r.Obstacle, report.Obstacle)
	r.Report = report
}

// count counts the issues as all views do: with the open requests, and with the candidates of
// an earlier pass if this one has not read all of them. A dry run before the first pass has no
// database.
func (r *Result) count(ctx context.Context, p *wiring.Project, db *state.DB, o Options) error {
	asking := map[string]bool{}
	skips := r.Skips
	if db == nil {
		r.Counts = reconcile.Count(r.Claims, asking, skips, r.Obstacle != nil)
		return nil
	}
	if skips == nil || len(o.Only) > 0 {
		stored, err := db.Views.Skips(ctx)
		if err != nil {
			return err
		}
		skips = text.Map(stored, func(s state.StoredSkip) reconcile.Skip { return s.Skip })
	}
	open, err := view.OpenRequests(ctx, p, db)
	for _, request := range open {
		asking[request.RunID] = true
	}
	r.Counts = reconcile.Count(r.Claims, asking, skips, r.Obstacle != nil)
	return err
}

// newDeps builds what reconcile.Tick works with.
func newDeps(p *wiring.Project, db *state.DB, cfg *workflow.Config, o Options, askTracker bool, r *Result,
) (reconcile.Deps, *workers.Local, error) {
	runners, err := wiring.NewRunners(p, cfg)
	if err != nil {
		return reconcile.Deps{}, nil, err
	}
	account := wiring.OpenPassAccount(p, cfg.Codex.Home, r.warn)
	runners.Model = o.Model
	runners.Stays = o.Stays
	runners.NextSlot = account.NextSlot
	boot, err := proc.BootID()
	if err != nil {
		return reconcile.Deps{}, nil, fmt.Errorf("boot id: %w", err)
	}
	d := reconcile.Deps{
		Policy:       wiring.Policy(cfg),
		Runners:      runners,
		Accounts:     account,
		Others:       wiring.NewOthers(p, r.warn),
		CheckMachine: runners.Shelter,
		Now:          p.Env.Now,
		Mono:         proc.Monotonic,
		Sleep:        time.Sleep,
		Boot:         boot,
		NewRunID:     wiring.RunIDs(db, p.Env.Now),
	}
	if askTracker {
		var mu sync.Mutex // a pass makes two requests at once
		warn := func(text string) {
			mu.Lock()
			defer mu.Unlock()
			r.warn(text)
		}
		options := wiring.TrackerOptions{Warn: warn}
		if db != nil { // a dry run remembers nothing
			options.Memory = db
		}
		tracker, err := wiring.NewTracker(p, cfg, options)
		if err != nil {
			return reconcile.Deps{}, nil, err
		}
		d.Tracker = wiring.VerifyNames(tracker, db, cfg, p.Path, warn)
		reads := wantsComments(cfg.Tracker) || d.Tracker.LastComments != nil
		if db != nil && d.Tracker.Comments != nil && reads { // its own comments end no hold
			d.Tracker = answers.KeepHolds(d.Tracker, db, warn)
		}
	}
	return d, runners, nil
}

// handsOff are the runners of a pass that must not use its workspace root: they watch runs,
// but remove nothing in the root.
type handsOff struct{ reconcile.Runners }

func (handsOff) Workspaces(context.Context) ([]reconcile.Workspace, error) { return nil, nil }
func (handsOff) TrashDue(time.Time, int64) (bool, error)                   { return false, nil }

// dryRun plans a pass and changes nothing: no lock, no directory, no row.
func dryRun(
	ctx context.Context,
	p *wiring.Project,
	o Options,
	cfg *workflow.Config,
	cfgErr error,
) (r Result, err error) {
	r.DryRun = true
	r.Project = cmp.Or(o.Name, p.Name())
	if cfgErr != nil {
		return r, cfgErr
	}
	r.Config = cfg
	r.Warnings = workflowWarnings(cfg)
	if err := wiring.RootFits(ctx, p, cfg, true); err != nil {
		return r, err
	}
	deps, runners, err := newDeps(p, nil, cfg, o, true, &r)
	if err != nil {
		return r, err
	}
	deps.Store = emptyStore{}
	var db *state.DB
	if p.HasState() {
		if db, err = state.OpenReadOnly(ctx, p.StateDir); err != nil {
			return r, err
		}
		defer db.Close()
		_, placeErr := wiring.OriginalPath(ctx, p, db)
		_, ownerErr := wiring.OwnerPath(ctx, p, db)
		if err := errors.Join(placeErr, ownerErr, loadOldRoots(ctx, db, runners, cfg, true)); err != nil {
			return r, err
		}
		deps.Store = db.Store
	}
	r.Pass = state.Pass{Trigger: o.Trigger, StartedAt: p.Env.Now()}
	r.addReport(reconcile.Tick(ctx, deps, reconcile.Options{
		DryRun: true,
		Only:   o.Only,
		AtOnce: o.AtOnce,
	}))
	r.addError(r.count(ctx, p, db, o))
	r.Pass.Duration = p.Env.Now().Sub(r.Pass.StartedAt)
	return r, nil
}

// emptyStore is the store of a dry run before the first pass. A dry run calls nothing but
// State.
type emptyStore struct{ reconcile.Store }

func (emptyStore) State(context.Context) (reconcile.State, error) { return reconcile.State{}, nil }

func workflowWarnings(cfg *workflow.Config) []string {
	list := text.Map(cfg.Warnings, workflow.Warning.String)
	for _, problem := range cfg.Prompt.Check() {
		list = append(list, problem.String()+" (a run that renders it fails)")
	}
	return list
}

// noteWorkflow saves the valid workflow, before anything is started: the next pass needs it if
// this one is killed. If it has changed, this pass ends what waits after a fault, which the
// change may have repaired.
func noteWorkflow(ctx context.Context, p *wiring.Project, db *state.DB, cfg *workflow.Config) error {
	last, known, err := db.Meta(ctx, wiring.LastGoodKey)
	if err == nil && known && last != string(cfg.Redacted) {
		account := wiring.OpenAccount(p, cfg.Codex.Home)
		_, addErr := db.Operator.AddCommand(ctx, reconcile.Command{
			Verb:      reconcile.VerbUnblock,
			CreatedAt: p.Env.Now(),
		})
		err = errors.Join(wiring.ForgetLimits(ctx, db), account.TryNow(ctx, p.Env.Now()), addErr)
	}
	return errors.Join(err, db.SetMeta(ctx, wiring.LastGoodKey, string(cfg.Redacted)))
}

// lastGoodConfig returns the last valid configuration, with which runs are reconciled while
// the current one is invalid. hasKey is false if the file itself contained the tracker's key:
// that is never stored, so the tracker can't be asked.
func lastGoodConfig(
	ctx context.Context,
	p *wiring.Project,
	db *state.DB,
	r *Result,
) (cfg *workflow.Config, hasKey bool) {
	cfg, text, err := wiring.LastGood(ctx, p, db, p.Path)
	if err != nil || cfg == nil {
		r.addError(err)
		return nil, false
	}
	if cfg.Tracker.APIKey == "" && strings.Contains(text, "$"+workflow.LiteralKeyVar) {
		r.Errors[0].Hint += "; until then the tracker can't be asked, " +
			"because the key was in the workflow file and is never stored: write api_key: $" + cfg.KeyVar
	}
	return cfg, cfg.Tracker.APIKey != ""
}

// rootsKept is how many former workspace roots are remembered: every pass looks at each.
const rootsKept = 5

// loadOldRoots gives the former workspace roots to the runners, which remove workspaces there
// when their issues are done. Unless readOnly is set, it stores the current root. If agents
// work elsewhere, only roots are looked at in which they have worked before: another account
// may have the one that the workflow names here.
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
	if current := wiring.Policy(cfg).WorkspaceRoot; elsewhere && slices.Contains(roots, current) {
		runners.Root = current
	}
	runners.OldRoots = slices.DeleteFunc(
		slices.Clone(roots),
		func(r string) bool { return r == runners.Root },
	)
	if readOnly || elsewhere || len(roots) > 0 && roots[0] == runners.Root {
		return nil
	}
	roots = append([]string{runners.Root}, runners.OldRoots...)
	return db.SetMeta(ctx, wiring.RootsKey, string(text.JSON(roots[:min(len(roots), rootsKept)])))
}

// saveLowBudget stores until when the tracker's request budget is low, and warns about it.
// until is what earlier passes stored.
func saveLowBudget(
	ctx context.Context,
	p *wiring.Project,
	db *state.DB,
	t *reconcile.TrackerAdapter,
	until time.Time,
	r *Result,
) error {
	if t == nil || t.Budget == nil {
		return nil
	}
	if b := t.Budget(); !b.At.IsZero() {
		until = b.LowUntil()
	}
	at := until.UTC().Format(time.RFC3339)
	if r.TrackerLow {
		if o := r.Obstacle; o != nil && o.Reason == reconcile.SkipRateLimited && o.Until.IsZero() {
			o.Until = until
		}
		r.warn(
			"less than a tenth of the tracker's allowance is left: until " + at + " passes check running issues only",
		)
	}
	if !until.After(p.Env.Now()) {
		at = ""
	}
	return db.SetMeta(ctx, wiring.LowKey, at)
}

// prunedPerPass is how many old runs a pass deletes.
const prunedPerPass = 50

// removeOldRuns deletes old runs and their directories. symphony prune removes the directories
// that a killed pass leaves.
func removeOldRuns(ctx context.Context, p *wiring.Project, db *state.DB, r *Result) {
	ids, err := db.Store.Prune(ctx, p.Env.Now(), prunedPerPass)
	r.addError(err)
	for _, id := range ids {
		crash.At("tidy.pruned")
		if err := os.RemoveAll(host.RunDir(p.StateDir, id)); err != nil {
			r.addError(fmt.Errorf("old run: %w", err))
		}
	}
}
