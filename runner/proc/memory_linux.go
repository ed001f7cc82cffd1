package proc

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// limitMemory bounds the memory that a process, and processes that it starts from now on, may
// allocate. Files that it only maps to read them do not count: git maps packs of many
// gigabytes.
func limitMemory(pid int, bytes uint64) error {
	limit := unix.Rlimit{Cur: bytes, Max: bytes}
	if err := unix.Prlimit(pid, unix.RLIMIT_DATA, &limit, nil); err != nil {
		return fmt.Errorf("limit the memory of process %d: %w", pid, err)
	}
	return nil
}
