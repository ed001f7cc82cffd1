package proc

import (
	"context"
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

// firstPIDNamespace is the link of the machine's own pid namespace, the same on every Linux.
const firstPIDNamespace = "pid:[4026531836]"

// BootID names the boot that pids and start times are valid in: the kernel's boot id and, inside a container, the pid
// namespace ("<boot id>/pid:[4026532…]"). It contains no blanks.
func BootID() (string, error) { return bootID() }

var bootID = sync.OnceValues(func() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
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
})

// Monotonic is CLOCK_MONOTONIC: the time since boot without the time spent suspended. Two values may be compared if
// BootID is the same.
func Monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("proc: no monotonic clock: " + err.Error()) // every Linux has one
	}
	return time.Duration(ts.Nano())
}

// checkNumbering makes sure that /proc numbers processes as kill and fork do here. In a pid namespace that was entered
// without mounting a new /proc, it shows the pids of the outer one, and a signal would hit an unrelated process.
func checkNumbering() error {
	self, err := os.Readlink("/proc/self")
	if err != nil {
		return fmt.Errorf("own process in /proc: %w", err)
	}
	if self != strconv.Itoa(os.Getpid()) {
		return fmt.Errorf("/proc belongs to another pid namespace (it calls this process %s, not %d)", self, os.Getpid())
	}
	return nil
}

func procPath(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// statOf reads /proc/<pid>/stat; os.ErrProcessDone if there is no such process.
func statOf(pid int) (entry, error) {
	b, err := os.ReadFile(procPath(pid, "stat"))
	if gone(err) || err == nil && len(b) == 0 {
		return entry{}, os.ErrProcessDone
	}
	if err != nil {
		return entry{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return parseStat(string(b))
}

const kernelThread = 0x00200000 // PF_KTHREAD

// parseStat reads a line of /proc/<pid>/stat. The name stands in parentheses and may itself contain parentheses, blanks
// and newlines, so the fields are counted from the last parenthesis.
func parseStat(line string) (entry, error) {
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 1 || end < open {
		return entry{}, errors.New("stat without a name")
	}
	fields := strings.Fields(line[end+1:])
	const first = 3 // the number of fields[0] in proc(5)
	if len(fields) <= 22-first {
		return entry{}, fmt.Errorf("stat of process %s is cut off", line[:open])
	}
	var errs []error
	number := func(text string) uint64 {
		text = strings.TrimSpace(text)
		if text == "-1" { // the session of a process that is ending
			return 0
		}
		n, err := strconv.ParseUint(text, 10, 64)
		errs = append(errs, err)
		return n
	}
	e := entry{
		pid: int(number(line[:open])), ppid: int(number(fields[4-first])), session: int(number(fields[6-first])),
		start: number(fields[22-first]), name: line[open+1 : end],
		kernel: number(fields[9-first])&kernelThread != 0,
	}
	// A process whose first thread has ended shows as a zombie while its other threads run on.
	state, threads := fields[0], number(fields[20-first])
	e.dead = state == "X" || state == "x" || state == "Z" && threads <= 1
	if err := errors.Join(errs...); err != nil {
		return entry{}, fmt.Errorf("stat of process %s: %w", line[:open], err)
	}
	return e, nil
}

// gone reports whether err is how /proc and the pidfd calls say that a process has ended.
func gone(err error) bool { return errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) }

// forbidden reports whether err says that a process belongs to another user or may not be looked into.
func forbidden(err error) bool { return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) }

// Signal sends sig to the process p if it still is that process, and returns os.ErrProcessDone if it is gone, a zombie or
// another one. The caller compares the boot (BootID) that p was recorded in.
func Signal(p reconcile.Process, sig unix.Signal) error {
	fd, err := openProcess(p)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return sendSignal(fd, p, sig)
}

// openProcess returns a pidfd of the process p. The descriptor is opened before the start time is compared, so that the
// pid cannot come to mean another process in between.
func openProcess(p reconcile.Process) (int, error) {
	if err := checkTarget(p); err != nil {
		return -1, err
	}
	fd, err := openPIDFD(p.PID)
	if err != nil {
		return -1, err
	}
	if err := checkSame(p.PID, p.Start); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func openPIDFD(pid int) (int, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case gone(err), errors.Is(err, unix.EINVAL): // EINVAL: the number now belongs to a thread of another process
		return -1, os.ErrProcessDone
	case err != nil:
		return -1, fmt.Errorf("pidfd of process %d: %w", pid, err)
	}
	return fd, nil
}

func sendSignal(fd int, p reconcile.Process, sig unix.Signal) error {
	err := unix.PidfdSendSignal(fd, sig, nil, 0)
	if gone(err) {
		return os.ErrProcessDone
	}
	if err != nil {
		return fmt.Errorf("signal %v to process %d (%s): %w", sig, p.PID, p.Name, err)
	}
	return nil
}

// CheckPidfds fails where pidfds cannot be used. No process could be ended safely then, so none may be started: each
// attempt would fail, and the failure would count against its issue.
func CheckPidfds() error {
	self := reconcile.Process{PID: os.Getpid(), Name: "symphony"}
	fd, err := openPIDFD(self.PID)
	if err == nil {
		err = errors.Join(sendSignal(fd, self, 0), unix.Close(fd))
	}
	if errors.Is(err, unix.ENOSYS) || forbidden(err) {
		return &reconcile.Error{
			Code: "system_unsupported", Message: err.Error(), Err: err,
			Hint: "symphony needs Linux 5.3 or later, and in a container rules (seccomp) that allow pidfd_open and pidfd_send_signal",
		}
	}
	return err
}

const (
	maxAwaited = 256 // bounds the open pidfds: further processes are signalled but not waited for
	awaitStep  = 50 * time.Millisecond
)

// exitWaiter waits for the end of processes that it has signalled. The zero value is ready.
type exitWaiter struct{ fds []unix.PollFd }

// signal sends the signals to p and remembers p for wait.
func (w *exitWaiter) signal(p reconcile.Process, sigs ...unix.Signal) error {
	fd, err := openProcess(p)
	if err != nil {
		return err
	}
	for _, sig := range sigs {
		if err := sendSignal(fd, p, sig); err != nil {
			unix.Close(fd)
			return err
		}
	}
	if len(w.fds) == maxAwaited {
		return unix.Close(fd)
	}
	w.fds = append(w.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	return nil
}

// wait returns when all processes have ended (zombies count as ended) or ctx has, which is no error.
func (w *exitWaiter) wait(ctx context.Context) error {
	for len(w.fds) > 0 && ctx.Err() == nil {
		_, err := unix.Poll(w.fds, int(awaitStep.Milliseconds()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for processes: %w", err)
		}
		running := w.fds[:0]
		for _, p := range w.fds {
			if p.Revents == 0 {
				running = append(running, p)
			} else {
				unix.Close(int(p.Fd))
			}
		}
		w.fds = running
	}
	return nil
}

func (w *exitWaiter) close() {
	for _, p := range w.fds {
		unix.Close(int(p.Fd))
	}
	w.fds = nil
}
