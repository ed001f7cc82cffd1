package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hold takes an alive file and keeps it until its stdin ends.
func hold(args []string) int {
	a, err := HoldAlive(args[0], time.Second)
	if err != nil {
		say("error", err)
		return 1
	}
	if err := a.Beat(7, 9*time.Second); err != nil {
		say("error", err)
		return 1
	}
	say("held")
	_, _ = os.Stdin.Read(make([]byte, 1))
	_ = a.Beat(8, 10*time.Second)
	return 0
}

// lockDeadHelper says whether the file could be locked as a dead one, and keeps it until its stdin ends.
func lockDeadHelper(args []string) int {
	release, ok, err := LockDead(args[0])
	say("locked", ok, err)
	_, _ = os.Stdin.Read(make([]byte, 1))
	release()
	return 0
}

func newAlive(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "alive")
	must(t, CreateAlive(path))
	return path
}

func probe(t *testing.T, path string) Pulse {
	t.Helper()
	p, err := ProbeAlive(path)
	must(t, err)
	return p
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	st, err := os.Stat(path)
	must(t, err)
	return st.Size()
}

func TestAliveAcrossProcesses(t *testing.T) {
	path := newAlive(t)
	if got := probe(t, path); got != (Pulse{State: AliveFree}) || size(t, path) != AliveSize {
		t.Fatalf("a new file is %+v, %d bytes", got, size(t, path))
	}
	h := start(t, nil, "hold", path)
	h.line("held")
	want := Pulse{State: AliveHeld, Beats: 7, Mono: 9 * time.Second}
	if got := probe(t, path); got != want || got.State.Dead() {
		t.Fatalf("held: %+v, want %+v", got, want)
	}
	if _, ok, err := LockDead(path); ok || err != nil {
		t.Fatalf("a living worker's file was locked: %v, %v", ok, err)
	}
	if _, err := HoldAlive(path, 30*time.Millisecond); !errors.Is(err, ErrHeld) {
		t.Fatalf("second worker: %v, want ErrHeld", err)
	}
	must(t, h.cmd.Process.Kill())
	_ = h.cmd.Wait()
	want.State = AliveFree
	if got := probe(t, path); got != want || !got.State.Dead() {
		t.Fatalf("after the kill: %+v, want %+v", got, want)
	}
	if size(t, path) != AliveSize {
		t.Fatalf("the file has %d bytes now", size(t, path))
	}
}

func TestAliveMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "alive")
	if got := probe(t, path); got.State != AliveMissing || !got.State.Dead() {
		t.Fatalf("missing file: %+v", got)
	}
	if _, err := HoldAlive(path, time.Second); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("hold: %v", err)
	}
	release, ok, err := LockDead(path)
	if !ok || err != nil {
		t.Fatalf("lock dead: %v, %v", ok, err)
	}
	release()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a probe created the file: %v", err)
	}
}

func TestCreateAliveKeepsWhatIsThere(t *testing.T) {
	path := newAlive(t)
	a, err := HoldAlive(path, 0)
	must(t, err)
	defer a.Close()
	must(t, a.Beat(3, 4))
	if err := CreateAlive(path); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("second creation: %v", err)
	}
	if got := probe(t, path); got.Beats != 3 || got.State != AliveHeld {
		t.Fatalf("after it: %+v", got)
	}
}

func TestHoldAliveOutwaitsAProbe(t *testing.T) {
	path := newAlive(t)
	looking, err := os.Open(path)
	must(t, err)
	must(t, flock(looking, lockShared))
	time.AfterFunc(50*time.Millisecond, func() { looking.Close() })
	a, err := HoldAlive(path, bound)
	must(t, err)
	must(t, a.Close())
}

func TestLockDeadExcludesASecondPassAndAWorker(t *testing.T) {
	path := newAlive(t)
	first := start(t, nil, "dead", path)
	if got := first.line("locked"); got != "true <nil>" {
		t.Fatalf("first: %s", got)
	}
	if _, ok, err := LockDead(path); ok || err != nil {
		t.Fatalf("second: %v, %v", ok, err)
	}
	if _, err := HoldAlive(path, 30*time.Millisecond); !errors.Is(err, ErrHeld) {
		t.Fatalf("a worker that comes late: %v", err)
	}
	first.stdin.Close()
	must(t, first.cmd.Wait())
	release, ok, err := LockDead(path)
	if !ok || err != nil {
		t.Fatalf("after the first: %v, %v", ok, err)
	}
	release()
	a, err := HoldAlive(path, time.Second)
	must(t, err)
	must(t, a.Close())
}

