package runner

import (
	"context"

	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
)

// Executor starts whatever runs in a workspace. It is all that has to change for a workspace that is
// somewhere else.
type Executor interface {
	// Hook starts a hook's shell; it implements workspace.Starter.
	Hook(ctx context.Context, c workspace.Command) (workspace.Process, error)
	// Agent starts the agent's shell, with a pipe on each of its three streams.
	Agent(x proc.Exec) (*proc.Child, error)
}

// Here starts things on this machine.
type Here struct{}

// Hook implements Executor.
func (Here) Hook(ctx context.Context, c workspace.Command) (workspace.Process, error) {
	return workspace.StartLocal(ctx, c)
}

// Agent implements Executor.
func (Here) Agent(x proc.Exec) (*proc.Child, error) { return x.Start() }
