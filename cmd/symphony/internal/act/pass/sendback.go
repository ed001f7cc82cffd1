package pass

import (
	"context"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/reconcile"
)

// sendBack moves issues to an active state whose agents needed help and got an answer by a
// comment. The next pass finds them there, which ends their holds. A move that fails is tried
// again by that pass.
func (c *current) sendBack(ctx context.Context, t *reconcile.TrackerAdapter) {
	if t == nil || t.Move == nil || len(c.o.Only) > 0 || ctx.Err() != nil {
		return
	}
	state := wiring.Policy(c.r.Config).BackState(c.r.Config.Feedback)
	if state == "" {
		return
	}
	for _, claim := range c.r.Claims {
		if claim.SentBack() {
			err := t.Move(ctx, claim.IssueID, state)
			c.r.addError(exit.About("sending back "+claim.Identifier, err))
		}
	}
}
