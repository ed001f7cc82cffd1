package state

import "golang.org/x/sys/unix"

// networkFilesystem names the file system if it is one whose locks can't be relied on.
func networkFilesystem(st *unix.Statfs_t) string { return filesystemName(int64(st.Type)) } // int32 on some architectures

func filesystemName(kind int64) string {
	const cifs, smb2 = 0xFF534D42, 0xFE534D42
	// Some architectures sign-extend the type.
	switch kind & 0xFFFFFFFF {
	case unix.NFS_SUPER_MAGIC:
		return "NFS"
	case unix.SMB_SUPER_MAGIC, cifs, smb2:
		return "CIFS"
	case unix.V9FS_MAGIC:
		return "9p"
	}
	return ""
}
