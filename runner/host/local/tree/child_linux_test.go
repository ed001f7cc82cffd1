package tree

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	filelock "github.com/symphony-cron/symphony/internal/lock"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/runner/proc/proctest"
)

func run(t *testing.T, r host.StartRequest, lease, tree *os.File) *Child {
	t.Helper()
	c := test.Must(Start(r, lease, tree))
	t.Cleanup(func() {
		test.OK(t, test.Err(c.Close()))
	})
	return c
}

func sh(script string) []string { return []string{"sh", "-c", script} }

func waitFor(t *testing.T, c *Child) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), test.Patience())
	defer cancel()
	test.OK(t, c.Wait(ctx))
}

func TestExecStreams(t *testing.T) {
	dir := t.TempDir()
	c := run(t, host.StartRequest{
		Argv: sh(`read l; echo "out $l $A"; pwd; echo err >&2; env; exit 4`),
		Env:  []string{"A=b"},
		Dir:  dir,
	}, nil, nil)
	test.OK(t, test.Err(io.WriteString(c.Stdin(), "hello\n")))
	out := test.Must(io.ReadAll(c.Stdout()))
	errs := test.Must(io.ReadAll(c.Stderr()))
	if got := string(out); !strings.HasPrefix(got, "out hello b\n"+dir+"\n") ||
		strings.Contains(got, "HOME=") ||
		string(errs) != "err\n" {
		t.Errorf("stdout: %s, stderr: %s", got, errs)
	}
	waitFor(t, c)
	for range 2 { // closing again changes nothing
		exit, err := c.Close()
		test.Equal(
			t,
			"error, code and text",
			[]any{err, exit.Code, exit.Text},
			[]any{nil, 4, "exit status 4"},
		)
	}
	test.ErrorIs(t, "signal after close", c.SignalGroup(unix.SIGKILL), os.ErrProcessDone)
}

// A hook that leaves a process in the background has ended. The process keeps the pipes open,
// and can still be killed with the group.
func TestExecEndsWhilePipesStayOpen(t *testing.T) {
	c := run(t, host.StartRequest{Argv: sh(`sleep 60 & echo $!; exit 0`)}, nil, nil)
	waitFor(t, c)
	line := test.Must(bufio.NewReader(c.Stdout()).ReadString('\n'))
	pid := test.Must(strconv.Atoi(strings.TrimSpace(line)))
	e := test.Must(proc.Stat(pid))
	left := e.Process()
	t.Cleanup(func() { _ = proc.Signal(left, unix.SIGKILL) })
	test.Equal(t, "the background process lives", proctest.Living(left), true)
	e, err := proc.Stat(c.Process().PID)
	test.Equal(t, "error, and whether the leader has ended", []any{err, e.Dead}, []any{nil, true})
	test.OK(t, c.SignalGroup(unix.SIGKILL))
	test.Until(t, "the background process to end", func() bool { return !proctest.Living(left) })
}

func TestExecGroupIsItsOwn(t *testing.T) {
	c := run(t, host.StartRequest{Argv: sh(`trap '' TERM; echo up; sleep 60 & wait`)}, nil, nil)
	startsWith(t, c, "up\n")
	test.Equal(t, "group", test.Must(unix.Getpgid(c.Process().PID)), c.Process().PID)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	test.OK(t, proc.Signal(c.Process(), unix.SIGTERM)) // it is deaf
	test.ErrorIs(t, "wait", c.Wait(ctx), context.DeadlineExceeded)
	// it kills what still runs
	if exit, err := c.Close(); err != nil || exit.Text != "signal: killed" || exit.Code >= 0 {
		t.Errorf("%+v, %v", exit, err)
	}
}

// The child gets its streams, the lease and the tree file, and nothing that this process
// inherited.
func TestExecDescriptors(t *testing.T) {
	stray := test.Must(os.Open("/etc/hostname"))
	defer stray.Close()
	test.OK(t, unix.Dup3(int(stray.Fd()), 62, 0))
	defer unix.Close(62)
	dir := t.TempDir()
	lease := test.Must(os.Create(filepath.Join(dir, "lease")))
	test.OK(t, filelock.Try(lease, filelock.Exclusive, 0))
	tree := test.Must(OpenTree(filepath.Join(dir, "tree")))
	defer tree.Close()
	c := run(t, host.StartRequest{Argv: sh(`ls -l /proc/$$/fd; echo end; read x`)}, lease, tree)
	var listed strings.Builder
	for out := bufio.NewReader(c.Stdout()); !strings.HasSuffix(listed.String(), "end\n"); {
		line := test.Must(out.ReadString('\n'))
		listed.WriteString(line)
	}
	wantSaid(
		t,
		listed.String(),
		[]string{" 3 -> " + lease.Name() + "\n", fmt.Sprintf(" %d -> %s\n", TreeFD, tree.Name())},
	)
	test.Equal(t, "descriptors", strings.Count(listed.String(), " -> "), 5)
	// The lease is held as long as the child lives.
	test.OK(t, lease.Close())
	other := test.Must(os.Open(lease.Name()))
	defer other.Close()
	test.ErrorIs(t, "the lease, while the child lives", filelock.Try(other, filelock.Exclusive, 0), filelock.ErrHeld)
	test.OK(t, c.Stdin().Close())
	waitFor(t, c)
	test.OK(t, filelock.Try(other, filelock.Exclusive, 0))
}

