package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// Takeover is a workspace in a person's hands, where otherwise an agent works: under the same lease and the same sandbox,
// with the same environment, and looked after in the same way when they are done.
//
//	Take ─► Session ─► Close
type Takeover struct {
	Config   Config
	StateDir string
	// ID takes the place of a run's: by it the processes are known, and the record names it as the last holder.
	ID    string
	Issue reconcile.Issue
	// Root is the workspace root of the claim.
	Root    string
	Env     []string
	Version string
	Now     func() time.Time
	Log     *slog.Logger

	// A takeover is at this machine's terminal, so that it needs this machine and not any host.
	host  local.Host
	a     *attempt
	alive *proc.Alive
}

// Take takes the workspace, making it where there is none, and takes care of what its last holder left. With an error
// Close is due all the same. Somebody else's lease is workspace_busy.
func (t *Takeover) Take(ctx context.Context) error {
	if err := t.open(); err != nil {
		return err
	}
	// No hook of a run's comes before: what they do is for an agent's sake.
	hooks := t.a.Config.Hooks
	t.a.Config.Hooks.BeforeRun = ""
	err := t.a.takeWorkspace(ctx)
	if err == nil {
		err = t.a.guardGit(ctx)
	}
	t.a.Config.Hooks = hooks
	crash.At("runner.takeover.taken")
	return err
}

// Remove removes the workspace instead of taking it, as a cleanup run does. With discard it goes even if work in it
// exists nowhere else. Close must be called.
func (t *Takeover) Remove(ctx context.Context, discard bool) error {
	if err := t.open(); err != nil {
		return err
	}
	return t.a.remove(ctx, discard)
}

// open makes the directory by which what is started here is known.
func (t *Takeover) open() error {
	const what = "directory of the takeover"
	dir := RunDir(t.StateDir, t.ID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail(what, err)
	}
	alive := filepath.Join(dir, aliveFile)
	if err := proc.CreateAlive(alive); err != nil {
		return fail(what, err)
	}
	var err error
	if t.alive, err = proc.HoldAlive(alive, killBound); err != nil {
		return fail(what, err)
	}
	run := reconcile.Run{ID: t.ID, IssueID: t.Issue.ID, Identifier: t.Issue.Identifier, Issue: t.Issue, WorkspaceRoot: t.Root}
	t.a = &attempt{
		Worker: &Worker{
			Config: t.Config, Host: &t.host, Dir: dir, StateDir: t.StateDir, Env: t.Env, Version: t.Version, Now: t.Now, Log: t.Log,
			Redactor: agent.NewRedactor(t.Config.SecretValues),
		},
		run: run, exact: agent.NewExactRedactor(t.Config.SecretValues),
		rec: &record{run: run, now: t.Now, log: t.Log},
	}
	t.a.Redactor.Add(secretsAmong(t.Env, t.Config.PassEnv))
	return fail(what, t.a.open())
}

// Where says which workspace it is, by path and random id, and whether it was made just now.
func (t *Takeover) Where() (path, id string, made bool) {
	return t.a.space.Path, t.a.space.ID, t.a.space.Created
}

// Stdio are the streams of the person's terminal.
type Stdio struct {
	In       *os.File
	Out, Err io.Writer
}

// takeoverGrace is how long codex gets to end when it is asked to.
const takeoverGrace = 3 * time.Second

// Session opens codex's own terminal on a thread, or a new session without one, and waits for its end. home is the codex
// home of the thread, empty for the workflow's. When ctx ends codex is asked to end as well. The exit code is codex's.
func (t *Takeover) Session(ctx context.Context, thread, home string, io Stdio) (code int, err error) {
	run := t.a.hostRun()
	if _, err := t.host.Facts(ctx, host.FactsRequest{Run: &run, Path: t.a.space.Path}); err != nil {
		return 0, err
	}
	if home != "" {
		t.a.Config.CodexHome = home
	}
	command, err := t.command(ctx, thread)
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, "bash", "-lc", command) //nolint:gosec // codex.command is the operator's
	cmd.Dir, cmd.Env = t.a.space.Path, t.a.env().codex()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = io.In, io.Out, io.Err
	if cmd.ExtraFiles, err = t.host.Inherit(run); err != nil {
		return 0, err
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	cmd.WaitDelay = takeoverGrace
	if err := cmd.Start(); err != nil {
		return 0, &reconcile.Error{
			Code: "codex_not_found", Message: "starting bash for codex.command: " + err.Error(),
			Hint: "codex.command is run by bash -lc; install bash", Err: err,
		}
	}
	over := t.note()
	err = cmd.Wait()
	over()
	crash.At("runner.takeover.ended")
	var status *exec.ExitError
	switch {
	case errors.As(err, &status):
		return status.ExitCode(), nil
	case err != nil && ctx.Err() == nil:
		return 0, fmt.Errorf("codex: %w", err)
	}
	return 0, nil
}

// note writes down what runs below, until over is called, so that whoever comes next finds what has shed its marks.
func (t *Takeover) note() (over func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		step := time.NewTicker(glance)
		defer step.Stop()
		for {
			t.a.noteNewProcesses()
			select {
			case <-step.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// Close ends all that the session has left, takes back what it set of git's as after an agent, and gives the workspace
// back. With an error the next holder does what could not be done.
func (t *Takeover) Close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	if t.a != nil {
		err := t.a.killEverything(ctx)
		if err == nil {
			err = t.a.restoreGit(ctx)
		}
		err = errors.Join(err, t.host.Finish(ctx, host.FinishRequest{Run: t.a.hostRun()}))
		t.a.close()
		errs = append(errs, err)
	}
	if t.alive != nil {
		errs = append(errs, t.alive.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return fail("directory of the takeover", os.RemoveAll(RunDir(t.StateDir, t.ID)))
}
