package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
)

// firstPIDNamespace is the inode of the machine's own pid namespace, the same on every Linux.
const firstPIDNamespace = "pid:[4026531836]"

// BootID names what pids and start times are valid within: the kernel's boot id and, inside a container, the
// pid namespace after it ("<boot id>/pid:[4026532…]"). It has no blanks.
func BootID() (string, error) { return bootID() }

// bootID: a process sees neither change.
var bootID = sync.OnceValues(readBootID)

func readBootID() (string, error) {
	const path = "/proc/sys/kernel/random/boot_id"
	b, err := readAt(unix.AT_FDCWD, path, make([]byte, 0, 64), 64)
	if err != nil {
		return "", fmt.Errorf("boot id: %s: %w", path, err)
	}
	boot := strings.TrimSpace(string(b))
	if boot == "" {
		return "", errors.New("boot id: the kernel gave none")
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "", fmt.Errorf("pid namespace: %w", err)
	}
	if namespace != firstPIDNamespace {
		boot += "/" + namespace
	}
	return boot, nil
}

// Monotonic is CLOCK_MONOTONIC: the time since boot without the time spent suspended. Two values may be compared
// where BootID is the same.
func Monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("proc: no monotonic clock: " + err.Error()) // every Linux has one
	}
	return time.Duration(ts.Nano())
}

// StartTime is when the process began, in clock ticks since boot (field 22 of its stat). A process that is gone
// or a zombie gives os.ErrProcessDone.
func StartTime(pid int) (uint64, error) {
	if pid <= 0 {
		return 0, os.ErrProcessDone
	}
	if err := ownProc(); err != nil {
		return 0, err
	}
	e, err := statOf(pid)
	if err != nil {
		return 0, err
	}
	if e.dead {
		return 0, os.ErrProcessDone
	}
	return e.start, nil
}

// ownProc makes sure that /proc numbers processes as kill and fork do here. In a pid namespace entered without
// mounting a new /proc it shows the pids of the outer one, and every number read from it would hit a stranger.
func ownProc() error {
	self, err := os.Readlink("/proc/self")
	if err != nil {
		return fmt.Errorf("own process in /proc: %w", err)
	}
	if self != strconv.Itoa(os.Getpid()) {
		return fmt.Errorf("/proc belongs to another pid namespace (it calls this process %s, not %d)", self, os.Getpid())
	}
	return nil
}

// Signal sends sig to the process p if it still is that process; os.ErrProcessDone if it is gone, a zombie or
// another one. The boot (BootID) that p was recorded in is for the caller to compare.
func Signal(p reconcile.Process, sig unix.Signal) error {
	fd, err := openProcess(p)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return sendSignal(fd, p, sig)
}

// openProcess returns a pidfd of the process p. The descriptor is opened first and the start time compared after
// it, so that the number can't change hands between the two.
func openProcess(p reconcile.Process) (int, error) {
	if err := checkTarget(p); err != nil {
		return -1, err
	}
	fd, err := pidfdOpen(p.PID)
	if err != nil {
		return -1, err
	}
	if err := isProcess(p.PID, p.Start); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func pidfdOpen(pid int) (int, error) {
	fd, err := retry(func() (int, error) { return unix.PidfdOpen(pid, 0) })
	switch {
	case gone(err), errors.Is(err, unix.EINVAL):
		// EINVAL: the number now belongs to a thread of another process.
		return -1, os.ErrProcessDone
	case err != nil:
		return -1, fmt.Errorf("pidfd of process %d: %w", pid, err)
	}
	return fd, nil
}

// CheckPidfds says whether processes can be held fast here. Without that none can be ended safely, and so none is to be
// started: each attempt would fail, and be taken for the fault of its issue.
func CheckPidfds() error {
	self := reconcile.Process{PID: os.Getpid(), Name: "symphony"}
	fd, err := pidfdOpen(self.PID)
	if err == nil {
		err = errors.Join(sendSignal(fd, self, 0), unix.Close(fd))
	}
	if errors.Is(err, unix.ENOSYS) || notOurs(err) {
		return &reconcile.Error{
			Code: "system_unsupported", Message: err.Error(), Err: err,
			Hint: "symphony needs Linux 5.3 or later, and in a container rules (seccomp) that allow pidfd_open and pidfd_send_signal",
		}
	}
	return err
}

func sendSignal(fd int, p reconcile.Process, sig unix.Signal) error {
	_, err := retry(func() (int, error) { return 0, unix.PidfdSendSignal(fd, sig, nil, 0) })
	if gone(err) {
		return os.ErrProcessDone
	}
	if err != nil {
		return fmt.Errorf("signal %v to process %d (%s): %w", sig, p.PID, p.Name, err)
	}
	return nil
}
