package project

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/state"
)

// WaitStep is how often a command looks whether something has happened.
const WaitStep = 200 * time.Millisecond

// ScheduleAlive reports whether the last scheduled pass is younger than three times the usual gap. Other passes start runs
// only then: stopping the timer stops the system.
func ScheduleAlive(ctx context.Context, db *state.DB, now time.Time) (bool, error) {
	passes, err := db.Views.ScheduleGaps(ctx)
	if err != nil || len(passes) == 0 {
		return false, err
	}
	boot, err := proc.BootID()
	if err != nil {
		return false, fmt.Errorf("boot id: %w", err)
	}
	bound := shortestSchedule
	if gap, known := UsualGap(passes); known {
		bound = min(max(3*gap, shortestSchedule), longestSchedule)
	}
	age := timeBetween(passes[0], state.Pass{StartedAt: now, BootID: boot, Mono: proc.Monotonic()})
	return age >= 0 && age < bound, nil
}

// UsualGap is the median of the gaps between scheduled passes, the newest of which comes first.
func UsualGap(passes []state.Pass) (gap time.Duration, known bool) {
	var gaps []time.Duration
	for i := 1; i < len(passes); i++ {
		gaps = append(gaps, timeBetween(passes[i], passes[i-1]))
	}
	if len(gaps) == 0 {
		return 0, false
	}
	slices.Sort(gaps)
	return gaps[len(gaps)/2], true
}

// timeBetween is taken on the monotonic clock within one boot, so that neither a stepped clock nor a suspend changes it.
func timeBetween(a, b state.Pass) time.Duration {
	if a.BootID != "" && a.BootID == b.BootID {
		return b.Mono - a.Mono
	}
	return b.StartedAt.Sub(a.StartedAt)
}

// Looping reports whether a tick --loop runs for the project.
func Looping(stateDir string) bool {
	lock := LoopLock(stateDir)
	if !Exists(lock.Path()) {
		return false
	}
	free, err := lock.TryRLock()
	if free {
		_ = lock.Unlock()
	}
	return err == nil && !free
}

// LoopLock is the lock that tick --loop holds for its whole life.
func LoopLock(stateDir string) *flock.Flock {
	return flock.New(filepath.Join(stateDir, "loop.lock"), flock.SetPermissions(0o600))
}

// TryLoopLock takes the loop's lock. It waits long enough for processes that only look whether there is a loop.
func TryLoopLock(ctx context.Context, lock *flock.Flock) (bool, error) {
	bounded, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	held, err := lock.TryLockContext(bounded, 10*time.Millisecond)
	if bounded.Err() != nil && ctx.Err() == nil {
		err = nil
	}
	return held, err
}

// lookPatience is longer than such a process holds the lock.
const lookPatience = 500 * time.Millisecond

// Alive reports whether the run's worker lives.
func Alive(stateDir, id string) bool { return runner.Alive(stateDir, id) }

// WorkerDead reports whether no worker will record an outcome for the run: it has died, or never started.
func WorkerDead(p *Project, run reconcile.Run) bool {
	if run.Outcome != "" || Alive(p.StateDir, run.ID) {
		return false
	}
	return run.Phase != reconcile.Starting || p.Env.Now().Sub(run.StartedAt) > startBound
}

// startBound is how long a run may have no worker before it counts as never started.
const startBound = 10 * time.Second

// Sleep waits. It is false where ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// The triggers of a pass.
const (
	TriggerCron    = "cron"
	TriggerTimer   = "timer"
	TriggerLoop    = "loop"
	TriggerManual  = "manual"
	TriggerCommand = "command"
	TriggerWorker  = "worker"
)

// The schedule counts as alive while its last pass is younger than three usual gaps, within these bounds.
const (
	shortestSchedule = 3 * time.Minute
	longestSchedule  = 24 * time.Hour
)

// CommandPatience is how long an operator's command waits for another pass.
const CommandPatience = 10 * time.Second

// LivingRuns are the ids of the runs whose workers live.
func LivingRuns(p *Project) (ids []string) {
	entries, _ := os.ReadDir(filepath.Join(p.StateDir, "runs")) // without it there are none
	for _, e := range entries {
		if runner.Alive(p.StateDir, e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	return ids
}
