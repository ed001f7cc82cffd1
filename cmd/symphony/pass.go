package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/runner/workspace"
	"github.com/symphony-cron/symphony/state"
)

// The triggers of a pass, as `passes` records them.
const (
	triggerCron    = "cron"
	triggerTimer   = "timer"
	triggerLoop    = "loop"
	triggerManual  = "manual"
	triggerCommand = "command"
	triggerWorker  = "worker"
)

// passOptions say what kind of pass it is.
type passOptions struct {
	trigger     string
	dryRun      bool
	lockTimeout time.Duration
	only        string // an issue's id, or nowhere
	anySlot     bool
	last        bool // the process ends after it
}

// nowhere confines a pass to no issue at all: it takes up commands about the whole project only.
const nowhere = "-"

// passResult is what a pass did.
type passResult struct {
	reconcile.Report
	pass state.Pass
	// holder is who has the lock, nil where this pass had it.
	holder *state.Holder
	// cfg is the configuration the pass ran with; the last good one where the present one is invalid.
	cfg *workflow.Config
	// warnings of the workflow.
	warnings []string
	dryRun   bool
}

func (r *passResult) fail(err error) {
	faults := workflow.Faults(err)
	if len(faults) == 0 {
		faults = []*reconcile.Error{asError(err)}
	}
	r.Errors = append(r.Errors, faults...)
}

// condense says each thing once. A full disk stops every step of a pass, and the first tells all there is to know.
func (r *passResult) condense() {
	type what struct{ code, message string }
	seen := map[what]bool{}
	r.Errors = slices.DeleteFunc(r.Errors, func(e *reconcile.Error) bool {
		w := what{e.Code, e.Message}
		if e.Code == "disk_full" {
			w.message = ""
		}
		again := seen[w]
		seen[w] = true
		return again
	})
}

// warn adds what works otherwise than its writer may expect.
func (r *passResult) warn(text string) { r.warnings = append(r.warnings, text) }

// pass is one reconciliation: lock, load, reconcile, record (design: a pass). The error is one that kept
// it from being a pass at all; what went wrong in it stands in the result.
func (p *project) pass(ctx context.Context, o passOptions, log *slog.Logger) (r passResult, err error) {
	if err := p.nested(); err != nil {
		return r, err
	}
	cfg, cfgErr := p.config()
	if cfgErr != nil && !p.hasState() {
		return r, cfgErr
	}
	if o.dryRun {
		return p.dryPass(ctx, o, cfg, cfgErr, log)
	}
	release, holder, err := p.lock(ctx, o)
	began := p.w.now()
	if err != nil {
		return r, err
	}
	if release == nil {
		r.holder = holder
		return r, nil
	}
	defer func() { err = errors.Join(err, release()) }()
	if o.lockTimeout > 0 {
		// The wait may have been long, and a pass works with the workflow as it is now.
		p = p.w.project(p.path, p.stateDir)
		cfg, cfgErr = p.config()
	}
	db, err := state.Create(ctx, p.stateDir, began)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, r.leave(o, db)) }()
	if err := p.own(ctx, db); err != nil {
		return r, err
	}

	mono := proc.Monotonic()
	p.reconcile(ctx, db, o, cfg, cfgErr, log, &r)
	r.condense()
	// One that was cut short by a signal is a pass, too: its schedule is alive, and what it has done is said.
	ctx = context.WithoutCancel(ctx)
	boot, bootErr := proc.BootID()
	if bootErr != nil {
		r.fail(bootErr)
	}
	r.pass = state.Pass{
		Trigger: o.trigger, StartedAt: began, Duration: proc.Monotonic() - mono, BootID: boot, Mono: mono,
		Actions: len(r.Applied), Skipped: len(r.Skips),
	}
	for _, e := range r.Errors {
		r.pass.Errors = append(r.pass.Errors, state.PassError{Code: e.Code, Message: e.Message})
	}
	if r.pass.ID, err = db.SavePass(ctx, r.pass); err != nil {
		r.fail(err)
	}
	p.tidy(ctx, db, &r)
	r.condense()
	return r, nil
}

