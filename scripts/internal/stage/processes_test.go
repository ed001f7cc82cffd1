//go:build linux

package stage

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// A process is found by the folder itself as well as by a path in it, and not by a folder whose
// name only begins the same.
func TestProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "project")
	for argument, want := range map[string]bool{
		dir:               true,
		dir + "/state":    true,
		"--dir=" + dir:    true,
		dir + "-2":        false,
		filepath.Dir(dir): false,
	} {
		cmd := exec.Command("sh", "-c", "read line; true", "sh", argument) // until its input ends
		pipe := test.Must(cmd.StdinPipe())
		test.OK(t, cmd.Start())
		isIt := func(p Process) bool { return p.PID == cmd.Process.Pid }
		found := slices.ContainsFunc(test.Must(Processes(dir, "")), isIt)
		test.Equal(t, argument+" is found", found, want)
		test.OK(t, pipe.Close())
		test.OK(t, cmd.Wait())
	}
}
