package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// freezer is where the first version of control groups freezes: a process in there takes no signal at all, as one
// that waits for a dead file system does.
const freezer = "/sys/fs/cgroup/freezer"

func canFreeze() bool {
	dir, err := os.MkdirTemp(freezer, "symphony-")
	if err != nil {
		return false
	}
	return os.Remove(dir) == nil
}

// freezeCmd makes the processes of the script whose command line matches immovable, even by SIGKILL, until thaw or
// the end of the script: freeze PATTERN
func freezeCmd(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 || neg {
		ts.Fatalf("usage: freeze PATTERN")
	}
	pids, _ := matching(ts, args[0])
	if len(pids) == 0 {
		ts.Fatalf("no process %s among %v", args[0], ours(ts))
	}
	dir, err := os.MkdirTemp(freezer, "symphony-")
	ts.Check(err)
	ts.Setenv("FROZEN", dir)
	ts.Defer(func() {
		_ = os.WriteFile(filepath.Join(dir, "freezer.state"), []byte("THAWED"), 0o600) // gone, after thaw
		for end := time.Now().Add(bound); os.Remove(dir) != nil && time.Now().Before(end); {
			if _, err := os.Stat(dir); err != nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	for _, pid := range pids {
		ts.Check(os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o600))
	}
	ts.Check(os.WriteFile(filepath.Join(dir, "freezer.state"), []byte("FROZEN"), 0o600))
	waitFor(ts, "frozen", func() (bool, string) {
		state, err := os.ReadFile(filepath.Join(dir, "freezer.state"))
		return err == nil && strings.TrimSpace(string(state)) == "FROZEN", string(state)
	})
}

// thawCmd lets them go on: thaw
func thawCmd(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 0 || neg {
		ts.Fatalf("usage: thaw")
	}
	ts.Check(os.WriteFile(filepath.Join(ts.Getenv("FROZEN"), "freezer.state"), []byte("THAWED"), 0o600))
}
