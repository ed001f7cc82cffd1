package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// BecomeSubreaper makes this process, instead of init, adopt every descendant whose parent
// ends, so that processes that outlive the agent remain descendants of the worker. ReapOrphans
// must run, too.
func BecomeSubreaper() error {
	return os.NewSyscallError("become a subreaper", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// NonDumpable prevents other processes of this user from reading the memory, environment and
// descriptors of this process, and from attaching to it. An exec resets it, so it does not
// affect the agent. Every file in /proc/<pid> then belongs to root.
func NonDumpable() error {
	return os.NewSyscallError("become non-dumpable", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}

// ShowAs sets the name of this process in listings, at most 15 bytes. It must be called before
// NonDumpable, after which the file belongs to root.
func ShowAs(name string) error { return os.WriteFile("/proc/self/comm", []byte(name), 0) }

// AwaitExit returns when a child ends, without reaping it.
func AwaitExit(pid int) {
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
}

// ReapOrphans reaps adopted children when they end, and at each interval children that were
// released after their end, until ctx ends. It passes errors to report.
func ReapOrphans(ctx context.Context, interval time.Duration, report func(error)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	defer signal.Stop(ended)
	for {
		if err := reap(); err != nil {
			report(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ended:
		case <-tick.C:
		}
	}
}

// reap reaps the adopted children that ended, and skips the children of os/exec, for which
// this process waits itself. It recognizes them by their pidfds: package os keeps a pidfd of a
// child until it waited for it. On systems where package os uses no pidfds, zombies remain
// until this process ends, which does no harm.
func reap() error {
	var info unix.Siginfo
	if unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) != nil ||
		info.Signo == 0 {
		return nil //nolint:nilerr // there is no child, or none has ended
	}
	var errs []error
	for _, pid := range childrenOf(os.Getpid()) {
		if e, err := Stat(pid); err == nil && e.Dead {
			if err := reapAdopted(pid); !errors.Is(err, os.ErrProcessDone) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// reapAdopted reaps the zombie pid unless this process waits for it. It opens a pidfd first
// and reaps through it, so nothing happens if the child was reaped in between and its pid
// reused.
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
	if err != nil || held[pid] != 1 || held[os.Getpid()] == 0 { // held[pid] counts fd
		return err
	}
	err = unix.Waitid(unix.P_PIDFD, fd, nil, unix.WEXITED|unix.WNOHANG, nil)
	if err != nil && !errors.Is(err, unix.ECHILD) {
		return fmt.Errorf("reap process %d: %w", pid, err)
	}
	return nil
}

// heldPIDs counts the pidfds that this process holds open, by the process they refer to.
func heldPIDs() (map[int]int, error) {
	files, err := filepath.Glob("/proc/self/fdinfo/*")
	held := map[int]int{}
	for _, file := range files {
		info, _ := os.ReadFile(file) // a descriptor that cannot be read was just closed
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
