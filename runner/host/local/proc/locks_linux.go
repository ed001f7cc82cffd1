package proc

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

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

// LockHolders returns those of the processes that hold a lock on a file that one of the patterns (filepath.Glob) names: a
// process that may read a file may lock it. For a pattern with spans, only locks on a byte within one of them count, for the
// others only locks on the whole file (flock). Locks that this process holds too do not count: they were inherited.
func LockHolders(list []reconcile.Process, patterns map[string][]Span) (holders []reconcile.Process, err error) {
	held := map[int][]lock{}
	for _, p := range list {
		if locks := locksOf(p.PID); len(locks) > 0 {
			held[p.PID] = locks
		}
	}
	if len(held) == 0 {
		return nil, nil
	}
	ours := locksOf(os.Getpid())
	wanted := map[fileID][]Span{}
	for pattern, spans := range patterns {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("locks: %w", err)
		}
		for _, path := range paths {
			var st unix.Stat_t
			if err := unix.Lstat(path, &st); err == nil {
				wanted[fileID{st.Dev, st.Ino}] = spans
			} else if !errors.Is(err, unix.ENOENT) {
				return nil, fmt.Errorf("locks: %w", err)
			}
		}
	}
	for _, p := range list {
		if slices.ContainsFunc(held[p.PID], func(l lock) bool {
			spans, is := wanted[l.file]
			return is && l.within(spans) && !slices.ContainsFunc(ours, func(o lock) bool { return o.file == l.file && o.within(spans) })
		}) {
			holders = append(holders, p)
		}
	}
	return holders, nil
}

func (l lock) within(spans []Span) bool {
	if len(spans) == 0 {
		return l.flock
	}
	return !l.flock && slices.ContainsFunc(spans, func(s Span) bool { return l.first <= s.Last && l.last >= s.First })
}

// locksOf lists the locks of a process; none if it is gone or may not be looked into. /proc/locks would tell them at once,
// but omits in a container those whose taker has ended, even if another process holds them.
func locksOf(pid int) (locks []lock) {
	descriptors, _ := os.ReadDir(procPath(pid, "fdinfo"))
	for _, d := range descriptors {
		info, _ := os.ReadFile(procPath(pid, "fdinfo/") + d.Name())
		for line := range strings.Lines(string(info)) {
			text, is := strings.CutPrefix(line, "lock:")
			var st unix.Stat_t
			if l, ok := parseLock(text); is && ok && unix.Stat(procPath(pid, "fd/")+d.Name(), &st) == nil {
				l.file = fileID{st.Dev, st.Ino}
				locks = append(locks, l)
			}
		}
	}
	return locks
}

// parseLock reads "7: FLOCK ADVISORY WRITE 1234 08:01:5678 0 EOF".
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
