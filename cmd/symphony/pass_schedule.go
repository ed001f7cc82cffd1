package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/state"
)

// The bounds between which a schedule counts as alive after its last pass.
const (
	shortestSchedule = 3 * time.Minute
	longestSchedule  = 24 * time.Hour
)

// scheduleAlive reports whether the last scheduled pass is younger than three times the usual gap. Passes
// that no schedule started dispatch only then: stopping the timer stops the system.
func scheduleAlive(ctx context.Context, db *state.DB, now time.Time) (bool, error) {
	passes, err := db.ScheduleGaps(ctx)
	if err != nil || len(passes) == 0 {
		return false, err
	}
	boot, err := proc.BootID()
	if err != nil {
		return false, fmt.Errorf("boot id: %w", err)
	}
	var gaps []time.Duration
	for i := range passes[1:] {
		gaps = append(gaps, timeBetween(passes[i+1], passes[i]))
	}
	bound := shortestSchedule
	if len(gaps) > 0 {
		slices.Sort(gaps)
		bound = min(max(3*gaps[len(gaps)/2], shortestSchedule), longestSchedule)
	}
	age := timeBetween(passes[0], state.Pass{StartedAt: now, BootID: boot, Mono: proc.Monotonic()})
	return age >= 0 && age < bound, nil
}

// timeBetween is taken on the monotonic clock where both were in the same boot: a clock that was set keeps no
// stopped schedule alive, and neither that nor a suspend ends a living one.
func timeBetween(a, b state.Pass) time.Duration {
	if a.BootID != "" && a.BootID == b.BootID {
		return b.Mono - a.Mono
	}
	return b.StartedAt.Sub(a.StartedAt)
}
