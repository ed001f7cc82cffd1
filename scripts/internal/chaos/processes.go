//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// process is one of this run's.
type process struct{ stage.Process }

// describe tells what helps to find out whose it is.
func (p process) describe() string {
	cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", p.PID))
	if err != nil {
		cwd = "?"
	}
	mark := "no run's mark"
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
	if err != nil {
		mark = "environment hidden"
	}
	for kv := range strings.SplitSeq(string(environ), "\x00") {
		if strings.HasPrefix(kv, "SYMPHONY_RUN_ID=") {
			mark = kv
		}
	}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.PID))
	if err != nil {
		return err.Error() // the pattern's
	}
	var open []string
	for _, f := range files {
		if to, err := os.Readlink(f); err == nil {
			open = append(open, filepath.Base(to))
		}
	}
	return fmt.Sprintf("%s (child of %d, in %s, %s, open %s)", p, p.Parent, cwd, mark, strings.Join(open, " "))
}

// kind is what the killer knows it as; empty: nothing to aim at.
func (p process) kind() string {
	switch {
	case slices.Contains(p.Words, "app-server") && !slices.Contains(p.Words, gateCommand):
		return "agent"
	case len(p.Words) < 2 || filepath.Base(p.Words[0]) != "symphony":
		return ""
	case p.Words[1] == "worker":
		return "worker"
	case p.Words[1] == "tick" && slices.Contains(p.Words, "--loop"):
		return "loop"
	case p.Words[1] == "tick":
		return "pass"
	}
	return "operator"
}

// forked reports whether the process has the same arguments as its parent.
func forked(list []process, p process) bool {
	return slices.ContainsFunc(list, func(of process) bool { return of.PID == p.Parent && slices.Equal(of.Words, p.Words) })
}

// run is the run that a worker carries out.
func (p process) run() string {
	if at := slices.Index(p.Words, "--run"); at > 0 && at+1 < len(p.Words) {
		return p.Words[at+1]
	}
	return ""
}

// processes lists those that name the folder of this run in their arguments or have its mark in their environment,
// which a worker hides.
func (s *scene) processes() (list []process, err error) {
	found, err := stage.Processes(s.Dir, func(proc string) bool {
		environ, err := os.ReadFile(filepath.Join(proc, "environ"))
		return err == nil && bytes.Contains(environ, []byte(markName+"="+s.Dir)) // else it has ended, or is somebody else's
	})
	for _, p := range found {
		list = append(list, process{p})
	}
	return list, err
}

// errGone: the process ended before it was hit.
var errGone = errors.New("it is gone")

// hold gets a handle of the process that can't become another's.
func (p process) hold() (pidfd int, err error) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return -1, errGone
	}
	if err != nil {
		return -1, fmt.Errorf("%s: %w", p, err)
	}
	// The pid may have become another's between the listing and the handle.
	now, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
	if err != nil || !slices.Equal(stage.Words(now), p.Words) {
		return -1, errors.Join(errGone, unix.Close(fd))
	}
	return fd, nil
}

func send(pidfd int, sig unix.Signal) error {
	err := unix.PidfdSendSignal(pidfd, sig, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return errGone
	}
	return err
}

// kill ends the process for good.
func (p process) kill() error {
	fd, err := p.hold()
	if err == nil {
		err = errors.Join(send(fd, unix.SIGKILL), unix.Close(fd))
	}
	if errors.Is(err, errGone) {
		return nil
	}
	return err
}
