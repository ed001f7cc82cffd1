//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// gateCommand is the word that makes this program the gate.
const gateCommand = "gate"

// entry is a line of the gate's journal: an agent that is about to begin.
type entry struct {
	At        time.Time
	PID       int
	Run       string
	Workspace string
	// Met are the processes that still hold the workspace's gate.
	Met []string
}

// gate becomes the agent, with a lock on its workspace that agent and commands inherit for their whole lives. The
// kernel so tells of two in one workspace, however short they meet.
//
//	gate FOLDER PROGRAM ARGUMENT...
func gate(args []string, errw io.Writer) int {
	err := passGate(args[0], args[1:])
	fmt.Fprintln(errw, "chaos gate:", err)
	return 1
}

func passGate(dir string, argv []string) error {
	cwd, err := os.Getwd()
	if err != nil {
		return err
	}
	e := entry{At: time.Now(), PID: os.Getpid(), Run: os.Getenv("SYMPHONY_RUN_ID"), Workspace: cwd}
	lock := filepath.Join(dir, filepath.Base(cwd)+".lock")
	// Without O_CLOEXEC: the agent is to keep it.
	fd, err := syscall.Open(lock, syscall.O_RDWR|syscall.O_CREAT, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		if e.Met, err = holders(lock); err != nil {
			return err
		}
	}
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, "journal"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(data, '\n')); err != nil {
		return err
	}
	return syscall.Exec(argv[0], argv, os.Environ())
}

// holders are the others that have the file open. There may be none any more.
func holders(path string) ([]string, error) {
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return nil, err
	}
	list := []string{}
	for _, link := range links {
		to, err := os.Readlink(link)
		if err != nil || to != path {
			continue // gone, or not to be read
		}
		pid, err := strconv.Atoi(strings.Split(link, "/")[2])
		if err != nil || pid == os.Getpid() {
			continue
		}
		cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			continue // gone
		}
		if who := fmt.Sprintf("%d %s", pid, strings.Join(stage.Words(cmdline), " ")); !slices.Contains(list, who) {
			list = append(list, who)
		}
	}
	if len(list) == 0 {
		list = append(list, "one that was gone a moment later")
	}
	return list, nil
}

// journal reads what the gate wrote.
func journal(dir string) (list []entry, err error) {
	data, err := os.ReadFile(filepath.Join(dir, "journal"))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(data)) {
		var e entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, fmt.Errorf("the gate's journal: %w: %q", err, line)
		}
		list = append(list, e)
	}
	return list, nil
}
