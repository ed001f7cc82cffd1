package term

import (
	"fmt"
	"os"
	"os/signal"

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
	return func() error { return setTerminal(fd, &before) }, nil
}

// setTerminal sets the modes of a terminal, also from the background, where the kernel would stop this
// process for that.
func setTerminal(fd int, modes *unix.Termios) error {
	signal.Ignore(unix.SIGTTOU)
	defer signal.Reset(unix.SIGTTOU)
	if err := unix.IoctlSetTermios(fd, setModes, modes); err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	return nil
}

// KeepTerminal returns a function that makes the terminal as it is now, whatever this process and those
// that it has started did with it. It leaves a terminal alone that another job of the shell has, such as
// an editor while this process is in the background.
func (w *Env) KeepTerminal() (restore func()) {
	in, ok := w.Stdin.(*os.File)
	if !ok {
		return func() {}
	}
	fd := int(in.Fd())
	before, err := unix.IoctlGetTermios(fd, getModes)
	if err != nil { // no terminal
		return func() {}
	}
	return func() {
		now, err := unix.IoctlGetTermios(fd, getModes)
		if err != nil || *now == *before {
			return
		}
		group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		if err == nil && group != unix.Getpgrp() {
			return
		}
		_ = setTerminal(fd, before) // it may be gone
	}
}
