package tree

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/proc"
)

// lock is a lock or lease that was taken through an open file of a process.
type lock struct {
	file        fileID
	kind        lockKind
	first, last uint64
}

type lockKind int

const (
	byteLock  lockKind = iota // of some bytes (fcntl)
	wholeLock                 // of the whole file (flock)
	lease                     // programs that open the file must wait for its holder (F_SETLEASE)
)

type fileID struct{ dev, inode uint64 }

// Span is a part of a file, its last byte included.
type Span struct{ First, Last uint64 }

// LockWatch finds processes of a run that keep symphony from its files. Any process that can
// read a file can lock it, and a process of the same account can take a lease, for which every
// open waits up to 45 s.
type LockWatch struct {
	// Lease is inherited by the run's processes, so its lock does not count. Nil if there is
	// none.
	Lease *os.File
	// Own are directories of the run, where it may take leases. Only file servers do so, and
	// tests of such.
	Own []string
	// Files returns patterns (filepath.Glob). With spans, only locks on bytes within them
	// count, otherwise only locks on the whole file (flock). It is called when a process holds
	// a lock that was not found before.
	Files func() map[string][]Span

	harmless map[lock]bool // locks on other files that were found before
}

// systemLocks are the lines of /proc/locks without their numbers: "FLOCK ADVISORY WRITE 1234
// 08:01:5678 0 EOF".
func systemLocks() (lines []string) {
	text, _ := proc.Read("/proc/locks") // some containers have none
	for line := range strings.Lines(string(text)) {
		_, rest, _ := strings.Cut(line, ":")
		lines = append(lines, strings.TrimSpace(rest))
	}
	return lines
}

// Holders returns the processes that hold such a lock.
func (w *LockWatch) Holders(list []reconcile.Process) ([]reconcile.Process, error) {
	held, leaseholders, err := w.newLocks(list)
	if err != nil {
		return nil, fmt.Errorf("locks: %w", err)
	}
	if len(held) == 0 {
		return unique(leaseholders), nil
	}
	// between fork and exec, a child still holds this process's descriptors
	for _, l := range locksOf(os.Getpid()) {
		delete(held, l.lock)
	}
	inTheWay, err := w.inTheWay(held)
	if err != nil {
		return nil, fmt.Errorf("locks: %w", err)
	}
	holders := leaseholders
	if w.harmless == nil {
		w.harmless = map[lock]bool{}
	}
	for l, by := range held {
		if slices.Contains(inTheWay, l) {
			holders = append(holders, by...)
		} else {
			w.harmless[l] = true
		}
	}
	return unique(holders), nil
}

// newLocks returns the locks of processes that were not found before, with their holders, and
// the processes that hold a lease outside of the directories in which they may. It forgets the
// locks that nobody holds any more: their files may be gone, and their inodes may belong to
// other files.
func (w *LockWatch) newLocks(
	list []reconcile.Process,
) (held map[lock][]reconcile.Process, leaseholders []reconcile.Process, err error) {
	own, err := w.ownLock()
	if err != nil {
		return nil, nil, err
	}
	held = map[lock][]reconcile.Process{}
	still := map[lock]bool{}
	for _, p := range list {
		for _, l := range locksOf(p.PID) {
			still[l.lock] = true
			if l.kind == lease && !l.below(p.PID, w.Own) {
				leaseholders = append(leaseholders, p)
				continue
			}
			if l.lock != own && !w.harmless[l.lock] {
				held[l.lock] = append(held[l.lock], p)
			}
		}
	}
	maps.DeleteFunc(w.harmless, func(l lock, _ bool) bool { return !still[l] })
	return held, leaseholders, nil
}

// ownLock returns the lock on the lease of the run; the zero value, which is on no file,
// without a lease.
func (w *LockWatch) ownLock() (lock, error) {
	if w.Lease == nil {
		return lock{}, nil
	}
	info, err := w.Lease.Stat()
	if err != nil {
		return lock{}, err
	}
	return lock{file: idOf(info), kind: wholeLock, last: math.MaxInt64}, nil
}

// inTheWay returns the locks that keep symphony from its files.
func (w *LockWatch) inTheWay(held map[lock][]reconcile.Process) (locks []lock, err error) {
	for pattern, spans := range w.Files() {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			info, err := os.Lstat(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			for l := range held {
				if l.on(idOf(info)) && l.within(spans) {
					locks = append(locks, l)
				}
			}
		}
	}
	return locks, nil
}

// unique returns each process once, in the order of pids.
func unique(list []reconcile.Process) []reconcile.Process {
	slices.SortFunc(list, func(a, b reconcile.Process) int { return cmp.Compare(a.PID, b.PID) })
	return slices.CompactFunc(list, func(a, b reconcile.Process) bool { return a.PID == b.PID })
}

