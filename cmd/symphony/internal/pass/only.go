package pass

import (
	"context"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// nowhere confines a pass to no issue at all: it takes up commands about the whole project only.
const Nowhere = "-"

// confined is the database of a pass that is confined to one issue: it reads no more than that takes, however many
// others are claimed.
type confined struct {
	*state.DB
	only string
}

// State implements reconcile.Store.
func (c confined) State(ctx context.Context) (reconcile.State, error) {
	return c.StateOf(ctx, c.only)
}
