package schedule

import (
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/state"
)

// A schedule counts as alive for three times the median of its last five gaps, at least three minutes and at
// most a day (design: a pass).
func TestScheduleAlive(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		trigger string
		ages    []time.Duration // of the passes, the oldest first
		want    bool
	}{
		"none":                   {project.TriggerCron, nil, false},
		"only by hand":           {project.TriggerManual, []time.Duration{time.Second}, false},
		"workers' own":           {project.TriggerWorker, []time.Duration{time.Second}, false},
		"one, just now":          {project.TriggerCron, []time.Duration{time.Second}, true},
		"one, long ago":          {project.TriggerTimer, []time.Duration{4 * time.Minute}, false},
		"every minute, fresh":    {project.TriggerCron, []time.Duration{4 * time.Minute, 3 * time.Minute, 2 * time.Minute}, true},
		"every minute, stopped":  {project.TriggerLoop, []time.Duration{6 * time.Minute, 5 * time.Minute, 4 * time.Minute}, false},
		"hourly, two hours ago":  {project.TriggerCron, []time.Duration{4 * time.Hour, 3 * time.Hour, 2 * time.Hour}, true},
		"hourly, four hours ago": {project.TriggerCron, []time.Duration{6 * time.Hour, 5 * time.Hour, 4 * time.Hour}, false},
		"weekly, two days ago":   {project.TriggerCron, []time.Duration{9 * 24 * time.Hour, 2 * 24 * time.Hour}, false},
		"one long gap":           {project.TriggerCron, []time.Duration{100 * time.Hour, 10 * time.Minute, 9 * time.Minute, 8 * time.Minute, 7 * time.Minute}, false},
	} {
		t.Run(name, func(t *testing.T) {
			db, err := state.Create(t.Context(), t.TempDir()+"/state", now)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			for _, age := range c.ages {
				if _, err := db.SavePass(t.Context(), state.Pass{Trigger: c.trigger, StartedAt: now.Add(-age)}); err != nil {
					t.Fatal(err)
				}
			}
			got, err := project.ScheduleAlive(t.Context(), db, now)
			if err != nil || got != c.want {
				t.Errorf("%v, %v; want %v", got, err, c.want)
			}
		})
	}
}

// TestCronProgram: the program is found again in the line that was written for it.
func TestCronProgram(t *testing.T) {
	for _, program := range []string{"/usr/bin/symphony", `/home/it's 50%/${HOME} "x"/symphony`, "/home/jörg tick/symphony"} {
		s := &scheduled{
			p: &project.Project{Env: &term.Env{Home: "/h"}, Path: "/x y/WORKFLOW.md"}, program: program,
			carried: []string{"HOME=/some where", "XDG_STATE_HOME=/it's"}, stateDir: "/state dir",
		}
		line, err := s.cronLine()
		if err != nil {
			t.Fatal(err)
		}
		if got := cronProgram(line); got != program {
			t.Errorf("%s: %q in %s", program, got, line)
		}
	}
	if got := cronProgram("@daily something else # symphony-x"); got != "" {
		t.Errorf("a line that somebody has rewritten: %q", got)
	}
}
