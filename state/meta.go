package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

const (
	metaPaused       = "paused"
	metaAgentBlock   = "blocked_agent"
	metaTrackerBlock = "blocked_tracker"
	metaSweep        = "last_sweep"
	metaPruned       = "last_prune"
)

// Meta returns a value kept for the project, and whether there is one.
func (db *DB) Meta(ctx context.Context, key string) (string, bool, error) {
	var value string
	err := db.sql.QueryRowContext(ctx, `SELECT value FROM meta WHERE key = ?`, key).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return "", false, nil
	}
	return value, err == nil, fault(db.dir, "read meta "+key, err)
}

// SetMeta keeps a value for the project. One that is kept already costs no write. The keys that this package
// keeps its own records under are refused.
func (db *DB) SetMeta(ctx context.Context, key, value string) error {
	if reserved(key) {
		return fmt.Errorf("set meta %s: the key is the state's own", key)
	}
	old, found, err := db.Meta(ctx, key)
	if err != nil || found && old == value {
		return err
	}
	return db.update(ctx, "set meta "+key, full, func(tx *sql.Tx) error { return setMeta(ctx, tx, key, value) })
}

func reserved(key string) bool {
	switch key {
	case metaSchema, metaOldestWriter, metaCreatedAt, metaPaused, metaAgentBlock, metaTrackerBlock, metaSweep,
		metaPruned:
		return true
	}
	return strings.HasPrefix(key, "totals_")
}

func setMeta(ctx context.Context, tx *sql.Tx, key, value string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO meta (key, value) VALUES (?, ?)
		ON CONFLICT (key) DO UPDATE SET value = excluded.value`, key, value)
	return err
}

func clearMeta(ctx context.Context, tx *sql.Tx, key string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM meta WHERE key = ?`, key)
	return err
}
