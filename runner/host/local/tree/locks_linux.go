package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/proc"
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
	descriptors, _ := os.ReadDir(proc.Path(pid, "fdinfo"))
	for _, d := range descriptors {
		open := proc.Path(pid, "fd/") + d.Name()
		path, _ := os.Readlink(open)
		if kind, _, _ := strings.Cut(path, ":"); slices.Contains([]string{"socket", "pipe", "anon_inode"}, kind) {
			continue // most descriptors are one of these
		}
		info, _ := proc.Read(proc.Path(pid, "fdinfo/") + d.Name())
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
