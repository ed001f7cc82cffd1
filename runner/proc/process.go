package proc

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
)

// Entry is a process as the system lists it.
type Entry struct {
	PID, Parent int
	Group       int // its process group
	Session     int // 0 if the system does not tell
	Start       uint64
	Name        string
	Dead        bool // a zombie, or about to be gone
	stopped     bool // by a signal
	bare        bool // sleeps, with an environment that is empty or may not be inspected
}

// Process identifies the process.
func (e Entry) Process() reconcile.Process {
	return reconcile.Process{PID: e.PID, Start: e.Start, Name: e.Name}
}

// IgnoreLeftover returns the error of a program that has ended, nil if it only left a process behind that
// holds its output open, as ssh and gh's keyring do: Go waits for that until the command's WaitDelay.
func IgnoreLeftover(err error) error {
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	return err
}

// Self returns the handle of this process.
func Self() (reconcile.Handle, error) {
	boot, err := BootID()
	if err != nil {
		return reconcile.Handle{}, err
	}
	e, err := Stat(os.Getpid())
	return reconcile.Handle{Boot: boot, PID: os.Getpid(), Start: e.Start}, err
}

// SameProcess reports whether the process that h names is alive: same boot and pid namespace,
// same pid, same start time, not a zombie. It returns false if it cannot tell, so that the
// process is never signalled.
func SameProcess(h reconcile.Handle) bool {
	boot, err := BootID()
	return err == nil && h.Boot == boot && h.Start != 0 && checkSame(reconcile.Process{
		PID:   h.PID,
		Start: h.Start,
	}) == nil
}

// Stopped reports whether the process that h names is alive, and stopped by a signal.
func Stopped(h reconcile.Handle) bool {
	e, err := Stat(h.PID)
	return err == nil && e.stopped && SameProcess(h)
}

// checkSame returns nil if p is still the same process, and os.ErrProcessDone if it is another
// process or a zombie.
func checkSame(p reconcile.Process) error {
	if p.PID <= 0 {
		return os.ErrProcessDone
	}
	if err := checkNumbering(); err != nil {
		return err
	}
	e, err := Stat(p.PID)
	if err != nil {
		return err
	}
	if e.Dead || e.Start != p.Start {
		return os.ErrProcessDone
	}
	return nil
}

// Ended reports whether a process ended for certain.
func Ended(p reconcile.Process) bool { return errors.Is(checkSame(p), os.ErrProcessDone) }

// checkTarget refuses processes that must never be signalled: init, this process, and
// processes whose start time is not known.
func checkTarget(p reconcile.Process) error {
	if p.PID <= 1 || p.PID == os.Getpid() || p.Start == 0 {
		return fmt.Errorf("process %d must not be signalled", p.PID)
	}
	return nil
}

// Environ returns the environment ("NAME=value" entries) that a process was started with;
// empty if the system does not show it, os.ErrProcessDone if the process ended.
func Environ(p reconcile.Process) ([]string, error) {
	raw, err := EnvironOf(p.PID)
	if err != nil {
		return nil, fmt.Errorf("environment of process %d: %w", p.PID, err)
	}
	// checked after reading, so that it was this process's environment
	if err := checkSame(p); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(
		strings.Split(raw, "\x00"),
		func(e string) bool { return !strings.Contains(e, "=") },
	), nil
}

// FoundWorker is a worker that was found by its command line.
type FoundWorker struct {
	reconcile.Process
	// Workflow is the path of its workflow file.
	Workflow string
}

// SealDescriptors marks every descriptor above 2 close-on-exec, because descriptors inherited
// from cron, a terminal or a test are not marked. Descriptors that a child should inherit are
// passed explicitly.
func SealDescriptors() error {
	names, err := os.ReadDir(ownDescriptors)
	if err != nil {
		return fmt.Errorf("close descriptors to children: %w", err)
	}
	for _, n := range names {
		if fd, err := strconv.Atoi(n.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// CheckLimits returns an error if a limit of this process is too low for a pass, a worker and
// an agent. Otherwise they would fail later, at an arbitrary point.
func CheckLimits() error {
	err := checkLimit(unix.RLIMIT_NOFILE, syscall.EMFILE, "files may be open at once (ulimit -n)")
	if err != nil {
		return err
	}
	isRoot := os.Geteuid() == 0
	if isRoot { // the limit of processes does not apply
		return nil
	}
	return checkLimit(unix.RLIMIT_NPROC, syscall.EAGAIN, "processes and threads may run at once (ulimit -u)")
}

// checkLimit returns an error if a limit is too low. At the limit the system would refuse with
// the error number reached. what says in words what is limited.
func checkLimit(resource int, reached syscall.Errno, what string) error {
	const least = 64
	var limit unix.Rlimit
	if err := unix.Getrlimit(resource, &limit); err != nil {
		return fmt.Errorf("read the limits: %w", err)
	}
	if limit.Cur >= least {
		return nil
	}
	return limitError{
		text:    fmt.Sprintf("only %d %s; at least %d are needed", limit.Cur, what, least),
		reached: reached,
	}
}

// limitError is the error of a limit that is too low. To callers it is the same as the error of
// the system at the limit.
type limitError struct {
	text    string
	reached syscall.Errno
}

func (e limitError) Error() string { return e.text }
func (e limitError) Unwrap() error { return e.reached }

// ThreadsRefused reports whether the log of a Go program shows that it crashed because the
// system refused it a thread.
func ThreadsRefused(log string) bool {
	return strings.Contains(log, "failed to create new OS thread") ||
		strings.Contains(log, "pthread_create failed")
}

func byPID(a, b reconcile.Process) int { return a.PID - b.PID }

// FirstExtra is the descriptor that the first of a command's extra files becomes.
const FirstExtra = 3

// PeerPID returns the process at the other end of a Unix socket.
func PeerPID(conn net.Conn) (pid int, err error) {
	socket, isUnix := conn.(*net.UnixConn)
	if !isUnix {
		return 0, errors.ErrUnsupported
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	controlErr := raw.Control(func(fd uintptr) { pid, err = peerPID(int(fd)) })
	return pid, errors.Join(controlErr, err)
}

// readClock reads a clock that every system of its kind has.
func readClock(id int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		panic(fmt.Sprintf("proc: no clock %d: %v", id, err))
	}
	return time.Duration(ts.Nano())
}
