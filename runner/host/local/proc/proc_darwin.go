package proc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
)

// What macOS does worse than Linux:
//
//   - There are no pidfds. Signal compares the start time and then uses kill(2): the pid may change hands in the few
//     microseconds between.
//   - The system hides the environment of its own programs (/bin, /usr/bin) even from their user, so a shell that left
//     its parents is found by the procs file only.
//   - The descriptors and sessions of other processes are not read, and there are no cgroups: no process is found by the
//     tree file, the session or a scope.
//   - There is no subreaper: what a parent leaves goes to launchd, and descent ends there.
//   - There is no NonDumpable: processes of the same user may read a worker's environment.
//   - A child is reaped as soon as it ends, so KillGroup refuses once its leader has ended.
//   - The locks and command lines of other processes are not read.
//
// A worker there relies on the procs file and on the process groups of its children; design 8 is not met in full.

// BootID names the boot that pids and start times are valid in: the kernel's session id.
func BootID() (string, error) {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	return id, nil
}

// Monotonic is CLOCK_UPTIME_RAW: the time since boot without the time spent asleep.
func Monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_UPTIME_RAW, &ts); err != nil {
		panic("proc: no monotonic clock: " + err.Error()) // every macOS has one
	}
	return time.Duration(ts.Nano())
}

// CheckPidfds succeeds: pidfds are not needed here.
func CheckPidfds() error { return nil }

func checkNumbering() error { return nil }

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

// entryOf: the start time is in microseconds of the wall clock as it was then.
func entryOf(k *unix.KinfoProc) entry {
	const zombie = 5 // SZOMB
	started := k.Proc.P_starttime
	return entry{
		pid:   int(k.Proc.P_pid),
		ppid:  int(k.Eproc.Ppid),
		start: uint64(started.Sec)*1_000_000 + uint64(started.Usec),
		name:  unix.ByteSliceToString(k.Proc.P_comm[:]),
		dead:  k.Proc.P_stat == zombie,
	}
}

func scan() ([]entry, error) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var entries []entry
	for i := range list {
		if e := entryOf(&list[i]); !e.dead && e.pid > 0 {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

func scanBelow(int) (below []entry, ok bool, err error) { return nil, false, nil }

func scopeMembers(string) ([]int, error) { return nil, nil }

func killScope(string) (bool, error) { return false, nil }

// OwnScope returns none: there are no cgroups.
func OwnScope(string) (cgroup string, ok bool) { return "", false }

func worksBelow(int, string) (bool, error) { return false, nil }

func hasMarker(pid int, m marker) (bool, error) {
	env, err := environ(pid)
	return containsEntry(env, m.env), err
}

// environ returns the environment that a process of this user was started with; empty if it is gone or hidden.
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
	// The number of arguments, the program's path, padding, the arguments, the environment.
	if len(b) < 4 {
		return nil, nil
	}
	arguments := int(binary.NativeEndian.Uint32(b))
	_, rest, _ := bytes.Cut(b[4:], []byte{0})
	rest = bytes.TrimLeft(rest, "\x00")
	for range arguments {
		_, rest, _ = bytes.Cut(rest, []byte{0})
	}
	return rest, nil
}

// Signal sends sig to the process p if it still is that process, and returns os.ErrProcessDone if it is gone, a zombie or
// another one. The pid may change hands between the two steps.
func Signal(p reconcile.Process, sig unix.Signal) error {
	if err := checkTarget(p); err != nil {
		return err
	}
	if err := checkSame(p.PID, p.Start); err != nil {
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

// exitWaiter waits for the end of processes that it has signalled, by looking at them again and again.
type exitWaiter struct{ procs []reconcile.Process }

func (w *exitWaiter) signal(p reconcile.Process, sigs ...unix.Signal) error {
	for _, sig := range sigs {
		if err := Signal(p, sig); err != nil {
			return err
		}
	}
	w.procs = append(w.procs, p)
	return nil
}

func (w *exitWaiter) wait(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for len(w.procs) > 0 {
		running := w.procs[:0]
		for _, p := range w.procs {
			if !errors.Is(checkSame(p.PID, p.Start), os.ErrProcessDone) {
				running = append(running, p)
			}
		}
		w.procs = running
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
	return nil
}

func (w *exitWaiter) close() { w.procs = nil }

// watchExit waits for a child in a goroutine of its own and reaps it at once: nothing here tells that a child has ended
// without reaping it.
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

// sealDescriptors marks every descriptor above 2 close-on-exec.
func sealDescriptors() error {
	names, err := os.ReadDir("/dev/fd")
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

// BecomeSubreaper returns errors.ErrUnsupported.
func BecomeSubreaper() error { return fmt.Errorf("become a subreaper: %w", errors.ErrUnsupported) }

// ShowAs does nothing: a worker is started by its program's own path.
func ShowAs(string) error { return nil }

// NonDumpable returns errors.ErrUnsupported.
func NonDumpable() error { return fmt.Errorf("become non-dumpable: %w", errors.ErrUnsupported) }

// Reaper reaps adopted children, which do not exist without a subreaper.
type Reaper struct{}

// NewReaper returns errors.ErrUnsupported.
func NewReaper() (*Reaper, error) { return nil, fmt.Errorf("reaper: %w", errors.ErrUnsupported) }

// Run returns when ctx ends.
func (r *Reaper) Run(ctx context.Context, _ time.Duration, _ func(error)) { <-ctx.Done() }

// Reap reaps nothing.
func (r *Reaper) Reap() (int, error) { return 0, nil }

// Span is a part of a file, its last byte included.
type Span struct{ First, Last uint64 }

// LockHolders finds none.
func LockHolders([]reconcile.Process, map[string][]Span) ([]reconcile.Process, error) {
	return nil, nil
}

// Workers returns errors.ErrUnsupported.
func Workers(string) (map[string]FoundWorker, error) { return nil, errors.ErrUnsupported }

// OwnPasses returns errors.ErrUnsupported.
func OwnPasses(string) ([]reconcile.Process, error) { return nil, errors.ErrUnsupported }
