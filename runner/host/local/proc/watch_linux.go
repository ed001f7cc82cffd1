package proc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
)

// lock is a lock that was taken through an open file of a process.
type lock struct {
	file        fileID
	flock       bool // of the whole file; else of some of its bytes
	first, last uint64
}

type fileID struct{ dev, inode uint64 }

// Span is a part of a file, its last byte included.
type Span struct{ First, Last uint64 }

// LockWatch finds processes of a run that hold a lock on a file of symphony. Any process that can read a file can lock it.
type LockWatch struct {
	// Lease is inherited by the run's processes, so its lock does not count.
	Lease *os.File
	// Files are patterns (filepath.Glob). With spans, only locks on bytes within them count, otherwise only locks on the whole file (flock).
	Files map[string][]Span

	harmless map[lock]bool // locks on other files that were found before
}

// Holders returns those of the processes that hold such a lock.
func (w *LockWatch) Holders(list []reconcile.Process) (holders []reconcile.Process, err error) {
	if w.harmless == nil {
		info, err := w.Lease.Stat()
		if err != nil {
			return nil, fmt.Errorf("locks: %w", err)
		}
		w.harmless = map[lock]bool{{file: idOf(info), flock: true, last: math.MaxInt64}: true}
	}
	held := map[lock][]reconcile.Process{}
	for _, p := range list {
		for _, l := range locksOf(p.PID) {
			if !w.harmless[l] {
				held[l] = append(held[l], p)
			}
		}
	}
	if len(held) == 0 {
		return nil, nil
	}
	for _, l := range locksOf(os.Getpid()) { // between fork and exec, a child still has this process's descriptors
		delete(held, l)
	}
	for pattern, spans := range w.Files {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("locks: %w", err)
		}
		for _, path := range paths {
			info, err := os.Lstat(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("locks: %w", err)
			}
			for l, by := range held {
				if l.file == idOf(info) && l.within(spans) {
					holders = append(holders, by...)
					delete(held, l)
				}
			}
		}
	}
	for l := range held {
		w.harmless[l] = true
	}
	return holders, nil
}

func idOf(info fs.FileInfo) fileID {
	st := info.Sys().(*syscall.Stat_t)
	return fileID{st.Dev, st.Ino}
}

func (l lock) within(spans []Span) bool {
	if len(spans) == 0 {
		return l.flock
	}
	return !l.flock && slices.ContainsFunc(spans, func(s Span) bool { return l.first <= s.Last && l.last >= s.First })
}

// locksOf lists the locks of a process; none if it has ended or may not be inspected. /proc/locks lists all locks at once, but in a
// container it omits those whose creator has ended, even if another process holds them.
func locksOf(pid int) (locks []lock) {
	descriptors, _ := os.ReadDir(procPath(pid, "fdinfo"))
	for _, d := range descriptors {
		open := procPath(pid, "fd/") + d.Name()
		path, _ := os.Readlink(open)
		if kind, _, _ := strings.Cut(path, ":"); slices.Contains([]string{"socket", "pipe", "anon_inode"}, kind) {
			continue // most descriptors are one of these
		}
		info, _ := read(procPath(pid, "fdinfo/") + d.Name())
		for line := range strings.Lines(string(info)) {
			text, is := strings.CutPrefix(line, "lock:")
			if l, ok := parseLock(text); is && ok {
				if file, err := os.Stat(open); err == nil {
					l.file = idOf(file)
					locks = append(locks, l)
				}
			}
		}
	}
	return locks
}

// parseLock parses "7: FLOCK ADVISORY WRITE 1234 08:01:5678 0 EOF".
func parseLock(line string) (l lock, ok bool) {
	words := strings.Fields(line)
	if len(words) != 8 {
		return l, false
	}
	l.flock, l.last = words[1] == "FLOCK", math.MaxInt64
	_, err := fmt.Sscan(words[6], &l.first)
	if words[7] != "EOF" {
		_, lastErr := fmt.Sscan(words[7], &l.last)
		err = errors.Join(err, lastErr)
	}
	return l, err == nil
}

// BecomeSubreaper makes this process, instead of init, adopt every descendant whose parent ends, so that processes that outlive the
// agent remain descendants of the worker. ReapOrphans must run, too.
func BecomeSubreaper() error {
	return os.NewSyscallError("become a subreaper", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// NonDumpable prevents other processes of this user from reading the memory, environment and descriptors of this process, and from
// attaching to it. An exec resets it, so it does not affect the agent. Every file in /proc/<pid> then belongs to root.
func NonDumpable() error {
	return os.NewSyscallError("become non-dumpable", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}

// ShowAs sets the name of this process in listings, at most 15 bytes. It must be called before NonDumpable, after which the file
// belongs to root.
func ShowAs(name string) error { return os.WriteFile("/proc/self/comm", []byte(name), 0) }

// awaitExit returns when a child has ended, without reaping it.
func awaitExit(pid int) {
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
}

// ReapOrphans reaps adopted children when they end, and at each interval those that were released after their end, until ctx ends. It
// passes errors to report.
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

// reap reaps the adopted children that have ended, and skips the children of os/exec, for which this process waits itself. It
// recognizes those by their pidfds: package os keeps a pidfd of a child until it has waited for it. On systems where package os
// has no pidfds, zombies remain until this process ends, which does no harm.
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

// reapAdopted reaps the zombie pid unless this process waits for it. It opens a pidfd first and reaps through it, so nothing happens
// if the child was reaped in between and its pid reused.
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
	if err != nil || held[pid] != 1 || held[os.Getpid()] == 0 { // one of them is fd
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
