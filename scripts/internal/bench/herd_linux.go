//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// herdCommand is the word that makes this program one that runs others and inherits whatever they leave behind, so that
// it can say what all of them together have taken. It has a process of its own for each measurement.
const herdCommand = "herd"

// herdJob is its stdin, as one line. It begins at once and ends with stdin.
type herdJob struct {
	job
	// Every is the time between the starts of passes, 0 for a program that stays.
	Every time.Duration
}

// herdUsage is its stdout.
type herdUsage struct {
	Passes  int
	CPUNS   int64
	PeakKiB int64 // of the largest process
	Err     string
}

func serveHerd(in io.Reader, out io.Writer) int {
	u := herdUsage{}
	if err := u.herd(in); err != nil {
		u.Err = err.Error()
	}
	if err := json.NewEncoder(out).Encode(u); err != nil {
		return 1
	}
	return 0
}

func (u *herdUsage) herd(in io.Reader) error {
	lines := json.NewDecoder(in)
	var j herdJob
	if err := lines.Decode(&j); err != nil {
		return fmt.Errorf("no job: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("subreaper: %w", err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(io.Discard, in) // however it ends, it has ended
	}()
	err := u.run(j, over)
	err = errors.Join(err, reapAll(30*time.Second))
	var all syscall.Rusage
	err = errors.Join(err, syscall.Getrusage(syscall.RUSAGE_CHILDREN, &all))
	u.CPUNS, u.PeakKiB = all.Utime.Nano()+all.Stime.Nano(), all.Maxrss
	return err
}

// run starts the program once, or again and again, and returns when it is over and the last one has ended.
func (u *herdUsage) run(j herdJob, over <-chan struct{}) error {
	next := time.Now()
	for {
		u.Passes++
		cmd := exec.Command(j.Argv[0], j.Argv[1:]...)
		cmd.Env, cmd.Dir, cmd.Stderr = j.Env, j.Dir, os.Stderr
		if err := cmd.Start(); err != nil {
			return err
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		if j.Every == 0 {
			return stay(cmd, ended, over)
		}
		if err := <-ended; err != nil {
			return fmt.Errorf("pass %d: %w", u.Passes, err)
		}
		next = next.Add(j.Every)
		select {
		case <-over:
			return nil
		case <-time.After(time.Until(next)):
			reapSome()
		}
	}
}

// stay ends a program that must not end by itself.
func stay(cmd *exec.Cmd, ended <-chan error, over <-chan struct{}) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return errors.Join(errors.New("the program has ended by itself"), err)
		case <-tick.C:
		case <-over:
			err := cmd.Process.Signal(syscall.SIGTERM)
			select {
			case <-ended: // by the signal or not, it was to end
			case <-time.After(20 * time.Second):
				err = errors.Join(err, errors.New("the program did not end within 20 s of SIGTERM"), cmd.Process.Kill())
				<-ended
			}
			return err
		}
	}
}

// reapSome takes the ends of those that were inherited, while no child of our own is waited for.
func reapSome() {
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != nil || pid <= 0 {
			return
		}
	}
}

// reapAll waits until nothing is left.
func reapAll(bound time.Duration) error {
	for end := time.Now().Add(bound); time.Now().Before(end); {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.ECHILD):
			return nil
		case err != nil && !errors.Is(err, syscall.EINTR):
			return err
		case pid <= 0:
			time.Sleep(10 * time.Millisecond)
		}
	}
	return errors.New("something goes on that the program has left behind")
}