func TestExecImpossible(t *testing.T) {
	proctest.KeepsDescriptors(t)
	for name, c := range map[string]struct {
		r    host.StartRequest
		want error
	}{
		"not in PATH":  {host.StartRequest{Argv: []string{"no-such-program-here"}}, exec.ErrNotFound},
		"no such file": {host.StartRequest{Argv: []string{"/nowhere/codex"}}, fs.ErrNotExist},
		"no directory": {host.StartRequest{Argv: sh("true"), Dir: "/nowhere"}, fs.ErrNotExist},
	} {
		test.ErrorIs(t, name, test.Err(Start(c.r, nil, nil)), c.want)
	}
}

// Under a strict limit on descriptors a child still starts, if necessary without the tree
// file.
func TestExecWithFewDescriptors(t *testing.T) {
	proctest.Start(t, nil, "limited", filepath.Join(t.TempDir(), "tree")).Line("started <nil>")
}

func init() {
	proctest.Helpers["limited"] = func(args []string) error {
		tree, err := OpenTree(args[0])
		for n := uint64(2 * TreeFD); err == nil && n >= 40; n-- {
			err = startWithin(n, tree)
		}
		proctest.Say("started", err)
		return nil
	}
}

// startWithin starts a child under a limit of n descriptors.
func startWithin(n uint64, tree *os.File) error {
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n}); err != nil {
		return err
	}
	env := []string{"PATH=" + os.Getenv("PATH")}
	c, err := Start(host.StartRequest{Argv: []string{"true"}, Env: env}, tree, tree)
	if err != nil {
		return err
	}
	_, err = c.Close()
	return err
}

func TestProcFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "procs")
	p := test.Must(CreateProcs(path))
	want := func(want ...reconcile.Process) {
		t.Helper()
		self := test.Must(proc.Self())
		worker := reconcile.Process{PID: self.PID, Start: self.Start}
		test.Equal(t, "recorded", test.Must(ReadProcs(path)), Recorded{boot(t), worker, want})
	}
	want()
	self := test.Must(proc.Self())
	a := reconcile.Process{PID: self.PID, Start: self.Start, Name: "a) \"b\"\n\xff 5"}
	// the same pid, later
	gone := reconcile.Process{PID: self.PID, Start: self.Start + 1, Name: "sh"}
	test.OK(t, p.Record([]reconcile.Process{a}))
	test.OK(t, p.Record([]reconcile.Process{a, gone}))
	want(a, gone)
	other := reconcile.Process{PID: 1, Start: 1, Name: "x"}
	test.OK(t, p.Record([]reconcile.Process{{PID: 1<<22 + 1, Start: 5, Name: "y"}}))
	want(a, reconcile.Process{PID: 1<<22 + 1, Start: 5, Name: "y"})
	// One that cannot be written is written with the next.
	test.OK(t, os.Mkdir(filepath.Join(filepath.Dir(path), ".procs"), 0o700))
	test.Equal(t, "an error is returned", p.Record([]reconcile.Process{other}) != nil, true)
	test.OK(t, os.Remove(filepath.Join(filepath.Dir(path), ".procs")))
	many := make([]reconcile.Process, maxRecorded)
	for i := range many {
		many[i] = reconcile.Process{PID: 1 << 23, Start: uint64(i + 1)}
	}
	wantSaid(t, fmt.Sprint(p.Record(many)), []string{"1 more"}) // than there is room for
}

func TestReadProcsDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "procs")
	for text, want := range map[string]string{
		"": "[]", "10 100 \"sh\"\n": "[]", "boot b\n10 100 \"sh\"\n11 110 \"no": "[{10 100 sh}]",
		"boot b\n10 10\n1 5 \"init\"\n-4 5 \"x\"\n12 0 \"x\"\n\x00\x00\n13 130 sh\n14 140 \"ok\"\n": "[{14 140 ok}]",
	} {
		test.OK(t, os.WriteFile(path, []byte(text), 0o600))
		test.Equal(t, text+": processes", fmt.Sprint(test.Must(ReadProcs(path)).Processes), want)
	}
}
