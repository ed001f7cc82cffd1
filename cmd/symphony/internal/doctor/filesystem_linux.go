package doctor

import "golang.org/x/sys/unix"

// riskyFileSystem names file systems in memory and those of other machines.
func riskyFileSystem(st *unix.Statfs_t) (name string, lasts bool) {
	const cifs, smb2, fuse = 0xFF534D42, 0xFE534D42, 0x65735546
	switch int64(st.Type) & 0xFFFFFFFF { //nolint:unconvert // int32 on some architectures, which sign-extend it
	case unix.TMPFS_MAGIC:
		return "tmpfs", false
	case unix.RAMFS_MAGIC:
		return "ramfs", false
	case unix.NFS_SUPER_MAGIC:
		return "NFS", true
	case unix.SMB_SUPER_MAGIC, cifs, smb2:
		return "CIFS", true
	case unix.V9FS_MAGIC:
		return "9p", true
	case fuse:
		return "a FUSE file system", true
	}
	return "", true
}
