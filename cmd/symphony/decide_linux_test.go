package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// typedCmd runs a command on a terminal and types a line at each of its prompts, which end in ": ": typed LINE/LINE...
// COMMAND ARG... The line ^C is SIGINT. What is shown there, echo included, can be asked about with stdout; the
// terminal must be left as it was.
func typedCmd(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || neg {
		ts.Fatalf("usage: typed LINE/LINE... COMMAND ARG...")
	}
	master, slave, err := openTerminal(100)
	ts.Check(err)
	defer master.Close()
	before, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	ts.Check(err)
	var mu sync.Mutex
	var shown strings.Builder
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(writerFunc(func(p []byte) { mu.Lock(); defer mu.Unlock(); shown.Write(p) }), master) // ends when the last writer is gone
	}()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[1], args[2:]...)
	if path, err := inPath(ts.Getenv("PATH"), args[1]); err == nil {
		cmd.Path, cmd.Err = path, nil
	}
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), scriptEnv(ts), slave, slave, slave
	ts.Check(cmd.Start())
	over := make(chan struct{})
	go func() { defer close(over); _ = cmd.Wait() }() // the command says itself what is wrong
	typed := 0
	for _, line := range strings.Split(args[0], "/") {
		waitFor(ts, "a prompt", func() (bool, string) {
			mu.Lock()
			defer mu.Unlock()
			select {
			case <-over:
				return true, ""
			default:
				text := shown.String()
				prompt := len(text) > typed && strings.HasSuffix(text, ": ")
				if prompt {
					typed = len(text)
				}
				return prompt, text
			}
		})
		if line == "^C" {
			ts.Check(cmd.Process.Signal(syscall.SIGINT))
			continue
		}
		_, err := fmt.Fprintln(master, line)
		ts.Check(err)
	}
	<-over
	if after, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS); err != nil || *after != *before {
		ts.Fatalf("the terminal was %+v and is %+v, %v", before, after, err)
	}
	ts.Check(slave.Close())
	select {
	case <-done:
	case <-time.After(bound):
		ts.Fatalf("a process still has the terminal open")
	}
	fmt.Fprint(ts.Stdout(), strings.ReplaceAll(shown.String(), "\r", ""))
}

type writerFunc func(p []byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }
