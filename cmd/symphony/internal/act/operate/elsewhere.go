package operate

import (
	"context"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
)

// refuseElsewhere returns an error if another machine of the team has the issue, as this one saw it
// last, and the command would have no effect there. It makes no request.
func (o *operation) refuseElsewhere(ctx context.Context) error {
	if o.command.IssueID == "" {
		return nil
	}
	_, isClaimed, err := o.db.Views.ClaimByIssue(ctx, o.command.IssueID)
	if err != nil || isClaimed {
		return err
	}
	return wiring.RefuseOfTeam(ctx, o.p, o.db, o.command.IssueID)
}
