package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal and what has been shown on it.
type terminal struct {
	master, slave *os.File
	done          chan struct{} // closed when no process has the terminal open any more
	mu            sync.Mutex
	text          strings.Builder
}

func newTerminal(columns int) (*terminal, error) {
	master, slave, err := openTerminal(columns)
	if err != nil {
		return nil, err
	}
	t := &terminal{master: master, slave: slave, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		_, _ = io.Copy(t, master) // ends with EIO when the last writer has closed the terminal
	}()
	return t, nil
}

// openTerminal makes a pseudo-terminal that changes nothing of what is written to it.
func openTerminal(columns int) (master, slave *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, err
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, nil, err
	}
	if slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	modes, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		return nil, nil, err
	}
	modes.Oflag &^= unix.OPOST
	if err := unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, modes); err != nil {
		return nil, nil, err
	}
	return master, slave, unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: uint16(columns)})
}

func (t *terminal) modes() (*unix.Termios, error) {
	return unix.IoctlGetTermios(int(t.slave.Fd()), unix.TCGETS)
}

// Write implements io.Writer for what the terminal shows.
func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

func (t *terminal) shown() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// prompts reports whether a prompt stands behind the first n bytes shown. A secret's prompt counts once echo is off.
func (t *terminal) prompts(n int) bool {
	text := t.shown()
	if len(text) <= n || !strings.HasSuffix(text, ": ") {
		return false
	}
	modes, err := t.modes()
	return err == nil && (modes.Lflag&unix.ECHO == 0 || !strings.Contains(text[n:], "it is not shown"))
}

// command returns a command of the script whose output goes to the terminal.
func (t *terminal) command(ctx context.Context, ts *testscript.TestScript, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	if path, err := inPath(ts.Getenv("PATH"), args[0]); err == nil {
		cmd.Path, cmd.Err = path, nil
	}
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), scriptEnv(ts), t.slave, t.slave
	return cmd
}

// close waits until no process has the terminal open and returns what it has shown.
func (t *terminal) close(ts *testscript.TestScript) string {
	defer t.master.Close()
	ts.Check(t.slave.Close())
	select {
	case <-t.done:
	case <-time.After(bound):
		ts.Fatalf("a process still has the terminal open")
	}
	return t.shown()
}

// terminalCmd runs a command whose stdout and stderr are a terminal of so many columns; stdout can then be asked about what
// it shows. The exit code is ignored: terminal COLUMNS COMMAND ARG...
func terminalCmd(ts *testscript.TestScript, neg bool, args []string) {
	columns, err := strconv.Atoi(args[0])
	ts.Check(err)
	t, err := newTerminal(columns)
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	_ = t.command(ctx, ts, args[1:]).Run()
	fmt.Fprint(ts.Stdout(), t.close(ts))
}

// typedCmd runs a command on a terminal and types a line at each of its prompts, which end in ": ". The line ^C stands for
// SIGINT. The exit code is ignored; the terminal must be left in the modes it had: typed LINE/LINE... COMMAND ARG...
func typedCmd(ts *testscript.TestScript, neg bool, args []string) {
	t, err := newTerminal(100)
	ts.Check(err)
	before, err := t.modes()
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	cmd := t.command(ctx, ts, args[1:])
	cmd.Stdin = t.slave
	ts.Check(cmd.Start())
	over := make(chan struct{})
	go func() { defer close(over); _ = cmd.Wait() }()
	typed := 0
	for _, line := range strings.Split(args[0], "/") {
		waitFor(ts, "a prompt", func() (bool, string) {
			select {
			case <-over:
				return true, ""
			default:
				return t.prompts(typed), t.shown()
			}
		})
		typed = len(t.shown())
		if line == "^C" {
			ts.Check(cmd.Process.Signal(syscall.SIGINT))
			continue
		}
		_, err := fmt.Fprintln(t.master, line)
		ts.Check(err)
	}
	<-over
	if after, err := t.modes(); err != nil || *after != *before {
		ts.Fatalf("the terminal was %+v and is %+v, %v", before, after, err)
	}
	fmt.Fprint(ts.Stdout(), strings.ReplaceAll(t.close(ts), "\r", ""))
}
