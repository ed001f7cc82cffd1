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
func sendBack(ctx context.Context, o Options, t *reconcile.TrackerAdapter, r *Result) {
	if t == nil || t.Move == nil || len(o.Only) > 0 || ctx.Err() != nil {
		return
	}
	state := wiring.Policy(r.Config).BackState(r.Config.Feedback)
	if state == "" {
		return
	}
	for _, c := range r.Claims {
		if c.SentBack() {
			r.addError(exit.About("sending back "+c.Identifier, t.Move(ctx, c.IssueID, state)))
		}
	}
}
