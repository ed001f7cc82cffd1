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
)

// Inspection is an agent that was started to be asked about itself, as a worker starts one, in a workspace of its own. Close
// must be called.
type Inspection struct {
	Session agent.Session
	// Server is what codex reported about itself.
	Server agent.Server
	// Cwd is the workspace, Policy the sandbox policy of a turn.
	Cwd    string
	Policy json.RawMessage

	dir     string
	process *agentProcess
}

// Inspect starts codex.command in a workspace below parent, which must exist. env replaces the environment of a worker.
// Codex writes to its home as in a run. The errors are those of a run whose agent does not start.
func (c Config) Inspect(ctx context.Context, h host.Host, env []string, parent, version string) (_ *Inspection, err error) {
	dir, err := os.MkdirTemp(parent, ".symphony-doctor-")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	i := &Inspection{dir: dir, Cwd: filepath.Join(dir, "workspace")}
	space := &host.Workspace{Path: i.Cwd, TmpDir: filepath.Join(dir, "tmp"), CacheDir: filepath.Join(dir, "cache")}
	for _, d := range []string{i.Cwd, space.TmpDir, space.CacheDir} {
		if err == nil {
			err = os.Mkdir(d, 0o700)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("a folder to try codex in: %w", err), i.Close())
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, i.Close())
		}
	}()
	w := &Worker{
		Config: c, Host: h, Dir: dir, Env: env, Version: version,
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

// TrySandbox has codex try the sandbox of a turn. Errors: sandbox_unavailable, agent.ErrNoProbe.
func (i *Inspection) TrySandbox(ctx context.Context) error {
	return i.process.trySandbox(ctx, i.Policy)
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
