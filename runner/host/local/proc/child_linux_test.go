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
	c := run(t, host.StartRequest{Argv: sh(`read l; echo "out $l $A"; pwd; echo err >&2; env; exit 4`), Env: []string{"A=b"}, Dir: dir}, nil, nil)
	test.OK(t, test.Err(io.WriteString(c.Stdin(), "hello\n")))
	out := test.Must(io.ReadAll(c.Stdout()))
	errs := test.Must(io.ReadAll(c.Stderr()))
	if got := string(out); !strings.HasPrefix(got, "out hello b\n"+dir+"\n") || strings.Contains(got, "HOME=") || string(errs) != "err\n" {
		t.Errorf("stdout: %s, stderr: %s", got, errs)
	}
	waitFor(t, c)
	for range 2 { // closing again changes nothing
		exit, err := c.Close()
		test.Equal(t, "error, code and text", []any{err, exit.Code, exit.Text}, []any{nil, 4, "exit status 4"})
	}
	test.ErrorIs(t, "signal after close", c.SignalGroup(unix.SIGKILL), os.ErrProcessDone)
}

// A hook that leaves a process in the background has ended. The process keeps the pipes open, and can still be killed with the group.
func TestExecEndsWhilePipesStayOpen(t *testing.T) {
	c := run(t, host.StartRequest{Argv: sh(`sleep 60 & echo $!; exit 0`)}, nil, nil)
	waitFor(t, c)
	line := test.Must(bufio.NewReader(c.Stdout()).ReadString('\n'))
	pid := test.Must(strconv.Atoi(strings.TrimSpace(line)))
	e := test.Must(statOf(pid))
	left := e.process()
	t.Cleanup(func() { _ = Signal(left, unix.SIGKILL) })
	test.Equal(t, "the background process lives", living(left), true)
	e, err := statOf(c.Process().PID)
	test.Equal(t, "error, and whether the leader has ended", []any{err, e.dead}, []any{nil, true})
	test.OK(t, c.SignalGroup(unix.SIGKILL))
	test.Until(t, "the background process to end", func() bool { return !living(left) })
}

func TestExecGroupIsItsOwn(t *testing.T) {
	c := run(t, host.StartRequest{Argv: sh(`trap '' TERM; echo up; sleep 60 & wait`)}, nil, nil)
	startsWith(t, c, "up\n")
	test.Equal(t, "group", test.Must(unix.Getpgid(c.Process().PID)), c.Process().PID)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	test.OK(t, Signal(c.Process(), unix.SIGTERM)) // it is deaf
	test.ErrorIs(t, "wait", c.Wait(ctx), context.DeadlineExceeded)
	if exit, err := c.Close(); err != nil || exit.Text != "signal: killed" || exit.Code >= 0 { // it kills what still runs
		t.Errorf("%+v, %v", exit, err)
	}
}

// The child gets its streams, the lease and the tree file, and nothing that this process inherited.
func TestExecDescriptors(t *testing.T) {
	stray := test.Must(os.Open("/etc/hostname"))
	defer stray.Close()
	test.OK(t, unix.Dup3(int(stray.Fd()), 62, 0))
	defer unix.Close(62)
	dir := t.TempDir()
	lease := test.Must(os.Create(filepath.Join(dir, "lease")))
	test.OK(t, files.Lock(lease, unix.LOCK_EX, 0))
	tree := test.Must(OpenTree(filepath.Join(dir, "tree")))
	defer tree.Close()
	c := run(t, host.StartRequest{Argv: sh(`ls -l /proc/$$/fd; echo end; read x`)}, lease, tree)
	var listed strings.Builder
	for out := bufio.NewReader(c.Stdout()); !strings.HasSuffix(listed.String(), "end\n"); {
		line := test.Must(out.ReadString('\n'))
		listed.WriteString(line)
	}
	wantSaid(t, listed.String(), []string{" 3 -> " + lease.Name() + "\n", fmt.Sprintf(" %d -> %s\n", TreeFD, tree.Name())})
	test.Equal(t, "descriptors", strings.Count(listed.String(), " -> "), 5)
	// The lease is held as long as the child lives.
	test.OK(t, lease.Close())
	other := test.Must(os.Open(lease.Name()))
	defer other.Close()
	test.ErrorIs(t, "the lease, while the child lives", files.Lock(other, unix.LOCK_EX, 0), ErrHeld)
	test.OK(t, c.Stdin().Close())
	waitFor(t, c)
	test.OK(t, files.Lock(other, unix.LOCK_EX, 0))
}