func TestLockDeadOutwaitsProbes(t *testing.T) {
	path := newAlive(t)
	looking, err := os.Open(path)
	must(t, err)
	defer looking.Close()
	must(t, flock(looking, lockShared))
	if _, ok, err := LockDead(path); ok || err != nil {
		t.Fatalf("beside a probe that does not end: %v, %v", ok, err)
	}
	time.AfterFunc(30*time.Millisecond, func() { looking.Close() })
	release, ok, err := LockDead(path)
	if !ok || err != nil {
		t.Fatalf("beside a probe that ends: %v, %v", ok, err)
	}
	release()
}

func TestAliveDamaged(t *testing.T) {
	whole := string(heartbeatLine(12, 34))
	for name, content := range map[string]string{
		"empty":    "",
		"short":    whole[:30],
		"bad sum":  "1 00000000000000000013" + whole[22:],
		"nonsense": "hello\n",
	} {
		path := filepath.Join(t.TempDir(), "alive")
		must(t, os.WriteFile(path, []byte(content), 0o600))
		if got := probe(t, path); got != (Pulse{State: AliveFree}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if p, ok := parseAlive(whole); p != (Pulse{Beats: 12, Mono: 34}) || !ok || len(whole) != AliveSize {
		t.Errorf("whole: %+v %v, %d bytes", p, ok, len(whole))
	}
	if p, ok := parseAlive(string(heartbeatLine(1<<63-1, 1<<63-1))); p.Beats != 1<<63-1 || !ok {
		t.Errorf("the greatest counter: %+v %v", p, ok)
	}
}

func TestProbeAliveUnknown(t *testing.T) {
	// A path through a file is neither there nor missing.
	file := newAlive(t)
	p, err := ProbeAlive(filepath.Join(file, "alive"))
	if err == nil || p.State != AliveUnknown || p.State.Dead() {
		t.Fatalf("%+v, %v", p, err)
	}
}

func TestHoldAliveOfAFileThatWasReplaced(t *testing.T) {
	path := newAlive(t)
	first, err := HoldAlive(path, 0)
	must(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := HoldAlive(path, bound)
		done <- err
	}()
	eventually(t, "the second to open the file", func() bool { return opened(t, path) == 2 })
	must(t, os.Rename(path, path+".old"))
	must(t, CreateAlive(path))
	must(t, first.Close())
	if err := <-done; !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("it holds a file that is not the run's any more: %v", err)
	}
	if got := probe(t, path); got.State != AliveFree {
		t.Errorf("the new file is %+v", got)
	}
}

// opened counts the descriptors that this process has of the file at path.
func opened(t *testing.T, path string) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	n := 0
	for _, name := range names {
		if to, err := os.Readlink("/proc/self/fd/" + name.Name()); err == nil && to == path {
			n++
		}
	}
	return n
}

// A refusal replaces the heartbeat in place: the file does not grow.
func TestRefusal(t *testing.T) {
	for _, code := range []string{"disk_full", "resource_limit", "state_unsupported_filesystem", strings.Repeat("x", 200)} {
		path := filepath.Join(t.TempDir(), "alive")
		fatal := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		fatal(CreateAlive(path))
		alive, err := HoldAlive(path, time.Second)
		fatal(err)
		fatal(alive.Beat(7, time.Hour))
		fatal(alive.Refuse(code))
		fatal(alive.Close())
		pulse, err := ProbeAlive(path)
		fatal(err)
		if want := code[:min(len(code), maxCode)]; pulse != (Pulse{State: AliveFree, Refused: want}) {
			t.Errorf("%q reads as %+v", want, pulse)
		}
		info, err := os.Stat(path)
		fatal(err)
		if info.Size() != AliveSize {
			t.Errorf("the file has %d bytes", info.Size())
		}
		fatal(NoteUnstarted(path, "disk_full"))
		if pulse, err = ProbeAlive(path); err != nil || pulse.Refused != "disk_full" {
			t.Errorf("after the note: %+v, %v", pulse, err)
		}
	}
	if err := NoteUnstarted(filepath.Join(t.TempDir(), "none"), "disk_full"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file was made for it, or %v", err)
	}
	half := string(refusalLine("disk_full"))[:16] + strings.Repeat(" ", AliveSize-17) + "\n"
	if p, ok := parseAlive(half); ok {
		t.Errorf("a torn line reads as %+v", p)
	}
}

func TestLimitReached(t *testing.T) {
	for err, want := range map[error]bool{
		fmt.Errorf("start bash: %w", &os.PathError{Op: "fork/exec", Path: "/bin/bash", Err: syscall.EAGAIN}): true,
		fmt.Errorf("open: %w", syscall.EMFILE): true,
		fmt.Errorf("open: %w", syscall.ENFILE): true,
		syscall.ENOMEM:                         true,
		syscall.ENOSPC:                         false,
		syscall.EACCES:                         false,
	} {
		if LimitReached(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
}
