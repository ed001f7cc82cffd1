//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// gateCommand is the argument with which this program runs as the gate: gate FOLDER PROGRAM ARGUMENT...
const gateCommand = "gate"

// entry is a line of the gate's journal: an agent that is about to start.
type entry struct {
	PID            int
	Run, Workspace string
	// Met are the processes that still hold the lock of the workspace.
	Met []string
}

// gate takes a lock of the workspace, writes an entry to the journal and becomes the agent. The agent and its commands inherit
// the lock for life, so the kernel tells of two agents in one workspace however short they meet.
func gate(dir string, argv []string) error {
	cwd, err := os.Getwd()
	if err != nil {
		return err
	}
	e := entry{PID: os.Getpid(), Run: os.Getenv("SYMPHONY_RUN_ID"), Workspace: cwd}
	lock := filepath.Join(dir, filepath.Base(cwd)+".lock")
	fd, err := syscall.Open(lock, syscall.O_RDWR|syscall.O_CREAT, 0o600) // without O_CLOEXEC: the agent inherits it
	if err != nil {
		return err
	}
	if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		e.Met = holders(lock)
	} else if err != nil {
		return err
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

// holders lists the other processes that have the file open.
func holders(path string) (list []string) {
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is right
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || target != path {
			continue // it has ended, or belongs to another user
		}
		pid, err := strconv.Atoi(strings.Split(link, "/")[2])
		if err != nil || pid == os.Getpid() {
			continue
		}
		if cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil {
			list = append(list, stage.Process{PID: pid, Args: stage.Args(cmdline)}.String())
		}
	}
	if len(list) == 0 {
		return []string{"a process that ended meanwhile"}
	}
	return list
}

// journal reads what the gate wrote.
func journal(dir string) (list []entry, err error) {
	data, err := os.ReadFile(filepath.Join(dir, "journal"))
	for line := range strings.Lines(string(data)) {
		var e entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, fmt.Errorf("the gate's journal: %w: %q", err, line)
		}
		list = append(list, e)
	}
	return list, err
}
