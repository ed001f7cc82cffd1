package operate

import (
	"context"
	"slices"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/reconcile"
)

// refuseElsewhere returns an error if another machine of the team has the issue, as this one saw it
// last, and the command would have no effect there. It makes no request.
func (o *operation) refuseElsewhere(ctx context.Context) error {
	verbs := []reconcile.Verb{reconcile.VerbStop, reconcile.VerbRetry, VerbTell, VerbDone}
	if o.command.IssueID == "" || !slices.Contains(verbs, o.command.Verb) {
		return nil
	}
	cfg, err := o.p.ConfigWithoutKey()
	if err != nil {
		return nil //nolint:nilerr // a workflow that can't be read keeps nobody from ending a run
	}
	t, err := wiring.NewTeamOfPass(o.p, cfg, o.db)
	if err != nil || t == nil {
		return err
	}
	_, isClaimed, err := o.db.Views.ClaimByIssue(ctx, o.command.IssueID)
	if err != nil || isClaimed {
		return err
	}
	known, err := t.Known(ctx)
	if err != nil {
		return err
	}
	who, isElsewhere := known.Others[o.command.IssueID]
	if !isElsewhere {
		return nil
	}
	return reconcile.NewError(
		reconcile.CodeIssueElsewhere,
		o.command.Identifier+" is not here: "+who.String(),
		"repeat the command on that machine; what you write in the tracker, and where you move the issue, counts there, too",
	)
}
