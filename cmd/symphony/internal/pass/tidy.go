package pass

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/state"
)

const (
	pruneLimit  = 50 // runs in one pass
	orphanEvery = 500
)

// tidy deletes old runs and their directories.
func tidyUp(ctx context.Context, p *project.Project, db *state.DB, r *Result) {
	ids, err := db.Prune(ctx, p.Env.Now(), pruneLimit)
	if err != nil {
		r.fail(err)
	}
	for _, id := range ids {
		crash.At("tidy.pruned")
		if err := os.RemoveAll(runner.RunDir(p.StateDir, id)); err != nil {
			r.fail(fmt.Errorf("old run: %w", err))
		}
	}
	if r.Pass.ID%orphanEvery != 0 {
		return
	}
	if err := removeOrphans(ctx, p, db); err != nil {
		r.fail(fmt.Errorf("run directories: %w", err))
	}
}

// removeOrphans deletes run directories without a row: a pass that died between the two left them.
func removeOrphans(ctx context.Context, p *project.Project, db *state.DB) error {
	entries, err := os.ReadDir(filepath.Join(p.StateDir, "runs"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || p.Env.Now().Sub(info.ModTime()) < project.OrphanAge {
			continue // gone meanwhile, or perhaps just being made
		}
		if runner.Alive(p.StateDir, e.Name()) {
			continue // a person has taken an issue over
		}
		if _, err := db.Run(ctx, e.Name()); !errors.Is(err, state.ErrNotFound) {
			continue
		}
		if err := os.RemoveAll(runner.RunDir(p.StateDir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
