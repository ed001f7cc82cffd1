package pass

import (
	"context"
	"time"

	"github.com/symphony-cron/symphony/state"
)

// KeptDB is a database that stays open between the passes of a loop. The zero value has none yet.
type KeptDB struct{ db *state.DB }

// open returns the open database, or opens it. Only the holder of the project lock may call it.
func (k *KeptDB) open(ctx context.Context, dir string, now time.Time) (_ *state.DB, err error) {
	if k.db != nil && k.db.Current(ctx) {
		return k.db, nil
	}
	k.Close()
	k.db, err = state.Create(ctx, dir, now)
	return k.db, err
}

// Opened returns the database if it is open.
func (k *KeptDB) Opened() *state.DB {
	if k == nil {
		return nil
	}
	return k.db
}

// Close closes the database if it is open.
func (k *KeptDB) Close() {
	if k.db != nil {
		_ = k.db.Close() // every write was committed
	}
	k.db = nil
}
