package proc

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
)

func init() {
	helpers["locker"] = locker
	helpers["contained"] = contained
	helpers["waiter"] = func(args []string) int { sayUp(); return locker(args) }
}

// locker takes a lock on a file that it opens for reading and stays: whole, bytes or open (of the open file), the latter
// two with the first byte and how many. "left" takes the whole file and leaves the lock to a child.
func locker(args []string) int {
	f, err := os.Open(args[1])
	if err == nil {
		switch args[0] {
		case "whole", "left":
			err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		default:
			span := unix.Flock_t{Type: unix.F_RDLCK}
			span.Start, _ = strconv.ParseInt(args[2], 10, 64)
			span.Len, _ = strconv.ParseInt(args[3], 10, 64)
			how := map[string]int{"bytes": unix.F_SETLK, "open": unix.F_OFD_SETLK}[args[0]]
			err = unix.FcntlFlock(f.Fd(), how, &span)
		}
	}
	if err == nil && args[0] == "left" {
		cmd := exec.Command(os.Args[0], helperArg, "idle")
		cmd.Stdout, cmd.ExtraFiles = os.Stdout, []*os.File{f}
		if err = cmd.Start(); err == nil {
			return 0
		}
	}
	if err != nil {
		say("error", err)
		return 1
	}
	return idle(nil)
}

func TestLockHolders(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string {
		p := filepath.Join(dir, name)
		must(t, os.WriteFile(p, make([]byte, 256), 0o600))
		return p
	}
	whole, left, bytes, open, other := path("whole"), path("left"), path("bytes"), path("open"), path("other")
	files := map[string][]Span{
		whole: nil, left: nil, bytes: {{120, 122}}, open: {{120, 122}}, filepath.Join(dir, "missing"): nil,
	}
	found := func(of ...reconcile.Process) map[int]bool {
		t.Helper()
		got, err := LockHolders(of, files)
		must(t, err)
		return pids(got)
	}
	for _, c := range []struct {
		name   string
		args   []string
		locker bool
	}{
		{"the whole file", []string{"whole", whole}, true},
		{"a byte that counts", []string{"bytes", bytes, "122", "1"}, true},
		{"all bytes", []string{"bytes", bytes, "0", "0"}, true},
		{"bytes that do not count", []string{"bytes", bytes, "123", "5"}, false},
		{"a byte before them", []string{"bytes", bytes, "0", "120"}, false},
		{"a byte, by the open file", []string{"open", open, "120", "1"}, true},
		{"the bytes of a file where the whole counts", []string{"bytes", left, "0", "1"}, false},
		{"the whole of a file where bytes count", []string{"whole", open}, false},
		{"another file", []string{"whole", other}, false},
	} {
		h := start(t, nil, append([]string{"locker"}, c.args...)...)
		p := h.up()
		if got := found(p)[p.PID]; got != c.locker {
			t.Errorf("%s: found: %v", c.name, got)
		}
		if found(reconcile.Process{PID: os.Getpid()})[os.Getpid()] {
			t.Errorf("%s: found a process without the file", c.name)
		}
		if c.name == "the whole file" {
			w := start(t, nil, "waiter", "whole", whole)
			waits := w.up()
			eventually(t, "the waiting process to be found", func() bool { return found(waits)[waits.PID] })
			must(t, unix.Kill(waits.PID, unix.SIGKILL))
		}
		must(t, unix.Kill(p.PID, unix.SIGKILL))
	}
	// A lock that a child holds whose parent took it: the parent is a zombie, then reaped.
	h := start(t, nil, "locker", "left", left)
	p := h.up()
	eventually(t, "the lock of a zombie is found", func() bool { return found(p)[p.PID] })
	must(t, h.cmd.Wait())
	if !found(p)[p.PID] {
		t.Error("a lock of a parent that was reaped: its holder is not found")
	}
	must(t, unix.Kill(p.PID, unix.SIGKILL))
}

// contained looks for lockers in a pid namespace of its own.
func contained(args []string) int {
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		say("skip", err)
		return 0
	}
	ours, err := os.Open(args[0])
	if err != nil {
		say(err)
		return 1
	}
	for _, how := range args[1:] {
		cmd := exec.Command(os.Args[0], helperArg, "locker", how, args[0], "120", "1")
		if how == "inherited" {
			cmd = exec.Command(os.Args[0], helperArg, "idle")
			cmd.ExtraFiles = []*os.File{ours}
			if err := unix.Flock(int(ours.Fd()), unix.LOCK_EX); err != nil {
				say(err)
			}
		}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err == nil {
			_, err = out.Read(make([]byte, 1)) // it or its child has the lock
		}
		if how == "left" && err == nil {
			err = cmd.Wait()
		}
		list, err2 := Descendants(os.Getpid())
		got, err3 := LockHolders(list, map[string][]Span{args[0]: map[string][]Span{"open": {{120, 122}}}[how]})
		say(how, len(got), errors.Join(err, err2, err3))
		for _, p := range list {
			_ = unix.Kill(p.PID, unix.SIGKILL) // it is a namespace of its own: they end with us
		}
	}
	return 0
}

// In a container /proc/locks omits locks whose taker has ended.
func TestLockHoldersInAContainer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, make([]byte, 256), 0o600))
	cmd := exec.CommandContext(t.Context(), os.Args[0], helperArg, "contained", path, "whole", "left", "open", "inherited")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, unix.EPERM) || strings.HasPrefix(string(out), "skip") {
		t.Skipf("no namespaces here: %v: %s", err, out)
	}
	if got := strings.Join(strings.Fields(string(out)), " "); err != nil || got != "whole 1 <nil> left 1 <nil> open 1 <nil> inherited 0 <nil>" {
		t.Errorf("found %q, %v", got, err)
	}
}

func TestParseLock(t *testing.T) {
	for line, want := range map[string]fileLock{
		"7: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF":   {pid: 1234, inode: 5678, flock: true, last: 1<<63 - 1},
		"7: -> POSIX  ADVISORY  READ 9 fe:00:77 120 122":    {pid: 9, inode: 77, first: 120, last: 122},
		"12: OFDLCK ADVISORY  READ -1 00:2a:1 1073741824 5": {pid: -1, inode: 1, first: 1 << 30, last: 5},
	} {
		if got, ok := parseLock(line); !ok || got != want {
			t.Errorf("%s: %+v, %v", line, got, ok)
		}
	}
	for _, line := range []string{"", "7: FLOCK", "7: FLOCK ADVISORY WRITE x 08:01:5678 0 EOF", "7: FLOCK ADVISORY WRITE 1 08:01 0 EOF", "7: FLOCK ADVISORY WRITE 1 08:01:5 0 end"} {
		if got, ok := parseLock(line); ok {
			t.Errorf("%q: %+v", line, got)
		}
	}
}
