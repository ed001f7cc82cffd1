package runner

import (
	"context"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/team"
)

// A renewal finds during the last steps of a run that another machine has its claim. The run does not
// count as a success whose delivery is tried again.
func TestClaimLostDuringDelivery(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	test.OK(t, lostClaim(ctx))
	lost := runEnd{reconcile.Canceled, team.CodeLost, "ann on buildhost has the claim of A-1 now"}
	cancel(lost)
	end := endOfLeaving(lostClaim(ctx))
	test.Equal(t, "the outcome and the code", []any{end.outcome, end.code}, []any{lost.outcome, lost.code})

	ctx, cancel = context.WithCancelCause(t.Context())
	cancel(errTerminated)
	test.OK(t, lostClaim(ctx))
}
