package proc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
)

// What is weaker on macOS than on Linux, in this and the other weak files:
//
//   - There are no pidfds. Signal compares the start time and then uses kill(2): between the two, some
//     microseconds, the pid may change hands.
//   - The system hides the environment of its own programs (/bin, /usr/bin) even from their user: their marks
//     are not seen, so a shell that left its parents is found by the procs file only.
//   - The descriptors and sessions of others are not looked at: nothing is found by the tree file or the session.
//   - There is no subreaper: what a parent leaves goes to launchd, and descent ends there.
//   - There is no NonDumpable: processes of the same user may read a worker's environment.
//   - A child is reaped as soon as it ends, so KillGroup refuses once its leader has ended.
//
// A worker there relies on the procs file and on the groups of its children; design 8 is not met in full.

// BootID names what pids and start times are valid within: the session id that the kernel makes at boot.
func BootID() (string, error) {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	return id, nil
}

// CheckPidfds finds nothing to complain of: none are expected here.
func CheckPidfds() error { return nil }

// Monotonic is CLOCK_UPTIME_RAW: the time since boot without the time spent asleep.
func Monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_UPTIME_RAW, &ts); err != nil {
		panic("proc: no monotonic clock: " + err.Error()) // every macOS has one
	}
	return time.Duration(ts.Nano())
}

// StartTime is when the process began, in microseconds of the wall clock as it was then. A process that is gone
// or a zombie gives os.ErrProcessDone.
func StartTime(pid int) (uint64, error) {
	if pid <= 0 {
		return 0, os.ErrProcessDone
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

func statOf(pid int) (entry, error) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.pid", pid)
	if err != nil {
		return entry{}, fmt.Errorf("process %d: %w", pid, err)
	}
	if len(list) == 0 {
		return entry{}, os.ErrProcessDone
	}
	return entryOf(&list[0]), nil
}

const zombieState = 5 // SZOMB

func entryOf(k *unix.KinfoProc) entry {
	started := k.Proc.P_starttime
	return entry{
		pid:   int(k.Proc.P_pid),
		ppid:  int(k.Eproc.Ppid),
		start: uint64(started.Sec)*1_000_000 + uint64(started.Usec),
		name:  unix.ByteSliceToString(k.Proc.P_comm[:]),
		dead:  k.Proc.P_stat == zombieState,
	}
}

// Signal sends sig to the process p if it still is that process; os.ErrProcessDone if it is gone, a zombie or
// another one. It may change hands between the look and the signal.
func Signal(p reconcile.Process, sig unix.Signal) error {
	if err := checkTarget(p); err != nil {
		return err
	}
	if err := isProcess(p.PID, p.Start); err != nil {
		return err
	}
	err := unix.Kill(p.PID, sig)
	if errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	if err != nil {
		return fmt.Errorf("signal %v to process %d (%s): %w", sig, p.PID, p.Name, err)
	}
	return nil
}

// table is one look at all processes.
type table struct{ entries []entry }

func scan() (*table, error) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	t := &table{}
	for i := range list {
		if e := entryOf(&list[i]); !e.dead && e.pid > 0 {
			t.entries = append(t.entries, e)
		}
	}
	return t, nil
}

func (t *table) close() {}

// members is nobody: there are no cgroups.
func (t *table) members(string) ([]int, error) { return nil, nil }

// worksBelow is not asked: sessions are not known.
func (t *table) worksBelow(int, string) (bool, error) { return false, nil }

// wearing reports which of the processes carry one of the marks, where the system shows their environment.
func (t *table) wearing(pids []int, b badge) ([]bool, error) {
	carry := make([]bool, len(pids))
	var errs []error
	for i, pid := range pids {
		env, err := environ(pid)
		errs = append(errs, err)
		carry[i] = carries(env, b.marks)
	}
	return carry, errors.Join(errs...)
}

// environ is the environment that a process of this user was started with; empty if it is gone or hidden.
func environ(pid int) ([]byte, error) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.pid", pid)
	if err != nil || len(list) == 0 || list[0].Eproc.Ucred.Uid != uint32(os.Geteuid()) {
		return nil, err
	}
	b, err := unix.SysctlRaw("kern.procargs2", pid)
	switch {
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ESRCH), errors.Is(err, unix.EPERM), errors.Is(err, unix.EIO):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("environment of process %d: %w", pid, err)
	}
	return environPart(b), nil
}

// environPart cuts the environment out of what kern.procargs2 gives: the number of arguments, the program's path,
// padding, the arguments, the environment.
func environPart(b []byte) []byte {
	if len(b) < 4 {
		return nil
	}
	arguments := int(binary.NativeEndian.Uint32(b))
	_, rest, _ := bytes.Cut(b[4:], []byte{0})
	rest = bytes.TrimLeft(rest, "\x00")
	for range arguments {
		var ok bool
		if _, rest, ok = bytes.Cut(rest, []byte{0}); !ok {
			return nil
		}
	}
	return rest
}

// sealDescriptors marks every descriptor above 2 close-on-exec.
func sealDescriptors() error {
	names, err := os.ReadDir("/dev/fd")
	if err != nil {
		return fmt.Errorf("close descriptors to children: %w", err)
	}
	for _, n := range names {
		var fd int
		if _, err := fmt.Sscan(strings.TrimSpace(n.Name()), &fd); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
