package paths

import (
	"errors"

	"golang.org/x/sys/unix"
)

// IsFull reports whether an error says that a volume, or a quota, has no room left.
func IsFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// MakeRoom says what to do about the full volume of a path. A volume with many small files can have
// space, and no inodes.
func MakeRoom(path string) string {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) == nil && st.Files > 0 && st.Ffree == 0 {
		return "delete files on the volume of " + path + ", which has no inodes left for more (df -i)"
	}
	return "free space on the volume of " + path
}
