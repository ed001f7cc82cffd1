package proc

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// environ is the environment that a process was started with; empty if it is gone or may not be looked into.
func environ(pid int) ([]byte, error) {
	raw, err := readAt(unix.AT_FDCWD, "/proc/"+strconv.Itoa(pid)+"/environ", nil, maxEnviron)
	if gone(err) || notOurs(err) {
		return nil, nil
	}
	return raw, err
}
