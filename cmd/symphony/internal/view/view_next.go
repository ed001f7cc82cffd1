package view

import (
	"context"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/state"
)

// nextPassRow is when the schedule's next pass is to be expected.
type nextPassRow struct {
	At      time.Time `json:"at"`
	Trigger string    `json:"trigger"`
}

// next adds whether there is a schedule, and when it comes again, as far as its passes show a rhythm.
func (v *View) next(ctx context.Context, p *project.Project, db *state.DB) error {
	scheduled, err := project.ScheduleAlive(ctx, db, v.GeneratedAt)
	if err != nil {
		return err
	}
	if v.Schedule = scheduled || project.Looping(p.StateDir); !v.Schedule {
		return nil
	}
	passes, err := db.ScheduleGaps(ctx)
	if err != nil {
		return err
	}
	if gap, known := project.UsualGap(passes); known {
		v.NextPass = &nextPassRow{At: passes[0].StartedAt.Add(gap).UTC(), Trigger: passes[0].Trigger}
	}
	return nil
}
