//go:build linux

package stage

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/runner/proc"
)

// Process is a running process of a project.
type Process struct {
	PID, Parent int
	Args        []string
}

func (p Process) String() string { return fmt.Sprintf("%d %s", p.PID, strings.Join(p.Args, " ")) }

// IsWorker reports whether the process is a worker of symphony.
func (p Process) IsWorker() bool { return len(p.Args) > 1 && p.Args[1] == "worker" }

// Processes lists the processes whose arguments contain the folder or a path in it, or whose
// environment contains mark, if that is not empty. Every user may read the arguments, also of a worker.
// Zombies lack arguments and are left out.
func Processes(dir, mark string) (list []Process, err error) {
	if !filepath.IsAbs(dir) {
		// an empty path would match every process
		return nil, fmt.Errorf("list the processes of %q: not an absolute path", dir)
	}
	entries, err := proc.Scan()
	if err != nil {
		return nil, fmt.Errorf("list the processes of %s: %w", dir, err)
	}
	for _, e := range entries {
		cmdline, err := os.ReadFile(proc.Path(e.PID, "cmdline"))
		if err != nil || len(cmdline) == 0 || e.PID == os.Getpid() {
			continue // it ended, or is this process
		}
		names := bytes.Contains(cmdline, []byte(dir+"/")) || bytes.Contains(cmdline, []byte(dir+"\x00"))
		if names || mark != "" && marked(e.PID, mark) {
			list = append(list, Process{e.PID, e.Parent, Args(cmdline)})
		}
	}
	return list, nil
}

func marked(pid int, mark string) bool {
	environ, err := os.ReadFile(proc.Path(pid, "environ"))
	// else it ended, or belongs to another user
	return err == nil && bytes.Contains(environ, []byte(mark))
}

// Args splits the content of /proc/PID/cmdline.
func Args(cmdline []byte) []string {
	return strings.Split(string(bytes.TrimRight(cmdline, "\x00")), "\x00")
}
