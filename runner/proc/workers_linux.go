package proc

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
)

// Workers finds this user's workers of a state directory by their command lines, by run id: what is left where the
// database that names them can't be read. Whether one really holds its run is for its alive file to say.
func Workers(stateDir string) (map[string]reconcile.Process, error) {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	found := map[string]reconcile.Process{}
	for _, n := range names {
		pid, err := strconv.Atoi(n.Name())
		if err != nil {
			continue
		}
		start, err := StartTime(pid)
		if err != nil {
			if errors.Is(err, os.ErrProcessDone) {
				continue
			}
			return nil, err
		}
		line, err := os.ReadFile("/proc/" + n.Name() + "/cmdline")
		if err != nil {
			continue // it has ended, or is somebody else's
		}
		if run, dir := workerArguments(strings.Split(string(line), "\x00")); run != "" && dir == stateDir {
			found[run] = reconcile.Process{PID: pid, Start: start, Name: "symphony"}
		}
	}
	return found, nil
}

// workerArguments reads what Local.Start has written.
func workerArguments(args []string) (run, stateDir string) {
	after := func(flag string) string {
		if i := slices.Index(args, flag); i >= 0 && i+1 < len(args) {
			return args[i+1]
		}
		return ""
	}
	if len(args) < 2 || args[1] != "worker" {
		return "", ""
	}
	return after("--run"), after("--state-dir")
}
