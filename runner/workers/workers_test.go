package workers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/lock"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
	"github.com/symphony-cron/symphony/runner/proc"
)

// workerVar makes this test binary a worker that behaves as its value demands.
const workerVar = "RUNNER_TEST_WORKER"

func TestMain(m *testing.M) {
	if how := os.Getenv(workerVar); how != "" {
		os.Exit(playWorker(how, os.Args))
	}
	os.Exit(m.Run())
}

const testKey = "lin_api_0123456789secret"

// ends waits until the worker of a run has released it.
func ends(t *testing.T, l *Local, run reconcile.Run) {
	t.Helper()
	test.Until(t, "release of the run", func() bool { return !Alive(l.StateDir, run.ID) })
}

// signalTo sends a signal to the worker of a run.
func signalTo(t *testing.T, run reconcile.Run, s syscall.Signal) {
	t.Helper()
	test.OK(t, proc.Signal(reconcile.Process{PID: run.Worker.PID, Start: run.Worker.Start}, s))
}

// playWorker is a worker that does no work. "take" holds the run until SIGTERM, "leave"
// releases the run on SIGTERM and goes on, "refuse" and "die" never take it, "orphan" takes it
// and leaves a process with the run's mark.
func playWorker(how string, args []string) int {
	ready, err := proc.TakeOver()
	if err != nil {
		return 9
	}
	at := func(flag string) string { return args[slices.Index(args, flag)+1] }
	dir := host.RunDir(at("--state-dir"), at("--run"))
	switch how {
	case "refuse":
		if ready.Refuse("not today") != nil {
			return 9
		}
		return 0
	case "die":
		return 7
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	alive, err := proc.HoldAlive(filepath.Join(dir, host.AliveFile), time.Second)
	if err != nil {
		return 9
	}
	defer alive.Close()
	if err := os.WriteFile(filepath.Join(dir, "secret"), ready.Secret, 0o600); err != nil {
		return 9
	}
	if how == "orphan" {
		orphan := exec.Command("sleep", "1000")
		orphan.Env = append(os.Environ(), host.RunMark+"="+at("--run"))
		orphan.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if orphan.Start() != nil {
			return 9
		}
	}
	if ready.Taken() != nil {
		return 9
	}
	for {
		select {
		case <-ended:
			if how == "leave" && alive.Close() != nil {
				return 9
			}
			if how != "leave" {
				return 0
			}
		case <-time.After(test.Patience()):
			return 8
		}
	}
}

// stand returns a Local whose workers behave as playWorker does, and a prepared run.
func stand(t *testing.T, how string) (*Local, reconcile.Run) {
	t.Helper()
	base := test.Must(filepath.EvalSymlinks(t.TempDir()))
	exe := test.Must(os.Executable())
	l := &Local{
		StateDir:     filepath.Join(base, "state"),
		Exe:          exe,
		Workflow:     []byte("---\n---\nhello\n"),
		WorkflowPath: "/w/WORKFLOW.md",
		Env: []string{
			"PATH=" + os.Getenv("PATH"),
			workerVar + "=" + how,
			"SYMPHONY_RUN_ID=of-another",
			"SYMPHONY_ISSUE_ID=x",
		},
		Secret:  []byte(testKey),
		Root:    filepath.Join(base, "ws"),
		Machine: local.Machine{StateDir: filepath.Join(base, "state")},
	}
	run := reconcile.Run{
		ID:         fmt.Sprintf("run-%d-%d", os.Getpid(), time.Now().UnixNano()),
		IssueID:    "id-1",
		Identifier: "ABC-1",
	}
	test.OK(t, os.MkdirAll(filepath.Join(l.StateDir, "runs"), 0o700))
	test.OK(t, l.Prepare(t.Context(), run))
	return l, run
}

// started starts the run's worker and finds its process.
func started(t *testing.T, how string) (*Local, reconcile.Run) {
	t.Helper()
	l, run := stand(t, how)
	test.OK(t, l.Start(t.Context(), run))
	below := test.Must(proc.Descendants(os.Getpid()))
	boot := test.Must(proc.BootID())
	for _, p := range below {
		if cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID)); err == nil &&
			strings.Contains(string(cmdline), run.ID) {
			run.Worker = reconcile.Handle{Boot: boot, PID: p.PID, Start: p.Start}
		}
	}
	if run.Worker.PID == 0 {
		t.Fatalf("no worker among %+v", below)
	}
	t.Cleanup(func() {
		_ = proc.Signal(reconcile.Process{
			PID:   run.Worker.PID,
			Start: run.Worker.Start,
		}, syscall.SIGKILL)
	})
	return l, run
}

