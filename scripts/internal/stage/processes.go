package stage

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Process is a running process of a project.
type Process struct {
	PID, Parent int
	Args        []string
}

func (p Process) String() string { return fmt.Sprintf("%d %s", p.PID, strings.Join(p.Args, " ")) }

// IsWorker reports whether the process is a worker of symphony.
func (p Process) IsWorker() bool { return len(p.Args) > 1 && p.Args[1] == "worker" }

// Processes lists the processes whose arguments contain the folder, or whose environment contains mark, if that is not empty.
// Every user may read the arguments, also those of a worker. Zombies have no arguments and are left out.
func Processes(dir, mark string) (list []Process, err error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("list the processes of %q: not an absolute path", dir) // an empty one would match every process
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	for _, proc := range dirs {
		pid, err := strconv.Atoi(filepath.Base(proc))
		if err != nil || pid == os.Getpid() {
			continue
		}
		cmdline, err := os.ReadFile(filepath.Join(proc, "cmdline"))
		if err != nil || len(cmdline) == 0 {
			continue // the process has ended
		}
		if bytes.Contains(cmdline, []byte(dir+"/")) || mark != "" && marked(proc, mark) {
			list = append(list, Process{PID: pid, Parent: parentOf(proc), Args: Args(cmdline)})
		}
	}
	return list, nil
}

func marked(proc, mark string) bool {
	environ, err := os.ReadFile(filepath.Join(proc, "environ"))
	return err == nil && bytes.Contains(environ, []byte(mark)) // else it has ended, or belongs to another user
}

// parentOf returns 0 if the process has ended.
func parentOf(proc string) int {
	data, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return 0
	}
	// The name in parentheses may contain anything; state and parent follow it.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return parent
}

// Args splits the content of /proc/PID/cmdline.
func Args(cmdline []byte) []string {
	return strings.Split(string(bytes.TrimRight(cmdline, "\x00")), "\x00")
}
