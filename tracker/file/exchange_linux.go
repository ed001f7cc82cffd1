package file

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// exchange swaps two files. The error wraps errors.ErrUnsupported on file systems that cannot.
func exchange(a, b string) error {
	err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) {
		return errors.ErrUnsupported
	}
	return err
}

// writeTries is how many pauses a program that opened a file gets to write it.
const writeTries = 50

// awaitWriters waits until no process has the file open for writing: then the system grants a
// lease to read it. If a program keeps the file open, awaitWriters gives up after writeTries
// pauses. Where the system grants no leases there is only a single pause.
func awaitWriters(ctx context.Context, path string) {
	f, err := os.Open(path)
	if err != nil {
		return // the caller will read it
	}
	defer f.Close()
	for range writeTries {
		_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
		if err == nil || !sleep(ctx) || !errors.Is(err, unix.EAGAIN) {
			return
		}
	}
}
