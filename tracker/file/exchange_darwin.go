package file

import (
	"context"

	"golang.org/x/sys/unix"
)

// exchange swaps two files. The error wraps errors.ErrUnsupported on file systems that cannot.
func exchange(a, b string) error { return unix.RenamexNp(a, b, unix.RENAME_SWAP) }

// awaitWriters gives a program that opened the file a moment to write it.
func awaitWriters(ctx context.Context, _ string) { sleep(ctx) }
