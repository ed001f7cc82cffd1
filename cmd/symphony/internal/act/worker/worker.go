// Package worker is the process symphony worker: it takes a run, carries it out, and records
// the outcome.
package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/notify"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/state"
	"github.com/symphony-cron/symphony/team"
)

const (
	workerGC   = 50              // percent, see Run
	reapStep   = 5 * time.Second // how often orphans are reaped
	ownPassMax = "10s"           // how long the pass that the worker starts waits for the lock
	// takePatience is how long a worker tries to lock its alive file, which a pass may be
	// probing.
	takePatience = 2 * time.Second
)

// Options are for Run.
type Options struct {
	ID, StateDir, Workflow string
	// Slot is the path of the account's slot, handed over by the pass; empty if the number of
	// runs is unbounded.
	Slot string
	// Model is the model that the operator's command names; empty for the workflow's.
	Model string
	// End: the run's worker died, and this worker only ends the run on its host.
	End bool
}

// Run takes the run, carries it out, records the outcome, and starts a pass, so that the next
// run need not wait for the schedule. The worker logs to stderr.
func Run(ctx context.Context, w *environ.Env, stderr io.Writer, o Options) error {
	ready, err := proc.TakeOver()
	if err != nil {
		return exit.Usage("symphony worker can only be started by a pass: %v", err)
	}
	var heldSlot *os.File
	if o.Slot != "" {
		heldSlot, err = proc.TakeExtra(o.Slot)
		if err != nil {
			return errors.Join(err, ready.Refuse(err.Error()))
		}
	}
	// Process lists would show "exe", because it was started from /proc/self/exe. Nothing
	// depends on the name.
	_ = proc.ShowAs("symphony")
	// There may be many workers, and each needs less than a megabyte: early collections keep
	// it at that.
	debug.SetGCPercent(workerGC)
	redactor := agent.NewRedactor(nil)
	redacted := agent.Writer{W: stderr, Redactor: redactor}
	log := slog.New(slog.NewTextHandler(redacted, nil)).With(slog.String("run_id", o.ID))
	exe := wiring.ProgramPath()
	h, err := takeRun(ctx, w, o)
	if err != nil {
		log.Warn("run not taken", slog.String("error", err.Error()))
		return errors.Join(err, ready.Refuse(err.Error()))
	}
	h.exe = exe
	h.slot = heldSlot
	h.model = o.Model
	h.logins = ready.Shared
	if err := ready.Taken(); err != nil {
		log.Info("the pass has ended", slog.String("error", err.Error()))
	}
	log = log.With(
		slog.String("issue_id", h.Run.IssueID),
		slog.String("issue_identifier", h.Run.Identifier),
		slog.Int("attempt", h.Run.Attempt),
	)
	stopReaping := Supervise(ctx, log)
	defer stopReaping()
	// The environment file need not be readable here: the pass handed over its variables.
	p := wiring.NewProject(w, o.Workflow, o.StateDir)
	switch {
	case o.End:
		if err := h.endThere(ctx, p, log); err != nil {
			log.Error("the run is not ended on its host yet", "error", err)
		}
	case h.Run.Kind == reconcile.FreeRun:
		h.Run, err = agents.CarryOut(ctx, w, agents.Taken{
			Run:      h.Run,
			DB:       h.DB,
			Alive:    h.Alive,
			Redactor: redactor,
			Log:      log,
		})
	default:
		err = h.carryOut(ctx, p, ready.Secret, redactor, log)
	}
	if err != nil {
		h.RecordFailure(ctx, w, err, log)
	}
	h.Close(log)
	crash.At("worker.closed")
	// A terminated worker belongs to a service or session that is being stopped. A pass
	// started there would start new work that is killed at once.
	starts := h.Run.Kind != reconcile.CleanupRun && h.Run.Kind != reconcile.FreeRun &&
		h.Run.ErrorCode != reconcile.CodeTerminated
	if starts || o.End {
		startOwnPass(exe, w, o.StateDir, o.Workflow, log)
	}
	return nil
}

// OwnRun is a run that this worker took.
type OwnRun struct {
	Run   reconcile.Run
	DB    *state.DB
	Alive *proc.Alive
	exe   string // the path of this program
	model string
	slot  *os.File // the account's slot, held while it is open; nil for none
	// number is what holds the SYMPHONY_SLOT of the run until the process ends; nil for none
	number io.Closer
	// logins is the file in which the workers of the same pass share the results of their
	// login shells, nil for none.
	logins *os.File
}

