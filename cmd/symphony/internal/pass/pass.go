package pass

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/state"
)

// Options say what kind of pass it is.
type Options struct {
	Trigger     string
	DryRun      bool
	LockTimeout time.Duration
	Only        string // an issue's id, or nowhere
	AnySlot     bool
	Db          *state.DB // whoever runs the pass has it open, nil: nobody has
	Stays       bool      // the process waits for the runs that it starts
}

// Result is what a pass did.
type Result struct {
	reconcile.Report
	Pass state.Pass
	// holder is who has the lock, nil where this pass had it.
	Holder *state.Holder
	// cfg is the configuration the pass ran with; the last good one where the present one is invalid.
	Cfg *workflow.Config
	// warnings of the workflow.
	warnings []string
	dryRun   bool
}

func (r *Result) fail(err error) {
	faults := workflow.Faults(err)
	if len(faults) == 0 {
		faults = []*reconcile.Error{exit.From(err)}
	}
	r.Errors = append(r.Errors, faults...)
}

// condense says each thing once. A full disk or a busy database stops every step of a pass, and the first tells all there is to know.
func (r *Result) condense() {
	type what struct{ code, message string }
	seen := map[what]bool{}
	r.Errors = slices.DeleteFunc(r.Errors, func(e *reconcile.Error) bool {
		w := what{e.Code, e.Message}
		if e.Code == "disk_full" || e.Code == "state_busy" {
			w.message = ""
		}
		again := seen[w]
		seen[w] = true
		return again
	})
}

// warn adds what works otherwise than its writer may expect.
func (r *Result) warn(text string) { r.warnings = append(r.warnings, text) }

// pass is one reconciliation: lock, load, reconcile, record (design: a pass). The error is one that kept
// it from being a pass at all; what went wrong in it stands in the result.
func Run(ctx context.Context, p *project.Project, o Options) (r Result, err error) {
	if err := p.Nested(); err != nil {
		return r, err
	}
	if err := errors.Join(proc.CheckLimits(), proc.CheckPidfds()); err != nil {
		return r, err
	}
	cfg, cfgErr := readPassConfig(p)
	if cfgErr != nil && !p.HasState() {
		return r, cfgErr
	}
	if o.DryRun {
		return dryPass(ctx, p, o, cfg, cfgErr)
	}
	release, holder, err := takeLock(ctx, p, o)
	began := p.Env.Now()
	if err != nil {
		return r, err
	}
	if release == nil {
		r.Holder = holder
		return r, nil
	}
	defer func() { err = errors.Join(err, release()) }()
	if o.LockTimeout > 0 {
		// The wait may have been long, and a pass works with the workflow as it is now.
		p = project.New(p.Env, p.Path, p.StateDir)
		cfg, cfgErr = readPassConfig(p)
	}
	// Whoever has the lock opens the database whatever comes, within its own bounds; and without a context that may end no
	// statement needs somebody who waits for that.
	db, err := enterDB(context.WithoutCancel(ctx), p, o, began)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, o.closeDB(db)) }()
	if err := project.TakeOwnership(ctx, p, db); err != nil {
		return r, err
	}

	mono := proc.Monotonic()
	reconcilePass(ctx, p, db, o, cfg, cfgErr, &r)
	if err := project.Register(p); err != nil {
		r.warn(err.Error() + "; symphony projects does not find it then")
	}
	tellPeople(ctx, p, db, &r)
	r.condense()
	// One that was cut short by a signal is a pass, too: its schedule is alive, and what it has done is said.
	ctx = context.WithoutCancel(ctx)
	boot, bootErr := proc.BootID()
	if bootErr != nil {
		r.fail(bootErr)
	}
	r.Pass = state.Pass{
		Trigger: o.Trigger, StartedAt: began, Duration: proc.Monotonic() - mono, BootID: boot, Mono: mono,
		Actions: len(r.Applied), Skipped: len(r.Skips),
	}
	for _, e := range r.Errors {
		r.Pass.Errors = append(r.Pass.Errors, state.PassError{Code: e.Code, Message: e.Message})
	}
	if r.Pass.ID, err = db.SavePass(ctx, r.Pass); err != nil {
		r.fail(err)
	}
	tidyUp(ctx, p, db, &r)
	r.condense()
	return r, nil
}

// enter opens the database, and makes one where there is none.
func enterDB(ctx context.Context, p *project.Project, o Options, now time.Time) (*state.DB, error) {
	if o.Db != nil {
		return o.Db, nil
	}
	return state.Create(ctx, p.StateDir, now)
}

// closeDB closes a database that the pass has opened itself.
func (o Options) closeDB(db *state.DB) error {
	if o.Db != nil {
		return nil
	}
	return db.Close()
}

// waiterStep is how often somebody looks again who is not the one waiter for the lock.
const waiterStep = 30 * time.Millisecond

// lock takes the project lock, or says who has it. A worker's own pass leaves where another is waiting already:
// that one will see the run's end, too. An operator's time counts in full, whoever else waits.
func takeLock(ctx context.Context, p *project.Project, o Options) (func() error, *state.Holder, error) {
	end := p.Env.Now().Add(o.LockTimeout)
	for {
		now := p.Env.Now()
		release, holder, err := state.Acquire(ctx, p.StateDir, state.Holder{PID: os.Getpid(), Trigger: o.Trigger, Since: now}, max(end.Sub(now), 0))
		if err != nil || holder == nil || !holder.Queued || o.Trigger == project.TriggerWorker || !p.Env.Now().Before(end) {
			return release, holder, err
		}
		if !project.Sleep(ctx, waiterStep) {
			return nil, nil, ctx.Err()
		}
	}
}

