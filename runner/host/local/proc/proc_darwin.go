package proc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"golang.org/x/sys/unix"
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

// hasMarker reports which of the processes carry one of the marks, where the system shows their environment.
func (t *table) hasMarker(pids []int, b marker) ([]bool, error) {
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

// Span is a part of a file, its last byte included.
type Span struct{ First, Last uint64 }

// LockHolders finds nothing: this system does not tell who keeps a lock.
func LockHolders([]reconcile.Process, map[string][]Span) ([]reconcile.Process, error) {
	return nil, nil
}

// OwnScope is not possible on macOS, which has no cgroups.
func OwnScope(string) (cgroup string, ok bool) { return "", false }

// killScope has nothing to kill.
func killScope(string) (bool, error) { return false, nil }

// BecomeSubreaper is not possible on macOS: the error is errors.ErrUnsupported.
func BecomeSubreaper() error { return fmt.Errorf("become a subreaper: %w", errors.ErrUnsupported) }

// ShowAs is not needed here: a worker is started by its program's own path.
func ShowAs(string) error { return nil }

// NonDumpable is not possible on macOS: the error is errors.ErrUnsupported.
func NonDumpable() error { return fmt.Errorf("become non-dumpable: %w", errors.ErrUnsupported) }

// Reaper reaps adopted children. On macOS nobody adopts any, so there is none to be had.
type Reaper struct{}

// NewReaper gives errors.ErrUnsupported on macOS.
func NewReaper() (*Reaper, error) { return nil, fmt.Errorf("reaper: %w", errors.ErrUnsupported) }

// Run returns when ctx ends.
func (r *Reaper) Run(ctx context.Context, _ time.Duration, _ func(error)) { <-ctx.Done() }

// Reap finds nothing to reap.
func (r *Reaper) Reap() (int, error) { return 0, nil }

const waitStep = 50 * time.Millisecond

// exitWaiter waits for the end of processes that it has signalled, by looking at them again and again.
type exitWaiter struct{ procs []reconcile.Process }

func (v *exitWaiter) signal(p reconcile.Process, sigs ...unix.Signal) error {
	for _, sig := range sigs {
		if err := Signal(p, sig); err != nil {
			return err
		}
	}
	v.procs = append(v.procs, p)
	return nil
}

func (v *exitWaiter) wait(ctx context.Context) error {
	tick := time.NewTicker(waitStep)
	defer tick.Stop()
	for len(v.procs) > 0 {
		kept := v.procs[:0]
		for _, p := range v.procs {
			if !errors.Is(isProcess(p.PID, p.Start), os.ErrProcessDone) {
				kept = append(kept, p)
			}
		}
		v.procs = kept
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
	return nil
}

func (v *exitWaiter) close() { v.procs = nil }

// watchExit waits for a child in a goroutine of its own and reaps it at once: nothing here can tell that it has
// ended without doing so.
func watchExit(p *os.Process) (*exitWatch, error) {
	w := &exitWatch{process: reconcile.Process{PID: p.Pid}, done: make(chan struct{})}
	if e, err := statOf(p.Pid); err == nil {
		w.process = e.process()
	} else if !errors.Is(err, os.ErrProcessDone) {
		return nil, err
	}
	var state *os.ProcessState
	var err error
	w.reap = func() (*os.ProcessState, error) { return state, err }
	go func() {
		defer close(w.done)
		state, err = p.Wait()
	}()
	return w, nil
}

// Workers is not there: the command lines of others are not read.
func Workers(string) (map[string]FoundWorker, error) { return nil, errors.ErrUnsupported }

// OwnPasses is not there either.
func OwnPasses(string) ([]reconcile.Process, error) { return nil, errors.ErrUnsupported }

// ChildScanner is not to be had on macOS.
type ChildScanner struct{}

// NewChildScanner gives errors.ErrUnsupported on macOS.
func NewChildScanner() (*ChildScanner, error) {
	return nil, fmt.Errorf("children of threads: %w", errors.ErrUnsupported)
}

// NewSince finds nothing.
func (*ChildScanner) NewSince() ([]reconcile.Process, error) { return nil, nil }
