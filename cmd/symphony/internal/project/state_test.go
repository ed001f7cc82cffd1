package project

import (
	"testing"
	"time"

	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/state"
)

// A schedule counts as alive for three times the median of its last five gaps, at least three minutes and at
// most a day.
func TestScheduleAlive(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		trigger string
		ages    []time.Duration // of the passes, the oldest first
		want    bool
	}{
		"none":                   {TriggerCron, nil, false},
		"only by hand":           {TriggerManual, []time.Duration{time.Second}, false},
		"workers' own":           {TriggerWorker, []time.Duration{time.Second}, false},
		"one, just now":          {TriggerCron, []time.Duration{time.Second}, true},
		"one, long ago":          {TriggerTimer, []time.Duration{4 * time.Minute}, false},
		"every minute, fresh":    {TriggerCron, []time.Duration{4 * time.Minute, 3 * time.Minute, 2 * time.Minute}, true},
		"every minute, stopped":  {TriggerLoop, []time.Duration{6 * time.Minute, 5 * time.Minute, 4 * time.Minute}, false},
		"hourly, two hours ago":  {TriggerCron, []time.Duration{4 * time.Hour, 3 * time.Hour, 2 * time.Hour}, true},
		"hourly, four hours ago": {TriggerCron, []time.Duration{6 * time.Hour, 5 * time.Hour, 4 * time.Hour}, false},
		"weekly, two days ago":   {TriggerCron, []time.Duration{9 * 24 * time.Hour, 2 * 24 * time.Hour}, false},
		"one long gap":           {TriggerCron, []time.Duration{100 * time.Hour, 10 * time.Minute, 9 * time.Minute, 8 * time.Minute, 7 * time.Minute}, false},
	} {
		t.Run(name, func(t *testing.T) {
			db, err := state.Create(t.Context(), t.TempDir()+"/state", now)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			for _, age := range c.ages {
				if _, err := db.Store.SavePass(t.Context(), state.Pass{Trigger: c.trigger, StartedAt: now.Add(-age)}); err != nil {
					t.Fatal(err)
				}
			}
			got, err := ScheduleAlive(t.Context(), db, now)
			if err != nil || got != c.want {
				t.Errorf("%v, %v; want %v", got, err, c.want)
			}
		})
	}
}

// The age of a schedule is taken on the monotonic clock: a clock that was set neither revives nor ends one.
func TestScheduleAliveSteppedClock(t *testing.T) {
	boot, err := proc.BootID()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		boot        string
		wall, awake time.Duration // how old the passes are by either clock, a minute apart
		want        bool
	}{
		"set back a day, stopped":      {boot, -24 * time.Hour, 10 * time.Minute, false},
		"set back a day, running":      {boot, -24 * time.Hour, 10 * time.Second, true},
		"set on a day, running":        {boot, 24 * time.Hour, 10 * time.Second, true},
		"before a reboot":              {"another", 10 * time.Second, time.Hour, true},
		"before a reboot and set back": {"another", -time.Hour, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			db, err := state.Create(t.Context(), t.TempDir()+"/state", now)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			for i := range 6 {
				earlier := time.Duration(5-i) * time.Minute
				_, err := db.Store.SavePass(t.Context(), state.Pass{
					Trigger: TriggerCron, StartedAt: now.Add(-c.wall - earlier), BootID: c.boot, Mono: proc.Monotonic() - c.awake - earlier,
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			if got, err := ScheduleAlive(t.Context(), db, now); err != nil || got != c.want {
				t.Errorf("%v, %v; want %v", got, err, c.want)
			}
		})
	}
}
