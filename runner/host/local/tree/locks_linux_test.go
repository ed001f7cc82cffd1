package tree

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

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/runner/proc/proctest"
)

func init() {
	proctest.Helpers["locker"] = locker
	proctest.Helpers["contained"] = contained
}

// locker locks a file that it opens for reading, and keeps running. The kinds are whole, bytes
// and open (of the open file); the latter two take the first byte and the number of bytes.
// "left" locks the whole file and leaves the lock to a child, "hidden" forbids others to
// inspect the process, and "lease" takes a lease.
func locker(args []string) error {
	f, err := os.Open(args[1])
	if err != nil {
		return err
	}
	switch args[0] {
	case "lease":
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
	case "hidden":
		err = errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_EX), unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
	case "whole", "left":
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	default:
		span := unix.Flock_t{Type: unix.F_RDLCK}
		span.Start, _ = strconv.ParseInt(args[2], 10, 64)
		span.Len, _ = strconv.ParseInt(args[3], 10, 64)
		err = unix.FcntlFlock(f.Fd(), map[string]int{
			"bytes": unix.F_SETLK,
			"open":  unix.F_OFD_SETLK,
		}[args[0]], &span)
	}
	if err == nil && args[0] == "left" {
		cmd := exec.Command(os.Args[0], proctest.HelperArg, "idle")
		cmd.Stdout = os.Stdout
		cmd.ExtraFiles = []*os.File{f}
		return cmd.Start()
	}
	return errors.Join(err, proctest.Idle(nil))
}

func lockFile(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	test.OK(t, os.WriteFile(path, make([]byte, 256), 0o600))
	return path
}

func TestLockHolders(t *testing.T) {
	whole := lockFile(t, "whole.lock")
	bytes := lockFile(t, "bytes")
	other := lockFile(t, "other")
	own := lockFile(t, "own")
	patterns := map[string][]Span{
		filepath.Dir(whole) + "/*.lock":  nil,
		bytes:                            {{120, 122}},
		filepath.Dir(other) + "/missing": nil,
	}
	lease := test.Must(os.Open(lockFile(t, "lease.lock")))
	defer lease.Close()
	holds := func(p reconcile.Process) bool {
		t.Helper()
		w := &LockWatch{
			Lease: lease,
			Own:   []string{filepath.Dir(own)},
			Files: func() map[string][]Span { return patterns },
		}
		got := test.Must(w.Holders([]reconcile.Process{{PID: os.Getppid()}, p}))
		return len(got) == 1 && got[0] == p
	}
	for _, c := range []struct {
		name string
		args string
		want bool
	}{
		{"the whole file", "whole " + whole, true},
		{"the whole file, left to a child", "left " + whole, true},
		{"a byte that counts", "bytes " + bytes + " 122 1", true},
		{"all bytes", "bytes " + bytes + " 0 0", true},
		{"a byte, by the open file", "open " + bytes + " 120 1", true},
		{"bytes that do not count", "bytes " + bytes + " 123 5", false},
		{"a byte before them", "bytes " + bytes + " 0 120", false},
		{"the bytes of a file where the whole counts", "bytes " + whole + " 0 1", false},
		{"the whole of a file where bytes count", "whole " + bytes, false},
		{"another file", "whole " + other, false},
		{"the whole file, of a process that hides", "hidden " + whole, true},
		{"another file, of a process that hides", "hidden " + other, false},
		{"a lease of any file", "lease " + other, true},
		{"a lease of a file of the run", "lease " + own, false},
	} {
		h := proctest.Start(t, nil, append([]string{"locker"}, strings.Fields(c.args)...)...)
		p := h.Up()
		test.Equal(t, c.name, holds(p), c.want)
		test.OK(t, proc.Signal(p, unix.SIGKILL))
		_ = h.Cmd.Wait()
	}
	// The lease is inherited, and so is, until a child has executed its program, every lock of
	// this process.
	f := test.Must(os.Open(whole))
	defer f.Close()
	patterns[lease.Name()] = nil
	for _, f := range []*os.File{lease, f} {
		test.OK(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
		if p := proctest.StartAs(t, nil, func(c *exec.Cmd) { c.ExtraFiles = []*os.File{f} }, "idle").Up(); holds(
			p,
		) {
			t.Error("found a process that inherited a lock")
		}
	}
}

// A file may get the inode of one that was locked before and then deleted. Here it is the same
// file under another name.
func TestLockOfAnInodeThatIsUsedAgain(t *testing.T) {
	path := lockFile(t, "harmless")
	w := &LockWatch{
		Files: func() map[string][]Span { return map[string][]Span{filepath.Dir(path) + "/*.lock": nil} },
	}
	lockIt := func(file string) (p reconcile.Process, end func()) {
		h := proctest.Start(t, nil, "locker", "whole", file)
		p = h.Up()
		return p, func() {
			test.OK(t, proc.Signal(p, unix.SIGKILL))
			_ = h.Cmd.Wait()
		}
	}
	first, end := lockIt(path)
	test.Equal(t, "holders of a harmless lock", len(test.Must(w.Holders([]reconcile.Process{first}))), 0)
	end()
	test.Equal(t, "holders without a process", len(test.Must(w.Holders(nil))), 0)
	test.OK(t, os.Rename(path, path+".lock"))
	second, end := lockIt(path + ".lock")
	defer end()
	test.Equal(t, "holders of the lock", len(test.Must(w.Holders([]reconcile.Process{second}))), 1)
}

// contained searches for lockers in its own pid namespace.
func contained(args []string) error {
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		proctest.Say("skip", err)
		return nil
	}
	for _, how := range args[1:] {
		cmd := exec.Command(os.Args[0], proctest.HelperArg, "locker", how, args[0], "120", "1")
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
		list, listErr := proc.Descendants(os.Getpid())
		got, lockErr := (&LockWatch{Lease: os.Stdin, Files: func() map[string][]Span {
			return map[string][]Span{args[0]: map[string][]Span{"open": {{120, 122}}}[how]}
		}}).Holders(list)
		proctest.Say(how, len(got), errors.Join(err, listErr, lockErr))
		for _, p := range list {
			_ = unix.Kill(p.PID, unix.SIGKILL) // it is a namespace of its own: they end with us
		}
	}
	return nil
}

// The same works in a container, where /proc/locks omits locks whose creator has ended.
func TestLockHoldersInAContainer(t *testing.T) {
	cmd := exec.CommandContext(
		t.Context(),
		os.Args[0],
		proctest.HelperArg,
		"contained",
		lockFile(t, "file"),
		"whole",
		"left",
		"open",
	)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, unix.EPERM) || strings.HasPrefix(string(out), "skip") {
		t.Skipf("no namespaces here: %v: %s", err, out)
	}
	test.OK(t, err)
	test.Equal(
		t,
		"found",
		strings.Join(strings.Fields(string(out)), " "),
		"whole 1 <nil> left 1 <nil> open 1 <nil>",
	)
}

// The processes that hold a lock are found by its file, whoever they are.
func TestHoldersOf(t *testing.T) {
	path := lockFile(t, "file")
	h := proctest.Start(t, nil, "locker", "lease", path)
	p := h.Up()
	got := test.Must(HoldersOf(path))
	test.Equal(t, "holders", len(got), 1)
	test.Equal(t, "holder", got[0].PID, p.PID)
}
