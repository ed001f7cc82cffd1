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
	"github.com/symphony-cron/symphony/runner/confine"
	"github.com/symphony-cron/symphony/runner/host"
)

// Inspection is an agent that was started as in a run, but in a temporary workspace, to query
// it. Close must be called.
type Inspection struct {
	Session agent.Session
	// Server is the agent's report about itself.
	Server agent.Server
	// Cwd is the temporary workspace, Policy the sandbox policy of a turn.
	Cwd    string
	Policy json.RawMessage

	dir         string
	job         *job
	process     *agentProcess
	permissions string // the name of the permission profile of a turn; "" for none
}

// Inspect starts an agent in a temporary workspace below parent, which must exist. env is the
// environment of a worker. The agent writes to its home as in a run. The errors are the same as
// in a run whose agent does not start.
func (c Config) Inspect(
	ctx context.Context,
	m host.Machine,
	env []string,
	parent, version string,
) (*Inspection, error) {
	dir, err := os.MkdirTemp(parent, ".symphony-doctor-")
	if err != nil {
		return nil, noTemporary(err)
	}
	i := &Inspection{dir: dir}
	if err := i.start(ctx, c, m, env, version); err != nil {
		return nil, errors.Join(err, i.Close())
	}
	return i, nil
}

// noTemporary is the error of a temporary workspace that could not be made.
func noTemporary(err error) error {
	return reconcile.NewError(
		"workspace_failed",
		"temporary workspace for the agent: "+err.Error(),
		"give this account a directory that it can write",
	).WithCause(err)
}

// TryBox runs the program true in the sandbox in which symphony confines agents, with the whole
// command line of a run. parent and env are as for Inspect. The error is sandbox_unavailable if
// this machine can make no sandbox.
func (c Config) TryBox(ctx context.Context, m host.Machine, env []string, parent string) error {
	dir, err := os.MkdirTemp(parent, ".symphony-doctor-")
	if err != nil {
		return noTemporary(err)
	}
	i := &Inspection{dir: dir}
	err = i.prepare(c, m, env, "")
	if err == nil {
		err = i.job.tryBox(ctx)
	}
	return errors.Join(err, i.Close())
}

func (j *job) tryBox(ctx context.Context) error {
	request, err := j.shell.agent(ctx, "true")
	if err != nil {
		return err
	}
	_, words, exit, err := j.agents.outputOf(ctx, request)
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case exit.NoSandbox:
		return sandboxError(words)
	case exit.Code != 0:
		return fmt.Errorf("true ended with %s in the sandbox: %s", exit.Text, words)
	}
	return nil
}

// start starts the agent in a workspace in the directory of the inspection.
func (i *Inspection) start(
	ctx context.Context,
	c Config,
	m host.Machine,
	env []string,
	version string,
) error {
	if err := i.prepare(c, m, env, version); err != nil {
		return err
	}
	j := i.job
	var err error
	i.Policy, err = j.site.turnPolicy(ctx)
	if err != nil {
		return err
	}
	options := func(*agentProcess) agent.Options { return agent.Options{OnApproval: agent.ApprovalDeny} }
	i.process, err = j.agents.open(ctx, options, func(g *agentProcess) (err error) {
		i.Session = g.session
		i.Server, err = g.session.Initialize(ctx)
		return err
	})
	if err != nil {
		return err
	}
	i.process.environ = i.process.started // the process answered: see agentProcess.end
	return nil
}

// prepare makes the workspace in the directory of the inspection, and the parts of a run.
func (i *Inspection) prepare(c Config, m host.Machine, env []string, version string) error {
	dir, err := filepath.EvalSymlinks(i.dir)
	if err != nil {
		return noTemporary(err)
	}
	i.dir = dir
	i.Cwd = filepath.Join(dir, "workspace")
	if err := os.Mkdir(i.Cwd, 0o700); err != nil {
		return noTemporary(err)
	}
	space, err := newSpace(i.Cwd, dir)
	if err != nil {
		return noTemporary(err)
	}
	w := &Worker{
		Here:     Place{Machine: m, Env: env, Config: c},
		Dir:      dir,
		Version:  version,
		Log:      slog.New(slog.DiscardHandler),
		Redactor: agent.NewRedactor(c.SecretValues),
	}
	// The name of the directory serves as the run's id, which marks the processes.
	run := reconcile.Run{ID: filepath.Base(dir)}
	run.Issue.Identifier = "symphony doctor"
	run.Issue.Title = "a trial"
	j := w.newJob(run, func(error) {})
	j.site.space = space
	i.job = j
	return nil
}

// Open opens a conversation as a run does, with its model and its mode. It uses no tokens.
func (i *Inspection) Open(ctx context.Context) error {
	params, permissions, err := (&threadOpener{i.job.parts}).params(ctx, i.process)
	if err != nil {
		return err
	}
	i.permissions = permissions
	if _, err := i.Session.StartThread(ctx, params); err != nil {
		return i.process.explainStart(ctx, err)
	}
	return nil
}

// Turn runs a turn in the conversation that Open opened. Requests of the agent are denied.
func (i *Inspection) Turn(ctx context.Context, prompt string) (agent.Turn, error) {
	turn, err := i.Session.RunTurn(ctx, agent.TurnParams{
		Input:          prompt,
		Cwd:            i.Cwd,
		ApprovalPolicy: i.job.site.Config.ApprovalPolicy,
		SandboxPolicy:  i.Policy,
		Permissions:    i.permissions,
	})
	if err != nil {
		return turn, i.process.explain(ctx, err)
	}
	return turn, nil
}

// TrySandbox lets the agent try the sandbox of a turn. Errors: sandbox_unavailable,
// agent.ErrNoProbe.
func (i *Inspection) TrySandbox(ctx context.Context) error {
	return confine.TrySandbox(ctx, i.Session, i.Cwd, i.dir, i.Policy)
}

// Close ends the agent and all processes that it left, and removes the temporary workspace.
func (i *Inspection) Close() (err error) {
	if i.process != nil {
		ctx := context.Background()
		i.process.end(ctx)
		// MCP servers, and programs that a login profile starts, are not in the process group.
		left, killErr := i.process.site.host.Kill(ctx, host.KillRequest{})
		err = i.process.processes.ended(left, killErr)
	}
	if i.job != nil {
		i.job.boxes.close()
	}
	return errors.Join(err, os.RemoveAll(i.dir))
}
