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

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/state"
	"golang.org/x/sys/unix"
)

// unusable reports an error of a database that a person has to bring back. Before that no worker may live, and only
// the machine can say which do.
func unusable(err error) bool {
	return slices.Contains([]string{"state_missing", "state_corrupt", "state_io"}, exit.From(err).Code)
}

// blindPatience is how long workers are given to end: those that run a hook may need more, and a second stop.
const blindPatience = 20 * time.Second

// endWorkers asks every worker of the state directory to end, without the database. cause is what is wrong with that.
func endWorkers(ctx context.Context, p *project.Project, cause error) error {
	release, holder, err := state.Acquire(ctx, p.StateDir, state.Holder{PID: os.Getpid(), Trigger: project.TriggerCommand, Since: p.Env.Now()}, project.CommandPatience)
	switch {
	case err != nil:
		return notAsked(cause, err)
	case holder != nil:
		return project.LockedError(holder)
	}
	defer func() { _ = release() }() // it ends with the process
	workers, err := proc.Workers(p.StateDir)
	if err != nil {
		return notAsked(cause, err)
	}
	maps.DeleteFunc(workers, func(id string, _ proc.FoundWorker) bool { return !runner.Alive(p.StateDir, id) })
	if err := strangers(p, workers); err != nil {
		return err
	}
	askToEnd(ctx, p, workers)
	return reportEnded(p, cause, workers)
}

// askToEnd waits for the workers that it asks, and for no others.
func askToEnd(ctx context.Context, p *project.Project, workers map[string]proc.FoundWorker) {
	for id, w := range workers {
		if err := proc.Signal(w.Process, unix.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			fmt.Fprintf(p.Env.Stderr, "symphony: warning: run %s: %v\n", id, err)
		}
	}
	asked := func(id string) bool { _, ok := workers[id]; return ok }
	for end := p.Env.Now().Add(blindPatience); p.Env.Now().Before(end) && slices.ContainsFunc(project.LivingRuns(p), asked); {
		if !project.Sleep(ctx, project.WaitStep) {
			return
		}
	}
}

// ended says which of the workers have ended, and returns the cause with what to do now.
func reportEnded(p *project.Project, cause error, workers map[string]proc.FoundWorker) error {
	said := p.Env.Stdout
	if p.Env.JSON { // of JSON there is one object, the error
		said = p.Env.Stderr
	}
	living := project.LivingRuns(p)
	var ending []string
	for _, id := range slices.Sorted(maps.Keys(workers)) {
		if slices.Contains(living, id) {
			ending = append(ending, id)
			continue
		}
		// In a backup the run is still under way. Its death there is no fault of its issue's.
		if err := proc.NoteUnstarted(filepath.Join(runner.RunDir(p.StateDir, id), "alive"), exit.From(cause).Code); err != nil {
			fmt.Fprintf(p.Env.Stderr, "symphony: warning: run %s: %v\n", id, err)
		}
		fmt.Fprintf(said, "ended the worker of run %s (pid %d)\n", id, workers[id].PID)
	}
	unseen := slices.DeleteFunc(living, func(id string) bool { _, ok := workers[id]; return ok })
	known := *exit.From(cause)
	switch {
	case len(unseen) > 0:
		known.Hint = "no process of run " + strings.Join(unseen, ", ") +
			" is to be seen from here: repeat the command as root, or where its worker was started (another container), before you put a backup in place"
	case len(ending) > 0:
		known.Hint = "still ending: run " + strings.Join(ending, ", ") + "; wait, or repeat the command, before you put a backup in place"
	default:
		known.Hint = "no worker lives any more: put a backup of state.db in its place, without state.db-wal and state.db-shm, or move " +
			p.StateDir + " aside to begin anew"
	}
	return &known
}

// strangers refuses workers of another workflow. Else the database would say whose the directory is.
func strangers(p *project.Project, workers map[string]proc.FoundWorker) error {
	for _, w := range workers {
		if theirs, err := os.Stat(w.Workflow); w.Workflow != p.Path && err == nil {
			if ours, err := os.Stat(p.Path); err != nil || !os.SameFile(ours, theirs) {
				return &reconcile.Error{
					Code: "state_conflict", Message: fmt.Sprintf("the workers of %s belong to %s, not to %s", p.StateDir, w.Workflow, p.Path),
					Hint: "give that workflow: -w " + term.ShellQuote(w.Workflow),
				}
			}
		}
	}
	return nil
}

// notAsked is the cause, with why no worker was asked to end: its own hint says to try what has just been tried.
func notAsked(cause, err error) error {
	known := *exit.From(cause)
	known.Message += "; and no worker was asked to end: " + err.Error()
	known.Hint = "mend what is said last and repeat the command, or end the processes named symphony worker by hand"
	known.Err = errors.Join(cause, err)
	return &known
}
