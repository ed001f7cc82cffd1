package proc

import (
	"fmt"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
)

// Environ is the environment ("NAME=value" entries) that a process was started with; empty where the system does not
// show it. os.ErrProcessDone where there is no such process any more.
func Environ(p reconcile.Process) ([]string, error) {
	raw, err := environ(p.PID)
	if err != nil {
		return nil, fmt.Errorf("environment of process %d: %w", p.PID, err)
	}
	// Not before: it was this process's if the process is the same still.
	if err := isProcess(p.PID, p.Start); err != nil {
		return nil, err
	}
	var env []string
	for entry := range strings.SplitSeq(string(raw), "\x00") {
		if strings.Contains(entry, "=") {
			env = append(env, entry)
		}
	}
	return env, nil
}
