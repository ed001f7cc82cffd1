package operate

import (
	"context"
	"errors"
	"fmt"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
	"github.com/symphony-cron/symphony/state"
)

// takeovers ends what takeovers have left that were killed, and names what has not ended, and takeovers at which somebody
// still is: those are theirs to end. No pass knows of either.
func (s *Stop) takeovers(ctx context.Context, db *state.DB) (list []string, err error) {
	dirs, err := project.Rowless(ctx, s.P, db)
	if err != nil || len(dirs) == 0 {
		return nil, err
	}
	holders, err := holdersIn(ctx, db)
	if err != nil {
		return nil, err
	}
	local := &runner.Local{StateDir: s.P.StateDir}
	for _, d := range dirs {
		rec := holders[d.Name()]
		if s.Only != "" && s.Only != rec.IssueID {
			continue
		}
		run := reconcile.Run{ID: d.Name(), IssueID: rec.IssueID, Identifier: rec.Identifier}
		live := local.Probe(ctx, run)
		switch {
		case live.Alive && rec.IssueID != "" && !s.TakingOver:
			list = append(list, fmt.Sprintf("the takeover of %s (run %s), which ends in its own terminal", run.Identifier, run.ID))
		case live.Alive || len(live.Left) == 0:
			continue // or a run that is just being made
		}
		left, err := local.Reap(ctx, run, func([]reconcile.Process) error { return nil })
		if errors.Is(err, reconcile.ErrConflict) {
			continue
		}
		if err != nil {
			return list, err
		}
		for _, p := range left {
			list = append(list, fmt.Sprintf("process %d (%s) of a takeover that was killed (run %s)", p.PID, p.Name, run.ID))
		}
	}
	return list, nil
}

// holdersIn are the records of the project's workspaces, by the run that was the last to have each.
func holdersIn(ctx context.Context, db *state.DB) (map[string]workspace.Record, error) {
	roots, err := project.RootsOf(ctx, db)
	if err != nil {
		return nil, err
	}
	holders := map[string]workspace.Record{}
	for _, path := range roots {
		root, found, err := workspace.FindRoot(path)
		if err != nil || !found {
			continue // the passes complain about it
		}
		records, _ := root.List() // about what can't be read, too
		for _, r := range records {
			holders[r.RunID] = r
		}
	}
	return holders, nil
}