// leave gives up the database. After a pass that did nothing the process may leave it to a later one to merge the WAL.
func (r *passResult) leave(o passOptions, db *state.DB) error {
	if o.last && len(r.Applied) == 0 {
		return db.Leave()
	}
	return db.Close()
}

// waiterStep is how often somebody looks again who is not the one waiter for the lock.
const waiterStep = 30 * time.Millisecond

// lock takes the project lock, or says who has it. A worker's own pass leaves where another is waiting already:
// that one will see the run's end, too. An operator's time counts in full, whoever else waits.
func (p *project) lock(ctx context.Context, o passOptions) (func() error, *state.Holder, error) {
	end := p.w.now().Add(o.lockTimeout)
	for {
		now := p.w.now()
		release, holder, err := state.Acquire(ctx, p.stateDir, state.Holder{PID: os.Getpid(), Trigger: o.trigger, Since: now}, max(end.Sub(now), 0))
		if err != nil || holder == nil || !holder.Queued || o.trigger == triggerWorker || !p.w.now().Before(end) {
			return release, holder, err
		}
		if !sleep(ctx, waiterStep) {
			return nil, nil, ctx.Err()
		}
	}
}

// hasState reports whether a pass has ever run here.
func (p *project) hasState() bool {
	_, err := os.Stat(filepath.Join(p.stateDir, "state.db"))
	return err == nil
}

// reconcile runs the pass proper on an open database.
func (p *project) reconcile(ctx context.Context, db *state.DB, o passOptions, cfg *workflow.Config, cfgErr error, log *slog.Logger, r *passResult) {
	options := reconcile.Options{DryRun: o.dryRun, Only: o.only, AnySlot: o.anySlot}
	patient := ctx // a signal ends the wait for the tracker, and nothing else
	ctx = context.WithoutCancel(ctx)
	askTracker := true
	if cfgErr != nil {
		r.fail(cfgErr)
		options.DispatchOff = true
		if cfg, askTracker = p.lastGood(ctx, db, r); cfg == nil {
			return
		}
	}
	r.cfg = cfg
	r.warnings = p.warnings(cfg)
	rootErr := p.fits(cfg, o.dryRun)
	if rootErr != nil {
		r.fail(rootErr)
		options.DispatchOff = true
	}
	if o.trigger == triggerWorker || o.trigger == triggerCommand {
		alive, err := scheduleAlive(ctx, db, p.w.now())
		if err != nil {
			r.fail(err)
		}
		options.DispatchOff = options.DispatchOff || !alive
	}
	deps, err := p.deps(db, cfg, askTracker, log, r)
	if err != nil {
		r.fail(err)
		return
	}
	if err := p.rememberRoots(ctx, db, deps.Runners, o.dryRun || rootErr != nil); err != nil {
		r.fail(err)
	}
	if rootErr != nil {
		deps.Runners = handsOff{deps.Runners}
	}
	low, err := p.lowUntil(ctx, db)
	if err != nil {
		r.fail(err)
	}
	options.TrackerLow = low.After(p.w.now())
	// Before anything is started: a pass that dies in its middle leaves it behind for the next.
	if cfgErr == nil && !o.dryRun {
		if err := db.SetMeta(ctx, lastGoodKey, string(cfg.Redacted())); err != nil {
			r.fail(err)
		}
	}
	report := reconcile.Tick(patient, deps, options)
	report.Errors = slices.Concat(r.Errors, report.Errors)
	r.Report = report
	if err := p.saveLow(ctx, db, deps.Tracker, low, r); err != nil {
		r.fail(err)
	}
}

func (p *project) deps(db *state.DB, cfg *workflow.Config, askTracker bool, log *slog.Logger, r *passResult) (reconcile.Deps, error) {
	runners, err := p.newRunners(cfg)
	if err != nil {
		return reconcile.Deps{}, err
	}
	boot, err := proc.BootID()
	if err != nil {
		return reconcile.Deps{}, fmt.Errorf("boot id: %w", err)
	}
	d := reconcile.Deps{
		Policy: policy(cfg), Store: db, Runners: runners, Now: p.w.now, Mono: proc.Monotonic, Boot: boot, Log: log,
		NewRunID: func() string { return newRunID(p.w.now()) },
	}
	if askTracker {
		client, err := newTracker(cfg, p.w.now, log)
		if err != nil {
			return reconcile.Deps{}, err
		}
		d.Tracker = &verified{Client: client, db: db, cfg: cfg, path: p.path, warn: r.warn}
	}
	return d, nil
}

