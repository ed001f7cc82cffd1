package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// A worker that can't store its outcome continues its heartbeat. Otherwise a pass would kill
// it, and the outcome would be lost.
func TestHeartbeatWhileTheOutcomeWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		journal := newMemory()
		journal.refuse = func(reconcile.Run) error {
			if time.Since(began) < 9*time.Minute {
				return fmt.Errorf("disk: %w", syscall.ENOSPC)
			}
			return nil
		}
		w, alive := bare(journal)
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // a stopped run has an outcome too
		test.OK(t, w.Conclude(ctx, reconcile.Run{
			ID:      "run-1",
			Phase:   reconcile.PreparingWorkspace,
			Outcome: reconcile.Failed,
		}))
		test.Equal(t, "number of outcomes", len(journal.finished), 1)
		if n := alive.beats.Load(); n < 100 {
			t.Errorf("%d heartbeats in 9 minutes", n)
		}
	})
}

// While an agent corrects what it has committed, passes wait for its run as if it had just
// moved its issue. Otherwise they measure the time from the move.
func TestMoveWhileAgentCorrects(t *testing.T) {
	r := newRig(t, "say hm")
	r.Here.Machine = r.Here.Machine.(linkedMachine).local // a link has no part in the bubble
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r.Mono = func() time.Duration { return time.Since(began) }
		rec := r.newJob(r.run, func(error) {}).rec
		age := func() time.Duration {
			time.Sleep(time.Hour)
			test.OK(t, rec.store(t.Context()))
			return time.Since(r.journal.lastRow().MovedAt)
		}
		rec.waitForCorrection(t.Context()) // its issue is still where it was
		test.OK(t, rec.store(t.Context()))
		test.Equal(t, "moved", r.journal.lastRow().MovedAt.IsZero(), true)
		rec.corrects = false
		rec.recordMove()
		test.Equal(t, "before", age(), time.Hour)
		rec.waitForCorrection(t.Context())
		test.Equal(t, "while it corrects", age(), 0)
	})
}

// slowScans counts the scans for processes, each of which takes some seconds.
type slowScans struct {
	host.Run
	n atomic.Int32
}

func (s *slowScans) Observe(context.Context) (host.ObserveAnswer, error) {
	s.n.Add(1)
	time.Sleep(3 * time.Second)
	return host.ObserveAnswer{}, nil
}

// A slow scan for processes delays no heartbeat, and scans are rare while the agent is silent.
func TestHeartbeatBeforeScan(t *testing.T) {
	r := newRig(t, "say hm")
	slow := &slowScans{}
	here := r.Here.Machine.(linkedMachine).local // a link has no part in the bubble
	r.Here.Machine = withRuns{here, func(run host.Run) host.Run { slow.Run = run; return slow }}
	synctest.Test(t, func(t *testing.T) {
		j := r.newJob(r.run, func(error) {})
		_, stopBeats := j.rec.startHeartbeat(t.Context())
		stopScans := j.processes.startObserving(t.Context())
		at := func(seconds time.Duration, beats, scans int) {
			t.Helper()
			time.Sleep(seconds * time.Second)
			synctest.Wait()
			r.journal.mu.Lock()
			stored := len(r.journal.updates)
			r.journal.mu.Unlock()
			test.Equal(t, "heartbeats and scans", []any{stored, int(slow.n.Load())}, []any{beats, scans})
		}
		at(1, 1, 1)
		at(15, 4, 1)
		at(5, 5, 2)
		j.rec.change(func(run *reconcile.Run) { run.LastEventAt = time.Now() })
		at(5, 6, 3)
		stopScans()
		stopBeats()
	})
}

// A run whose directory can't be written ends with an outcome.
func TestRunDirectoryNotWritable(t *testing.T) {
	for _, file := range []string{eventsFile, host.TreeFile} {
		r := newRig(t, "say done")
		// instead of the file: an error even for root
		test.OK(t, os.MkdirAll(filepath.Join(r.Dir, file), 0o700))
		r.ends(reconcile.Failed, "run_failed")
	}
}

// A hook runs even if its log can't be written, because after_run may save the work.
func TestHookWithoutALog(t *testing.T) {
	r := newRig(t, "say done")
	r.Here.Config.Hooks.AfterRun = "echo over >> after.txt"
	test.OK(t, os.MkdirAll(filepath.Join(r.Dir, HooksFile), 0o700))
	r.ends(reconcile.EndedRun, "")
	test.Equal(t, "after.txt", test.Read(t, r.space("after.txt")), "over\n")
}

