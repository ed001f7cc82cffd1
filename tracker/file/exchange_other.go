//go:build !linux

package file

import "errors"

// exchange swaps two files.
func exchange(_, _ string) error { return errors.ErrUnsupported }
