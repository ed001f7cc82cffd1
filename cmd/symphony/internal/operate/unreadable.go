package operate

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

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/state"
)

// endPatience is how long workers have to end. One that runs a hook may need longer, and a second stop.
const endPatience = 20 * time.Second

// endWorkers is stop --all without a readable database. No worker may live while an operator restores the database, and only
// the list of processes shows which do. cause is the error of the database; it is returned with the next step as its hint.
func endWorkers(ctx context.Context, p *project.Project, cause error) error {
	known := *exit.From(cause)
	notSignalled := func(err error) error {
		known.Message += "; and no worker was asked to end: " + err.Error()
		known.Hint = "correct the second error and repeat the command, or end the processes named symphony worker by hand"
		known.Err = errors.Join(cause, err)
		return &known
	}
	release, holder, err := state.Acquire(ctx, p.StateDir, state.Holder{PID: os.Getpid(), Trigger: project.TriggerCommand, Since: p.Env.Now()}, project.CommandPatience)
	switch {
	case err != nil:
		return notSignalled(err)
	case holder != nil:
		return project.LockedError(holder)
	}
	defer func() { _ = release() }() // the end of the process releases it anyway
	workers, err := proc.Workers(p.StateDir)
	if err != nil {
		return notSignalled(err)
	}
	maps.DeleteFunc(workers, func(id string, _ proc.FoundWorker) bool { return !project.Alive(p.StateDir, id) })
	for _, w := range workers { // usually the database tells which workflow the state directory belongs to
		if project.Exists(w.Workflow) && !project.SameFile(w.Workflow, p.Path) {
			return &reconcile.Error{
				Code: "state_conflict", Message: fmt.Sprintf("the workers of %s belong to %s, not to %s", p.StateDir, w.Workflow, p.Path),
				Hint: "give that workflow: -w " + term.ShellQuote(w.Workflow),
			}
		}
	}
	for id, w := range workers {
		if err := proc.Signal(w.Process, unix.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			fmt.Fprintf(p.Env.Stderr, "symphony: warning: run %s: %v\n", id, err)
		}
	}
	isWorker := func(id string) bool { _, ok := workers[id]; return ok }
	living := project.LivingRuns(p)
	for end := p.Env.Now().Add(endPatience); slices.ContainsFunc(living, isWorker) && p.Env.Now().Before(end); living = project.LivingRuns(p) {
		if !project.Sleep(ctx, project.WaitStep) {
			break
		}
	}
	out := p.Env.Stdout
	if p.Env.JSON { // the one JSON object on stdout is the error
		out = p.Env.Stderr
	}
	for _, id := range slices.Sorted(maps.Keys(workers)) {
		if slices.Contains(living, id) {
			continue
		}
		// A backup of the database still has the run as running. This note keeps its end from counting against the issue.
		if err := proc.NoteUnstarted(filepath.Join(runner.RunDir(p.StateDir, id), "alive"), known.Code); err != nil {
			fmt.Fprintf(p.Env.Stderr, "symphony: warning: run %s: %v\n", id, err)
		}
		fmt.Fprintf(out, "ended the worker of run %s (pid %d)\n", id, workers[id].PID)
	}
	hidden := slices.DeleteFunc(slices.Clone(living), isWorker)
	switch {
	case len(hidden) > 0:
		known.Hint = "no process of run " + strings.Join(hidden, ", ") +
			" is to be seen from here: repeat the command as root, or where its worker was started (another container), before you put a backup in place"
	case len(living) > 0:
		known.Hint = "still ending: run " + strings.Join(living, ", ") + "; wait, or repeat the command, before you put a backup in place"
	default:
		known.Hint = "no worker lives any more: put a backup of state.db in its place, without state.db-wal and state.db-shm, or move " +
			p.StateDir + " aside to begin anew"
	}
	return &known
}