// The worker gives up an outcome that can't be stored after some time, and writes the reason
// to the alive file, so that the run is not charged to the issue. It does not wait for a
// database that was replaced. It waits for one that needs manual repair until it is asked to
// end.
func TestOutcomeGivenUp(t *testing.T) {
	for _, c := range []struct {
		code  string
		ask   bool
		after time.Duration
	}{
		{"disk_full", false, concludePatience},
		{"disk_full", true, concludePatience},
		{"state_corrupt", false, concludePatience},
		{"state_corrupt", true, 0},
		{"state_corrupt", true, 0},
		{"state_replaced", false, 0},
	} {
		t.Run(fmt.Sprint(c.code, c.ask), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				journal := newMemory()
				journal.refuse = func(reconcile.Run) error {
					return &reconcile.Error{
						Code:    c.code,
						Message: "no",
					}
				}
				w, alive := bare(journal)
				ctx, cancel := context.WithCancelCause(t.Context())
				if c.ask {
					cancel(errTerminated)
				}
				began := time.Now()
				if err := w.Conclude(ctx, reconcile.Run{
					ID:      "run-1",
					Phase:   reconcile.Finishing,
					Outcome: reconcile.Succeeded,
				}); err == nil {
					t.Error("the outcome was stored")
				}
				if took := time.Since(began); took < c.after || took > c.after+concludePause ||
					alive.refused != c.code {
					t.Errorf(
						"given up after %v, want %v; the alive file contains %q",
						took,
						c.after,
						alive.refused,
					)
				}
				cancel(nil)
			})
		})
	}
}

// If the wall clock jumps, the next write of the row moves the time of the handoff with it.
func TestHandoffFollowsTheClock(t *testing.T) {
	a, r := newTestJob(t)
	now := time.Now()
	off := time.Duration(0)
	a.Now = func() time.Time { return now.Add(off) }
	a.rec.recordMove()
	a.rec.flush(t.Context())
	for _, jump := range []time.Duration{0, 8 * time.Hour, -time.Hour, 365 * 24 * time.Hour, 0} {
		off = jump
		a.rec.flush(t.Context())
		if d := r.journal.lastRow().MovedAt.Sub(now.Add(jump)).Abs(); d > clockStep {
			t.Errorf("after %v: off by %v", jump, d)
		}
	}
	before := a.rec.get().MovedAt
	off = clockStep / 2
	a.rec.flush(t.Context())
	test.Equal(t, "time after a small step", a.rec.get().MovedAt, before)
	a.rec.change(func(run *reconcile.Run) { run.MovedAt = time.Time{} })
	off = time.Hour
	a.rec.flush(t.Context())
	test.Equal(t, "time without a handoff", a.rec.get().MovedAt, time.Time{})
}

// The heartbeat goes on while the database blocks.
func TestHeartbeatWhileTheDatabaseIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		journal := newMemory()
		journal.refuse = func(reconcile.Run) error { <-release; return nil }
		w, alive := bare(journal)
		_, stop := w.newJob(reconcile.Run{}, nil).rec.startHeartbeat(t.Context())
		time.Sleep(10 * heartbeat)
		if n := alive.beats.Load(); n < 10 {
			t.Errorf("the alive file has heartbeat %d", n)
		}
		close(release)
		stop()
	})
}

// A run does not fail because a fingerprint of its workspace times out. It then counts as
// progress.
func TestFingerprintTakesTooLong(t *testing.T) {
	for _, slow := range []int{1, 2} {
		r := newRig(t, "say done")
		r.Here.Machine = &slowMachine{Machine: r.Here.Machine, slow: slow}
		test.Equal(t, "progress", r.ends(reconcile.EndedRun, "").Progress, true)
	}
}

// slowMachine lets a fingerprint time out.
type slowMachine struct {
	host.Machine
	slow, calls int // from 1
}

func (m *slowMachine) Fingerprint(context.Context, string) (string, error) {
	m.calls++
	if m.slow == m.calls {
		return "", fmt.Errorf("fingerprint: %w", context.DeadlineExceeded)
	}
	return "same", nil
}

// A worker obeys a stop even if it can't write its row.
func TestStopOnAFullDisk(t *testing.T) {
	var cause error
	journal := newMemory()
	journal.stop = reconcile.StopTerminal
	journal.refuse = func(reconcile.Run) error { return syscall.ENOSPC }
	w, _ := bare(journal)
	w.Here.StateDir = t.TempDir()
	w.newJob(reconcile.Run{}, func(err error) { cause = err }).rec.flush(t.Context())
	if cause != canceled("stopped", reconcile.StopTerminal) {
		t.Errorf("stopped for %v", cause)
	}
}

// A full disk and a limit of the system are the machine's fault; a limit is even if another
// error wraps it.
func TestCodeOfAMachineFault(t *testing.T) {
	for _, c := range []struct {
		err  error
		code string
	}{
		{fmt.Errorf("write: %w", syscall.ENOSPC), host.CodeDiskFull},
		{fmt.Errorf("fork: %w", syscall.EAGAIN), reconcile.CodeResourceLimit},
		{&reconcile.Error{
			Code:    "workspace_failed",
			Message: "git",
			Err:     syscall.EMFILE,
		}, reconcile.CodeResourceLimit},
		{&reconcile.Error{
			Code:    "workspace_failed",
			Message: "git",
			Err:     syscall.EIO,
		}, "workspace_failed"},
	} {
		code, _ := codeOf(c.err)
		test.Equal(t, fmt.Sprint("code of ", c.err), code, c.code)
	}
}

// An inspection, which keeps no log, goes on after something that a run would note.
func TestNoteWithoutLog(t *testing.T) {
	a, _ := newTestJob(t)
	a.events.note("lock_ended", "ended process 7", nil)
	test.OK(t, a.events.append(agent.Event{Name: agent.EventNotification}))
}
