package paths

import (
	"errors"

	"golang.org/x/sys/unix"
)

// IsFull reports whether an error is about a full volume or a used-up quota.
func IsFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// MakeRoom returns the next step for an operator whose volume is full. Many small files use up the
// inodes of a volume while it still has space.
func MakeRoom(path string) string {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) == nil && st.Files > 0 && st.Ffree == 0 {
		return "delete files on the volume of " + path + ", which has no inodes left for more (df -i)"
	}
	return "free space on the volume of " + path
}
