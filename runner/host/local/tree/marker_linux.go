package tree

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/runner/proc"
)

// killedWithParent makes the kernel kill a child when this process ends. Strictly it does when
// the thread that started the child ends; but Go ends only threads that a goroutine was locked
// to.
var killedWithParent = syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

// hasMarker reports whether a process holds the tree file open as TreeFD, or was started with
// any of the entries in its environment. It returns false for processes of other users, who
// can set any marker, and for processes that may not be inspected.
func hasMarker(pid int, entries []string, tree string) (bool, error) {
	found := tree != "" && holdsTree(pid, tree)
	if !found && len(entries) > 0 {
		env, err := proc.EnvironOf(pid)
		if err != nil {
			return false, fmt.Errorf("process %d: %w", pid, err)
		}
		found = containsEntry(env, entries)
	}
	if !found {
		return false, nil
	}
	// The directory in /proc belongs to the process's user even if the process is not
	// dumpable.
	var dir unix.Stat_t
	err := unix.Stat(proc.Path(pid, ""), &dir)
	return err == nil && int(dir.Uid) == os.Geteuid(), nil
}

// holdsTree reports whether the process holds the tree file at path open as TreeFD. The link
// is compared first, because another open file may be on a file system that hangs. In another
// mount namespace the same path is another file.
func holdsTree(pid int, path string) bool {
	link := proc.Path(pid, "fd/") + strconv.Itoa(TreeFD)
	target, err := os.Readlink(link)
	if err != nil {
		return false
	}
	target, deleted := strings.CutSuffix(target, " (deleted)")
	if target != path {
		return false
	}
	if deleted {
		return true
	}
	named, err := os.Stat(path)
	if err != nil { // the file was deleted meanwhile: it can only be the one that was open
		return true
	}
	open, err := os.Stat(link)
	return err == nil && os.SameFile(open, named)
}

// worksBelow reports whether the working directory of a process is folder or inside it. The
// path of folder must not contain symlinks. For a process that may not be inspected it returns
// false.
func worksBelow(pid int, folder string) (bool, error) {
	dir, err := os.Readlink(proc.Path(pid, "cwd"))
	if proc.Gone(err) || proc.Forbidden(err) {
		return false, nil
	}
	return strings.HasPrefix(dir+"/", folder+"/"), err
}
