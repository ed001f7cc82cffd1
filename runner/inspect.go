package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local"
)

// Inspection is an agent that was started to be asked about itself, as a worker starts one, in a workspace of its own. Close
// must be called.
type Inspection struct {
	Session agent.Session
	// Server is what codex reported about itself.
	Server agent.Server
	// Cwd is the workspace, Elsewhere a directory that no agent can write, Policy the sandbox policy of a turn.
	Cwd, Elsewhere string
	Policy         json.RawMessage

	dir     string
	process *agentProcess
}

// InspectionFolder creates a private directory below parent for a trial of codex. The caller removes it.
func InspectionFolder(parent string) (string, error) {
	dir, err := os.MkdirTemp(parent, ".symphony-doctor-")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", fmt.Errorf("a folder to try codex in: %w", err)
	}
	return dir, nil
}

// Inspect starts codex.command in a workspace below parent, which must exist. env replaces the environment of a worker.
// Codex writes to its home as in a run. The errors are those of a run whose agent does not start.
func (c Config) Inspect(ctx context.Context, env []string, parent, version string) (_ *Inspection, err error) {
	dir, err := InspectionFolder(parent)
	if err != nil {
		return nil, err
	}
	i := &Inspection{dir: dir, Cwd: filepath.Join(dir, "workspace"), Elsewhere: filepath.Join(dir, "elsewhere")}
	defer func() {
		if err != nil {
			err = errors.Join(err, i.Close())
		}
	}()
	space := &host.Workspace{Path: i.Cwd, TmpDir: filepath.Join(dir, "tmp"), CacheDir: filepath.Join(dir, "cache")}
	for _, d := range []string{i.Cwd, i.Elsewhere, space.TmpDir, space.CacheDir} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return nil, fmt.Errorf("a folder to try codex in: %w", err)
		}
	}
	w := &Worker{
		Config: c, Host: &local.Host{}, Dir: dir, Env: env, Version: version,
		Log: slog.New(slog.DiscardHandler), Redactor: agent.NewRedactor(c.SecretValues),
	}
	// The name of the folder takes the place of a run's id: it marks the processes.
	j := w.newJob(reconcile.Run{ID: filepath.Base(dir)}, func(error) {})
	j.space = space
	if i.Policy, err = c.sandboxPolicy(ctx, w.Host, *space); err != nil {
		return nil, err
	}
	if i.process, err = launchAgent(ctx, j, func(*agentProcess) agent.Options { return agent.Options{} }); err != nil {
		return nil, err
	}
	i.Session = i.process.session
	if i.Server, err = i.Session.Initialize(ctx); err != nil {
		return nil, i.process.withStderr(i.process.explain(ctx, err))
	}
	return i, nil
}

// Close ends the agent and all processes that it left, and removes the folder.
func (i *Inspection) Close() (err error) {
	if i.process != nil {
		ctx := context.Background()
		i.process.end(ctx)
		// MCP servers, and what a login profile starts, have left the group.
		err = i.process.kill(ctx, host.KillRequest{Owned: host.Owned{Run: host.Run{ID: i.process.run.ID}}})
	}
	return errors.Join(err, os.RemoveAll(i.dir))
}
