package runner

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// Shelter implements reconcile.Deps: whether a worker started now lives on when this pass has ended.
func (l *Local) Shelter(ctx context.Context) error {
	err := l.Scopes.Ask(ctx)
	var mortal *proc.MortalError
	if !errors.As(err, &mortal) {
		return err
	}
	if l.Stays {
		return nil // somebody waits for the end of that unit, a job of a CI for instance, and for these runs with it
	}
	return &reconcile.Error{
		Code: reconcile.CodeWorkersWouldDie, Message: mortal.Error(), Err: err,
		Hint: "write KillMode=process into the [Service] section of " + mortal.Unit +
			", or run passes by a timer of your user's, or let your user linger (loginctl enable-linger): then workers get scopes; where nothing is to outlive " + mortal.Unit + ", let the pass wait for its runs: symphony tick --wait",
	}
}

// RecordScope writes down the scope that this process, the worker of a run, was started in, if it was: what is found
// in there later is the run's. It comes before the run is taken, so that no run is begun whose scope nobody knows.
func RecordScope(stateDir, runID string) error {
	cgroup, ok := proc.OwnScope(runID)
	if !ok {
		return nil
	}
	dir := RunDir(stateDir, runID)
	if err := writeSynced(filepath.Join(dir, scopeFile), []byte(cgroup+"\n")); err != nil {
		return fail("scope file", err)
	}
	return fail("scope file", durable.SyncDir(dir))
}
