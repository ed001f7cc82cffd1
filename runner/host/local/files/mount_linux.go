package files

import (
	"os"

	"golang.org/x/sys/unix"
)

// mountID identifies the mount that an open directory is in; 0 if the kernel does not tell
// (before Linux 5.8).
func mountID(dir *os.File) uint64 {
	var st unix.Statx_t
	err := unix.Statx(int(dir.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st)
	if err != nil || st.Mask&unix.STATX_MNT_ID == 0 {
		return 0
	}
	return st.Mnt_id
}
