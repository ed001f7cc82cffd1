package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// process is one of this run's.
type process struct {
	pid, parent int
	words       []string
}

func (p process) String() string { return fmt.Sprintf("%d %s", p.pid, strings.Join(p.words, " ")) }

// describe tells what helps to find out whose it is.
func (p process) describe() string {
	cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", p.pid))
	if err != nil {
		cwd = "?"
	}
	mark := "no run's mark"
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
	if err != nil {
		mark = "environment hidden"
	}
	for kv := range strings.SplitSeq(string(environ), "\x00") {
		if strings.HasPrefix(kv, "SYMPHONY_RUN_ID=") {
			mark = kv
		}
	}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.pid))
	if err != nil {
		return err.Error() // the pattern's
	}
	var open []string
	for _, f := range files {
		if to, err := os.Readlink(f); err == nil {
			open = append(open, filepath.Base(to))
		}
	}
	return fmt.Sprintf("%s (child of %d, in %s, %s, open %s)", p, p.parent, cwd, mark, strings.Join(open, " "))
}

// kind is what the killer knows it as; empty: nothing to aim at.
func (p process) kind() string {
	switch {
	case slices.Contains(p.words, "app-server") && slices.Contains(p.words, "demo-agent") && !slices.Contains(p.words, gateCommand):
		return "agent"
	case len(p.words) < 2 || filepath.Base(p.words[0]) != "symphony":
		return ""
	case p.words[1] == "worker":
		return "worker"
	case p.words[1] == "tick" && slices.Contains(p.words, "--loop"):
		return "loop"
	case p.words[1] == "tick":
		return "pass"
	}
	return "operator"
}

// forked reports whether the process has the same arguments as its parent.
func forked(list []process, p process) bool {
	return slices.ContainsFunc(list, func(of process) bool { return of.pid == p.parent && slices.Equal(of.words, p.words) })
}

// run is the run that a worker carries out.
func (p process) run() string {
	if at := slices.Index(p.words, "--run"); at > 0 && at+1 < len(p.words) {
		return p.words[at+1]
	}
	return ""
}

// processes lists those that name the folder of this run in their arguments or have its mark in their environment,
// which a worker hides. Zombies have neither.
func (s *scene) processes() ([]process, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var list []process
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == os.Getpid() {
			continue
		}
		cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || len(cmdline) == 0 {
			continue // ended meanwhile
		}
		if !bytes.Contains(cmdline, []byte(s.dir+"/")) {
			environ, err := os.ReadFile(filepath.Join(dir, "environ"))
			if err != nil || !bytes.Contains(environ, []byte(markName+"="+s.dir)) {
				continue // ended meanwhile, or somebody else's
			}
		}
		list = append(list, process{pid: pid, parent: parent(pid), words: words(cmdline)})
	}
	return list, nil
}

// parent of a process, 0 where it is gone.
func parent(pid int) int {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name in parentheses may hold anything; what follows it is state and parent.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	ppid, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return ppid
}

// errGone: the process ended before it was hit.
var errGone = errors.New("it is gone")

// hold gets a handle of the process that can't become another's.
func (p process) hold() (pidfd int, err error) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return -1, errGone
	}
	if err != nil {
		return -1, fmt.Errorf("%s: %w", p, err)
	}
	// The pid may have become another's between the listing and the handle.
	now, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
	if err != nil || !slices.Equal(words(now), p.words) {
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

// words of a process's arguments.
func words(cmdline []byte) []string {
	return strings.Split(string(bytes.TrimRight(cmdline, "\x00")), "\x00")
}
