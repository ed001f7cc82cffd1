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
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// Takeover gives the workspace of an issue to an operator: under the same lease, sandbox and environment as to an agent, and
// with the same clearing up afterwards.
//
//	Take ─► Session ─► Close
type Takeover struct {
	Config   Config
	StateDir string
	// ID takes the place of a run's: the processes are known by it, and the workspace's record names it as the last holder.
	ID    string
	Issue reconcile.Issue
	// Root is the workspace root of the claim.
	Root    string
	Env     []string
	Version string
	Now     func() time.Time
	Log     *slog.Logger

	host  local.Host // the terminal is on this machine
	step  *workspaceStep
	alive *proc.Alive
}

// Take takes the workspace, makes it where there is none, and clears up after its last holder. Close must be called, after
// an error as well. A workspace that a run holds is workspace_busy.
func (t *Takeover) Take(ctx context.Context) error {
	if err := t.open(); err != nil {
		return err
	}
	err := t.step.take(ctx) // and not prepare: before_run is for agents
	if err == nil {
		err = t.step.guardGit(ctx)
	}
	crash.At("runner.takeover.taken")
	return err
}

// Remove removes the workspace instead of taking it, as a cleanup run does. With discard it goes even if work in it
// exists nowhere else. Close must be called.
func (t *Takeover) Remove(ctx context.Context, discard bool) error {
	if err := t.open(); err != nil {
		return err
	}
	return cleanup{t.step}.remove(ctx, discard)
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
	w := &Worker{
		Config: t.Config, Host: &t.host, Dir: dir, StateDir: t.StateDir, Env: t.Env, Version: t.Version, Now: t.Now, Log: t.Log,
		Redactor: agent.NewRedactor(slices.Concat(t.Config.SecretValues, secretsAmong(t.Env, t.Config.PassEnv))),
	}
	run := reconcile.Run{ID: t.ID, IssueID: t.Issue.ID, Identifier: t.Issue.Identifier, Issue: t.Issue, WorkspaceRoot: t.Root}
	j := w.newJob(run, func(error) {})
	t.step = &workspaceStep{job: j}
	return fail(what, j.open())
}

// Where returns the path and the random id of the workspace, and whether it was made just now.
func (t *Takeover) Where() (path, id string, made bool) {
	return t.step.space.Path, t.step.space.ID, t.step.space.Created
}

// Stdio are the streams of the operator's terminal.
type Stdio struct {
	In       *os.File
	Out, Err io.Writer
}

// takeoverGrace is how long codex gets to end when it is asked to.
const takeoverGrace = 3 * time.Second

// Session opens codex's own terminal on a thread, or a new session without one, and waits for its end. home is the codex
// home of the thread, empty for the workflow's. When ctx ends codex is asked to end as well. The exit code is codex's.
func (t *Takeover) Session(ctx context.Context, thread, home string, io Stdio) (code int, err error) {
	run := t.step.hostRun()
	if _, err := t.host.Facts(ctx, host.FactsRequest{Run: &run, Path: t.step.space.Path}); err != nil {
		return 0, err
	}
	if home != "" {
		t.step.Config.CodexHome = home
	}
	command, err := t.command(ctx, thread)
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, "bash", "-lc", command) //nolint:gosec // codex.command is the operator's
	cmd.Dir, cmd.Env = t.step.space.Path, t.step.env().codex()
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
	observing, stop := context.WithCancel(context.Background())
	var observer sync.WaitGroup
	observer.Go(func() { repeat(observing, scanInterval, t.step.noteNewProcesses) })
	err = cmd.Wait()
	stop()
	observer.Wait()
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

// Close ends all processes that the session has left, restores git settings as after an agent, and gives up the workspace.
// What fails is done by the next holder.
func (t *Takeover) Close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	if t.step != nil {
		err := t.step.killEverything(ctx)
		if err == nil {
			err = t.step.restoreGit(ctx)
		}
		errs = append(errs, err, t.host.Finish(ctx, host.FinishRequest{Run: t.step.hostRun()}))
		t.step.close()
	}
	if t.alive != nil {
		errs = append(errs, t.alive.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return fail("directory of the takeover", os.RemoveAll(RunDir(t.StateDir, t.ID)))
}
