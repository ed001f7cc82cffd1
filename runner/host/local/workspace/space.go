package workspace

import (
	"errors"
	"math"
	"path/filepath"

	"github.com/symphony-cron/symphony/runner/host/local/files"
	"golang.org/x/sys/unix"
)

// FreeBytes is what an unprivileged user may still write on the volume of path. For a path that does not
// exist yet it is that of the nearest directory above. A file system that counts nothing (ramfs, some of FUSE's) says
// zero of all, and is never full.
func FreeBytes(path string) (int64, error) {
	var st unix.Statfs_t
	for {
		err := files.Retry(func() error { return unix.Statfs(path, &st) })
		if err == nil && st.Blocks == 0 {
			return math.MaxInt64, nil
		}
		if err == nil {
			return int64(st.Bavail) * int64(st.Bsize), nil
		}
		up := filepath.Dir(path)
		if !errors.Is(err, unix.ENOENT) || up == path {
			return 0, files.Failed(err, "ask for the free space of %s", path)
		}
		path = up
	}
}
