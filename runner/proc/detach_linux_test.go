package proc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/lock"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/proc/proctest"
)

func init() {
	proctest.Helpers["adopt"] = adopt
	proctest.Helpers["adopt hidden"] = func(args []string) error { return errors.Join(NonDumpable(), adopt(args)) }
}

// adopt is a minimal worker: it adopts and reaps orphans, while its own children end, each in
// another way, and are waited for only later.
func adopt([]string) error {
	if err := BecomeSubreaper(); err != nil {
		return err
	}
	own := exec.Command("sh", "-c", "exit 7")
	released := exec.Command("true")
	// The shell in the middle ends at once and leaves an orphan.
	if err := errors.Join(own.Start(), released.Start(), exec.Command("sh", "-c", "sleep 0.01 & sleep "+
		"0.01 & exec true").Run()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), test.Patience())
	defer cancel()
	go ReapOrphans(ctx, 2*time.Millisecond, func(err error) { proctest.Say("error", err) })
	children := func(want int) error {
		for len(childrenOf(os.Getpid())) != want {
			if ctx.Err() != nil {
				return fmt.Errorf("there are still %v", childrenOf(os.Getpid()))
			}
			time.Sleep(time.Millisecond)
		}
		return nil
	}
	if err := children(2); err != nil {
		return err
	}
	for range 100 { // as long as their owners come to them late
		if err := reap(); err != nil {
			return err
		}
	}
	if err := errors.Join(children(2), released.Process.Release(), children(1)); err != nil {
		return err
	}
	var status *exec.ExitError
	if err := own.Wait(); !errors.As(err, &status) || status.ExitCode() != 7 {
		return fmt.Errorf("the child of os/exec: %w", err)
	}
	proctest.Say("fine")
	return nil
}

func TestReapTakesOrphansOnly(t *testing.T) {
	for _, how := range []string{"adopt", "adopt hidden"} {
		h := proctest.Start(t, nil, how)
		h.Line("fine")
		test.OK(t, h.Cmd.Wait())
	}
}

func init() { proctest.Helpers["worker"] = workerHelper }

// workerReport is what a minimal worker writes about itself to its log.
type workerReport struct {
	Secret, Dir string
	Env         []string
	Session     int
	TTY         bool
	Files       string // what it has open
	ChildFiles  string // what a child of it has open
}

// workerHelper answers as its first argument demands. If it takes its run, it writes a report
// and runs until it is killed.
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
	report.Session = session
	report.TTY = ttyErr == nil
	childFiles, childErr := exec.Command("ls", "-l", "/proc/self/fd").Output()
	report.ChildFiles = string(childFiles)
	if err := errors.Join(err, sessionErr, childErr, json.NewEncoder(os.Stdout).Encode(report), h.Taken()); err != nil {
		return err
	}
	select {}
}

// openFiles lists what this process has open, as ls -l does. A program would also see
// descriptors that only its own start needs.
func openFiles() (list string) {
	for _, e := range test.Must(os.ReadDir("/proc/self/fd")) {
		// else it was that of the directory
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			list += fmt.Sprintf(" %s -> %s\n", e.Name(), target)
		}
	}
	return list
}

// detach starts a worker, and ends it after the test.
func detach(t *testing.T, s Spawn, args ...string) *Detached {
	t.Helper()
	s.Exe = os.Args[0]
	s.Argv = append([]string{"symphony", proctest.HelperArg, "worker"}, args...)
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
	d := detach(t, Spawn{
		Env:    []string{"A=b", "PATH=" + os.Getenv("PATH")},
		Log:    log,
		Secret: []byte(secret),
	}, "take")
	test.OK(t, d.Ready(t.Context()))
	p := d.process
	got := report()
	if got.Secret != secret || got.Session != p.PID || got.TTY || got.Dir != "/" || got.Env[0] != "A=b" {
		t.Errorf("process %d: %+v", p.PID, got)
	}
	wantSaid(
		t,
		got.Files,
		[]string{" 0 -> pipe:", " 1 -> " + log.Name(), " 2 -> " + log.Name(), " 3 -> pipe:"},
		"hostname",
	)
	wantSaid(t, got.ChildFiles, nil, " 3 -> pipe:")
	for _, file := range []string{"environ", "cmdline"} {
		wantSaid(t, string(test.Must(os.ReadFile(Path(p.PID, file)))), nil, "secret")
	}
	if !SameProcess(reconcile.Handle{Boot: boot(t), PID: p.PID, Start: p.Start}) || p.Name == "" {
		t.Errorf("process %+v", p)
	}
	test.OK(t, Signal(p, unix.SIGKILL))
	<-d.done
	test.ErrorIs(t, "the worker, which is reaped", test.Err(Stat(p.PID)), os.ErrProcessDone)
}

func TestDetachWithoutARunTaken(t *testing.T) {
	for mode, want := range map[string]string{
		"refuse": "refused: run_taken: another worker has it",
		"crash":  "exit status 5",
		"late":   "exit status 0",
		"mute":   ErrNoAnswer.Error(),
	} {
		t.Run(mode, func(t *testing.T) {
			wait := test.Patience()
			if mode == "mute" {
				wait = 50 * time.Millisecond
			}
			d := detach(t, Spawn{
				Secret: []byte("unread"),
				Wait:   wait,
				Env:    []string{"PATH=" + os.Getenv("PATH")},
			}, mode)
			err := d.Ready(t.Context())
			if err == nil || !strings.HasSuffix(err.Error(), ": "+want) {
				t.Errorf("%v", err)
			}
			if errors.Is(err, ErrDied) != strings.HasPrefix(want, "exit status") ||
				mode == "mute" && !proctest.Living(d.process) {
				t.Errorf("%v, living: %v", err, proctest.Living(d.process))
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	test.ErrorIs(t, "error", detach(t, Spawn{}, "mute").Ready(ctx), context.DeadlineExceeded)
}

func TestDetachImpossible(t *testing.T) {
	proctest.KeepsDescriptors(t)
	for name, s := range map[string]Spawn{
		"no program": {Exe: "/nowhere/symphony", Argv: []string{"symphony"}},
		"a long secret": {
			Exe:    "/bin/true",
			Argv:   []string{"true"},
			Secret: make([]byte, maxSecret+1),
		},
	} {
		if _, err := Detach(s); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A lock that a pass passes on belongs to the worker: it is held after the pass has closed its
// descriptor, not inherited by the worker's children, and released as soon as the worker has
// ended. A worker that gets no file or the wrong one refuses its run.
func TestTakeExtra(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slot")
	slot := test.Must(os.Create(path))
	test.OK(t, lock.Try(slot, lock.Exclusive, 0))
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
	test.ErrorIs(t, "the lock that the worker holds", lock.Try(other, lock.Exclusive, 0), lock.ErrHeld)
	wantSaid(t, report().Files, []string{path})
	wantSaid(t, report().ChildFiles, nil, path)
	test.OK(t, Signal(d.process, unix.SIGKILL))
	<-d.done
	test.OK(t, lock.Try(other, lock.Exclusive, 0))
}
