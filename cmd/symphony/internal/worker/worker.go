package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/state"
)

const workerGC = 25 // percent

// takePatience is how long a worker tries to take its alive file: a pass may be looking at it.
const takePatience = 2 * time.Second

// work takes the run, carries it out, records the outcome, and starts a pass of its own so that what
// follows need not wait for the schedule. slot names the slot of the account that the pass has handed on, if any.
func Run(ctx context.Context, w *term.Env, id, stateDir, path, slot string) error {
	ready, err := proc.ReadySocket()
	if err != nil {
		return fmt.Errorf("symphony worker is started by a pass, not by hand: %w", err)
	}
	handed, err := handedSlot(slot)
	if err != nil {
		return errors.Join(err, ready.Refuse(err.Error()))
	}
	// Started from /proc/self/exe it would be listed as "exe". Where the name can't be set (/proc read-only) it is harder
	// to recognise, and all else as it should be.
	_ = proc.ShowAs("symphony")
	// It lives on less than a megabyte, and of workers there may be many: collecting before the usual four are
	// full costs half a millisecond every few seconds.
	debug.SetGCPercent(workerGC)
	redactor := agent.NewRedactor(nil)
	log := project.NewLogTo(agent.Writer{W: w.Stderr, Redactor: redactor}, slog.LevelInfo).With(slog.String("run_id", id))
	exe := project.ProgramPath()
	h, err := takeRun(ctx, w, id, stateDir)
	if err != nil {
		log.Warn("run not taken", slog.String("error", err.Error()))
		return errors.Join(err, ready.Refuse(err.Error()))
	}
	h.slot = handed
	defer h.Close(log)
	if err := ready.Taken(); err != nil {
		log.Info("the pass is gone", slog.String("error", err.Error()))
	}
	log = log.With(slog.String("issue_id", h.Run.IssueID), slog.String("issue_identifier", h.Run.Identifier), slog.Int("attempt", h.Run.Attempt))
	stopReaping := Supervise(ctx, log)
	defer stopReaping()
	// Whether the environment file can be read is no matter here: the pass has handed its variables on.
	if err := h.carryOut(ctx, project.New(w, path, stateDir), ready.Secret(), redactor, log); err != nil {
		h.Failed(ctx, w, err, log)
	}
	h.Close(log)
	crash.At("worker.closed")
	// One that was ended from outside stands in a service or a session that is being stopped: a pass started there would
	// start new work in it, only to have it killed.
	if h.Run.Kind == reconcile.AgentRun && h.Run.ErrorCode != reconcile.CodeTerminated {
		startOwnPass(ctx, exe, w, h.Run.ID, stateDir, path, log)
	}
	return nil
}

// held is a run that this worker has taken.
type Held struct {
	Run    reconcile.Run
	Db     *state.DB
	Alive  *proc.Alive
	slot   *os.File // of the account, held for as long as it is open; nil for none
	closed bool
}

// takeRun makes this process the run's owner, or leaves everything untouched.
func takeRun(ctx context.Context, w *term.Env, id, stateDir string) (*Held, error) {
	// Where the system offers no such thing the README says what that means.
	if err := proc.NonDumpable(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, fmt.Errorf("hiding the key from other processes: %w", err)
	}
	alive, err := proc.HoldAlive(filepath.Join(runner.RunDir(stateDir, id), "alive"), takePatience)
	if err != nil {
		return nil, fmt.Errorf("alive file: %w", err)
	}
	h := &Held{Alive: alive}
	if h.Db, err = state.Open(ctx, stateDir); err != nil {
		return nil, errors.Join(err, refuse(alive, err), alive.Close())
	}
	self, err := proc.Self()
	if err == nil {
		err = runner.RecordScope(stateDir, id)
	}
	if err == nil {
		h.Run, err = h.Db.TakeRun(ctx, id, self, w.Now())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("taking run %s: %w", id, err), refuse(alive, err), h.Db.Close(), alive.Close())
	}
	return h, nil
}

// refuse leaves word for the pass that settles the run where it was the machine's fault that it was not begun: the
// database that would say so is what could not be written.
func refuse(alive *proc.Alive, err error) error {
	if code := exit.From(err).Code; reconcile.MachineFault(code) {
		return alive.Refuse(code)
	}
	return nil
}

// close gives up the database and then the alive file: from here on a pass may settle the run.
func (h *Held) Close(log *slog.Logger) {
	if h.closed {
		return
	}
	h.closed = true
	// The slot first: the pass that settles the run may need it.
	if err := errors.Join(h.freeSlot(), h.Db.Close(), h.Alive.Close()); err != nil {
		log.Warn("closing", slog.String("error", err.Error()))
	}
}

