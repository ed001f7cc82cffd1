package agents

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/state"
)

// Taken is a run that a worker took, and what the worker has for it.
type Taken struct {
	Run      reconcile.Run
	DB       *state.DB
	Alive    runner.Alive
	Redactor *agent.Redactor
	Log      *slog.Logger
}

// CarryOut is the work of an agent's worker after it took the run. It returns the run as
// recorded.
func CarryOut(ctx context.Context, w *environ.Env, t Taken) (reconcile.Run, error) {
	run := t.Run
	p := openProject(w)
	dir := host.RunDir(p.StateDir, run.ID)
	s, err := readSettings(dir)
	if err != nil {
		return run, err
	}
	wake, err := listen(filepath.Join(dir, wakeFile))
	if err != nil {
		return run, err
	}
	config := s.runnerConfig(p)
	t.Redactor.Add(slices.Concat(config.SecretValues, agent.EnvSecrets(p.Environ())))
	account := wiring.OpenAccount(p, "")
	free := &runner.Free{
		Calls:   t.DB.Journal,
		Wake:    wake,
		Idle:    s.IdleTimeout,
		Guarded: func(ctx context.Context) ([]string, error) { return s.stillGuarded(ctx, p.Env, run.WorkspacePath) },
	}
	if s.Permission != nil {
		held, err := holdDir(s.Permission.Dir)
		if err != nil {
			return run, err
		}
		defer held.close()
		free.Permission = s.ask(held)
		if s.Worktree == nil {
			free.Guarded = func(ctx context.Context) ([]string, error) {
				if err := held.unchanged(); err != nil {
					return nil, err
				}
				return s.stillGuarded(ctx, p.Env, run.WorkspacePath)
			}
		}
	}
	if s.Host != nil {
		free.Orphaned = func() bool { return !proc.SameProcess(*s.Host) }
	}
	worker := &runner.Worker{
		Here: runner.Place{
			Machine:  host.WithCrashPoints(wiring.NewWorkersMachine(p.Env, p.StateDir, account.Dir, nil)),
			StateDir: p.StateDir,
			Env:      p.Environ(),
			Config:   config,
		},
		Journal:  t.DB.Journal,
		Requests: t.DB.Journal,
		Tracker:  &reconcile.TrackerAdapter{},
		Free:     free,
		Account:  account,
		Alive:    t.Alive,
		Dir:      dir,
		Version:  wiring.Version(),
		Now:      p.Env.Now,
		Mono:     proc.Monotonic,
		Boot:     run.Worker.Boot,
		Log:      t.Log,
		Redactor: t.Redactor,
	}
	return worker.Run(context.WithoutCancel(ctx), run, ctx.Done())
}

// listen returns a channel that gets a value after a client wrote to the FIFO at path. It also
// opens the FIFO for writing, so that it never ends.
func listen(path string) (<-chan struct{}, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("wake: %w", err)
	}
	woken := make(chan struct{}, 1)
	go func() {
		for buffer := make([]byte, 64); ; {
			if _, err := f.Read(buffer); err != nil {
				return // the worker finds calls without it, only later
			}
			select {
			case woken <- struct{}{}:
			default:
			}
		}
	}()
	return woken, nil
}