// HoldersOf lists the processes of this account that hold a lock or a lease on a file.
func HoldersOf(path string) (holders []reconcile.Process, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("find who holds the file: %w", err)
	}
	entries, err := proc.Scan()
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.PID == os.Getpid() {
			continue
		}
		if slices.ContainsFunc(locksOf(e.PID), func(l heldLock) bool { return l.on(idOf(info)) }) {
			holders = append(holders, e.Process())
		}
	}
	return holders, nil
}

func idOf(info fs.FileInfo) fileID {
	st := info.Sys().(*syscall.Stat_t)
	return fileID{st.Dev, st.Ino}
}

// on reports whether a lock is on a file. Of a process that can't be inspected, only the inode
// is known.
func (l lock) on(file fileID) bool {
	return l.file.inode == file.inode && (l.file.dev == file.dev || l.file.dev == noDevice)
}

const noDevice = math.MaxUint64

func (l lock) within(spans []Span) bool {
	if len(spans) == 0 {
		return l.kind == wholeLock
	}
	return l.kind == byteLock &&
		slices.ContainsFunc(spans, func(s Span) bool { return l.first <= s.Last && l.last >= s.First })
}

// heldLock is a lock with the descriptor of the process that holds it, empty if that is not
// known.
type heldLock struct {
	lock
	descriptor string
}

// below reports whether the file of a lock is in any of some directories. Its name counts only
// if it leads to the same file here: a process in a namespace of its own can give any file any
// name.
func (l heldLock) below(pid int, dirs []string) bool {
	if l.descriptor == "" {
		return false
	}
	path, err := os.Readlink(proc.Path(pid, "fd/") + l.descriptor)
	if err != nil {
		return false
	}
	info, err := os.Lstat(path)
	return err == nil && l.on(idOf(info)) &&
		slices.ContainsFunc(dirs, func(dir string) bool { return paths.Inside(dir, path) })
}

// locksOf lists the locks of a process; none if it ended. /proc/locks lists all locks at once,
// but in a container it omits locks whose creator ended, even if another process holds them.
// It is the only source for a process that forbade others to inspect it (PR_SET_DUMPABLE).
func locksOf(pid int) (locks []heldLock) {
	descriptors, err := os.ReadDir(proc.Path(pid, "fdinfo"))
	if proc.Forbidden(err) {
		return hiddenLocks(pid)
	}
	for _, d := range descriptors {
		open := proc.Path(pid, "fd/") + d.Name()
		path, _ := os.Readlink(open)
		kind, _, _ := strings.Cut(path, ":")
		if slices.Contains([]string{"socket", "pipe", "anon_inode"}, kind) {
			continue // most descriptors are of these kinds
		}
		info, _ := proc.Read(proc.Path(pid, "fdinfo/") + d.Name())
		for line := range strings.Lines(string(info)) {
			text, isLock := strings.CutPrefix(line, "lock:")
			if !isLock {
				continue
			}
			_, text, _ = strings.Cut(text, ":") // the number
			l, ok := parseLock(text)
			file, err := os.Stat(open)
			if ok && err == nil {
				l.file = idOf(file)
				locks = append(locks, heldLock{l, d.Name()})
			}
		}
	}
	return locks
}

// hiddenLocks lists the locks that a process took itself, by /proc/locks.
func hiddenLocks(pid int) (locks []heldLock) {
	for _, line := range systemLocks() {
		words := strings.Fields(line)
		if len(words) < 5 || words[3] != strconv.Itoa(pid) {
			continue
		}
		l, ok := parseLock(line)
		inode, err := strconv.ParseUint(words[4][strings.LastIndex(words[4], ":")+1:], 10, 64)
		if ok && err == nil {
			l.file = fileID{noDevice, inode}
			locks = append(locks, heldLock{lock: l})
		}
	}
	return locks
}

// parseLock parses "FLOCK ADVISORY WRITE 1234 08:01:5678 0 EOF".
func parseLock(line string) (l lock, ok bool) {
	words := strings.Fields(line)
	if len(words) != 7 {
		return l, false
	}
	l.last = math.MaxInt64
	switch words[0] {
	case "FLOCK":
		l.kind = wholeLock
	case "LEASE", "DELEG":
		l.kind = lease
	}
	_, err := fmt.Sscan(words[5], &l.first)
	if words[6] != "EOF" {
		_, lastErr := fmt.Sscan(words[6], &l.last)
		err = errors.Join(err, lastErr)
	}
	return l, err == nil
}
