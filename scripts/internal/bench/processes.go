package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// process is one that a stage has started.
type process struct {
	pid, parent int
	words       []string
}

func (p process) String() string { return fmt.Sprintf("%d %s", p.pid, strings.Join(p.words, " ")) }

// worker reports whether it is symphony's worker.
func (p process) worker() bool { return len(p.words) > 1 && p.words[1] == "worker" }

func (p process) kill() error {
	if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill %s: %w", p, err)
	}
	return nil
}

// processes lists those that name the stage's folder in their arguments: workers and passes name the state
// directory, agents their home. Arguments can be read of every process, also of a worker, which hides the rest.
func (s *stage) processes() ([]process, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	var list []process
	for _, path := range dirs {
		data, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(data, []byte(s.dir+"/")) {
			continue // ended meanwhile, or somebody else's
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return nil, err
		}
		parent, err := status(pid, "PPid")
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, process{pid: pid, parent: parent, words: words(data)})
	}
	return list, nil
}

// strangers are those that are neither a worker nor descend from one: between passes there are none.
func strangers(list []process) (workers int, others []process) {
	byPID := map[int]process{}
	for _, p := range list {
		byPID[p.pid] = p
	}
	for _, p := range list {
		if p.worker() {
			workers++
			continue
		}
		up, known := byPID[p.parent]
		for known && !up.worker() {
			up, known = byPID[up.parent]
		}
		if !known {
			others = append(others, p)
		}
	}
	return workers, others
}

// status reads a number of /proc/PID/status.
func status(pid int, field string) (int, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if name == field {
			return strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		}
	}
	return 0, errors.Join(lines.Err(), fmt.Errorf("process %d: no %s", pid, field))
}
