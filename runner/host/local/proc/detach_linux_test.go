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

	"github.com/symphony-cron/symphony/reconcile"
)

func init() { helpers["worker"] = workerHelper }

// workerReport is what a worker in small tells of itself, in its log.
type workerReport struct {
	Secret, Dir string
	Env         []string
	Session     int
	TTY         bool
	Files       string // what it has open
	ChildFiles  string // what a child of it has open
}

// workerHelper answers as its first argument says. One that takes its run writes a report and stays until it is killed.
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
		s.Wait = bound
	}
	d, err := Detach(s)
	must(t, err)
	t.Cleanup(func() {
		_ = Signal(d.process, unix.SIGKILL)
		<-d.done
	})
	return d
}

func newLog(t *testing.T) (log *os.File, report func() workerReport) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "worker.log"))
	must(t, err)
	t.Cleanup(func() { log.Close() })
	return log, func() (r workerReport) {
		must(t, json.NewDecoder(io.NewSectionReader(log, 0, 1<<20)).Decode(&r))
		return r
	}
}

func TestDetach(t *testing.T) {
	// A descriptor that this process inherited, and that a worker must not get.
	stray, err := os.Open("/etc/hostname")
	must(t, err)
	defer stray.Close()
	must(t, unix.Dup3(int(stray.Fd()), 60, 0))
	defer unix.Close(60)
	log, report := newLog(t)
	secret := "lin_api_very-secret\nsecond line" + strings.Repeat("s", maxSecret-31)
	d := detach(t, Spawn{Env: []string{"A=b", "PATH=" + os.Getenv("PATH")}, Log: log, Secret: []byte(secret)}, "take")
	must(t, d.Ready(t.Context()))
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
			t.Errorf("the secret stands in %s, or %v", file, err)
		}
	}
	if !SameProcess(reconcile.Handle{Boot: boot(t), PID: p.PID, Start: p.Start}) || p.Name == "" {
		t.Errorf("process %+v", p)
	}
	must(t, Signal(p, unix.SIGKILL))
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
			wait := bound
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

// A lock that a pass hands over belongs to the worker: it is held after the pass has closed its own descriptor, not
// inherited by the worker's children, and free as soon as the worker has ended. A worker that gets another file than it was
// told, or none, refuses its run.
func TestTakeExtra(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slot")
	slot, err := os.Create(path)
	must(t, err)
	must(t, flock(slot, unix.LOCK_EX))
	env := []string{"PATH=" + os.Getenv("PATH")}
	log, report := newLog(t)
	for name, file := range map[string]*os.File{"nothing": nil, "another file": log} {
		err := detach(t, Spawn{Extra: file, Env: env}, "take", path).Ready(t.Context())
		if err == nil || !strings.Contains(err.Error(), "refused: ") || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: answered %v", name, err)
		}
	}
	d := detach(t, Spawn{Log: log, Extra: slot, Env: env}, "take", path)
	must(t, d.Ready(t.Context()))
	must(t, slot.Close())
	other, err := os.Open(path)
	must(t, err)
	defer other.Close()
	if err := flock(other, unix.LOCK_EX); !errors.Is(err, ErrHeld) {
		t.Error("the worker does not hold the lock")
	}
	if got := report(); !strings.Contains(got.Files, path) || strings.Contains(got.ChildFiles, path) {
		t.Errorf("it has open\n%s\nits child\n%s", got.Files, got.ChildFiles)
	}
	must(t, Signal(d.process, unix.SIGKILL))
	<-d.done
	must(t, flock(other, unix.LOCK_EX))
}
