package operate

import (
	"cmp"
	"context"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/state"
)

// stopping is one stop of an issue's run, or of all.
type Stop struct {
	P      *project.Project
	Cmd    reconcile.Command
	Only   string // the issue, empty for all
	NoWait bool
	// takingOver: a takeover that somebody else is at is met with at the workspace's lease.
	TakingOver bool
	// stopped is what became of the runs, filled by run.
	stopped []stoppedRow
}

// run writes the command down, runs a pass, and waits for what that has asked to end.
func (s *Stop) Run(ctx context.Context) error {
	return AtDesk(ctx, s.P, s.Cmd.Verb, func(db *state.DB) error { return s.at(ctx, db) })
}

func (s *Stop) at(ctx context.Context, db *state.DB) error {
	began := proc.Monotonic()
	before, _ := s.unsettled(ctx) // what is wrong with the database is said by what writes to it
	r, done, err := applyCommand(ctx, s.P, db, s.Cmd, s.Only)
	if err != nil || r == nil {
		return err // without the database its workers have been ended as well as can be
	}
	if !s.P.Env.JSON {
		if err := sayPass(ctx, s.P, db, s.Cmd, *r, done); err != nil {
			return err
		}
	}
	var waited error
	if done && !s.NoWait {
		waited = s.await(context.WithoutCancel(ctx), ctx.Done(), *r, before, began)
	}
	if s.P.Env.JSON {
		s.P.Env.PrintJSON(stopJSON{r.Json(false), append([]stoppedRow{}, s.stopped...)})
	}
	return cmp.Or(waited, noteUndone(ctx, s.P, db, s.Cmd, *r, done))
}

// stopJSON is the pass, as tick --json has it, and what was stopped.
type stopJSON struct {
	pass.TickJSON
	Stopped []stoppedRow `json:"stopped"`
}
