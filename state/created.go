package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
)

// SaveCreated keeps what a run's agent made in the tracker, whoever the run belongs to by now: it was made, and a
// later run must not take it for a person's.
func (db *DB) SaveCreated(ctx context.Context, runID, issueID string, made []reconcile.Created, now time.Time) error {
	if len(made) == 0 {
		return nil
	}
	crash.At("state.created.before")
	err := db.update(ctx, "keep what was created in the tracker", full, func(tx *sql.Tx) error {
		for _, c := range made {
			if _, err := tx.ExecContext(ctx, `INSERT INTO created (id, kind, issue_id, run_id, at)
				VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`, c.ID, c.Kind, issueID, runID, stamp(now)); err != nil {
				return err
			}
		}
		return nil
	})
	crash.At("state.created.after")
	return err
}

// Created reports which of these ids of the tracker's agents of this project have made.
func (db *DB) Created(ctx context.Context, ids []string) (map[string]bool, error) {
	ours := map[string]bool{}
	if len(ids) == 0 {
		return ours, nil
	}
	list, err := json.Marshal(ids) // one parameter, however many they are
	if err != nil {
		return nil, err
	}
	rows, err := db.sql.QueryContext(ctx, `SELECT id FROM created WHERE id IN (SELECT value FROM json_each(?))`, string(list))
	found, err := collect(rows, err, func(row scanner) (id string, err error) {
		err = row.Scan(&id)
		return id, err
	})
	for _, id := range found {
		ours[id] = true
	}
	return ours, fault(db.dir, "look for what agents created", err)
}
