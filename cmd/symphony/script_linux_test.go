package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/power"
)

// systemCommands are those that only this system has.
func systemCommands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"fill": fillCmd, "freeze": freezeCmd, "kept": keptCmd, "nothing-lost": nothingLostCmd, "small-disk": smallDiskCmd, "terminal": terminalCmd, "thaw": thawCmd, "typed": typedCmd,
	}
}

// systemPrograms are those that only this system has.
func systemPrograms() map[string]func() {
	return map[string]func(){"hostile": hostileMain, "power": func() { os.Exit(power.Main(os.Args[1:])) }, "without-namespaces": withoutNamespaces, "without-pidfds": withoutPidfds}
}

// canMount tries it: root in a container often may not.
func canMount() bool {
	dir, err := os.MkdirTemp("", "symphony-mount-")
	if err != nil {
		return false
	}
	defer os.Remove(dir)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		return false
	}
	return syscall.Unmount(dir, 0) == nil
}

// terminalCmd runs a command with a terminal of so many columns as its stdout and stderr: terminal 100 symphony
// ps. What it shows there can be asked about with stdout; whether the command fails is of no interest.
func terminalCmd(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || neg {
		ts.Fatalf("usage: terminal COLUMNS COMMAND ARG...")
	}
	columns, err := strconv.Atoi(args[0])
	ts.Check(err)
	master, slave, err := openTerminal(columns)
	ts.Check(err)
	defer master.Close()
	var out bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(&out, master) // ends with EIO when the last writer is gone
	}()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[1], args[2:]...)
	if path, err := inPath(ts.Getenv("PATH"), args[1]); err == nil {
		cmd.Path, cmd.Err = path, nil
	}
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), scriptEnv(ts), slave, slave
	_ = cmd.Run() // the command says itself what is wrong
	ts.Check(slave.Close())
	select {
	case <-done:
	case <-time.After(bound):
		ts.Fatalf("somebody still has the terminal")
	}
	fmt.Fprint(ts.Stdout(), out.String())
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
	term, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		return nil, nil, err
	}
	term.Oflag &^= unix.OPOST
	if err := unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, term); err != nil {
		return nil, nil, err
	}
	return master, slave, unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: uint16(columns)})
}

// smallDiskCmd mounts a file system of so many kilobytes at a directory, which it makes, until the end of the
// script: small-disk DIR KILOBYTES
func smallDiskCmd(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 || neg {
		ts.Fatalf("usage: small-disk DIR KILOBYTES")
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o700))
	ts.Check(syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+args[1]+"k"))
	ts.Defer(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			ts.Logf("unmount %s: %v", dir, err)
		}
	})
}