func TestPrepareRun(t *testing.T) {
	l, run := stand(t, "take")
	dir := host.RunDir(l.StateDir, run.ID)
	for name, mode := range map[string]fs.FileMode{
		"":                  fs.ModeDir | 0o700,
		runner.WorkflowFile: 0o600,
		host.AliveFile:      0o600,
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		test.Equal(t, name+": error and mode", []any{err, info.Mode()}, []any{nil, mode})
	}
	test.ErrorIs(t, "the same run again", l.Prepare(t.Context(), run), fs.ErrExist)
	// A run without its directory is dead, and a probe creates nothing.
	test.OK(t, os.RemoveAll(dir))
	live := l.Probe(t.Context(), run)
	test.Equal(
		t,
		"no directory",
		[]bool{live.Alive, live.Unknown, test.Exists(t, dir), Alive(l.StateDir, run.ID)},
		make([]bool, 4),
	)
}

func TestStartWorker(t *testing.T) {
	l, run := started(t, "take")
	test.Equal(
		t,
		"alive",
		[]bool{l.Probe(t.Context(), run).Alive, Alive(l.StateDir, run.ID)},
		[]bool{true, true},
	)
	got, err := os.ReadFile(filepath.Join(host.RunDir(l.StateDir, run.ID), "secret"))
	test.Equal(
		t,
		"error, and the key that the worker was handed",
		[]any{err, string(got)},
		[]any{nil, testKey},
	)
	at := func(name string) string {
		text := test.Must(os.ReadFile(fmt.Sprintf("/proc/%d/%s", run.Worker.PID, name)))
		return string(text)
	}
	cmdline := at("cmdline")
	environ := at("environ")
	if strings.Contains(cmdline+environ, testKey) ||
		strings.Contains(environ, "of-another") ||
		!strings.HasPrefix(cmdline, "symphony\x00worker\x00--run\x00"+run.ID+"\x00--state-dir\x00"+l.StateDir+"\x00--workflow\x00/w/WORKFLOW.md\x00") {
		t.Errorf("arguments %q, environment %q", cmdline, environ)
	}
	for how, want := range map[string]string{"refuse": "not today", "die": "exit status 7"} {
		l, run := stand(t, how)
		test.Contains(t, how, fmt.Sprint(l.Start(t.Context(), run)), want)
		live := l.Probe(t.Context(), run)
		test.Equal(t, how+": alive and unknown", []bool{live.Alive, live.Unknown}, []bool{false, false})
	}
	// what the first worker wrote says nothing of the worker that ends the run
	l, run = stand(t, "die")
	first := []byte("runtime: failed to create new OS thread (have 5 already; errno=11)\n")
	test.OK(t, os.WriteFile(filepath.Join(host.RunDir(l.StateDir, run.ID), runner.LogFile), first, 0o600))
	run.Remote = reconcile.RemoteBegun
	err = l.Start(t.Context(), run)
	test.Contains(t, "the second worker", fmt.Sprint(err), "exit status 7")
	test.Equal(t, "no thread", strings.Contains(fmt.Sprint(err), "no thread"), false)
	l, run = stand(t, "take")
	l.Exe = filepath.Join(l.StateDir, "gone")
	test.ErrorIs(t, "no such program", l.Start(t.Context(), run), fs.ErrNotExist)
}

// Only the process that took the run is signalled, not another one with the same pid. Scripts
// test workers that do not exit.
func TestStopWorker(t *testing.T) {
	l, run := started(t, "take")
	for _, other := range []reconcile.Handle{
		{}, {
			Boot:  run.Worker.Boot,
			PID:   run.Worker.PID,
			Start: run.Worker.Start + 1,
		}, {
			Boot:  "another",
			PID:   run.Worker.PID,
			Start: run.Worker.Start,
		},
	} {
		wrong := run
		wrong.Worker = other
		test.Equal(
			t,
			"error, and whether the worker lives",
			[]any{l.Stop(t.Context(), wrong), Alive(l.StateDir, run.ID)},
			[]any{nil, true},
		)
		test.Contains(
			t,
			fmt.Sprintf("killing %+v", other),
			fmt.Sprint(l.Kill(t.Context(), wrong)),
			"not visible here",
		)
		test.Equal(t, "the worker lives", Alive(l.StateDir, run.ID), true)
	}
	for range 2 { // Stop returns once the worker has exited
		test.Equal(
			t,
			"error, and whether the worker lives",
			[]any{l.Stop(t.Context(), run), Alive(l.StateDir, run.ID)},
			[]any{nil, false},
		)
	}
	test.OK(t, l.Kill(t.Context(), run))
}

// A worker whose run directory was removed is alive. While its process is stopped it counts as
// silent.
func TestProbeWithoutRunDirectory(t *testing.T) {
	l, run := started(t, "take")
	test.OK(t, os.RemoveAll(l.dir(run)))
	if live := l.Probe(t.Context(), run); !live.Alive || live.BeatAt != 0 {
		t.Errorf("at work: %+v", live)
	}
	signalTo(t, run, syscall.SIGSTOP)
	test.Until(t, "silence of the worker", func() bool { return l.Probe(t.Context(), run).BeatAt != 0 })
	test.OK(t, l.Kill(t.Context(), run))
	live := l.Probe(t.Context(), run)
	test.Equal(t, "killed: alive and unknown", []bool{live.Alive, live.Unknown}, []bool{false, false})
}

func TestReapWorker(t *testing.T) {
	l, run := started(t, "orphan")
	recorded := 0
	record := func(left []reconcile.Process) error {
		recorded++
		test.Equal(t, "number of processes left", len(left), 0)
		_, err := proc.LockDead(filepath.Join(host.RunDir(l.StateDir, run.ID), host.AliveFile))
		test.ErrorIs(t, "the alive file while the end is recorded", err, lock.ErrHeld)
		return nil
	}
	if _, err := l.Reap(t.Context(), run, record); !errors.Is(err, reconcile.ErrConflict) || recorded > 0 {
		t.Fatalf("reaping a living worker: %v, recorded %d", err, recorded)
	}
	signalTo(t, run, syscall.SIGKILL)
	ends(t, l, run)
	live := l.Probe(t.Context(), run)
	if live.Alive || live.Unknown || len(live.Left) != 1 || live.Left[0].Name != "sleep" {
		t.Fatalf("%+v", live)
	}
	left, err := l.Reap(t.Context(), run, record)
	test.Equal(
		t,
		"error, number of processes left, and records",
		[]any{err, len(left), recorded},
		[]any{nil, 0, 1},
	)
	test.Equal(t, "number of processes left after the reaping", len(l.Probe(t.Context(), run).Left), 0)
	broken := errors.New("the row has changed")
	test.ErrorIs(
		t,
		"the error",
		test.Err(l.Reap(t.Context(), run, func([]reconcile.Process) error { return broken })),
		broken,
	)
}

func TestListWorkspaces(t *testing.T) {
	l, _ := stand(t, "take")
	list, err := l.Workspaces(t.Context())
	test.Equal(
		t,
		"error, workspaces and root before there is a root",
		[]any{err, len(list), test.Exists(t, l.Root)},
		[]any{nil, 0, false},
	)
	root := test.Must(workspace.OpenRoot(l.Root))
	for _, name := range []string{"ABC-1", "ABC-2"} {
		w, err := root.Acquire(t.Context(), workspace.Owner{
			IssueID:    "id of " + name,
			Identifier: name,
			Project:    "demo",
			StateDir:   l.StateDir,
			RunID:      "r",
		})
		test.OK(t, err)
		test.OK(t, w.Release())
	}
	test.OK(t, os.WriteFile(filepath.Join(l.Root, ".symphony", "ABC-2.json"), []byte("{"), 0o600))
	list, err = l.Workspaces(t.Context())
	want := reconcile.Workspace{
		IssueID:    "id of ABC-1",
		Identifier: "ABC-1",
		Key:        "ABC-1",
		Root:       l.Root,
		Path:       filepath.Join(l.Root, "ABC-1"),
		Project:    "demo",
	}
	test.Equal(t, "workspaces", list, []reconcile.Workspace{want})
	test.Contains(t, "a record that can't be read", fmt.Sprint(err), "ABC-2")
	if free := l.FreeBytes(); free <= 0 {
		t.Errorf("%d bytes free", free)
	}
}

// A worker that has released its run may go on for a moment, to start its own pass. It is not
// a leftover.
func TestLeavingWorkerIsNoLeftover(t *testing.T) {
	l, run := started(t, "leave")
	signalTo(t, run, syscall.SIGTERM)
	ends(t, l, run)
	left, err := l.Reap(t.Context(), run, func([]reconcile.Process) error { return nil })
	test.Equal(
		t,
		"error, number left, and whether the worker lives",
		[]any{err, len(left), proc.SameProcess(run.Worker)},
		[]any{nil, 0, true},
	)
	live := l.Probe(t.Context(), run)
	test.Equal(
		t,
		"unknown, and number of processes left",
		[]any{live.Unknown, len(live.Left)},
		[]any{false, 0},
	)
}