// takeRun makes this process the owner of the run. If it fails, it changes nothing.
func takeRun(ctx context.Context, w *environ.Env, o Options) (*OwnRun, error) {
	// Not every system supports it; docs/security.md explains the consequences there.
	if err := proc.NonDumpable(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, fmt.Errorf("hiding the key from other processes: %w", err)
	}
	alive, err := proc.HoldAlive(filepath.Join(host.RunDir(o.StateDir, o.ID), host.AliveFile), takePatience)
	if err != nil {
		return nil, fmt.Errorf("alive file: %w", err)
	}
	db, err := state.Open(ctx, o.StateDir)
	if err != nil {
		return nil, errors.Join(err, runner.RecordFault(alive, err), alive.Close())
	}
	run, err := takeRow(ctx, db, o, w.Now())
	if err != nil {
		return nil, errors.Join(
			fmt.Errorf("taking run %s: %w", o.ID, err),
			runner.RecordFault(alive, err),
			db.Close(),
			alive.Close(),
		)
	}
	return &OwnRun{Run: run, DB: db, Alive: alive}, nil
}

// takeRow makes this process the owner of the run in the database.
func takeRow(ctx context.Context, db *state.DB, o Options, now time.Time) (reconcile.Run, error) {
	self, err := proc.Self()
	if err != nil {
		return reconcile.Run{}, err
	}
	if o.End {
		return db.Journal.TakeRemote(ctx, o.ID, self, now)
	}
	return db.Journal.TakeRun(ctx, o.ID, self, now)
}

// Close closes the database and then the alive file: from now on a pass may settle the run.
func (h *OwnRun) Close(log *slog.Logger) {
	var err error
	if h.slot != nil { // first, because the pass that settles the run may need it
		err = h.slot.Close()
	}
	err = errors.Join(err, h.DB.Close(), h.Alive.Close())
	if err != nil {
		log.Warn("closing", slog.String("error", err.Error()))
	}
}

