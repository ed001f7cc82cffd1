package proc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
)

func init() {
	helpers["worker"] = workerHelper
}

// workerReport is what a worker in small tells of itself, in its log.
type workerReport struct {
	Secret  string
	Args    []string
	Env     []string
	Dir     string
	FDs     map[string]string // number to what it is
	Session int
	TTY     bool
	Replied string
}

// workerHelper answers as its argument says, writes a report and stays until it is killed.
func workerHelper(args []string) int {
	if args[0] == "crash" {
		return 5
	}
	if args[0] == "mute" {
		select {}
	}
	r, err := ReadySocket()
	if err != nil {
		say("error", err)
		return 1
	}
	switch args[0] {
	case "refuse":
		if err := r.Refuse("run_taken: another worker\nhas it"); err != nil {
			say("error", err)
			return 1
		}
		return 0
	case "late":
		return 0 // it closes the socket with an answer due
	}
	return takeRun(r)
}

func takeRun(r *Ready) int {
	session, err := unix.Getsid(0)
	if err != nil {
		return 1
	}
	_, ttyErr := os.Open("/dev/tty")
	dir, err := os.Getwd()
	if err != nil {
		return 1
	}
	report := workerReport{
		Secret: string(r.Secret()), Args: os.Args, Env: os.Environ(), Dir: dir, Session: session, TTY: ttyErr == nil,
		FDs: ownFiles(),
	}
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		return 1
	}
	if err := r.Taken(); err != nil {
		return 1
	}
	_, _ = os.Stderr.WriteString("after\n")
	select {}
}

// ownFiles lists the descriptors that were not made by the Go runtime.
func ownFiles() map[string]string {
	files := map[string]string{}
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	for _, n := range names {
		to, err := os.Readlink("/proc/self/fd/" + n.Name())
		runtimes := []string{"anon_inode:", "/proc/", "/sys/fs/cgroup/"}
		if err == nil && !slices.ContainsFunc(runtimes, func(p string) bool { return strings.HasPrefix(to, p) }) {
			files[n.Name()] = to
		}
	}
	return files
}

func detach(t *testing.T, s Spawn, mode string) (*Detached, error) {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	s.Exe, s.Argv = exe, []string{"symphony", helperArg, "worker", mode}
	if s.Wait == 0 {
		s.Wait = bound
	}
	d, err := Detach(s)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		_ = Signal(d.Process(), unix.SIGKILL)
		<-d.Done()
		noGoroutines(t)
	})
	return d, nil
}

func TestDetach(t *testing.T) {
	// Descriptors that this process inherited, and that a worker must not get.
	stray, err := os.Open("/etc/hostname")
	must(t, err)
	defer stray.Close()
	for _, fd := range []int{60, 61} {
		must(t, unix.Dup3(int(stray.Fd()), fd, 0))
		defer unix.Close(fd)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "worker.log"))
	must(t, err)
	defer log.Close()
	secret := "lin_api_very-secret\nsecond line" + strings.Repeat("s", maxSecret-31)
	d, err := detach(t, Spawn{Env: []string{"A=b"}, Log: log, Secret: []byte(secret)}, "take")
	must(t, err)
	must(t, d.Ready(t.Context()))

	var got workerReport
	eventually(t, "the log to be complete", func() bool {
		b, err := os.ReadFile(log.Name())
		must(t, err)
		return bytes.HasSuffix(b, []byte("after\n")) && json.NewDecoder(bytes.NewReader(b)).Decode(&got) == nil
	})
	p := d.Process()
	if got.Secret != secret {
		t.Errorf("the secret came as %q", got.Secret)
	}
	if got.Session != p.PID || got.TTY {
		t.Errorf("session %d of process %d, terminal %v", got.Session, p.PID, got.TTY)
	}
	if got.Dir != "/" || len(got.Env) != 1 || got.Env[0] != "A=b" {
		t.Errorf("directory %s, environment %q", got.Dir, got.Env)
	}
	want := map[string]string{"0": "/dev/null", "1": log.Name(), "2": log.Name()}
	socket := got.FDs["3"]
	delete(got.FDs, "3")
	if !strings.HasPrefix(socket, "socket:") || len(got.FDs) != 3 {
		t.Errorf("descriptors: 3 is %q, others %v", socket, got.FDs)
	}
	for fd, name := range want {
		if got.FDs[fd] != name {
			t.Errorf("descriptor %s is %s, want %s", fd, got.FDs[fd], name)
		}
	}
	for _, file := range []string{"environ", "cmdline"} {
		b, err := os.ReadFile("/proc/" + itoa(p.PID) + "/" + file)
		must(t, err)
		if strings.Contains(string(b), "secret") {
			t.Errorf("the secret stands in %s", file)
		}
	}
	if !SameProcess(reconcile.Handle{Boot: boot(t), PID: p.PID, Start: p.Start}) || p.Name == "" {
		t.Errorf("process %+v", p)
	}
	if _, err := os.Stat("/proc/" + itoa(p.PID) + "/fd/3"); err == nil {
		t.Error("the socket is still open after the answer")
	}
}