// supervise makes the worker the parent of all that the agent leaves behind, and reaps it.
func Supervise(ctx context.Context, log *slog.Logger) (stop func()) {
	report := func(err error) { log.Warn("supervision", slog.String("error", err.Error())) }
	if err := proc.BecomeSubreaper(); err != nil {
		report(err)
	}
	reaper, err := proc.NewReaper()
	if err != nil {
		report(err)
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() { defer close(done); reaper.Run(ctx, 5*time.Second, report) }()
	return func() { cancel(); <-done }
}

// carryOut loads the workflow as it was dispatched and works the run off.
func (h *Held) carryOut(ctx context.Context, p *project.Project, secret []byte, redactor *agent.Redactor, log *slog.Logger) error {
	dir := runner.RunDir(p.StateDir, h.Run.ID)
	data, err := os.ReadFile(filepath.Join(dir, "workflow.md"))
	if err != nil {
		return fmt.Errorf("workflow of the run: %w", err)
	}
	src, err := workflow.NewSource(p.Path, p.Path, data)
	if err != nil {
		return err
	}
	extra := map[string]string{}
	if len(secret) > 0 {
		extra[workflow.LiteralKeyVar] = string(secret)
	}
	cfg, err := workflow.Parse(src, p.Environment(extra))
	if err != nil {
		return err
	}
	config := project.RunnerConfig(cfg)
	redactor.Add(slices.Concat(config.SecretValues, agent.EnvSecrets(p.Environ())))
	tracker, err := project.NewTracker(cfg, p.Env.Now, project.WarnTo(log))
	if err != nil {
		return err
	}
	config.SecretValues = tracker.Secrets
	redactor.Add(tracker.Secrets)
	account := project.OpenAccount(p, cfg.Codex.Home)
	worker := &runner.Worker{
		Config: config, Prompt: cfg.Prompt, Journal: h.Db, Requests: h.Db, Tracker: tracker, Host: host.WithCrashPoints(&local.Host{}),
		Account: account, AccountDir: account.Dir,
		Alive: h.Alive, Dir: dir, StateDir: p.StateDir, Env: p.Environ(), Version: project.Version(), Now: p.Env.Now, Log: log, Redactor: redactor,
	}
	var stopTelling func()
	worker.Attend, stopTelling = pass.Teller{
		P: p, Db: h.Db, Hook: pass.AttentionHook(p, cfg).OfRun(p.StateDir, h.Run.ID), By: h.Run.ID, IssueID: h.Run.IssueID,
	}.Attending(ctx, log)
	defer stopTelling()
	run, err := worker.Run(context.WithoutCancel(ctx), h.Run, ctx.Done())
	h.Run = run
	if errors.Is(err, reconcile.ErrConflict) {
		log.Warn("somebody else settled the run", slog.String("error", err.Error()))
		return nil
	}
	return err
}

// failed records a run that could not even be begun.
func (h *Held) Failed(ctx context.Context, w *term.Env, err error, log *slog.Logger) {
	if h.Run.Outcome != "" {
		log.Error("outcome given up", slog.String("outcome", string(h.Run.Outcome)), slog.String("error", err.Error()))
		return // it could only not be stored, for as long as a worker tries
	}
	known := exit.From(err)
	h.Run.Outcome, h.Run.ErrorCode, h.Run.ErrorText, h.Run.EndedAt = reconcile.Failed, known.Code, known.Message, w.Now()
	log.Error("run ended", slog.String("outcome", string(h.Run.Outcome)), slog.String("error", err.Error()))
	worker := &runner.Worker{Journal: h.Db, Alive: h.Alive, Now: w.Now, Log: log}
	if err := worker.Conclude(context.WithoutCancel(ctx), h.Run); err != nil {
		log.Error("outcome not stored", slog.String("error", err.Error()))
	}
}

// startOwnPass starts a pass that settles this run. Nobody waits for its end, and nothing of the run is handed
// on: no mark, no lock, no lease, and not its scope.
func startOwnPass(ctx context.Context, exe string, w *term.Env, runID, stateDir, path string, log *slog.Logger) {
	if project.Looping(stateDir) {
		return // it sees the end of the run by itself
	}
	if _, err := os.Stat(exe); err != nil {
		log.Info("no pass of its own, the program is gone", slog.String("path", exe))
		return
	}
	env := project.OwnPassEnviron(w)
	scope := proc.PassScope(env, runID)
	pass, err := proc.Detach(proc.Spawn{
		Exe:  exe,
		Argv: []string{"symphony", "tick", "--trigger", "worker", "--lock-timeout", "10s", "--quiet", "--state-dir", stateDir, "--workflow", path},
		Env:  env, Dir: "/", Scope: scope,
	})
	if err == nil && scope != nil {
		// In the run's own scope it would be one of the processes that it is to end. Without a scope there is none.
		err = pass.Moved(context.WithoutCancel(ctx), scope)
	}
	crash.At("worker.pass.started")
	if err != nil {
		log.Warn("no pass of its own", slog.String("error", err.Error()))
	}
}
