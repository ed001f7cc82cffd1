package term

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// hideTyped turns off the echo of a terminal, and returns a function that makes the terminal
// as it was.
func hideTyped(fd int) (restore func() error, err error) {
	modes, err := unix.IoctlGetTermios(fd, getModes)
	if err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	before := *modes
	modes.Lflag = modes.Lflag&^unix.ECHO | unix.ICANON | unix.ISIG
	modes.Iflag |= unix.ICRNL
	if err := unix.IoctlSetTermios(fd, setModes, modes); err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	return func() error {
		if err := unix.IoctlSetTermios(fd, setModes, &before); err != nil {
			return fmt.Errorf("terminal: %w", err)
		}
		return nil
	}, nil
}
