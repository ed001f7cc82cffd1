package workspace

import (
	"errors"
	"math"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// FreeBytes returns the free space for unprivileged users on the volume of path, in bytes. If
// path does not exist yet, the nearest existing parent counts. A file system without
// limits (ramfs, some FUSE file systems) reports a size of zero; for it the result is
// math.MaxInt64.
func FreeBytes(path string) (int64, error) {
	var st unix.Statfs_t
	path, _, _ = existing(path) // if Stat can't look, Statfs fails, too
	err := unix.Statfs(path, &st)
	for errors.Is(err, unix.EINTR) {
		err = unix.Statfs(path, &st)
	}
	if err != nil {
		return 0, files.Failed(err, "read the free space of %s", path)
	}
	if st.Blocks == 0 {
		return math.MaxInt64, nil
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}
