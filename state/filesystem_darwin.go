package state

import "golang.org/x/sys/unix"

// networkFilesystem names the file system if it is one whose locks can't be relied on.
func networkFilesystem(st *unix.Statfs_t) string {
	switch name := unix.ByteSliceToString(st.Fstypename[:]); name {
	case "nfs", "smbfs", "webdav", "afpfs":
		return name
	}
	return ""
}