// Supervise makes this process the parent of all processes that the agent leaves behind, and
// reaps them.
func Supervise(ctx context.Context, log *slog.Logger) (stop func()) {
	report := func(err error) { log.Warn("supervision", slog.String("error", err.Error())) }
	if err := proc.BecomeSubreaper(); err != nil {
		report(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		proc.ReapOrphans(ctx, reapStep, report)
	}()
	return func() {
		cancel()
		<-done
	}
}

// carryOut loads the workflow as the pass found it and carries the run out.
func (h *OwnRun) carryOut(
	ctx context.Context,
	p *wiring.Project,
	secret []byte,
	redactor *agent.Redactor,
	log *slog.Logger,
) error {
	dir := host.RunDir(p.StateDir, h.Run.ID)
	cfg, err := h.readWorkflow(dir, p, secret)
	if err != nil {
		return err
	}
	redactor.Add(slices.Concat(wiring.Secrets(p, cfg), agent.EnvSecrets(p.Environ())))
	tracker, err := wiring.NewTracker(p, cfg, wiring.TrackerOptions{
		Memory: h.DB,
		Warn:   func(text string) { log.Warn(text) },
	})
	if err != nil {
		return err
	}
	cfg = h.chooseAgent(p, cfg, log)
	worker, err := h.newWorker(ctx, p, cfg, tracker, redactor, log)
	if err != nil {
		return err
	}
	if h.Run.Host == "" {
		return h.work(ctx, p, cfg, worker)
	}
	config := worker.Here.Config
	far, err := h.newDaemon(ctx, p, cfg.Worker, config.Repository.Repository, log)
	if err != nil {
		return err
	}
	far.run.LostAfter = config.Policy.LostAfter
	worker.Account = nil
	worker.Reach = far.reach
	if err := h.work(ctx, p, cfg, worker); err != nil {
		return err // a later worker needs the record of the daemon to end the run
	}
	far.forget(ctx, h.Run)
	return nil
}

// chooseAgent returns the configuration of the agent that the pass chose for the run, and
// stores the agent in the run.
func (h *OwnRun) chooseAgent(p *wiring.Project, cfg *workflow.Config, log *slog.Logger) *workflow.Config {
	labels := h.Run.Issue.Labels
	choices := cfg.AgentsFor(labels)
	choice := wiring.ChoiceOf(p, choices, h.Run.Agent)
	if h.model != "" && choice.Kind == choices[0].Kind {
		choice.Model = h.model
	}
	if h.Run.Kind == reconcile.AgentRun {
		chosen := wiring.ChosenAgent(p, choice)
		log.Info("agent", slog.String("kind", chosen.Kind), slog.String("home", chosen.Home))
		h.Run.Agent = chosen
	}
	return cfg.ForIssueBy(choice, labels)
}

// newWorker returns the worker of the run, which works on this machine. The configuration
// contains the changes of agent.by_label.
func (h *OwnRun) newWorker(
	ctx context.Context,
	p *wiring.Project,
	cfg *workflow.Config,
	tracker *reconcile.TrackerAdapter,
	redactor *agent.Redactor,
	log *slog.Logger,
) (*runner.Worker, error) {
	config := wiring.RunnerConfig(p, cfg)
	roots, err := wiring.WritableRoots(ctx, p, cfg)
	if err != nil {
		return nil, err
	}
	config.WritableRoots = roots
	// the path, because another process may not read /proc/PID/exe of a worker
	config.Program, err = os.Executable()
	if err != nil {
		return nil, fmt.Errorf("own program: %w", err)
	}
	config.RootsAreReal = h.Run.Host == ""
	if h.Run.Kind == reconcile.AgentRun {
		number, held, err := proc.TakeSlot()
		if err != nil {
			log.Warn("the run has no SYMPHONY_SLOT", slog.Any("error", err))
		} else {
			h.number = held
			config.Slot = strconv.Itoa(number)
		}
	}
	account := wiring.OpenAccount(p, cfg.Chosen.Home)
	member, err := h.memberOf(p, cfg)
	if err != nil {
		return nil, err
	}
	return &runner.Worker{
		Team: member,
		Here: runner.Place{
			Machine:  host.WithCrashPoints(wiring.NewWorkersMachine(p.Env, p.StateDir, account.Dir, h.logins)),
			StateDir: p.StateDir,
			Env:      p.Environ(),
			Config:   config,
		},
		Prompt:   cfg.Prompt,
		Journal:  h.DB.Journal,
		Requests: h.DB.Journal,
		Tracker:  tracker,
		Forge:    wiring.NewForge(p, cfg, h.DB),
		Account:  account,
		Alive:    h.Alive,
		Dir:      host.RunDir(p.StateDir, h.Run.ID),
		Version:  wiring.Version(),
		Now:      p.Env.Now,
		Mono:     proc.Monotonic,
		Boot:     h.Run.Worker.Boot,
		Log:      log,
		Redactor: redactor,
	}, nil
}

// memberOf returns this machine as a member of the team, for the runs that need a claim.
func (h *OwnRun) memberOf(p *wiring.Project, cfg *workflow.Config) (*team.Member, error) {
	if h.Run.Kind != reconcile.AgentRun && h.Run.Kind != reconcile.DeliveryRun {
		return nil, nil //nolint:nilnil // a cleanup changes nothing that others see
	}
	return wiring.NewTeam(p, cfg, h.DB, h.Run.ID)
}

// work lets the worker carry the run out, and notifies operators of its requests. It returns an
// error if the outcome of the run is not stored.
func (h *OwnRun) work(
	ctx context.Context,
	p *wiring.Project,
	cfg *workflow.Config,
	worker *runner.Worker,
) error {
	log := worker.Log
	var stopNotifier func()
	worker.Attend, stopNotifier = notify.Notifier{
		P:       p,
		DB:      h.DB,
		Hook:    notify.HookOf(p, cfg).OfRun(p.StateDir, h.Run.ID),
		By:      h.Run.ID,
		IssueID: h.Run.IssueID,
	}.Start(ctx, log)
	defer stopNotifier()
	if len(cfg.Tracker.Operators) > 0 {
		notify := worker.Attend
		worker.Attend = func(ctx context.Context) {
			notify(ctx)
			h.askInTracker(p, log)
		}
	}
	run, err := worker.Run(context.WithoutCancel(ctx), h.Run, ctx.Done())
	h.Run = run
	if errors.Is(err, reconcile.ErrConflict) {
		log.Warn("another process has settled the run", slog.String("error", err.Error()))
		return nil
	}
	return err
}

// readWorkflow returns the configuration with which the run was dispatched, without the
// changes of agent.by_label.
func (h *OwnRun) readWorkflow(dir string, p *wiring.Project, secret []byte) (*workflow.Config, error) {
	data, err := os.ReadFile(filepath.Join(dir, runner.WorkflowFile))
	if err != nil {
		return nil, fmt.Errorf("workflow of the run: %w", err)
	}
	src, err := workflow.NewSource(p.Path, p.Path, data)
	if err != nil {
		return nil, err
	}
	extra := map[string]string{}
	if len(secret) > 0 {
		if err := json.Unmarshal(secret, &extra); err != nil {
			return nil, fmt.Errorf("secrets of the workflow: %w", err)
		}
	}
	return workflow.Parse(src, p.Environment(extra))
}

// endThere ends the run on its host.
func (h *OwnRun) endThere(ctx context.Context, p *wiring.Project, log *slog.Logger) error {
	far, err := h.oldDaemon(ctx, p, log)
	if err != nil {
		return err
	}
	far.run.LostAfter = lostAfterEnding
	worker := &runner.Worker{
		Journal: h.DB.Journal,
		Alive:   h.Alive,
		Reach:   far.reach,
		Now:     p.Env.Now,
		Mono:    proc.Monotonic,
		Log:     log,
	}
	worker.Here.Env = wiring.GitEnv(p) // the names of secrets are not known here
	worker.Here.Config.Repository.Repository = far.record.Repository
	if err := worker.EndThere(ctx, h.Run); err != nil {
		return err
	}
	h.Run.Remote = reconcile.RemoteEnded
	far.forget(ctx, h.Run)
	return nil
}

// lostAfterEnding is how long a daemon that was started only to end a run works without a
// link.
const lostAfterEnding = 5 * time.Minute

// askInTracker lets a pass comment the agent's requests on the issue.
func (h *OwnRun) askInTracker(p *wiring.Project, log *slog.Logger) {
	startOwnPass(h.exe, p.Env, p.StateDir, p.Path, log)
}

// RecordFailure records that a run could not be started.
func (h *OwnRun) RecordFailure(ctx context.Context, w *environ.Env, err error, log *slog.Logger) {
	if h.Run.Outcome != "" { // the run ended, and its outcome could not be stored for too long
		log.Error(
			"outcome given up",
			slog.String("outcome", string(h.Run.Outcome)),
			slog.String("error", err.Error()),
		)
		return
	}
	known := exit.From(err)
	h.Run.Outcome = reconcile.Failed
	h.Run.ErrorCode = known.Code
	h.Run.ErrorText = known.Message
	h.Run.EndedAt = w.Now()
	log.Error("run ended", slog.String("outcome", string(h.Run.Outcome)), slog.String("error", err.Error()))
	worker := &runner.Worker{
		Journal: h.DB.Journal,
		Alive:   h.Alive,
		Now:     w.Now,
		Mono:    proc.Monotonic,
		Log:     log,
	}
	if err := worker.Conclude(context.WithoutCancel(ctx), h.Run); err != nil {
		log.Error("outcome not stored", slog.String("error", err.Error()))
	}
}

// startOwnPass starts a pass, such as the one that settles this run, and does not wait for it. The
// pass inherits no marker, lock or lease of the run. A loop is asked for its next pass instead:
// it does not watch runs that an operator's command has started since its last one.
func startOwnPass(exe string, w *environ.Env, stateDir, path string, log *slog.Logger) {
	if wiring.Looping(stateDir) {
		if err := wiring.AskForPass(stateDir); err != nil {
			log.Warn("could not ask the loop for a pass", slog.String("error", err.Error()))
		}
		return
	}
	if _, err := os.Stat(exe); err != nil {
		log.Info("no pass started: the program has been removed", slog.String("path", exe))
		return
	}
	_, err := proc.Detach(proc.Spawn{
		Exe: exe,
		Argv: []string{
			"symphony", "tick",
			"--trigger", "worker",
			"--lock-timeout", ownPassMax,
			"--quiet",
			"--state-dir", stateDir,
			"--workflow", path,
		},
		Env: wiring.OwnPassEnviron(w),
	})
	crash.At("worker.pass.started")
	if err != nil {
		log.Warn("no pass started", slog.String("error", err.Error()))
	}
}
