package main

import (
	"context"
	"fmt"
	"os"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// ownerKey is where a database keeps whose it is: the resolved path of the workflow.
const ownerKey = "workflow_path"

// owner reads whose the state directory is, and refuses one of another workflow: a pass would let go of all
// that the other has claimed. A workflow that was moved takes its state along.
func (p *project) owner(ctx context.Context, db *state.DB) (path string, err error) {
	path, known, err := db.Meta(ctx, ownerKey)
	switch {
	case err != nil || !known || path == p.path:
		return path, err
	case p.sourceErr != nil:
		return path, p.sourceErr // not there, and it never was this directory's
	}
	theirs, err := os.Stat(path)
	if err != nil {
		return path, nil //nolint:nilerr // it is gone: the workflow was moved
	}
	if ours, err := os.Stat(p.path); err == nil && os.SameFile(ours, theirs) {
		return path, nil
	}
	return path, &reconcile.Error{
		Code: "state_conflict", Message: fmt.Sprintf("the state directory %s belongs to %s, not to %s", p.stateDir, path, p.path),
		Hint: "give each workflow a state directory of its own: leave --state-dir and SYMPHONY_STATE_DIR out, or name another",
	}
}

// own makes the state directory this workflow's.
func (p *project) own(ctx context.Context, db *state.DB) error {
	path, err := p.owner(ctx, db)
	if err != nil || path == p.path || p.sourceErr != nil {
		return err
	}
	return db.SetMeta(ctx, ownerKey, p.path)
}
