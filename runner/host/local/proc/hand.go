package proc

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// handFD is the descriptor that Detach gives a worker as Spawn.Hand.
const handFD = 4

// Handed takes over the file that a pass has handed to this worker, which must be the one at path: holding it open is
// what it is for, and what the worker starts does not inherit it. It comes before anything else is opened.
func Handed(path string) (*os.File, error) {
	var got, named unix.Stat_t
	if err := unix.Fstat(handFD, &got); err != nil {
		return nil, fmt.Errorf("no %s was handed on: %w", path, err)
	}
	if err := unix.Stat(path, &named); err != nil {
		return nil, fmt.Errorf("%s, which was handed on: %w", path, err)
	}
	if got.Dev != named.Dev || got.Ino != named.Ino {
		return nil, fmt.Errorf("what was handed on is not %s", path)
	}
	unix.CloseOnExec(handFD)
	return os.NewFile(handFD, path), nil
}
