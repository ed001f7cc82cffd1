package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// BecomeSubreaper makes this process, instead of init, the parent of every descendant whose own parent ends (design 8), so
// that a process that the agent leaves behind stays below the worker. Reap must reap those.
func BecomeSubreaper() error {
	return os.NewSyscallError("become a subreaper", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// NonDumpable keeps other processes of this user from reading the memory, the environment and the descriptors of this one
// (design 6), and from attaching to it. It ends with an exec, so it does not reach the agent. Every file in /proc/<pid> then
// belongs to root.
func NonDumpable() error {
	return os.NewSyscallError("become non-dumpable", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}

// ShowAs sets the name, of at most 15 bytes, under which this process is listed. It must come before NonDumpable, after
// which the file belongs to root.
func ShowAs(name string) error { return os.WriteFile("/proc/self/comm", []byte(name), 0) }

// awaitExit returns when a child has ended, without reaping it.
func awaitExit(pid int) {
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
}

// ReapOrphans reaps, at each interval until ctx ends, the adopted children that have ended. Errors go to report.
func ReapOrphans(ctx context.Context, interval time.Duration, report func(error)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := reap(); err != nil {
			report(err)
		}
	}
}

// reap reaps the adopted children that have ended and leaves alone those that this process waits for, the children of
// os/exec. These are recognized by their pidfds: package os keeps a descriptor of a child until it has been waited for. Where it
// keeps none zombies stay until this process ends, which does no harm.
func reap() error {
	var info unix.Siginfo
	if unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) != nil || info.Signo == 0 {
		return nil //nolint:nilerr // there is no child, or none has ended
	}
	var errs []error
	for _, pid := range childrenOf(os.Getpid()) {
		if e, err := statOf(pid); err == nil && e.dead {
			if err := reapAdopted(pid); !errors.Is(err, os.ErrProcessDone) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// reapAdopted reaps the zombie pid unless this process waits for it. The descriptor is opened first, and it is what is
// reaped: if the child was waited for in between and its pid reused, nothing happens.
func reapAdopted(pid int) error {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return fmt.Errorf("reap: %w", err)
	}
	defer func() { _ = self.Release() }()
	fd, err := openPIDFD(pid)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	held, err := heldPIDs()
	if err != nil || held[pid] != 1 || held[os.Getpid()] == 0 { // one is fd
		return err
	}
	err = unix.Waitid(unix.P_PIDFD, fd, nil, unix.WEXITED|unix.WNOHANG, nil)
	if err != nil && !errors.Is(err, unix.ECHILD) {
		return fmt.Errorf("reap process %d: %w", pid, err)
	}
	return nil
}

// heldPIDs counts the pidfds that this process has open, by the process they refer to.
func heldPIDs() (map[int]int, error) {
	files, err := filepath.Glob("/proc/self/fdinfo/*")
	held := map[int]int{}
	for _, file := range files {
		info, _ := os.ReadFile(file) // one that cannot be read was closed meanwhile
		for line := range strings.Lines(string(info)) {
			if rest, ok := strings.CutPrefix(line, "Pid:"); ok { // only pidfds have this line
				if pid, err := strconv.Atoi(strings.TrimSpace(rest)); err == nil {
					held[pid]++
				}
			}
		}
	}
	return held, err
}
