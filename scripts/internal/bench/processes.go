package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// process is one that a stage has started.
type process struct{ stage.Process }

// worker reports whether it is symphony's worker.
func (p process) worker() bool { return len(p.Words) > 1 && p.Words[1] == "worker" }

func (p process) kill() error {
	if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill %s: %w", p, err)
	}
	return nil
}

// processes lists those that name the project's folder in their arguments: workers and passes name the state
// directory, agents their home.
func (s *project) processes() (list []process, err error) {
	found, err := stage.Processes(s.Dir, func(string) bool { return false })
	for _, p := range found {
		list = append(list, process{p})
	}
	return list, err
}

// strangers are those that are neither a worker nor descend from one: between passes there are none.
func strangers(list []process) (workers int, others []process) {
	byPID := map[int]process{}
	for _, p := range list {
		byPID[p.PID] = p
	}
	for _, p := range list {
		if p.worker() {
			workers++
			continue
		}
		up, known := byPID[p.Parent]
		for known && !up.worker() {
			up, known = byPID[up.Parent]
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

// pss is the memory of a process in bytes, of shared pages its part. It can be read of a worker by root only.
func pss(pid int) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if value, found := strings.CutPrefix(line, "Pss:"); found {
			kib, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			return kib * 1024, err
		}
	}
	return 0, fmt.Errorf("process %d: no Pss", pid)
}

// processorTime is what the threads of a process have taken so far, to the nanosecond.
func processorTime(pid int) (sum time.Duration, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(threads) == 0 {
		return 0, errors.Join(err, fmt.Errorf("process %d: no threads", pid))
	}
	for _, path := range threads {
		data, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // a thread that ended meanwhile
		}
		if err != nil {
			return 0, err
		}
		ns, err := strconv.ParseInt(strings.Fields(string(data))[0], 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}

// gone reports whether the error is that of a process that has ended meanwhile.
func gone(err error) bool { return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) }
