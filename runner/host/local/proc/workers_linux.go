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
	found := map[string]FoundWorker{}
	err := eachCommand(func(p reconcile.Process, args []string) {
		if run, dir, workflow := workerArguments(args); run != "" && sameDir(dir, stateDir) {
			found[run] = FoundWorker{p, workflow}
		}
	})
	return found, err
}

// OwnPasses finds the passes of a state directory that its workers have started when their runs had ended.
func OwnPasses(stateDir string) (list []reconcile.Process, err error) {
	err = eachCommand(func(p reconcile.Process, args []string) {
		if len(args) < 2 || args[1] != "tick" {
			return
		}
		if argumentOf(args, "--trigger") == "worker" && sameDir(argumentOf(args, "--state-dir"), stateDir) {
			list = append(list, p)
		}
	})
	return list, err
}

// eachCommand shows f every process of this user with its command line.
func eachCommand(f func(p reconcile.Process, args []string)) error {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
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
			return err
		}
		line, err := os.ReadFile("/proc/" + n.Name() + "/cmdline")
		if err != nil {
			continue // it has ended, or is somebody else's
		}
		f(reconcile.Process{PID: pid, Start: start, Name: "symphony"}, strings.Split(string(line), "\x00"))
	}
	return nil
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
	if len(args) < 2 || args[1] != "worker" {
		return "", "", ""
	}
	return argumentOf(args, "--run"), argumentOf(args, "--state-dir"), argumentOf(args, "--workflow")
}

func argumentOf(args []string, flag string) string {
	if i := slices.Index(args, flag); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}
