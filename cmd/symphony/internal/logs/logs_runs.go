package logs

import (
	"context"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// loggedIssue is whose runs are asked for.
type loggedIssue struct{ id, identifier string }

// logIssue finds the issue here; one that has had no run yet can be waited for, and there the tracker knows it.
func logIssue(ctx context.Context, p *project.Project, db *state.DB, ref string, o LogOptions) (loggedIssue, error) {
	id, identifier, ok, err := db.FindIssue(ctx, ref)
	switch {
	case err != nil || ok:
		return loggedIssue{id, identifier}, err
	case o.Follow && o.Run == "":
		issue, err := project.FetchIssue(ctx, p, ref)
		if err != nil {
			return loggedIssue{}, err
		}
		return loggedIssue{issue.ID, issue.Identifier}, nil
	}
	names, err := db.Identifiers(ctx)
	if err != nil {
		return loggedIssue{}, err
	}
	return loggedIssue{}, &reconcile.Error{
		Code: "issue_not_found", Message: ref + " has no run here" + view.NearestIssue(ref, names),
		Hint: "symphony ps --all lists what there is; symphony show " + ref + " asks the tracker",
	}
}

// runs are those that are asked for, the oldest first.
func (i loggedIssue) runs(ctx context.Context, db *state.DB, o LogOptions) ([]reconcile.Run, error) {
	switch {
	case o.Run != "":
		run, err := i.named(ctx, db, o.Run)
		return []reconcile.Run{run}, err
	case o.All || !o.Since.IsZero():
		runs, err := db.RunsSince(ctx, i.id, o.Since)
		if err == nil && len(runs) == 0 && o.Since.IsZero() && !o.Follow {
			err = i.noRun()
		}
		return runs, err
	case o.Last != "":
		runs, err := db.RunsOfIssue(ctx, i.id, lastRuns)
		slices.Reverse(runs)
		if err == nil && len(runs) == 0 {
			err = i.noRun()
		}
		return runs, err
	}
	run, ok, err := db.LastRun(ctx, i.id)
	switch {
	case err != nil:
		return nil, err
	case ok:
		return []reconcile.Run{run}, nil
	case o.Follow:
		return nil, nil
	}
	return nil, i.noRun()
}

func (i loggedIssue) noRun() error {
	return &reconcile.Error{
		Code: "run_not_found", Message: i.identifier + " has had no run yet",
		Hint: "symphony show " + i.identifier + " says why; symphony logs -f " + i.identifier + " waits for one",
	}
}

// named finds the run whose id begins so.
func (i loggedIssue) named(ctx context.Context, db *state.DB, prefix string) (reconcile.Run, error) {
	const named = 5 // of those that are meant, where it is not clear
	runs, err := db.RunsByPrefix(ctx, i.id, prefix, named)
	if err != nil {
		return reconcile.Run{}, err
	}
	ids := make([]string, 0, len(runs))
	for _, run := range runs {
		if run.ID == prefix || len(runs) == 1 {
			return run, nil
		}
		ids = append(ids, run.ID)
	}
	if len(ids) == 0 {
		return reconcile.Run{}, &reconcile.Error{Code: "run_not_found", Message: i.identifier + " has no run " + prefix, Hint: "symphony show " + i.identifier + " lists the latest"}
	}
	return reconcile.Run{}, &reconcile.Error{
		Code: "run_not_found", Message: "more than one run of " + i.identifier + " begins with " + prefix, Hint: "write more of it: " + strings.Join(ids, ", "),
	}
}
