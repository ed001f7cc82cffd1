package proc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

func run(t *testing.T, r host.StartRequest, lease, tree *os.File) *Child {
	t.Helper()
	c, err := Start(r, lease, tree)
	test.OK(t, err)
	t.Cleanup(func() {
		_, err := c.Close()
		test.OK(t, err)
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
	c := run(t, host.StartRequest{Argv: sh(`read l; echo "out $l $A"; pwd; echo err >&2; env; exit 4`), Env: []string{"A=b"}, Dir: dir}, nil, nil)
	_, err := io.WriteString(c.Stdin(), "hello\n")
	test.OK(t, err)
	out, err := io.ReadAll(c.Stdout())
	test.OK(t, err)
	errs, err := io.ReadAll(c.Stderr())
	test.OK(t, err)
	if got := string(out); !strings.HasPrefix(got, "out hello b\n"+dir+"\n") || strings.Contains(got, "HOME=") || string(errs) != "err\n" {
		t.Errorf("stdout: %s, stderr: %s", got, errs)
	}
	waitFor(t, c)
	for range 2 { // closing again changes nothing
		if exit, err := c.Close(); err != nil || exit.Code != 4 || exit.Text != "exit status 4" {
			t.Errorf("%+v, %v", exit, err)
		}
	}
	if err := c.SignalGroup(unix.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal after close: %v", err)
	}
}

// A hook that leaves a process in the background has ended. The process keeps the pipes open, and can still be killed with the
// group.
func TestExecEndsWhilePipesStayOpen(t *testing.T) {
	c := run(t, host.StartRequest{Argv: sh(`sleep 60 & echo $!; exit 0`)}, nil, nil)
	waitFor(t, c)
	line, err := bufio.NewReader(c.Stdout()).ReadString('\n')
	test.OK(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	test.OK(t, err)
	e, err := statOf(pid)
	test.OK(t, err)
	left := e.process()
	t.Cleanup(func() { _ = Signal(left, unix.SIGKILL) })
	if !living(left) {
		t.Fatal("the background process ended by itself")
	}
	if e, err := statOf(c.Process().PID); err != nil || !e.dead {
		t.Fatalf("the leader was reaped too early: %+v, %v", e, err)
	}
	test.OK(t, c.SignalGroup(unix.SIGKILL))
	test.Until(t, "the background process to end", func() bool { return !living(left) })
}

func TestExecGroupIsItsOwn(t *testing.T) {
	c := run(t, host.StartRequest{Argv: sh(`trap '' TERM; echo up; sleep 60 & wait`)}, nil, nil)
	_, err := bufio.NewReader(c.Stdout()).ReadString('\n')
	test.OK(t, err)
	if group, err := unix.Getpgid(c.Process().PID); group != c.Process().PID || err != nil {
		t.Errorf("group %d of %d, %v", group, c.Process().PID, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	test.OK(t, Signal(c.Process(), unix.SIGTERM)) // it is deaf
	if err := c.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("wait: %v", err)
	}
	if exit, err := c.Close(); err != nil || exit.Text != "signal: killed" || exit.Code >= 0 { // it kills what still runs
		t.Errorf("%+v, %v", exit, err)
	}
}

// The child gets its streams, the lease and the tree file, and nothing that this process inherited.
func TestExecDescriptors(t *testing.T) {
	stray, err := os.Open("/etc/hostname")
	test.OK(t, err)
	defer stray.Close()
	test.OK(t, unix.Dup3(int(stray.Fd()), 62, 0))
	defer unix.Close(62)
	dir := t.TempDir()
	lease, err := os.Create(filepath.Join(dir, "lease"))
	test.OK(t, err)
	test.OK(t, files.Lock(lease, unix.LOCK_EX, 0))
	tree, err := OpenTree(filepath.Join(dir, "tree"))
	test.OK(t, err)
	defer tree.Close()
	c := run(t, host.StartRequest{Argv: sh(`ls -l /proc/$$/fd; echo end; read x`)}, lease, tree)
	var listed strings.Builder
	for out := bufio.NewReader(c.Stdout()); !strings.HasSuffix(listed.String(), "end\n"); {
		line, err := out.ReadString('\n')
		test.OK(t, err)
		listed.WriteString(line)
	}
	for fd, file := range map[int]*os.File{3: lease, TreeFD: tree} {
		if !strings.Contains(listed.String(), fmt.Sprintf(" %d -> %s\n", fd, file.Name())) {
			t.Errorf("descriptor %d is not %s", fd, file.Name())
		}
	}
	if n := strings.Count(listed.String(), " -> "); n != 5 {
		t.Errorf("%d descriptors:\n%s", n, listed.String())
	}
	// The lease is held as long as the child lives.
	test.OK(t, lease.Close())
	other, err := os.Open(lease.Name())
	test.OK(t, err)
	defer other.Close()
	if err := files.Lock(other, unix.LOCK_EX, 0); !errors.Is(err, ErrHeld) {
		t.Errorf("the lease is free: %v", err)
	}
	test.OK(t, c.Stdin().Close())
	waitFor(t, c)
	test.OK(t, files.Lock(other, unix.LOCK_EX, 0))
}

func TestExecImpossible(t *testing.T) {
	before := descriptors(t)
	for name, c := range map[string]struct {
		r    host.StartRequest
		want error
	}{
		"not in PATH":  {host.StartRequest{Argv: []string{"no-such-program-here"}}, exec.ErrNotFound},
		"no such file": {host.StartRequest{Argv: []string{"/nowhere/codex"}}, fs.ErrNotExist},
		"no directory": {host.StartRequest{Argv: sh("true"), Dir: "/nowhere"}, fs.ErrNotExist},
	} {
		if _, err := Start(c.r, nil, nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// Under a strict limit on descriptors a child still starts, if necessary without the tree file.
func TestExecWithFewDescriptors(t *testing.T) {
	start(t, nil, "limited", filepath.Join(t.TempDir(), "tree")).line("started <nil>")
}

func init() {
	helpers["limited"] = func(args []string) error {
		tree, err := OpenTree(args[0])
		for n := uint64(2 * TreeFD); err == nil && n >= 40; n-- {
			var c *Child
			if err = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n}); err == nil {
				c, err = Start(host.StartRequest{Argv: []string{"true"}, Env: []string{"PATH=" + os.Getenv("PATH")}}, tree, tree)
			}
			if err == nil {
				_, err = c.Close()
			}
		}
		say("started", err)
		return nil
	}
	helpers["adopt"] = adopt
	helpers["adopt hidden"] = func(args []string) error { return errors.Join(NonDumpable(), adopt(args)) }
}

// adopt is a minimal worker: it adopts and reaps orphans, while its own children end, each in another way, and are waited for only
// later.
func adopt([]string) error {
	if err := BecomeSubreaper(); err != nil {
		return err
	}
	own, released := exec.Command("sh", "-c", "exit 7"), exec.Command("true")
	// The shell in the middle ends at once and leaves an orphan.
	if err := errors.Join(own.Start(), released.Start(), exec.Command("sh", "-c", "sleep 0.01 & sleep 0.01 & exec true").Run()); err != nil {
		return err
	}
	child, err := Start(host.StartRequest{Argv: []string{"sh", "-c", "exit 9"}}, nil, nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), test.Patience())
	defer cancel()
	go ReapOrphans(ctx, 2*time.Millisecond, func(err error) { say("error", err) })
	children := func(want int) error {
		for len(childrenOf(os.Getpid())) != want {
			if ctx.Err() != nil {
				return fmt.Errorf("there are still %v", childrenOf(os.Getpid()))
			}
			time.Sleep(time.Millisecond)
		}
		return nil
	}
	if err := children(3); err != nil {
		return err
	}
	for range 100 { // as long as their owners come to them late
		if err := reap(); err != nil {
			return err
		}
	}
	if err := errors.Join(children(3), released.Process.Release(), children(2)); err != nil {
		return err
	}
	var status *exec.ExitError
	if err := own.Wait(); !errors.As(err, &status) || status.ExitCode() != 7 {
		return fmt.Errorf("the child of os/exec: %w", err)
	}
	if exit, err := child.Close(); err != nil || exit.Code != 9 {
		return fmt.Errorf("the started child: %+v, %w", exit, err)
	}
	say("fine")
	return nil
}

func TestReapTakesOrphansOnly(t *testing.T) {
	for _, how := range []string{"adopt", "adopt hidden"} {
		h := start(t, nil, how)
		h.line("fine")
		test.OK(t, h.cmd.Wait())
	}
}

func TestProcFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "procs")
	p, err := CreateProcs(path)
	test.OK(t, err)
	want := func(want ...reconcile.Process) {
		t.Helper()
		got, of, err := ReadProcs(path)
		test.OK(t, err)
		if !slices.Equal(got, want) || of != boot(t) {
			t.Errorf("recorded in %s: %+v, want %+v", of, got, want)
		}
	}
	want()
	self, err := Self()
	test.OK(t, err)
	a := reconcile.Process{PID: self.PID, Start: self.Start, Name: "a) \"b\"\n\xff 5"}
	gone := reconcile.Process{PID: self.PID, Start: self.Start + 1, Name: "sh"} // the same pid, later
	test.OK(t, p.Record([]reconcile.Process{a}))
	test.OK(t, p.Record([]reconcile.Process{a, gone}))
	want(a, gone)
	other := reconcile.Process{PID: 1, Start: 1, Name: "x"}
	test.OK(t, p.Record([]reconcile.Process{{PID: 1<<22 + 1, Start: 5, Name: "y"}}))
	want(a, reconcile.Process{PID: 1<<22 + 1, Start: 5, Name: "y"})
	// One that cannot be written is written with the next.
	test.OK(t, os.Mkdir(filepath.Join(filepath.Dir(path), ".procs"), 0o700))
	if err := p.Record([]reconcile.Process{other}); err == nil {
		t.Error("no error")
	}
	test.OK(t, os.Remove(filepath.Join(filepath.Dir(path), ".procs")))
	many := make([]reconcile.Process, maxRecorded)
	for i := range many {
		many[i] = reconcile.Process{PID: 1 << 23, Start: uint64(i + 1)}
	}
	if err := p.Record(many); err == nil || !strings.Contains(err.Error(), "1 more") {
		t.Errorf("more than there is room for: %v", err)
	}
}

func TestReadProcsDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "procs")
	for text, want := range map[string]string{
		"": "[]", "10 100 \"sh\"\n": "[]", "boot b\n10 100 \"sh\"\n11 110 \"no": "[{10 100 sh}]",
		"boot b\n10 10\n1 5 \"init\"\n-4 5 \"x\"\n12 0 \"x\"\n\x00\x00\n13 130 sh\n14 140 \"ok\"\n": "[{14 140 ok}]",
	} {
		test.OK(t, os.WriteFile(path, []byte(text), 0o600))
		if procs, _, err := ReadProcs(path); fmt.Sprint(procs) != want || err != nil {
			t.Errorf("%q: %+v, %v", text, procs, err)
		}
	}
}

