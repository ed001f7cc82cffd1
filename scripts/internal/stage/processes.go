package stage

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Process is one that a script has to do with.
type Process struct {
	PID, Parent int
	Words       []string
}

// String names it.
func (p Process) String() string { return fmt.Sprintf("%d %s", p.PID, strings.Join(p.Words, " ")) }

// Processes lists those that name the folder in their arguments, which can be read of every process, also of a worker,
// which hides the rest; or that other takes for ours. Zombies have no arguments.
func Processes(dir string, other func(proc string) bool) ([]Process, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var list []Process
	for _, proc := range dirs {
		pid, err := strconv.Atoi(filepath.Base(proc))
		if err != nil || pid == os.Getpid() {
			continue
		}
		cmdline, err := os.ReadFile(filepath.Join(proc, "cmdline"))
		if err != nil || len(cmdline) == 0 {
			continue // ended meanwhile
		}
		if !bytes.Contains(cmdline, []byte(dir+"/")) && !other(proc) {
			continue
		}
		list = append(list, Process{PID: pid, Parent: parent(pid), Words: Words(cmdline)})
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

// Words are a process's arguments.
func Words(cmdline []byte) []string {
	return strings.Split(string(bytes.TrimRight(cmdline, "\x00")), "\x00")
}
