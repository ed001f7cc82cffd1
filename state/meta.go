package state

import (
	"context"
	"fmt"
	"strings"
)

// Keys of meta that this package writes itself.
const (
	metaSchema       = "schema"
	metaOldestWriter = "oldest_writer"
	metaCreatedAt    = "created_at"
	metaPaused       = "paused"
	metaAgentBlock   = "blocked_agent"
	metaTrackerBlock = "blocked_tracker"
	metaHostBlock    = "blocked_host"
	metaSweep        = "last_sweep"
	metaPruned       = "last_prune"
	metaTotals       = "totals_" // a prefix
)

// Meta returns a value that SetMeta stored for the project, and whether there is one.
func (c *conn) Meta(ctx context.Context, key string) (string, bool, error) {
	value, err := scanOne[string](c.row(ctx, `SELECT value FROM meta WHERE key = ?`, key))
	return found(c.dir, "read meta "+key, value, err)
}

// SetMeta stores a value for the project. A value that is already stored costs no write. Keys of this package are refused.
func (c *conn) SetMeta(ctx context.Context, key, value string) error {
	if reserved(key) {
		return fmt.Errorf("set meta %s: the key is the state's own", key)
	}
	old, found, err := c.Meta(ctx, key)
	if err != nil || found && old == value {
		return err
	}
	return c.update(ctx, "set meta "+key, full, func(t tx) error { return setMeta(t, key, value) })
}

func reserved(key string) bool {
	switch key {
	case metaSchema, metaOldestWriter, metaCreatedAt, metaPaused, metaAgentBlock, metaTrackerBlock, metaHostBlock, metaSweep,
		metaPruned:
		return true
	}
	return strings.HasPrefix(key, metaTotals)
}

func setMeta(t tx, key, value string) error {
	return t.run(`INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`, key, value)
}

func clearMeta(t tx, key string) error { return t.run(`DELETE FROM meta WHERE key = ?`, key) }
