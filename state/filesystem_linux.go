package state

import "golang.org/x/sys/unix"

// networkFilesystem returns the name of the file system if it is a network file system, whose
// locks are unreliable.
func networkFilesystem(st *unix.Statfs_t) string {
	return filesystemName(int64(st.Type)) // an int32 on some architectures
}

// filesystemName is networkFilesystem for the type that statfs(2) returns.
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