// reconcile runs the pass proper on an open database.
func reconcilePass(ctx context.Context, p *project.Project, db *state.DB, o Options, cfg *workflow.Config, cfgErr error, r *Result) {
	options := reconcile.Options{DryRun: o.DryRun, Only: o.Only, AnySlot: o.AnySlot}
	patient := ctx // a signal ends the wait for the tracker, and nothing else
	ctx = context.WithoutCancel(ctx)
	askTracker := o.Only != Nowhere // of no issue there is nothing to ask
	if cfgErr != nil {
		r.fail(cfgErr)
		options.DispatchOff = true
	}
	if cfg == nil {
		var known bool
		if cfg, known = lastGoodConfig(ctx, p, db, r); cfg == nil {
			return
		}
		askTracker = askTracker && known
	}
	r.Cfg = cfg
	r.warnings = workflowWarnings(p, cfg)
	if err := db.Newer(); err != nil {
		r.fail(err) // and starts nothing
	}
	rootErr := project.RootFits(p, cfg, o.DryRun)
	if rootErr != nil {
		r.fail(rootErr)
		options.DispatchOff = true
	}
	if o.Trigger == project.TriggerWorker || o.Trigger == project.TriggerCommand {
		alive, err := project.ScheduleAlive(ctx, db, p.Env.Now())
		if err != nil {
			r.fail(err)
		}
		options.DispatchOff = options.DispatchOff || !alive
	}
	deps, err := passDeps(p, db, cfg, o, askTracker, r)
	if err != nil {
		r.fail(err)
		return
	}
	if err := rememberRoots(ctx, p, db, deps.Runners, o.DryRun || rootErr != nil); err != nil {
		r.fail(err)
	}
	if rootErr != nil {
		deps.Runners = project.HandsOff{Runners: deps.Runners}
	}
	low, err := project.LowUntil(ctx, p, db)
	if err != nil {
		r.fail(err)
	}
	options.TrackerLow = low.After(p.Env.Now())
	// Before anything is started: a pass that dies in its middle leaves it behind for the next.
	if cfgErr == nil && !o.DryRun {
		if err := db.SetMeta(ctx, lastGoodKey, string(cfg.Redacted())); err != nil {
			r.fail(err)
		}
	}
	report := reconcile.Tick(patient, crash.Deps(deps), options)
	report.Errors = slices.Concat(r.Errors, report.Errors)
	r.Report = report
	if err := saveLow(ctx, p, db, deps.Tracker, low, r); err != nil {
		r.fail(err)
	}
}

func passDeps(p *project.Project, db *state.DB, cfg *workflow.Config, o Options, askTracker bool, r *Result) (reconcile.Deps, error) {
	runners, err := project.NewRunners(p, cfg)
	if err != nil {
		return reconcile.Deps{}, err
	}
	runners.Stays = o.Stays
	account := project.OpenPassAccount(p, cfg.Codex.Home, r.warn)
	runners.Slots = account
	boot, err := proc.BootID()
	if err != nil {
		return reconcile.Deps{}, fmt.Errorf("boot id: %w", err)
	}
	d := reconcile.Deps{
		Policy: project.Policy(cfg), Store: db, Runners: runners, Accounts: account, CheckHost: runners.Shelter, Now: p.Env.Now,
		Mono: proc.Monotonic, Boot: boot, NewRunID: project.RunIDs(db, p.Env.Now),
	}
	if o.Only != "" {
		d.Store = confined{db, o.Only}
	}
	if askTracker {
		var mu sync.Mutex // the pass makes two requests at once
		warn := func(text string) {
			mu.Lock()
			defer mu.Unlock()
			r.warn(text)
		}
		tracker, err := project.NewTracker(cfg, p.Env.Now, warn)
		if err != nil {
			return reconcile.Deps{}, err
		}
		d.Tracker = project.VerifyFirst(tracker, db, cfg, p.Path, warn)
	}
	return d, nil
}

const lastGoodKey = "last_good_workflow"

// lastGood gives the last configuration that was valid, for reconciliation only. A literal key was not
// kept: with it only the local half of a pass is left.
func lastGoodConfig(ctx context.Context, p *project.Project, db *state.DB, r *Result) (cfg *workflow.Config, askTracker bool) {
	text, known, err := db.Meta(ctx, lastGoodKey)
	if err != nil || !known {
		if err != nil {
			r.fail(err)
		}
		return nil, false
	}
	src, err := workflow.NewSource(p.Path, p.Path, []byte(text))
	if err != nil {
		r.fail(err)
		return nil, false
	}
	env := p.Environment(nil)
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

func workflowWarnings(p *project.Project, cfg *workflow.Config) []string {
	var list []string
	for _, w := range cfg.Warnings {
		list = append(list, w.String())
	}
	for _, problem := range cfg.Prompt.Check() {
		list = append(list, problem.String()+" (a run that renders it fails)")
	}
	return list
}
