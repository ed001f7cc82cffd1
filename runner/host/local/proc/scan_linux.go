package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// scanAll lists every process: living ones, zombies and kernel threads, of all users.
func scanAll() ([]entry, error) {
	if err := checkNumbering(); err != nil {
		return nil, err
	}
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var entries []entry
	for _, dir := range dirs {
		pid, err := strconv.Atoi(dir.Name())
		if err != nil {
			continue
		}
		e, err := statOf(pid)
		if errors.Is(err, os.ErrProcessDone) || forbidden(err) { // forbidden: hidden by the mount option hidepid
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list processes: %w", err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// scan lists the living processes of all users, without kernel threads.
func scan() ([]entry, error) {
	entries, err := scanAll()
	return slices.DeleteFunc(entries, func(e entry) bool { return e.kernel || e.dead }), err
}

// scanBelow lists the living processes below pid from the kernel's lists of each thread's children, so that the cost
// depends on their number and not on that of all processes. ok is false where the kernel has no such lists. A process
// that changes its parent at this moment may be missing.
func scanBelow(pid int) (below []entry, ok bool, err error) {
	if _, err := os.Stat("/proc/thread-self/children"); err != nil {
		return nil, false, nil //nolint:nilerr // a kernel without these lists
	}
	if err := checkNumbering(); err != nil {
		return nil, true, err
	}
	seen := map[int]bool{pid: true}
	var errs []error
	for parents := []int{pid}; len(parents) > 0; parents = parents[1:] {
		for _, child := range childrenOf(parents[0]) {
			if seen[child] {
				continue
			}
			seen[child] = true
			switch e, err := statOf(child); {
			case err == nil && !e.dead:
				below, parents = append(below, e), append(parents, child)
			case err != nil && !errors.Is(err, os.ErrProcessDone):
				errs = append(errs, err)
			}
		}
	}
	return below, true, errors.Join(errs...)
}

// childrenOf lists the children of all threads of a process; none if it is gone.
func childrenOf(pid int) (list []int) {
	threads, _ := os.ReadDir(procPath(pid, "task"))
	for _, thread := range threads {
		text, _ := os.ReadFile(filepath.Join(procPath(pid, "task"), thread.Name(), "children"))
		for word := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				list = append(list, child)
			}
		}
	}
	return list
}

// hasMarker reports whether a process has the marker's tree file open as TreeFD or one of its entries in the environment
// that it was started with. Processes of other users and those that may not be looked into have not.
func hasMarker(pid int, m marker) (bool, error) {
	found, err := holdsTree(pid, m.tree)
	if err == nil && !found && len(m.env) > 0 {
		var env []byte
		env, err = environ(pid)
		found = containsEntry(env, m.env)
	}
	if err == nil && found {
		// The directory of a process belongs to its user even if the process is not dumpable.
		var info os.FileInfo
		if info, err = os.Stat(procPath(pid, "")); err == nil {
			found = info.Sys().(*syscall.Stat_t).Uid == uint32(os.Geteuid())
		}
	}
	if gone(err) || forbidden(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("process %d: %w", pid, err)
	}
	return found, nil
}

// deletedSuffix is what the kernel appends to the path of an open file that was removed.
const deletedSuffix = " (deleted)"

// holdsTree reports whether the process has the tree file at path open as TreeFD. Other descriptors are not looked at,
// because listing them costs fifty times as much.
//
// The link is compared before the file, which may be on a file system that does not answer. The link is not enough: in
// another mount namespace the same path is another file.
func holdsTree(pid int, path string) (bool, error) {
	if path == "" {
		return false, nil
	}
	link := procPath(pid, "fd/") + strconv.Itoa(TreeFD)
	target, err := os.Readlink(link)
	if gone(err) {
		return false, nil // the descriptor is not open
	}
	if err != nil {
		return false, err
	}
	suffix, same := strings.CutPrefix(target, path)
	if !same || suffix != "" && suffix != deletedSuffix {
		return false, nil
	}
	var open, named unix.Stat_t
	if err := unix.Stat(link, &open); err != nil {
		return false, err
	}
	if suffix == "" {
		err := unix.Stat(path, &named)
		if err == nil {
			return open.Dev == named.Dev && open.Ino == named.Ino, nil
		}
		if !gone(err) {
			return false, err
		}
	}
	return open.Nlink == 0, nil
}

// worksBelow reports whether the working directory of a process is folder or lies below it. The folder must be a path
// without symlinks. A process that may not be looked into does not count.
func worksBelow(pid int, folder string) (bool, error) {
	dir, err := os.Readlink(procPath(pid, "cwd"))
	if gone(err) || forbidden(err) {
		return false, nil
	}
	return strings.HasPrefix(dir+"/", folder+"/"), err
}

// environ returns the environment that a process was started with; empty if it is gone or may not be looked into.
func environ(pid int) ([]byte, error) {
	raw, err := os.ReadFile(procPath(pid, "environ"))
	if gone(err) || forbidden(err) {
		return nil, nil
	}
	return raw, err
}
