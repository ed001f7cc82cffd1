package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// onTerminal runs a program on a terminal until ctx is over, ends it by q, and gives what it took of the processors and
// how long it lasted.
func onTerminal(ctx context.Context, argv, env []string, dir string) (used, lasted time.Duration, err error) {
	ours, theirs, err := openTerminal()
	if err != nil {
		return 0, 0, fmt.Errorf("terminal: %w", err)
	}
	defer ours.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, append(env, "TERM=xterm-256color")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	start := time.Now()
	if err := errors.Join(cmd.Start(), theirs.Close()); err != nil {
		return 0, 0, err
	}
	shown := make(chan []byte, 1)
	go func() {
		var screen bytes.Buffer
		_, _ = screen.ReadFrom(ours) // ends by an error when the program has closed the terminal
		shown <- screen.Bytes()
	}()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
		return 0, 0, fmt.Errorf("%s ended by itself: %w", argv[1], errors.Join(err, fmt.Errorf("%s", <-shown)))
	case <-ctx.Done():
	}
	_, err = ours.WriteString("q")
	select {
	case waitErr := <-ended:
		err = errors.Join(err, waitErr)
	case <-time.After(10 * time.Second):
		err = errors.Join(err, fmt.Errorf("%s does not end by q", argv[1]), cmd.Process.Kill(), <-ended)
	}
	if !bytes.Contains(<-shown, []byte("ABC-50")) {
		err = errors.Join(err, fmt.Errorf("%s has shown nothing", argv[1]))
	}
	if cmd.ProcessState == nil {
		return 0, 0, err
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), time.Since(start), err
}

// openTerminal makes a terminal of the usual size.
func openTerminal() (ours, theirs *os.File, err error) {
	if ours, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	fd := int(ours.Fd())
	err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	number, getErr := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	err = errors.Join(err, getErr, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 160}))
	if err == nil {
		theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		return nil, nil, errors.Join(err, ours.Close())
	}
	return ours, theirs, nil
}
