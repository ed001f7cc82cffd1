package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/state"
)

// unusable reports an error of a database that a person has to bring back. Before that no worker may live, and only
// the machine can say which do.
func unusable(err error) bool {
	return slices.Contains([]string{"state_missing", "state_corrupt", "state_io"}, asError(err).Code)
}

// blindPatience is how long workers are given to end: those that run a hook may need more, and a second stop.
const blindPatience = 20 * time.Second

// endWorkers asks every worker of the state directory to end, without the database. cause is what is wrong with that.
func (p *project) endWorkers(ctx context.Context, cause error) error {
	release, holder, err := state.Acquire(ctx, p.stateDir, state.Holder{PID: os.Getpid(), Trigger: triggerCommand, Since: p.w.now()}, commandPatience)
	switch {
	case err != nil:
		return errors.Join(cause, err)
	case holder != nil:
		return lockedError(holder)
	}
	defer func() { _ = release() }() // it ends with the process
	workers, err := proc.Workers(p.stateDir)
	if err != nil {
		return errors.Join(cause, err)
	}
	maps.DeleteFunc(workers, func(id string, _ reconcile.Process) bool { return !runner.Alive(p.stateDir, id) })
	for id, w := range workers {
		if err := proc.Signal(w, unix.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			fmt.Fprintf(p.w.stderr, "symphony: warning: run %s: %v\n", id, err)
		}
	}
	for end := p.w.now().Add(blindPatience); p.w.now().Before(end) && len(p.living()) > 0; {
		if !sleep(ctx, waitStep) {
			break
		}
	}
	said := p.w.stdout
	if p.w.json { // of JSON there is one object, the error
		said = p.w.stderr
	}
	left := p.living()
	for _, id := range slices.Sorted(maps.Keys(workers)) {
		if !slices.Contains(left, id) {
			// In a backup the run is still under way. Its death there is no fault of its issue's.
			if err := proc.NoteUnstarted(filepath.Join(runner.RunDir(p.stateDir, id), "alive"), asError(cause).Code); err != nil {
				fmt.Fprintf(p.w.stderr, "symphony: warning: run %s: %v\n", id, err)
			}
			fmt.Fprintf(said, "ended the worker of run %s (pid %d)\n", id, workers[id].PID)
		}
	}
	known := *asError(cause)
	known.Hint = "no worker lives any more: put a backup of state.db in its place, without state.db-wal and state.db-shm, or move " + p.stateDir + " aside to begin anew"
	if len(left) > 0 {
		known.Hint = "still ending: run " + strings.Join(left, ", ") + "; wait, or repeat the command, before you put a backup in place"
	}
	return &known
}

// living names the runs whose alive files are held.
func (p *project) living() (ids []string) {
	entries, err := os.ReadDir(filepath.Join(p.stateDir, "runs"))
	if err != nil {
		return nil // then none has ever been
	}
	for _, e := range entries {
		if runner.Alive(p.stateDir, e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	return ids
}
