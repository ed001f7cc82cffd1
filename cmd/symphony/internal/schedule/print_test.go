package schedule

import (
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
)

// A timer that was installed just now has not failed: its first pass is still to come.
func TestScheduleBegins(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	soon, before := now.Add(16*time.Second), now.Add(-time.Minute)
	dead := "not alive: nothing new is started until somebody runs symphony tick"
	for name, c := range map[string]struct {
		out  Status
		want string
	}{
		"installed just now": {Status{Timers: []timerJSON{{Enabled: true, Active: true, Next: &soon}}}, "its first pass comes at 2026-03-01T12:00:16Z"},
		"stopped":            {Status{Timers: []timerJSON{{Enabled: true, Next: &soon}}}, dead},
		"came, and no more":  {Status{Timers: []timerJSON{{Enabled: true, Active: true, Next: &soon, Last: &before}}}, dead},
		"overdue":            {Status{Timers: []timerJSON{{Enabled: true, Active: true, Next: &before}}}, dead},
		"passes come":        {Status{Alive: true, Timers: []timerJSON{{Enabled: true, Active: true, Next: &soon}}}, "alive"},
		"none":               {Status{}, dead},
	} {
		if got := aliveWord((&term.Env{}), c.out, now); got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}
