package proc

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
)

// locksFile lists the locks of all files, those that are waited for included.
const locksFile = "/proc/locks"

// fileLock is one line of it. The pid is that of who took the lock: somebody else may keep it by now, and of some kinds
// of lock the kernel knows nobody (-1).
type fileLock struct {
	pid   int
	inode uint64
	flock bool // of the whole file; else of some of its bytes
	first uint64
	last  uint64
}

// Span is a part of a file, its last byte included.
type Span struct{ First, Last uint64 }

// LockHolders lists those of the processes that keep a lock on one of the files, or wait for one. Whoever may read a file may
// lock it. Of the files with spans only locks on a byte within one of them count, of the others only those of the whole
// file (flock).
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
	ours := map[fileID]bool{} // one that is about to become a program of ours still has them from us
	if hidden {
		anyOpen(os.Getpid(), func(id fileID, fd string) bool {
			spans, is := wanted[id]
			ours[id] = ours[id] || is && holds(os.Getpid(), fd, spans)
			return false
		})
	}
	return slices.DeleteFunc(slices.Clone(list), func(p reconcile.Process) bool {
		return !anyOpen(p.PID, func(id fileID, fd string) bool {
			spans, is := wanted[id]
			return is && (locked[id] || hidden && !ours[id] && holds(p.PID, fd, spans))
		})
	}), nil
}

// suspectLocks are those that may be one of the processes'.
func suspectLocks(list []reconcile.Process) (suspects []fileLock, err error) {
	locks, err := readLocks()
	if err != nil {
		return nil, err
	}
	ours := make(map[int]bool, len(list))
	for _, p := range list {
		ours[p.PID] = true
	}
	for _, l := range locks {
		if ours[l.pid] || l.pid <= 0 || over(l.pid) {
			suspects = append(suspects, l)
		}
	}
	return suspects, nil
}

// hidesLocks reports a system that leaves locks out of the list once who took them is gone, whoever keeps them now: Linux
// does so in every pid namespace but the first, and so in containers. There each open file has to be asked.
func hidesLocks() bool {
	const first = "pid:[4026531836]" // PROC_PID_INIT_INO of its sources
	ns, err := os.Readlink("/proc/self/ns/pid")
	return err != nil || ns != first
}

// over reports whether a process has ended, reaped or not.
func over(pid int) bool {
	e, err := statOf(pid)
	return errors.Is(err, os.ErrProcessDone) || err == nil && e.dead
}

type fileID struct{ dev, inode uint64 }

// identify says which files these are, but for those that are missing.
func identify(files map[string][]Span) (map[fileID][]Span, error) {
	ids := make(map[fileID][]Span, len(files))
	for path, spans := range files {
		var st unix.Stat_t
		_, err := retry(func() (int, error) { return 0, unix.Lstat(path, &st) })
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
	for _, s := range spans {
		if !l.flock && l.first <= s.Last && l.last >= s.First {
			return true
		}
	}
	return false
}

// anyOpen reports whether one of the files that the process has open is as asked for. One that is gone, or may not be
// looked into, has none.
func anyOpen(pid int, is func(id fileID, fd string) bool) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		var st unix.Stat_t
		_, err := retry(func() (int, error) { return 0, unix.Stat(filepath.Join(dir, e.Name()), &st) })
		return err == nil && is(fileID{st.Dev, st.Ino}, e.Name())
	})
}

// holds reports whether a lock that counts was taken by an open file of the process.
func holds(pid int, fd string, spans []Span) bool {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "fdinfo", fd))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		lock, is := strings.CutPrefix(line, "lock:")
		if l, ok := parseLock(lock); is && ok && l.within(spans) {
			return true
		}
	}
	return false
}

func readLocks() ([]fileLock, error) {
	f, err := os.Open(locksFile)
	if err != nil {
		return nil, fmt.Errorf("locks of files: %w", err)
	}
	defer f.Close()
	var locks []fileLock
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if l, ok := parseLock(lines.Text()); ok {
			locks = append(locks, l)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("locks of files: %w", err)
	}
	return locks, nil
}

// parseLock reads "7: FLOCK ADVISORY WRITE 1234 08:01:5678 0 EOF", and the same with an arrow before the kind, which is
// somebody who waits.
func parseLock(line string) (l fileLock, ok bool) {
	words := strings.Fields(line)
	if len(words) > 1 && words[1] == "->" {
		words = append(words[:1], words[2:]...)
	}
	if len(words) != 8 {
		return l, false
	}
	pid, err := strconv.Atoi(words[4])
	_, inode, found := strings.Cut(words[5], ":")
	_, inode, found2 := strings.Cut(inode, ":")
	if err != nil || !found || !found2 {
		return l, false
	}
	l = fileLock{pid: pid, flock: words[1] == "FLOCK", last: 1<<63 - 1}
	if l.inode, err = strconv.ParseUint(inode, 10, 64); err != nil {
		return l, false
	}
	if l.first, err = strconv.ParseUint(words[6], 10, 64); err != nil {
		return l, false
	}
	if words[7] != "EOF" {
		l.last, err = strconv.ParseUint(words[7], 10, 64)
	}
	return l, err == nil
}