func TestExecImpossible(t *testing.T) {
	keepsDescriptors(t)
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

// adopt is a minimal worker: it adopts and reaps orphans, while its own children end, each in another way, and are waited for only later.
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
	p := test.Must(CreateProcs(path))
	want := func(want ...reconcile.Process) {
		t.Helper()
		got, of, err := ReadProcs(path)
		test.OK(t, err)
		test.Equal(t, "processes and boot", []any{got, of}, []any{want, boot(t)})
	}
	want()
	self := test.Must(Self())
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
		procs, _, err := ReadProcs(path)
		test.Equal(t, text+": processes and error", []any{fmt.Sprint(procs), err}, []any{want, nil})
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

// workerHelper answers as its first argument demands. If it takes its run, it writes a report and runs until it is killed.
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
	files := openFiles()
	if len(args) > 1 {
		if _, err := TakeExtra(args[1]); err != nil {
			return h.Refuse(err.Error())
		}
	}
	report := workerReport{Secret: string(h.Secret), Env: os.Environ(), Files: files}
	report.Dir, err = os.Getwd()
	session, sessionErr := unix.Getsid(0)
	_, ttyErr := os.Open("/dev/tty")
	report.Session, report.TTY = session, ttyErr == nil
	childFiles, childErr := exec.Command("ls", "-l", "/proc/self/fd").Output()
	report.ChildFiles = string(childFiles)
	if err := errors.Join(err, sessionErr, childErr, json.NewEncoder(os.Stdout).Encode(report), h.Taken()); err != nil {
		return err
	}
	select {}
}

// openFiles lists what this process has open, as ls -l does. A program would also see descriptors that only its own start needs.
func openFiles() (list string) {
	for _, e := range test.Must(os.ReadDir("/proc/self/fd")) {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil { // else it was that of the directory
			list += fmt.Sprintf(" %s -> %s\n", e.Name(), target)
		}
	}
	return list
}

// detach starts a worker, and ends it after the test.
func detach(t *testing.T, s Spawn, args ...string) *Detached {
	t.Helper()
	s.Exe, s.Argv = os.Args[0], append([]string{"symphony", helperArg, "worker"}, args...)
	if s.Wait == 0 {
		s.Wait = test.Patience()
	}
	d := test.Must(Detach(s))
	t.Cleanup(func() {
		_ = Signal(d.process, unix.SIGKILL)
		<-d.done
	})
	return d
}

func newLog(t *testing.T) (log *os.File, report func() workerReport) {
	t.Helper()
	log = test.Must(os.Create(filepath.Join(t.TempDir(), "worker.log")))
	t.Cleanup(func() { log.Close() })
	return log, func() (r workerReport) {
		test.OK(t, json.NewDecoder(io.NewSectionReader(log, 0, 1<<20)).Decode(&r))
		return r
	}
}

func TestDetach(t *testing.T) {
	// A descriptor that this process inherited, and that a worker must not get.
	stray := test.Must(os.Open("/etc/hostname"))
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
	wantSaid(t, got.Files, []string{" 0 -> pipe:", " 1 -> " + log.Name(), " 2 -> " + log.Name(), " 3 -> pipe:"}, "hostname")
	wantSaid(t, got.ChildFiles, nil, " 3 -> pipe:")
	for _, file := range []string{"environ", "cmdline"} {
		wantSaid(t, string(test.Must(os.ReadFile(procPath(p.PID, file)))), nil, "secret")
	}
	if !SameProcess(reconcile.Handle{Boot: boot(t), PID: p.PID, Start: p.Start}) || p.Name == "" {
		t.Errorf("process %+v", p)
	}
	test.OK(t, Signal(p, unix.SIGKILL))
	<-d.done
	test.ErrorIs(t, "the worker, which is reaped", test.Err(statOf(p.PID)), os.ErrProcessDone)
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
	test.ErrorIs(t, "error", detach(t, Spawn{}, "mute").Ready(ctx), context.DeadlineExceeded)
}

func TestDetachImpossible(t *testing.T) {
	keepsDescriptors(t)
	for name, s := range map[string]Spawn{
		"no program":    {Exe: "/nowhere/symphony", Argv: []string{"symphony"}},
		"a long secret": {Exe: "/bin/true", Argv: []string{"true"}, Secret: make([]byte, maxSecret+1)},
	} {
		if _, err := Detach(s); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A lock that a pass passes on belongs to the worker: it is held after the pass has closed its descriptor, not inherited by the
// worker's children, and released as soon as the worker has ended. A worker that gets no file or the wrong one refuses its run.
func TestTakeExtra(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slot")
	slot := test.Must(os.Create(path))
	test.OK(t, files.Lock(slot, unix.LOCK_EX, 0))
	env := []string{"PATH=" + os.Getenv("PATH")}
	log, report := newLog(t)
	for name, file := range map[string]*os.File{"nothing": nil, "another file": log} {
		err := detach(t, Spawn{Extra: file, Env: env}, "take", path).Ready(t.Context())
		wantSaid(t, fmt.Sprint(name, ": ", err), []string{"refused: ", path})
	}
	d := detach(t, Spawn{Log: log, Extra: slot, Env: env}, "take", path)
	test.OK(t, d.Ready(t.Context()))
	test.OK(t, slot.Close())
	other := test.Must(os.Open(path))
	defer other.Close()
	test.ErrorIs(t, "the lock that the worker holds", files.Lock(other, unix.LOCK_EX, 0), ErrHeld)
	wantSaid(t, report().Files, []string{path})
	wantSaid(t, report().ChildFiles, nil, path)
	test.OK(t, Signal(d.process, unix.SIGKILL))
	<-d.done
	test.OK(t, files.Lock(other, unix.LOCK_EX, 0))
}
