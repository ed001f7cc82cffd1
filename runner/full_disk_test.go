package runner

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// The same for a run that could not be begun at all.
func TestConcludeBeats(t *testing.T) {
	path := filepath.Join(t.TempDir(), aliveFile)
	must(t, proc.CreateAlive(path))
	alive, err := proc.HoldAlive(path, time.Second)
	must(t, err)
	defer alive.Close()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		journal := newMemory()
		journal.refuse = func(reconcile.Run) error {
			if time.Since(began) < 9*time.Minute {
				return fmt.Errorf("disk: %w", syscall.ENOSPC)
			}
			return nil
		}
		w := &Worker{Journal: journal, Alive: alive, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // a stopped run has an outcome too
		must(t, w.Conclude(ctx, reconcile.Run{ID: "run-1", Phase: reconcile.PreparingWorkspace, Outcome: reconcile.Failed}))
		if len(journal.finished) != 1 {
			t.Fatalf("%d outcomes were recorded", len(journal.finished))
		}
	})
	pulse, err := proc.ProbeAlive(path)
	must(t, err)
	if pulse.Beats < 100 {
		t.Errorf("%d heartbeats in 9 minutes", pulse.Beats)
	}
}

// A run whose directory takes no files ends as by any other fault: with an outcome, and not by a worker that dies.
func TestRunDirectoryNotWritable(t *testing.T) {
	for name, file := range map[string]string{"events": eventsFile, "procs": procsFile} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "say done")
			// A directory in the place of the file fails for root, too.
			must(t, os.MkdirAll(filepath.Join(r.Dir, file), 0o700))
			r.ends(reconcile.Failed, "run_failed")
		})
	}
}

// A stop that a pass asked for is heard also where the worker can write nothing.
func TestStopOnAFullDisk(t *testing.T) {
	reason := ""
	r := &record{
		journal: onlyReads{}, now: time.Now, log: slog.New(slog.DiscardHandler),
		stopped: func(why string) { reason = why }, lost: func(error) { t.Error("the run was given up") },
	}
	r.flush(t.Context())
	if reason != reconcile.StopTerminal {
		t.Errorf("stopped for %q", reason)
	}
}

type onlyReads struct{ Journal }

func (onlyReads) UpdateRun(context.Context, time.Time, reconcile.Run) (string, error) {
	return reconcile.StopTerminal, fmt.Errorf("disk: %w", syscall.ENOSPC)
}

// A hook runs also where its log can't be written: after_run may be what saves the work.
func TestHookWithoutALog(t *testing.T) {
	r := newRig(t, "say done")
	r.Config.Hooks.AfterRun = "echo over >> after.txt"
	must(t, os.MkdirAll(filepath.Join(r.Dir, hooksFile), 0o700))
	r.ends(reconcile.Succeeded, "")
	if got := read(t, r.space("after.txt")); got != "over\n" {
		t.Errorf("after_run wrote %q", got)
	}
}

// What could not be stored in the end leaves word in the alive file, so that it counts for nothing. A database that is
// not there any more is not waited for; one that a person must bring back is, unless the worker is asked to end.
func TestOutcomeGivenUp(t *testing.T) {
	for _, c := range []struct {
		code  string
		ask   bool
		after time.Duration
	}{
		{"disk_full", false, concludePatience},
		{"disk_full", true, concludePatience},
		{"state_missing", false, concludePatience},
		{"state_missing", true, 0},
		{"state_corrupt", true, 0},
		{"state_replaced", false, 0},
	} {
		t.Run(fmt.Sprint(c.code, c.ask), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), aliveFile)
			must(t, proc.CreateAlive(path))
			alive, err := proc.HoldAlive(path, time.Second)
			must(t, err)
			synctest.Test(t, func(t *testing.T) {
				journal := newMemory()
				journal.refuse = func(reconcile.Run) error { return &reconcile.Error{Code: c.code, Message: "no"} }
				w := &Worker{Journal: journal, Alive: alive, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
				ctx, cancel := context.WithCancelCause(t.Context())
				if c.ask {
					cancel(errTerminated)
				}
				began := time.Now()
				if err := w.Conclude(ctx, reconcile.Run{ID: "run-1", Phase: reconcile.Finishing, Outcome: reconcile.Succeeded}); err == nil {
					t.Error("it was stored")
				}
				if took := time.Since(began); took < c.after || took > c.after+concludePause {
					t.Errorf("given up after %v, want %v", took, c.after)
				}
				cancel(nil)
			})
			must(t, alive.Close())
			pulse, err := proc.ProbeAlive(path)
			must(t, err)
			if pulse.Refused != c.code {
				t.Errorf("the alive file says %+v", pulse)
			}
		})
	}
}

// held is a journal that another process keeps: the first try ends for that, the last one with the time for all of them.
type held struct {
	*memory
	tries int
}

func (h *held) Finish(ctx context.Context, _ time.Time, _ reconcile.Run) error {
	if h.tries++; h.tries == 1 {
		return &reconcile.Error{Code: "state_busy", Message: "held"}
	}
	<-ctx.Done()
	return ctx.Err()
}

// What has kept the outcome from being stored is said also where the time ended in the middle of a try.
func TestOutcomeGivenUpInATry(t *testing.T) {
	path := filepath.Join(t.TempDir(), aliveFile)
	must(t, proc.CreateAlive(path))
	alive, err := proc.HoldAlive(path, time.Second)
	must(t, err)
	defer alive.Close()
	synctest.Test(t, func(t *testing.T) {
		w := &Worker{Journal: &held{memory: newMemory()}, Alive: alive, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
		err := w.Conclude(t.Context(), reconcile.Run{ID: "run-1", Phase: reconcile.Finishing, Outcome: reconcile.Succeeded})
		if !isCode(err, "state_busy") {
			t.Errorf("given up with %v", err)
		}
	})
	pulse, err := proc.ProbeAlive(path)
	must(t, err)
	if pulse.Refused != "state_busy" {
		t.Errorf("the alive file says %+v: the run would count as a failure", pulse)
	}
}
