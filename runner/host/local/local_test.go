package local

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/tree"
)

// The heartbeat and the run itself may record processes at the same time; each is recorded
// once.
func TestObserveAtOnce(t *testing.T) {
	m := Machine{StateDir: t.TempDir()}
	dir := host.RunDir(m.StateDir, "r-1")
	test.OK(t, os.MkdirAll(dir, 0o700))
	run := m.Run("r-1")
	test.OK(t, run.Open(t.Context()))
	var children []host.Process
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			for range 100 {
				test.Must(run.Observe(t.Context()))
			}
		})
	}
	for range 20 {
		child, err := run.Start(t.Context(), host.StartRequest{
			Argv: []string{"sleep", "1000"},
			Env:  []string{"PATH=" + os.Getenv("PATH")},
		})
		test.OK(t, err)
		children = append(children, child)
	}
	both.Wait()
	test.Must(run.Observe(t.Context()))
	recorded := test.Must(tree.ReadProcs(filepath.Join(dir, procsFile))).Processes
	for _, child := range children {
		others := func(p reconcile.Process) bool { return p.PID != child.Process().PID }
		test.Equal(t, "process", len(slices.DeleteFunc(slices.Clone(recorded), others)), 1)
		test.Must(child.Close())
	}
	test.OK(t, run.Finish(t.Context()))
	test.Must(run.Observe(t.Context()))
}

// What an agent has put in the place of a file of git keeps no later run from its workspace.
func TestBrokenRepositoryIsTidied(t *testing.T) {
	ctx := t.Context()
	dir := test.Must(filepath.EvalSymlinks(t.TempDir()))
	machine := Machine{StateDir: filepath.Join(dir, "state")}
	prepare := func(id string) (host.Run, host.PrepareAnswer) {
		t.Helper()
		test.OK(t, os.MkdirAll(host.RunDir(machine.StateDir, id), 0o700))
		run := machine.Run(id)
		issue := host.Issue{ID: "1", Identifier: "A-1", Project: "p", StateDir: machine.StateDir}
		answer, err := run.Prepare(ctx, host.PrepareRequest{
			Root:  filepath.Join(dir, "ws"),
			Issue: issue,
		})
		test.OK(t, err)
		return run, answer
	}
	run, answer := prepare("r1")
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
	initialize := exec.CommandContext(ctx, "git", "init", "-q", answer.Workspace.Path)
	initialize.Env = env
	test.OK(t, initialize.Run())
	test.OK(t, run.Confirm(ctx, host.ConfirmRequest{}))
	test.OK(t, run.GuardGit(ctx, host.GuardGitRequest{Env: env}))
	test.OK(t, os.Mkdir(filepath.Join(answer.Workspace.Path, ".git", "commondir"), 0o700))
	test.Must(run.RestoreGit(ctx))
	test.OK(t, run.Finish(ctx))
	run, _ = prepare("r2")
	test.OK(t, run.Finish(ctx))
}

// A directory may be named like a pattern: its locks are watched all the same.
func TestLockFilesOfStrangeDirectories(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b]*")
	m := Machine{StateDir: filepath.Join(dir, "state"), AccountDir: filepath.Join(dir, "account")}
	root := filepath.Join(dir, "root")
	want := []string{
		filepath.Join(m.AccountDir, "slots", "1"),
		filepath.Join(m.StateDir, "state.db"),
		filepath.Join(root, ".symphony", "ABC-1.lock"),
	}
	for _, file := range want {
		test.OK(t, os.MkdirAll(filepath.Dir(file), 0o700))
		test.OK(t, os.WriteFile(file, nil, 0o600))
	}
	var found []string
	for pattern := range m.lockFiles(t.Context(), root) {
		found = append(found, test.Must(filepath.Glob(pattern))...)
	}
	slices.Sort(found)
	slices.Sort(want)
	test.Equal(t, "files", found, want)
}

// A workspace that can't be looked at is no missing workspace: its work would not be verified.
func TestInspectUnreadable(t *testing.T) {
	loop := filepath.Join(t.TempDir(), "loop")
	test.OK(t, os.Symlink("loop", loop))
	err := test.Err(Machine{}.Inspect(t.Context(), host.WorkspaceRequest{Path: loop}))
	test.Contains(t, "error", err.Error(), "look at the workspace "+loop, "too many levels of symbolic links")
	missing := test.Must(Machine{}.Inspect(t.Context(), host.WorkspaceRequest{Path: loop + "2"}))
	test.Equal(t, "exists", missing.Exists, false)
}

func TestExitCode(t *testing.T) {
	for script, want := range map[string]int{"exit 3": 3, "kill -9 $$": 137} {
		err := exec.CommandContext(t.Context(), "sh", "-c", script).Run()
		status, _ := errors.AsType[*exec.ExitError](err)
		test.Equal(t, script, exitCode(status), want)
	}
}
