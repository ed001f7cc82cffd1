package runner

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// freeRun is the work of the run of an agent without an issue: it asks a person whether the
// agent may start, prepares the directory, and carries out the calls of clients.
type freeRun struct {
	*parts
	workspace *workspaceStep
	calls     *clientCalls
}

func (j *job) newFreeRun() *freeRun {
	return &freeRun{j.parts, j.workspace, j.newClientCalls()}
}

// work carries the run out until it is stopped, or is idle for too long.
func (f *freeRun) work(ctx context.Context) error {
	defer f.calls.end(ctx)
	if f.Free.Orphaned != nil {
		go f.followHost(ctx)
	}
	if f.Free.Permission != nil {
		err := f.awaitPermission(ctx, f.Free.Permission)
		if err != nil {
			return err
		}
	}
	if err := f.prepare(ctx); err != nil {
		return err
	}
	f.rec.phase(ctx, reconcile.StreamingTurn)
	return f.calls.serve(ctx)
}

// followHost ends the run when the program that started the agent exits.
func (f *freeRun) followHost(ctx context.Context) {
	look := time.NewTicker(missedWake)
	defer look.Stop()
	for !f.Free.Orphaned() {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
	f.rec.cancel(runEnd{reconcile.Canceled, "host_gone", "the program that started the agent has exited"})
}

// awaitPermission asks a person whether the agent may start. Nothing of the agent runs before
// the answer.
func (f *freeRun) awaitPermission(ctx context.Context, p *Permission) error {
	desk := f.desk
	desk.Ending = ctx.Done()
	decision := desk.Decide(ctx, p.Request)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if decision.Expired {
		return p.Refused("nobody has decided in time")
	}
	if !decision.Approve {
		if decision.Sent != nil {
			decision.Sent()
		}
		return p.Refused(decision.Reason)
	}
	err := p.Unchanged()
	if err != nil {
		return err
	}
	decision.Sent()
	return nil
}

// freeDir is where programs of a free run have their temporary files and caches.
func freeDir(runDir string) string { return filepath.Join(runDir, "work") }

// prepare makes the directories that programs of the run get.
func (f *freeRun) prepare(ctx context.Context) error {
	if f.site.Config.Repository.URL != "" {
		return f.takeClone(ctx)
	}
	space, err := newSpace(f.run.WorkspacePath, freeDir(f.Dir))
	if err != nil {
		return fmt.Errorf("directories of the agent: %w", err)
	}
	f.site.space = space
	return f.site.host.Open(ctx)
}

// takeClone takes a clone of the run's own, which it holds as other runs hold the workspace of
// an issue.
func (f *freeRun) takeClone(ctx context.Context) error {
	f.rec.phase(ctx, reconcile.PreparingWorkspace)
	if err := f.workspace.take(ctx); err != nil {
		return err
	}
	if f.workspace.untrusted != nil {
		return f.workspace.untrusted
	}
	return f.workspace.guardGit(ctx)
}
