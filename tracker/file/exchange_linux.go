package file

import (
	"errors"

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