func init() { helpers["worker"] = workerHelper }

// workerReport is what a minimal worker writes about itself to its log.
type workerReport struct {
	Secret, Dir string
	Env         []string
	Session     int
	TTY         bool
	Files       string // what it has open
	ChildFiles  string // what a child of it has open
}

// workerHelper answers as its first argument says. If it takes its run, it writes a report and runs until it is killed.
func workerHelper(args []string) error {
	switch args[0] {
	case "crash":
		os.Exit(5)
	case "mute":
		select {}
	}
	h, err := TakeOver()
	if err != nil {
		return err
	}
	switch args[0] {
	case "refuse":
		return h.Refuse("run_taken: another worker\nhas it")
	case "late":
		return nil // it closes the pipe with an answer due
	case "hide":
		return errors.Join(NonDumpable(), h.Taken())
	}
	files, filesErr := exec.Command("ls", "-l", fmt.Sprintf("/proc/%d/fd", os.Getpid())).Output()
	if len(args) > 1 {
		if _, err := TakeExtra(args[1]); err != nil {
			return h.Refuse(err.Error())
		}
	}
	report := workerReport{Secret: string(h.Secret), Env: os.Environ(), Files: string(files)}
	report.Dir, err = os.Getwd()
	session, sessionErr := unix.Getsid(0)
	_, ttyErr := os.Open("/dev/tty")
	report.Session, report.TTY = session, ttyErr == nil
	childFiles, childErr := exec.Command("ls", "-l", "/proc/self/fd").Output()
	report.ChildFiles = string(childFiles)
	if err := errors.Join(err, filesErr, sessionErr, childErr, json.NewEncoder(os.Stdout).Encode(report), h.Taken()); err != nil {
		return err
	}
	select {}
}

