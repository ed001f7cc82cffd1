package schedule

import (
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/state"
)

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
				_, err := db.SavePass(t.Context(), state.Pass{
					Trigger: project.TriggerCron, StartedAt: now.Add(-c.wall - earlier), BootID: c.boot, Mono: proc.Monotonic() - c.awake - earlier,
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			if got, err := project.ScheduleAlive(t.Context(), db, now); err != nil || got != c.want {
				t.Errorf("%v, %v; want %v", got, err, c.want)
			}
		})
	}
}
