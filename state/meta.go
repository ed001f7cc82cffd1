package state

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Keys of meta that this package writes itself.
const (
	metaSchema       = "schema"
	metaOldestWriter = "oldest_writer"
	metaPaused       = "paused"
	metaAgentBlock   = "blocked_agent"
	metaTrackerBlock = "blocked_tracker"
	metaHostBlock    = "blocked_host"
	metaSweep        = "last_sweep"
	metaPruned       = "last_prune"
)

// Meta returns a value that SetMeta stored for the project, and whether there is one.
func (c *conn) Meta(ctx context.Context, key string) (string, bool, error) {
	return readOne(ctx, c, "read meta "+key, itself[string], `SELECT value FROM meta WHERE key = ?`, key)
}

// SetMeta stores a value for the project. A value that is already stored costs no write.
func (c *conn) SetMeta(ctx context.Context, key, value string) error {
	old, found, err := c.Meta(ctx, key)
	if err != nil || found && old == value {
		return err
	}
	return c.update(ctx, "set meta "+key, full, func(t tx) error { return setMeta(t, key, value) })
}

const storeMeta = `INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`

func setMeta(t tx, key, value string) error { return t.run(storeMeta, key, value) }

func clearMeta(t tx, key string) error { return t.run(`DELETE FROM meta WHERE key = ?`, key) }

// parseMillis reads a time that is stored as UTC milliseconds in a text; empty is the zero time.
func parseMillis(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: a time", errStored)
	}
	return time.UnixMilli(ms).UTC(), nil
}
