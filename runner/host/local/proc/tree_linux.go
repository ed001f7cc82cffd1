package proc

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// deletedSuffix is what the system adds to the path of an open file that has none any more.
const deletedSuffix = " (deleted)"

var treeLink = "/fd/" + strconv.Itoa(TreeFD)

// holdsTree reports whether the process (a name below the directory proc) has the file shown as path open as TreeFD.
// Only that one number is looked at: a whole list of descriptors costs fifty times as much. One that has it elsewhere
// and not there any more is known by its other marks.
//
// The text comes first, since a look at the file itself may hang on a file system that does not answer. It is not
// believed alone: in other mount namespaces the same path is another file.
func holdsTree(proc int, process, path string, buf []byte) (bool, []byte, error) {
	link := process + treeLink
	if max := len(path) + len(deletedSuffix) + 1; cap(buf) < max {
		buf = make([]byte, 0, max)
	}
	n, err := retry(func() (int, error) { return unix.Readlinkat(proc, link, buf[:cap(buf)]) })
	if gone(err) {
		return false, buf, nil // no such descriptor; that the process is gone the next look will tell
	}
	if err != nil {
		return false, buf, err
	}
	rest, same := strings.CutPrefix(string(buf[:n]), path)
	if !same || rest != "" && rest != deletedSuffix {
		return false, buf, nil
	}
	var open, named unix.Stat_t
	if _, err := retry(func() (int, error) { return 0, unix.Fstatat(proc, link, &open, 0) }); err != nil {
		return false, buf, err
	}
	if rest == deletedSuffix {
		return open.Nlink == 0, buf, nil
	}
	_, err = retry(func() (int, error) { return 0, unix.Stat(path, &named) })
	if gone(err) {
		return open.Nlink == 0, buf, nil // removed between the two looks
	}
	if err != nil {
		return false, buf, err
	}
	return open.Dev == named.Dev && open.Ino == named.Ino, buf, nil
}
