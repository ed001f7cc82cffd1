//go:build !linux

package paths

import (
	"golang.org/x/sys/unix"
)

// openSearch opens a directory without the right to read it.
const openSearch = 0x40000000

const openDir = openSearch | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// openNoFollow opens a directory. A file or link is not opened: its descriptor is -1.
func openNoFollow(dir int, name string, isDir bool) (fd int, err error) {
	if !isDir {
		return -1, nil
	}
	return unix.Openat(dir, name, openDir, 0)
}

func idOf(st *unix.Stat_t) fileID { return fileID{uint64(st.Dev), st.Ino} }

// There is no file system of processes, and no bind mount.

func isProc(int) bool { return false }

func otherNames(int, string) ([]string, error) { return nil, nil }
