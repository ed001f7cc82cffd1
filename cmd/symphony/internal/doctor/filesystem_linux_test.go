package doctor

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestRiskyFileSystem(t *testing.T) {
	for kind, want := range map[int64]struct {
		name  string
		lasts bool
	}{
		unix.EXT4_SUPER_MAGIC:  {"", true},
		unix.BTRFS_SUPER_MAGIC: {"", true},
		unix.TMPFS_MAGIC:       {"tmpfs", false},
		unix.RAMFS_MAGIC:       {"ramfs", false},
		unix.NFS_SUPER_MAGIC:   {"NFS", true},
		0xFF534D42:             {"CIFS", true},
		unix.V9FS_MAGIC:        {"9p", true},
		0x65735546:             {"a FUSE file system", true},
	} {
		st := unix.Statfs_t{}
		st.Type = kind
		if name, lasts := riskyFileSystem(&st); name != want.name || lasts != want.lasts {
			t.Errorf("%x: %q, %v", kind, name, lasts)
		}
	}
}