func TestDetachedIsReaped(t *testing.T) {
	d, err := detach(t, Spawn{}, "take")
	must(t, err)
	must(t, d.Ready(t.Context()))
	must(t, Signal(d.Process(), unix.SIGKILL))
	<-d.Done()
	if _, err := statOf(d.Process().PID); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("the worker is still there: %v", err)
	}
}

func TestDetachRefused(t *testing.T) {
	d, err := detach(t, Spawn{Secret: []byte("x")}, "refuse")
	must(t, err)
	if err := d.Ready(t.Context()); err == nil || !strings.HasSuffix(err.Error(), ": refused: run_taken: another worker has it") {
		t.Fatalf("%v", err)
	}
}

func TestDetachWorkerThatEndsBeforeItAnswers(t *testing.T) {
	for mode, status := range map[string]string{"crash": "exit status 5", "late": "exit status 0"} {
		t.Run(mode, func(t *testing.T) {
			d, err := detach(t, Spawn{Secret: []byte("unread")}, mode)
			must(t, err)
			var died *DiedError
			if err := d.Ready(t.Context()); !errors.As(err, &died) || died.Status != status {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestDetachWorkerThatDoesNotAnswer(t *testing.T) {
	d, err := detach(t, Spawn{Wait: 50 * time.Millisecond}, "mute")
	must(t, err)
	if err := d.Ready(t.Context()); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("%v", err)
	}
	if !living(d.Process()) {
		t.Error("a slow worker was killed")
	}
}

func TestDetachReadyEndsWithItsContext(t *testing.T) {
	d, err := detach(t, Spawn{}, "mute")
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := d.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestDetachImpossible(t *testing.T) {
	before := descriptors(t)
	for name, s := range map[string]Spawn{
		"no program":    {Exe: "/nowhere/symphony", Argv: []string{"symphony"}},
		"no directory":  {Exe: "/bin/true", Argv: []string{"true"}, Dir: "/nowhere"},
		"no arguments":  {Exe: "/bin/true"},
		"a long secret": {Exe: "/bin/true", Argv: []string{"true"}, Secret: make([]byte, maxSecret+1)},
	} {
		s.Wait = bound
		if _, err := Detach(s); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func init() { helpers["extra"] = extraHelper }

// extraHelper takes over what it was handed, lists what a child of its own has open, and stays.
func extraHelper(args []string) int {
	r, err := ReadySocket()
	if err != nil {
		return 1
	}
	f, err := TakeExtra(args[0])
	if err != nil {
		if r.Refuse(err.Error()) != nil {
			return 1
		}
		return 0
	}
	defer f.Close()
	out, err := exec.Command("ls", "-l", "/proc/self/fd").Output()
	if err != nil {
		return 1
	}
	_, _ = os.Stdout.Write(out)
	if err := r.Taken(); err != nil {
		return 1
	}
	select {}
}

func lockedFile(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	must(t, unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	return f
}

// free reports whether no process holds the lock on the file.
func free(t *testing.T, path string) bool {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}

// A lock that a pass hands over belongs to the worker: it is held after the pass has closed its own descriptor, not
// inherited by the worker's children, and free as soon as the worker has ended.
func TestTakeExtra(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slot")
	f := lockedFile(t, path)
	log, err := os.Create(filepath.Join(t.TempDir(), "worker.log"))
	must(t, err)
	defer log.Close()
	exe, err := os.Executable()
	must(t, err)
	d, err := Detach(Spawn{Exe: exe, Argv: []string{"symphony", helperArg, "extra", path}, Env: os.Environ(), Log: log, Extra: f, Wait: bound})
	must(t, err)
	t.Cleanup(func() { _ = Signal(d.Process(), unix.SIGKILL); <-d.Done() })
	must(t, d.Ready(t.Context()))
	must(t, f.Close())
	if free(t, path) {
		t.Error("the worker does not hold the lock")
	}
	b, err := os.ReadFile(log.Name())
	must(t, err)
	if text := string(b); !strings.Contains(text, "/dev/null") || strings.Contains(text, path) {
		t.Errorf("its child has open:\n%s", text)
	}
	must(t, Signal(d.Process(), unix.SIGKILL))
	<-d.Done()
	eventually(t, "the lock to be free", func() bool { return free(t, path) })
}

// A worker that gets another file than it was told, or none, refuses its run.
func TestTakeExtraOfAnotherFile(t *testing.T) {
	dir := t.TempDir()
	for name, hand := range map[string]*os.File{"nothing": nil, "another file": lockedFile(t, filepath.Join(dir, "other"))} {
		t.Run(name, func(t *testing.T) {
			slot := filepath.Join(dir, "slot")
			lockedFile(t, slot)
			exe, err := os.Executable()
			must(t, err)
			d, err := Detach(Spawn{Exe: exe, Argv: []string{"symphony", helperArg, "extra", slot}, Env: os.Environ(), Extra: hand, Wait: bound})
			must(t, err)
			t.Cleanup(func() { <-d.Done() })
			err = d.Ready(t.Context())
			if err == nil || !strings.Contains(err.Error(), "refused: ") || !strings.Contains(err.Error(), slot) {
				t.Errorf("answered %v", err)
			}
		})
	}
}