// detach starts a worker, and ends it after the test.
func detach(t *testing.T, s Spawn, args ...string) *Detached {
	t.Helper()
	s.Exe, s.Argv = os.Args[0], append([]string{"symphony", helperArg, "worker"}, args...)
	if s.Wait == 0 {
		s.Wait = test.Patience()
	}
	d, err := Detach(s)
	test.OK(t, err)
	t.Cleanup(func() {
		_ = Signal(d.process, unix.SIGKILL)
		<-d.done
	})
	return d
}

func newLog(t *testing.T) (log *os.File, report func() workerReport) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "worker.log"))
	test.OK(t, err)
	t.Cleanup(func() { log.Close() })
	return log, func() (r workerReport) {
		test.OK(t, json.NewDecoder(io.NewSectionReader(log, 0, 1<<20)).Decode(&r))
		return r
	}
}

func TestDetach(t *testing.T) {
	// A descriptor that this process inherited, and that a worker must not get.
	stray, err := os.Open("/etc/hostname")
	test.OK(t, err)
	defer stray.Close()
	test.OK(t, unix.Dup3(int(stray.Fd()), 60, 0))
	defer unix.Close(60)
	log, report := newLog(t)
	secret := "lin_api_very-secret\nsecond line" + strings.Repeat("s", maxSecret-31)
	d := detach(t, Spawn{Env: []string{"A=b", "PATH=" + os.Getenv("PATH")}, Log: log, Secret: []byte(secret)}, "take")
	test.OK(t, d.Ready(t.Context()))
	p, got := d.process, report()
	if got.Secret != secret || got.Session != p.PID || got.TTY || got.Dir != "/" || got.Env[0] != "A=b" {
		t.Errorf("process %d: %+v", p.PID, got)
	}
	for _, want := range []string{" 0 -> pipe:", " 1 -> " + log.Name(), " 2 -> " + log.Name(), " 3 -> pipe:"} {
		if !strings.Contains(got.Files, want) {
			t.Errorf("no %q in\n%s", want, got.Files)
		}
	}
	if strings.Contains(got.Files, "hostname") || strings.Contains(got.ChildFiles, " 3 -> pipe:") {
		t.Errorf("it has open\n%s\nits child\n%s", got.Files, got.ChildFiles)
	}
	for _, file := range []string{"environ", "cmdline"} {
		if b, err := os.ReadFile(procPath(p.PID, file)); err != nil || strings.Contains(string(b), "secret") {
			t.Errorf("the secret is in %s, or %v", file, err)
		}
	}
	if !SameProcess(reconcile.Handle{Boot: boot(t), PID: p.PID, Start: p.Start}) || p.Name == "" {
		t.Errorf("process %+v", p)
	}
	test.OK(t, Signal(p, unix.SIGKILL))
	<-d.done
	if _, err := statOf(p.PID); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("the worker is not reaped: %v", err)
	}
}

