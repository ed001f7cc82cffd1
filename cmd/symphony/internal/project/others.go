package project

import (
	"context"
	"errors"
	"fmt"

	"github.com/symphony-cron/symphony/state"
)

// Others are the other projects of the account, as a pass sees them: some may have the same project of the tracker.
type Others struct {
	p    *Project
	warn func(string)
}

// NewOthers returns the projects beside p. warn receives why one can't be read.
func NewOthers(p *Project, warn func(string)) *Others { return &Others{p, warn} }

// AtWork implements reconcile.Others.
func (o *Others) AtWork(ctx context.Context, project string, dryRun bool) (by map[string]string, release func(), err error) {
	release = func() {}
	if !dryRun {
		if release, err = state.LockTracker(ctx, o.p.Env.Getenv("XDG_STATE_HOME"), o.p.Env.Home, project); err != nil {
			return nil, func() {}, err
		}
	}
	by = map[string]string{}
	all, err := All(o.p.Env)
	for _, other := range all {
		if other.StateDir == o.p.StateDir {
			continue
		}
		if failed := addAtWork(ctx, by, other.StateDir, project); failed != nil {
			o.warn(fmt.Sprintf("%s: it is not known which issues this project works on: %v", other.StateDir, failed))
		}
	}
	if err != nil {
		release()
	}
	return by, release, err
}

// addAtWork adds the issues that one project works on.
func addAtWork(ctx context.Context, by map[string]string, stateDir, project string) error {
	db, err := state.OpenReadOnly(ctx, stateDir)
	if errors.Is(err, state.ErrNoState) {
		return nil
	}
	if err != nil {
		return err
	}
	defer db.Close()
	ids, err := db.Views.AtWork(ctx, project)
	if err != nil || len(ids) == 0 {
		return err
	}
	workflow, _, err := db.Meta(ctx, OwnerKey)
	for _, id := range ids {
		by[id] = workflow
	}
	return err
}
