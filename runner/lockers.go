package runner

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// EventLockEnded is a process of the run's that was ended because it kept a lock of symphony's; its payload a
// LockEndedEvent.
const EventLockEnded = "lock_ended"

// LockEndedEvent is the payload of EventLockEnded.
type LockEndedEvent struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
}

// endLockers ends what of the run keeps a lock of ours. An agent can write none of our files, but whoever may read a file
// may lock it: a command that sits on the project lock keeps every pass away, the one that is to stop it included; one
// on a lease or an alive file, its neighbours; one on the right bytes of the database, every writer.
func (a *attempt) endLockers(ctx context.Context) {
	run := a.rec.get() // and not a.space, which belongs to the run's own goroutine
	if run.WorkspacePath == "" {
		return
	}
	list, err := proc.Descendants(os.Getpid())
	var lockers []reconcile.Process
	if err == nil {
		lockers, err = proc.Lockers(list, a.lockFiles(run))
	}
	if err != nil {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "who keeps locks is not known", slog.String("error", err.Error()))
	}
	if len(lockers) == 0 {
		return
	}
	for _, p := range lockers {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "ending a process of the agent's that keeps a lock of symphony's",
			slog.Int("pid", p.PID), slog.String("name", p.Name))
		a.note(EventLockEnded, fmt.Sprintf("process %d (%s), which kept a lock of symphony's, was ended", p.PID, p.Name), LockEndedEvent{p.PID, p.Name})
	}
	boot, err := proc.BootID()
	if err == nil {
		err = a.killAll(ctx, proc.Owner{Recorded: lockers, Boot: boot})
	}
	if err != nil {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "a lock is kept by the agent", slog.String("error", err.Error()))
	}
}

// The bytes by which SQLite keeps writers apart: of the database itself, and of the file beside it that all who have it
// open share. Readers, symphony's own commands in an agent's hands for instance, lock others.
var (
	databaseBytes = []proc.Span{{First: 1 << 30, Last: 1<<30 + 1}}
	sharedBytes   = []proc.Span{{First: 120, Last: 122}}
)

// lockFiles are the files by whose locks symphony keeps its processes apart, but for those of this run itself, which its
// processes inherit.
func (a *attempt) lockFiles(run reconcile.Run) map[string][]proc.Span {
	files := map[string][]proc.Span{
		filepath.Join(a.StateDir, "state.db"):     databaseBytes,
		filepath.Join(a.StateDir, "state.db-shm"): sharedBytes,
	}
	meta := filepath.Join(run.WorkspaceRoot, ".symphony")
	own := []string{filepath.Join(a.Dir, aliveFile), filepath.Join(meta, filepath.Base(run.WorkspacePath)+".lock")}
	patterns := []string{
		filepath.Join(a.StateDir, "lock*"), filepath.Join(a.StateDir, "*.lock"), filepath.Join(a.StateDir, "runs", "*", aliveFile),
		filepath.Join(meta, "*.lock"), filepath.Join(meta, "projects", "*.lock"),
	}
	if a.AccountDir != "" {
		patterns = append(patterns, filepath.Join(a.AccountDir, "*.lock"), filepath.Join(a.AccountDir, "slots", "*"))
	}
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil {
			panic(err) // a bad pattern, and they are made here
		}
		for _, path := range found {
			if !slices.Contains(own, path) {
				files[path] = nil
			}
		}
	}
	return files
}
