package main

import (
	"fmt"
	"os"
	"syscall"
)

// isJournal reports whether a file is the stream to the journal that systemd says it has given this service: by device and
// inode, for the variable is inherited by programs whose output goes elsewhere.
func isJournal(stream string, file *os.File) bool {
	if stream == "" {
		return false
	}
	info, err := file.Stat()
	if err != nil {
		return false
	}
	is, ok := info.Sys().(*syscall.Stat_t)
	return ok && stream == fmt.Sprintf("%d:%d", is.Dev, is.Ino)
}