const lastGoodKey = "last_good_workflow"

// lastGood gives the last configuration that was valid, for reconciliation only. A literal key was not
// kept: with it only the local half of a pass is left.
func (p *project) lastGood(ctx context.Context, db *state.DB, r *passResult) (cfg *workflow.Config, askTracker bool) {
	text, known, err := db.Meta(ctx, lastGoodKey)
	if err != nil || !known {
		if err != nil {
			r.fail(err)
		}
		return nil, false
	}
	src, err := workflow.NewSource(p.path, p.path, []byte(text))
	if err != nil {
		r.fail(err)
		return nil, false
	}
	env := p.environment(nil)
	env.KeyOptional = true
	if cfg, err = workflow.Parse(src, env); err != nil {
		r.fail(err)
		return nil, false
	}
	if cfg.Tracker.APIKey == "" && strings.Contains(text, "$"+workflow.LiteralKeyVar) {
		r.Errors[0].Hint += "; until then the tracker can't be asked, for the key stood in the file itself and was not kept: write api_key: $" + workflow.APIKeyVar
	}
	return cfg, cfg.Tracker.APIKey != ""
}

func (p *project) warnings(cfg *workflow.Config) []string {
	var list []string
	for _, w := range cfg.Warnings {
		list = append(list, w.String())
	}
	for _, problem := range cfg.Prompt.Check() {
		list = append(list, problem.String()+" (a run that renders it fails)")
	}
	return list
}

// fits checks the workspace root before anything is dispatched into it.
func (p *project) fits(cfg *workflow.Config, dryRun bool) error {
	root := resolve(cfg.Workspace.Root)
	for _, dir := range cfg.Agent.WritableRoots {
		dir = resolve(dir)
		if within(root, dir) || within(dir, root) || within(p.stateDir, dir) || within(dir, p.stateDir) {
			return &reconcile.Error{
				Code: "invalid_config", Message: fmt.Sprintf("%s: agent.writable_roots: %s would let an agent write other workspaces or symphony's state", p.path, dir),
				Hint: "name a directory apart from workspace.root and the state directory",
			}
		}
	}
	if dryRun {
		return workspaceError(workspace.CheckRoot(root, cfg.Policy().Project, p.stateDir))
	}
	opened, err := workspace.OpenRoot(root)
	if err != nil {
		return workspaceError(err)
	}
	return workspaceError(opened.ClaimProject(cfg.Policy().Project, p.stateDir))
}

// handsOff are the runners of a pass whose workspace root it may not use: what lies there may be somebody else's,
// so nothing in it is removed. Runs that were started before are looked after as ever.
type handsOff struct{ reconcile.Runners }

// Workspaces implements reconcile.Runners.
func (handsOff) Workspaces(context.Context) ([]reconcile.Workspace, error) { return nil, nil }

// TrashDue implements reconcile.Runners.
func (handsOff) TrashDue(time.Time, int64, int64) (bool, error) { return false, nil }

// within reports whether path is dir or lies below it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

func workspaceError(err error) error {
	var e *workspace.Error
	if errors.As(err, &e) {
		return &reconcile.Error{Code: e.Code, Message: e.Message, Hint: e.Hint, Err: err}
	}
	return err
}

// The bounds between which a schedule counts as alive after its last pass.
const (
	shortestSchedule = 3 * time.Minute
	longestSchedule  = 24 * time.Hour
)