func TestDetachWithoutARunTaken(t *testing.T) {
	for mode, want := range map[string]string{
		"refuse": "refused: run_taken: another worker has it", "crash": "exit status 5", "late": "exit status 0", "mute": ErrNoAnswer.Error(),
	} {
		t.Run(mode, func(t *testing.T) {
			wait := test.Patience()
			if mode == "mute" {
				wait = 50 * time.Millisecond
			}
			d := detach(t, Spawn{Secret: []byte("unread"), Wait: wait, Env: []string{"PATH=" + os.Getenv("PATH")}}, mode)
			err := d.Ready(t.Context())
			if err == nil || !strings.HasSuffix(err.Error(), ": "+want) {
				t.Errorf("%v", err)
			}
			if errors.Is(err, ErrDied) != strings.HasPrefix(want, "exit status") || mode == "mute" && !living(d.process) {
				t.Errorf("%v, living: %v", err, living(d.process))
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := detach(t, Spawn{}, "mute").Ready(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestDetachImpossible(t *testing.T) {
	before := descriptors(t)
	for name, s := range map[string]Spawn{
		"no program":    {Exe: "/nowhere/symphony", Argv: []string{"symphony"}},
		"a long secret": {Exe: "/bin/true", Argv: []string{"true"}, Secret: make([]byte, maxSecret+1)},
	} {
		if _, err := Detach(s); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// A lock that a pass passes on belongs to the worker: it is held after the pass has closed its descriptor, not inherited by the
// worker's children, and released as soon as the worker has ended. A worker that gets no file or the wrong one refuses its run.
func TestTakeExtra(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slot")
	slot, err := os.Create(path)
	test.OK(t, err)
	test.OK(t, files.Lock(slot, unix.LOCK_EX, 0))
	env := []string{"PATH=" + os.Getenv("PATH")}
	log, report := newLog(t)
	for name, file := range map[string]*os.File{"nothing": nil, "another file": log} {
		err := detach(t, Spawn{Extra: file, Env: env}, "take", path).Ready(t.Context())
		if err == nil || !strings.Contains(err.Error(), "refused: ") || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: answered %v", name, err)
		}
	}
	d := detach(t, Spawn{Log: log, Extra: slot, Env: env}, "take", path)
	test.OK(t, d.Ready(t.Context()))
	test.OK(t, slot.Close())
	other, err := os.Open(path)
	test.OK(t, err)
	defer other.Close()
	if err := files.Lock(other, unix.LOCK_EX, 0); !errors.Is(err, ErrHeld) {
		t.Error("the worker does not hold the lock")
	}
	if got := report(); !strings.Contains(got.Files, path) || strings.Contains(got.ChildFiles, path) {
		t.Errorf("it has open\n%s\nits child\n%s", got.Files, got.ChildFiles)
	}
	test.OK(t, Signal(d.process, unix.SIGKILL))
	<-d.done
	test.OK(t, files.Lock(other, unix.LOCK_EX, 0))
}
