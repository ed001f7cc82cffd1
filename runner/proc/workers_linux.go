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
func Workers(stateDir string) (map[string]FoundWorker, error) {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	found := map[string]FoundWorker{}
	for _, n := range names {
		pid, err := strconv.Atoi(n.Name())
		if err != nil {
			continue
		}
		start, err := StartTime(pid)
		if errors.Is(err, os.ErrProcessDone) || notOurs(err) { // somebody else's, which hidepid hides
			continue
		}
		if err != nil {
			return nil, err
		}
		line, err := os.ReadFile("/proc/" + n.Name() + "/cmdline")
		if err != nil {
			continue // it has ended, or is somebody else's
		}
		if run, dir, workflow := workerArguments(strings.Split(string(line), "\x00")); run != "" && sameDir(dir, stateDir) {
			found[run] = FoundWorker{reconcile.Process{PID: pid, Start: start, Name: "symphony"}, workflow}
		}
	}
	return found, nil
}

// sameDir: a worker calls its directory as its pass was told to, which may go through a link.
func sameDir(a, b string) bool {
	if a == b {
		return true
	}
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// workerArguments reads what Local.Start has written.
func workerArguments(args []string) (run, stateDir, workflow string) {
	after := func(flag string) string {
		if i := slices.Index(args, flag); i >= 0 && i+1 < len(args) {
			return args[i+1]
		}
		return ""
	}
	if len(args) < 2 || args[1] != "worker" {
		return "", "", ""
	}
	return after("--run"), after("--state-dir"), after("--workflow")
}
