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
	bound := shortestSchedule
	if gap, known := usualGap(passes); known {
		bound = min(max(3*gap, shortestSchedule), longestSchedule)
	}
	age := timeBetween(passes[0], state.Pass{StartedAt: now, BootID: boot, Mono: proc.Monotonic()})
	return age >= 0 && age < bound, nil
}

// usualGap is the one in the middle of those between a schedule's passes, the newest of which comes first.
func usualGap(passes []state.Pass) (gap time.Duration, known bool) {
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

// timeBetween is taken on the monotonic clock where both were in the same boot: a clock that was set keeps no
// stopped schedule alive, and neither that nor a suspend ends a living one.
func timeBetween(a, b state.Pass) time.Duration {
	if a.BootID != "" && a.BootID == b.BootID {
		return b.Mono - a.Mono
	}
	return b.StartedAt.Sub(a.StartedAt)
}
