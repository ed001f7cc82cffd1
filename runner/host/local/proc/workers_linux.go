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

// Workers finds this user's workers of a state directory by their command lines, by run id. It serves when the database
// cannot be read. Whether a worker really has its run is shown by its alive file.
func Workers(stateDir string) (map[string]FoundWorker, error) {
	found := map[string]FoundWorker{}
	err := eachCommand("worker", func(p reconcile.Process, args []string) {
		if run := argument(args, "--run"); run != "" && sameDir(argument(args, "--state-dir"), stateDir) {
			found[run] = FoundWorker{p, argument(args, "--workflow")}
		}
	})
	return found, err
}

// OwnPasses finds the passes of a state directory that its workers have started at the end of their runs.
func OwnPasses(stateDir string) (list []reconcile.Process, err error) {
	err = eachCommand("tick", func(p reconcile.Process, args []string) {
		if argument(args, "--trigger") == "worker" && sameDir(argument(args, "--state-dir"), stateDir) {
			list = append(list, p)
		}
	})
	return list, err
}

// eachCommand calls f for every process of this user whose first argument is subcommand.
func eachCommand(subcommand string, f func(p reconcile.Process, args []string)) error {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(dir.Name())
		if err != nil {
			continue
		}
		start, err := StartTime(pid)
		if errors.Is(err, os.ErrProcessDone) || forbidden(err) { // forbidden: hidden by the mount option hidepid
			continue
		}
		if err != nil {
			return err
		}
		line, err := os.ReadFile(procPath(pid, "cmdline"))
		if err != nil {
			continue // it has ended, or belongs to another user
		}
		if args := strings.Split(string(line), "\x00"); len(args) > 1 && args[1] == subcommand {
			f(reconcile.Process{PID: pid, Start: start, Name: "symphony"}, args)
		}
	}
	return nil
}

// sameDir compares two paths, either of which may go through a symlink.
func sameDir(a, b string) bool {
	if a == b {
		return true
	}
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(x, y)
}

func argument(args []string, flag string) string {
	if i := slices.Index(args, flag); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}
