package paths

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// OpenReal opens an absolute path in which nothing is a link, neither the file nor a directory
// above it. An agent may have replaced a directory by a link since the path was looked up: then
// this fails with ELOOP, and does not open what is there.
func OpenReal(path string, flags int) (*os.File, error) {
	dir, err := unix.Open("/", openDir, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	names := strings.Split(strings.Trim(filepath.Clean(path), "/"), "/")
	for _, name := range names[:len(names)-1] {
		next, err := unix.Openat(dir, name, openDir, 0)
		if errors.Is(err, unix.ENOTDIR) && isLink(dir, name) {
			err = unix.ELOOP // ENOTDIR means elsewhere that nothing is there
		}
		unix.Close(dir)
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		dir = next
	}
	fd, err := unix.Openat(dir, names[len(names)-1], flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	unix.Close(dir)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// isLink reports whether a name in an open directory is a link.
func isLink(dir int, name string) bool {
	var info unix.Stat_t
	err := unix.Fstatat(dir, name, &info, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && info.Mode&unix.S_IFMT == unix.S_IFLNK
}
