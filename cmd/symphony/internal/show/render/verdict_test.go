package render

import (
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/test"
)

// TestDeadScheduleIsRed checks the line that ps, top and status have in common, also if only
// one of several projects is dead.
func TestDeadScheduleIsRed(t *testing.T) {
	live := view.Overview{GeneratedAt: now, Schedule: true, Project: view.ProjectRow{Name: "api"}}
	dead := view.Overview{
		GeneratedAt: now,
		LastPass:    &wiring.LastPassRow{StartedAt: now.Add(-time.Hour)},
		Project:     view.ProjectRow{Name: "web-shop"},
	}
	live.SetObstacles(nil)
	dead.SetObstacles(nil)
	w := &term.Env{
		Env:     environ.Env{Now: func() time.Time { return now }},
		Width:   120,
		Palette: term.Palette{Colour: true},
	}
	want := "\x1b[1m\x1b[31mNOT TICKING\x1b[0m\x1b[0m  web-shop: no schedule is active; " +
		"nothing running"
	test.Equal(t, "it", Head(w, []view.Overview{live, dead})[0], want)
}
