package state

import "golang.org/x/sys/unix"

// networkFilesystem returns the name of the file system if it is a network file system, whose
// locks are unreliable.
func networkFilesystem(st *unix.Statfs_t) string {
	name := unix.ByteSliceToString(st.Fstypename[:])
	switch name {
	case "nfs", "smbfs", "webdav", "afpfs":
		return name
	}
	return ""
}
