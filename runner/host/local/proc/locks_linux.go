package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
)

// fileLock is one line of /proc/locks, a lock that is held or waited for. The pid is the process that took the lock;
// another process may hold it by now, and of some kinds of lock the kernel knows no process (-1).
type fileLock struct {
	pid         int
	inode       uint64
	flock       bool // of the whole file; else of some of its bytes
	first, last uint64
}

// Span is a part of a file, its last byte included.
type Span struct{ First, Last uint64 }

type fileID struct{ dev, inode uint64 }

// LockHolders returns those of the processes that hold a lock on one of the files, or wait for one: a process that may
// read a file may lock it. For a file with spans, only locks on a byte within one of them count, for the others only locks
// on the whole file (flock).
func LockHolders(list []reconcile.Process, files map[string][]Span) ([]reconcile.Process, error) {
	suspects, err := suspectLocks(list)
	hidden := hidesLocks()
	if err != nil || len(suspects) == 0 && !hidden {
		return nil, err
	}
	wanted, err := identify(files)
	if err != nil {
		return nil, err
	}
	locked := map[fileID]bool{}
	for id, spans := range wanted {
		if slices.ContainsFunc(suspects, func(l fileLock) bool { return l.inode == id.inode && l.within(spans) }) {
			locked[id] = true
		}
	}
	if len(locked) == 0 && !hidden {
		return nil, nil
	}
	ours := map[fileID]bool{} // a fork of this process has our descriptors until its exec
	if hidden {
		anyOpenFile(os.Getpid(), func(id fileID, fd string) bool {
			spans, is := wanted[id]
			ours[id] = ours[id] || is && holdsLock(os.Getpid(), fd, spans)
			return false
		})
	}
	return slices.DeleteFunc(slices.Clone(list), func(p reconcile.Process) bool {
		return !anyOpenFile(p.PID, func(id fileID, fd string) bool {
			spans, is := wanted[id]
			return is && (locked[id] || hidden && !ours[id] && holdsLock(p.PID, fd, spans))
		})
	}), nil
}

// suspectLocks are the locks of the machine that may be held by one of the processes.
func suspectLocks(list []reconcile.Process) (suspects []fileLock, err error) {
	table, err := os.ReadFile("/proc/locks")
	if err != nil {
		return nil, fmt.Errorf("locks of files: %w", err)
	}
	for line := range strings.Lines(string(table)) {
		l, ok := parseLock(line)
		if ok && (l.pid <= 0 || slices.ContainsFunc(list, func(p reconcile.Process) bool { return p.PID == l.pid }) || hasEnded(l.pid)) {
			suspects = append(suspects, l)
		}
	}
	return suspects, nil
}

// hidesLocks reports whether /proc/locks omits locks whose taker is gone, even if another process holds them. Linux does so in every
// pid namespace but the first, and so in containers. There each open file must be asked.
func hidesLocks() bool {
	namespace, err := os.Readlink("/proc/self/ns/pid")
	return err != nil || namespace != firstPIDNamespace
}

// hasEnded reports whether a process has ended, reaped or not.
func hasEnded(pid int) bool {
	e, err := statOf(pid)
	return errors.Is(err, os.ErrProcessDone) || err == nil && e.dead
}

// identify returns the identities of the files that exist.
func identify(files map[string][]Span) (map[fileID][]Span, error) {
	ids := make(map[fileID][]Span, len(files))
	for path, spans := range files {
		var st unix.Stat_t
		err := unix.Lstat(path, &st)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look at %s: %w", path, err)
		}
		ids[fileID{st.Dev, st.Ino}] = spans
	}
	return ids, nil
}

func (l fileLock) within(spans []Span) bool {
	if len(spans) == 0 {
		return l.flock
	}
	return !l.flock && slices.ContainsFunc(spans, func(s Span) bool { return l.first <= s.Last && l.last >= s.First })
}

// anyOpenFile reports whether one of the process's open files satisfies is. A process that is gone or may not be looked
// into has none.
func anyOpenFile(pid int, is func(id fileID, fd string) bool) bool {
	descriptors, err := os.ReadDir(procPath(pid, "fd"))
	return err == nil && slices.ContainsFunc(descriptors, func(d fs.DirEntry) bool {
		var st unix.Stat_t
		err := unix.Stat(procPath(pid, "fd/")+d.Name(), &st)
		return err == nil && is(fileID{st.Dev, st.Ino}, d.Name())
	})
}

// holdsLock reports whether a lock within the spans was taken through an open file of the process.
func holdsLock(pid int, fd string, spans []Span) bool {
	info, err := os.ReadFile(procPath(pid, "fdinfo/") + fd)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(info)) {
		lock, is := strings.CutPrefix(line, "lock:")
		if l, ok := parseLock(lock); is && ok && l.within(spans) {
			return true
		}
	}
	return false
}

// parseLock reads "7: FLOCK ADVISORY WRITE 1234 08:01:5678 0 EOF". An arrow before the kind marks a process that waits.
func parseLock(line string) (l fileLock, ok bool) {
	words := strings.Fields(line)
	if len(words) > 1 && words[1] == "->" {
		words = append(words[:1], words[2:]...)
	}
	if len(words) != 8 {
		return l, false
	}
	id := strings.Split(words[5], ":")
	if len(id) != 3 {
		return l, false
	}
	pid, pidErr := strconv.Atoi(words[4])
	inode, inodeErr := strconv.ParseUint(id[2], 10, 64)
	first, firstErr := strconv.ParseUint(words[6], 10, 64)
	last, lastErr := uint64(math.MaxInt64), error(nil)
	if words[7] != "EOF" {
		last, lastErr = strconv.ParseUint(words[7], 10, 64)
	}
	l = fileLock{pid: pid, inode: inode, flock: words[1] == "FLOCK", first: first, last: last}
	return l, errors.Join(pidErr, inodeErr, firstErr, lastErr) == nil
}
