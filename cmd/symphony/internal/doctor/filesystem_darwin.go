package doctor

import "golang.org/x/sys/unix"

// riskyFileSystem names file systems of other machines.
func riskyFileSystem(st *unix.Statfs_t) (name string, lasts bool) {
	switch kind := unix.ByteSliceToString(st.Fstypename[:]); kind {
	case "nfs", "smbfs", "afpfs", "webdav", "macfuse":
		return kind, true
	}
	return "", true
}
