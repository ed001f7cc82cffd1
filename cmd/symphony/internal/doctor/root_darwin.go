package doctor

import "golang.org/x/sys/unix"

// riskyFileSystem names those of other machines; there are none in memory by themselves.
func riskyFileSystem(st *unix.Statfs_t) (name string, lasts bool) {
	switch kind := unix.ByteSliceToString(st.Fstypename[:]); kind {
	case "nfs", "smbfs", "afpfs", "webdav", "macfuse":
		return kind, true
	}
	return "", true
}
