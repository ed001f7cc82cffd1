package proc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
)

// Limitations on macOS:
//
//   - There are no pidfds. Signal compares the start time and then uses kill(2): the pid may
//     be reused in between.
//   - The system hides the environment of its own programs (/bin, /usr/bin) even from their
//     user.
//   - The descriptors, sessions, locks and command lines of other processes are not read.
//   - There is no subreaper: launchd adopts orphans, and descent ends there.
//   - A child can't be killed with its parent (killedWithParent).
//   - The memory of a process can't be bounded (RunWithin).
//   - There is no NonDumpable: processes of the same user can read a worker's environment.
//
// A worker there relies on the procs file and on the process groups of its children.

// BootID identifies the boot in which pids and start times are valid: the kernel's session id.
func BootID() (string, error) {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	return id, nil
}

// Monotonic reads CLOCK_UPTIME_RAW: the time since boot without the time spent asleep.
func Monotonic() time.Duration { return readClock(unix.CLOCK_UPTIME_RAW) }

// SinceBoot reads CLOCK_MONOTONIC_RAW, which on macOS goes on while the machine is asleep. Values of the
// same BootID can be compared.
func SinceBoot() time.Duration { return readClock(unix.CLOCK_MONOTONIC_RAW) }

// TempFile opens a file that no longer has a name.
func TempFile() (*os.File, error) {
	f, err := os.CreateTemp("", "symphony-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// SharedFile returns nil: this system provides no files in memory, and data that workers share
// must not be on a disk.
func SharedFile() (*os.File, error) { return nil, nil }

func inheritedMemory(int) *os.File { return nil }

// CheckPidfds succeeds: pidfds are not needed here.
func CheckPidfds() error { return nil }

func checkNumbering() error { return nil }

func Stat(pid int) (Entry, error) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.pid", pid)
	if err != nil {
		return Entry{}, fmt.Errorf("process %d: %w", pid, err)
	}
	if len(list) == 0 {
		return Entry{}, os.ErrProcessDone
	}
	return entryOf(&list[0]), nil
}

// entryOf converts a process. Its start time is on the wall clock, in microseconds.
func entryOf(k *unix.KinfoProc) Entry {
	const stopped, zombie = 4, 5 // SSTOP, SZOMB
	started := k.Proc.P_starttime
	return Entry{
		PID:     int(k.Proc.P_pid),
		Parent:  int(k.Eproc.Ppid),
		Group:   int(k.Eproc.Pgid),
		Start:   uint64(started.Sec)*1_000_000 + uint64(started.Usec),
		Name:    unix.ByteSliceToString(k.Proc.P_comm[:]),
		Dead:    k.Proc.P_stat == zombie,
		stopped: k.Proc.P_stat == stopped,
	}
}

func Scan() ([]Entry, error) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var entries []Entry
	for i := range list {
		if e := entryOf(&list[i]); !e.Dead && e.PID > 0 {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// Descendants lists the living descendants of pid, sorted by pid.
func Descendants(pid int) (below []reconcile.Process, err error) {
	entries, err := Scan()
	parents := map[int]bool{pid: true}
	for added := true; added; {
		added = false
		for _, e := range entries {
			if parents[e.Parent] && !parents[e.PID] {
				parents[e.PID] = true
				added = true
				below = append(below, e.Process())
			}
		}
	}
	slices.SortFunc(below, byPID)
	return below, err
}

// EnvironOf returns the environment that a process of this user was started with; empty if it
// ended or is hidden.
func EnvironOf(pid int) (string, error) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.pid", pid)
	if err != nil || len(list) == 0 || list[0].Eproc.Ucred.Uid != uint32(os.Geteuid()) {
		return "", err
	}
	b, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil || len(b) < 4 {
		return "", nil //nolint:nilerr // it has ended, or is hidden
	}
	// The number of arguments, the program's path, padding, the arguments, the environment.
	_, rest, _ := bytes.Cut(b[4:], []byte{0})
	rest = bytes.TrimLeft(rest, "\x00")
	for range binary.NativeEndian.Uint32(b) {
		_, rest, _ = bytes.Cut(rest, []byte{0})
	}
	return string(rest), nil
}

// Signal sends sig to p if it is still the same process, and returns os.ErrProcessDone if it
// ended, is a zombie or another process. The pid may be reused between the two steps.
func Signal(p reconcile.Process, sig unix.Signal) error {
	if err := errors.Join(checkTarget(p), checkSame(p)); err != nil {
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

// exitStep is how often to check whether a child ended.
const exitStep = 10 * time.Millisecond

// AwaitExit returns when a child ends, without reaping it.
func AwaitExit(pid int) {
	for {
		if e, err := Stat(pid); err != nil || e.Dead {
			return
		}
		time.Sleep(exitStep)
	}
}

const ownDescriptors = "/dev/fd"

// BecomeSubreaper returns errors.ErrUnsupported.
func BecomeSubreaper() error { return fmt.Errorf("become a subreaper: %w", errors.ErrUnsupported) }

// ShowAs does nothing: a worker is started with its program's path as its name.
func ShowAs(string) error { return nil }

// NonDumpable returns errors.ErrUnsupported.
func NonDumpable() error { return fmt.Errorf("become non-dumpable: %w", errors.ErrUnsupported) }

// ReapOrphans does nothing: without a subreaper no process is adopted.
func ReapOrphans(context.Context, time.Duration, func(error)) {}

// Workers returns errors.ErrUnsupported.
func Workers(string) (map[string]FoundWorker, error) { return nil, errors.ErrUnsupported }

// OwnPasses returns errors.ErrUnsupported.
func OwnPasses(string) ([]reconcile.Process, error) { return nil, errors.ErrUnsupported }

func peerPID(socket int) (int, error) {
	return unix.GetsockoptInt(socket, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
}

// limitMemory does nothing: macOS offers no such limit.
func limitMemory(int, uint64) error { return nil }
