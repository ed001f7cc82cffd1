package proc

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/lock"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/proc/proctest"
)

func init() {
	// hold takes an alive file and keeps it until its stdin ends.
	proctest.Helpers["hold"] = func(args []string) error {
		a, err := HoldAlive(args[0], time.Second)
		if err == nil {
			err = a.Beat(7, 9*time.Second)
		}
		proctest.Say("held", err)
		_, _ = os.Stdin.Read(make([]byte, 1))
		return err
	}
	// settle tells whether the file could be locked as a dead one, and keeps it until its
	// stdin ends.
	proctest.Helpers["settle"] = func(args []string) error {
		release, err := LockDead(args[0])
		proctest.Say("locked", err)
		_, _ = os.Stdin.Read(make([]byte, 1))
		release()
		return err
	}
}

func newAlive(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "alive")
	test.OK(t, CreateAlive(path))
	return path
}

// wantPulse checks the result of a probe, and that the size of the file has not changed.
func wantPulse(t *testing.T, path string, want Pulse) {
	t.Helper()
	got := test.Must(ProbeAlive(path))
	test.Equal(
		t,
		"content and size",
		[]any{got, test.Must(os.Stat(path)).Size()},
		[]any{want, int64(AliveSize)},
	)
}

func wantLocked(t *testing.T, path string, want bool) {
	t.Helper()
	release, err := LockDead(path)
	if want && err != nil || !want && !errors.Is(err, lock.ErrHeld) {
		t.Fatalf("locked as a dead one: %v", err)
	}
	if err == nil {
		release()
	}
}

func TestAliveAcrossProcesses(t *testing.T) {
	before := Monotonic()
	path := newAlive(t)
	if p, err := ProbeAlive(path); err != nil || p.Mono < before || p != (Pulse{Mono: p.Mono}) {
		t.Errorf("before the first heartbeat: %+v, %v, want the time of its creation", p, err)
	}
	h := proctest.Start(t, nil, "hold", path)
	h.Line("held <nil>")
	wantPulse(t, path, Pulse{Held: true, Beats: 7, Mono: 9 * time.Second})
	wantLocked(t, path, false)
	test.ErrorIs(t, "second worker", test.Err(HoldAlive(path, 30*time.Millisecond)), lock.ErrHeld)
	test.ErrorIs(t, "second creation", CreateAlive(path), fs.ErrExist)
	test.OK(t, h.Cmd.Process.Kill())
	_ = h.Cmd.Wait()
	wantPulse(t, path, Pulse{Beats: 7, Mono: 9 * time.Second})
}

func TestAliveMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "alive")
	p, err := ProbeAlive(path)
	test.Equal(t, "missing file", []any{err, p}, []any{nil, Pulse{Missing: true}})
	test.ErrorIs(t, "hold", test.Err(HoldAlive(path, time.Second)), fs.ErrNotExist)
	test.ErrorIs(t, "note", NoteUnstarted(path, "disk_full"), fs.ErrNotExist)
	wantLocked(t, path, true)
	test.ErrorIs(t, "the file, which is not created", test.Err(os.Stat(path)), fs.ErrNotExist)
	// A path through a file is neither there nor missing.
	test.Equal(
		t,
		"an error is returned",
		test.Err(ProbeAlive(filepath.Join(newAlive(t), "alive"))) != nil,
		true,
	)
}

func TestProbesAreWaitedFor(t *testing.T) {
	path := newAlive(t)
	probing := func(length time.Duration) *os.File {
		f := test.Must(os.Open(path))
		test.OK(t, lock.Try(f, lock.Shared, 0))
		time.AfterFunc(length, func() { f.Close() })
		return f
	}
	probing(50 * time.Millisecond)
	a := test.Must(HoldAlive(path, test.Patience()))
	test.OK(t, a.Close())
	// a busy machine may keep the probe for longer than it waits
	test.Until(t, "LockDead to outlast a probe", func() bool {
		probing(30 * time.Millisecond)
		release, err := LockDead(path)
		if err == nil {
			release()
		}
		return err == nil
	})
	f := probing(test.Patience())
	defer f.Close()
	wantLocked(t, path, false)
}

func TestLockDeadExcludesASecondPassAndAWorker(t *testing.T) {
	path := newAlive(t)
	first := proctest.Start(t, nil, "settle", path)
	first.Line("locked <nil>")
	wantLocked(t, path, false)
	test.ErrorIs(t, "a worker that comes late", test.Err(HoldAlive(path, 30*time.Millisecond)), lock.ErrHeld)
	first.Stdin.Close()
	test.OK(t, first.Cmd.Wait())
	wantLocked(t, path, true)
	test.OK(t, test.Must(HoldAlive(path, time.Second)).Close())
}

func TestAliveDamaged(t *testing.T) {
	whole := string(heartbeatLine(12, 34))
	torn := string(faultLine("disk_full"))[:16] + strings.Repeat(" ", AliveSize-17) + "\n"
	for _, line := range []string{"", whole[:30], "1 00000000000000000013" + whole[22:], "hello\n", torn} {
		_, ok := parseAlive(line)
		test.Equal(t, line+": is a pulse", ok, false)
	}
	path := newAlive(t)
	test.OK(t, os.WriteFile(path, []byte(torn), 0o600))
	wantPulse(t, path, Pulse{})
	for _, n := range []int64{12, 1<<63 - 1} {
		p, ok := parseAlive(string(heartbeatLine(n, 34)))
		test.Equal(t, "whole", []any{p, ok}, []any{Pulse{Beats: n, Mono: 34}, true})
	}
}

// A refusal replaces the heartbeat in place.
func TestRefusal(t *testing.T) {
	for _, code := range []string{"disk_full", "state_unusable", strings.Repeat("x", 200)} {
		path := newAlive(t)
		alive := test.Must(HoldAlive(path, time.Second))
		test.OK(t, alive.Beat(7, time.Hour))
		test.OK(t, alive.NoteFault(code))
		test.OK(t, alive.Close())
		wantPulse(t, path, Pulse{Fault: code[:min(len(code), maxCode)]})
		test.OK(t, NoteUnstarted(path, "resource_limit"))
		wantPulse(t, path, Pulse{Fault: "resource_limit"})
	}
}
