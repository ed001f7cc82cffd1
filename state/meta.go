package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/reconcile/crash"
)

const (
	metaPaused       = "paused"
	metaAgentBlock   = "blocked_agent"
	metaTrackerBlock = "blocked_tracker"
	metaHostBlock    = "blocked_host"
	metaSweep        = "last_sweep"
	metaPruned       = "last_prune"
)

// keptMeta is what a pass found in meta, and whether there were skips: one statement in the place of several that every
// pass would make. Only passes write all that, one at a time.
type keptMeta struct {
	mu     sync.Mutex
	values map[string]string // nil: nothing is kept
	bare   bool              // no candidate was skipped
	// found is all of meta, and calm that there was nothing to tell a person, as long as this program has written nothing
	// since.
	found map[string]string
	calm  bool
}

// fill keeps the values that SetMeta and Prune write; the others change under other names of this package.
func (k *keptMeta) fill(values map[string]string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.values, k.bare, k.found, k.calm = maps.Clone(values), false, values, false
	maps.DeleteFunc(k.values, func(key, _ string) bool { return reserved(key) && key != metaPruned })
}

// wrote forgets what a write may have changed.
func (k *keptMeta) wrote() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.found, k.calm = nil, false
}

// all is nil where it is to be read.
func (k *keptMeta) all() map[string]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.found
}

// attentions says whether some are open. Runs may add more at any time, but what a pass has taken is known to it.
func (k *keptMeta) attentions(some bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calm = !some && k.found != nil
}

func (k *keptMeta) noAttentions() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.calm
}

// skips says whether some are stored.
func (k *keptMeta) skips(some bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.bare = !some && k.values != nil
}

func (k *keptMeta) noSkips() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.bare
}

func (k *keptMeta) get(key string) (string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	value, found := k.values[key]
	return value, found
}

// set remembers what was written.
func (k *keptMeta) set(key, value string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.values != nil {
		k.values[key] = value
	}
}

func readAllMeta(ctx context.Context, handle *sql.DB) (map[string]string, error) {
	rows, err := handle.QueryContext(ctx, `SELECT key, value FROM meta`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	values := map[string]string{}
	for rows.Next() {
		var key, value string
		if err := rows.Scan(&key, &value); err != nil {
			return nil, err
		}
		values[key] = value
	}
	return values, rows.Err()
}

// Meta returns a value kept for the project, and whether there is one. In a database that Create opened a value may
// be the one found at opening.
func (db *DB) Meta(ctx context.Context, key string) (string, bool, error) {
	if value, found := db.kept.get(key); found {
		return value, true, nil
	}
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
	crash.At("state.set_meta.before")
	err = db.update(ctx, "set meta "+key, full, func(tx *sql.Tx) error { return setMeta(ctx, tx, key, value) })
	crash.At("state.set_meta.after")
	if err == nil {
		db.kept.set(key, value)
	}
	return err
}

func reserved(key string) bool {
	switch key {
	case metaSchema, metaOldestWriter, metaCreatedAt, metaPaused, metaAgentBlock, metaTrackerBlock, metaHostBlock, metaSweep,
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