// scheduleAlive reports whether the last scheduled pass is younger than three times the usual gap. Passes
// that no schedule started dispatch only then: stopping the timer stops the system.
func scheduleAlive(ctx context.Context, db *state.DB, now time.Time) (bool, error) {
	passes, err := db.ScheduleGaps(ctx)
	if err != nil || len(passes) == 0 {
		return false, err
	}
	boot, err := proc.BootID()
	if err != nil {
		return false, fmt.Errorf("boot id: %w", err)
	}
	var gaps []time.Duration
	for i := range passes[1:] {
		gaps = append(gaps, timeBetween(passes[i+1], passes[i]))
	}
	bound := shortestSchedule
	if len(gaps) > 0 {
		slices.Sort(gaps)
		bound = min(max(3*gaps[len(gaps)/2], shortestSchedule), longestSchedule)
	}
	age := timeBetween(passes[0], state.Pass{StartedAt: now, BootID: boot, Mono: proc.Monotonic()})
	return age >= 0 && age < bound, nil
}

// timeBetween is taken on the monotonic clock where both were in the same boot: a clock that was set keeps no
// stopped schedule alive, and neither that nor a suspend ends a living one.
func timeBetween(a, b state.Pass) time.Duration {
	if a.BootID != "" && a.BootID == b.BootID {
		return b.Mono - a.Mono
	}
	return b.StartedAt.Sub(a.StartedAt)
}

const (
	pruneLimit  = 50 // runs in one pass
	orphanEvery = 500
	orphanAge   = time.Hour
)

// tidy deletes old runs and their directories.
func (p *project) tidy(ctx context.Context, db *state.DB, r *passResult) {
	ids, err := db.Prune(ctx, p.w.now(), pruneLimit)
	if err != nil {
		r.fail(err)
	}
	for _, id := range ids {
		if err := os.RemoveAll(runner.RunDir(p.stateDir, id)); err != nil {
			r.fail(fmt.Errorf("old run: %w", err))
		}
	}
	if r.pass.ID%orphanEvery != 0 {
		return
	}
	if err := p.removeOrphans(ctx, db); err != nil {
		r.fail(fmt.Errorf("run directories: %w", err))
	}
}

// removeOrphans deletes run directories without a row: a pass that died between the two left them.
func (p *project) removeOrphans(ctx context.Context, db *state.DB) error {
	entries, err := os.ReadDir(filepath.Join(p.stateDir, "runs"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || p.w.now().Sub(info.ModTime()) < orphanAge {
			continue // gone meanwhile, or perhaps just being made
		}
		if _, err := db.Run(ctx, e.Name()); !errors.Is(err, state.ErrNotFound) {
			continue
		}
		if err := os.RemoveAll(runner.RunDir(p.stateDir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// dryPass plans on what is there and changes nothing: no lock, no directory, no row.
func (p *project) dryPass(ctx context.Context, o passOptions, cfg *workflow.Config, cfgErr error, log *slog.Logger) (r passResult, err error) {
	r.dryRun = true
	if cfgErr != nil {
		return r, cfgErr
	}
	r.cfg, r.warnings = cfg, p.warnings(cfg)
	if err := p.fits(cfg, true); err != nil {
		return r, err
	}
	deps, err := p.deps(nil, cfg, true, log, &r)
	if err != nil {
		return r, err
	}
	deps.Store = emptyStore{}
	if p.hasState() {
		db, err := state.OpenReadOnly(ctx, p.stateDir)
		if err != nil {
			return r, err
		}
		defer db.Close()
		if _, err := p.owner(ctx, db); err != nil {
			return r, err
		}
		if err := p.rememberRoots(ctx, db, deps.Runners, true); err != nil {
			return r, err
		}
		deps.Store = db
	}
	r.pass = state.Pass{Trigger: o.trigger, StartedAt: p.w.now()}
	r.Report = reconcile.Tick(ctx, deps, reconcile.Options{DryRun: true, Only: o.only, AnySlot: o.anySlot})
	r.pass.Duration = p.w.now().Sub(r.pass.StartedAt)
	return r, nil
}

// emptyStore is what a dry run reads where no pass has run yet; it calls nothing else.
type emptyStore struct{ reconcile.Store }

// Recorded implements reconcile.Store.
func (emptyStore) Recorded(context.Context) (reconcile.Recorded, error) {
	return reconcile.Recorded{}, nil
}
