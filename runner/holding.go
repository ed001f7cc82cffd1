package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// Holding holds the workspace of an issue for an operator instead of an agent: symphony
// takeover opens the agent's own terminal in it, symphony prune removes it. The lease, the sandbox
// and the environment are the same as for an agent. Release must be called, even after an
// error.
//
//	Take ─► Session ─► Release
//	CleanUp ─► Release
type Holding struct {
	Here Place
	// ID is used like a run's id: it marks the processes, and the workspace's record names it
	// as the last holder.
	ID    string
	Issue reconcile.Issue
	Root  string // the workspace root of the claim
	// Delivered is the last push for the issue. A new workspace begins there.
	Delivered reconcile.Delivered
	Now       func() time.Time
	Log       *slog.Logger
	// HoldDir makes a directory count as the directory of a live run, until the result is
	// closed.
	HoldDir func(dir string) (io.Closer, error)

	job     *job // nil before it is open
	alive   io.Closer
	started bool // a session, which may have left processes
}

// Take takes the workspace, which it creates if there is none, and ends processes that the
// last holder left. The error is workspace_busy if a run holds it. It does not run before_run,
// which is for agents.
func (h *Holding) Take(ctx context.Context) (host.Workspace, error) {
	err := h.take(ctx)
	crash.At("runner.takeover.taken")
	if err != nil {
		return host.Workspace{}, err
	}
	return *h.job.site.space, nil
}

func (h *Holding) take(ctx context.Context) error {
	if err := h.open(); err != nil {
		return err
	}
	if err := h.job.workspace.take(ctx); err != nil {
		return err
	}
	return h.job.workspace.guardGit(ctx)
}

// CleanUp removes the workspace and empties the trash, as a cleanup run does. It returns the
// work that exists nowhere else, because of which the workspace was kept; with discard even
// that is removed.
func (h *Holding) CleanUp(ctx context.Context, discard bool) (unsaved string, err error) {
	if err := h.open(); err != nil {
		return "", err
	}
	return h.job.workspace.cleanUp(ctx, discard)
}

// open creates the directory of the holding, with the same files as the directory of a run.
func (h *Holding) open() error {
	dir := host.RunDir(h.Here.StateDir, h.ID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("directory of the takeover: %w", err)
	}
	alive, err := h.HoldDir(dir)
	if err != nil {
		return fmt.Errorf("directory of the takeover: %w", err)
	}
	h.alive = alive
	config := h.Here.Config
	w := &Worker{
		Here:     h.Here,
		Dir:      dir,
		Now:      h.Now,
		Log:      h.Log,
		Redactor: agent.NewRedactor(slices.Concat(config.SecretValues, config.SecretsIn(h.Here.Env))),
	}
	run := reconcile.Run{
		ID:            h.ID,
		IssueID:       h.Issue.ID,
		Identifier:    h.Issue.Identifier,
		Issue:         h.Issue,
		WorkspaceRoot: h.Root,
	}
	h.job = w.newJob(run, func(error) {})
	h.job.branch.delivered = h.Delivered
	return h.job.open()
}

// Release ends all processes that the session left behind, restores git settings as after an
// agent, and releases the workspace. If that fails, the next holder of the workspace does it.
func (h *Holding) Release(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var err error
	if h.job != nil {
		if h.started { // otherwise children of this process are not of the session
			err = h.job.processes.killAll(ctx)
		}
		if err == nil {
			err = h.job.workspace.restoreGit(ctx)
		}
		err = errors.Join(err, h.job.site.host.Finish(ctx))
		h.job.close()
	}
	if h.alive != nil {
		err = errors.Join(err, h.alive.Close())
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(host.RunDir(h.Here.StateDir, h.ID))
}
