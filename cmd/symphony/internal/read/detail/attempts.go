package detail

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/state"
)

// AttemptList are the runs of the agent on an issue, side by side.
type AttemptList struct {
	GeneratedAt time.Time `json:"generated_at"`
	Identifier  string    `json:"issue_identifier"`
	Attempts    []Attempt `json:"attempts"` // the oldest first
}

// Attempt is a run, and what it has changed.
type Attempt struct {
	Number int `json:"number"` // from 1, the oldest run that is recorded
	view.RunRow
	// Changes are null while it runs, and where they are not known.
	Changes *host.WorkEnd `json:"changes"`
}

// ReadAttempts reads the runs of the agent on an issue.
func ReadAttempts(ctx context.Context, p *wiring.Project, ref string) (a AttemptList, err error) {
	f := view.Facts{Project: p, Now: p.Env.Now().UTC()}
	if err := f.Open(ctx); err != nil {
		return a, err
	}
	defer f.DB.Close()
	f.Config, f.ConfigErr = f.Project.ConfigWithoutKey() // for the prices
	id, identifier, known, err := f.DB.Views.FindIssue(ctx, ref)
	if err == nil && !known {
		err = wiring.UnknownIssue(ctx, f.DB, ref, "it has had no run")
	}
	if err != nil {
		return a, err
	}
	a = AttemptList{GeneratedAt: f.Now, Identifier: identifier, Attempts: []Attempt{}}
	runs, err := f.DB.Runs.Since(ctx, id, time.Time{})
	for i, run := range runs {
		end, readErr := eventlog.WorkEnd(p.StateDir, run.ID)
		if readErr != nil {
			return a, readErr
		}
		a.Attempts = append(a.Attempts, Attempt{i + 1, f.RunRow(run), end})
	}
	return a, err
}

// between returns the trees that two attempts have left, such as "1..2". 0 is where the work
// began.
func between(
	ctx context.Context,
	p *wiring.Project,
	db *state.DB,
	run reconcile.Run,
	attempts string,
) (trees [2]string, err error) {
	runs, err := db.Runs.Since(ctx, run.IssueID, time.Time{})
	base := ""
	for i, word := range strings.SplitN(attempts, "..", 2) {
		n, wrong := strconv.Atoi(word)
		switch {
		case err != nil:
			return trees, err
		case wrong != nil || n < 0 || word == attempts || attempts == "0..0":
			return trees, exit.Usage(
				"diff: --attempt needs two attempts such as 1..2, or 0..2 from where the work began, not %q",
				attempts,
			)
		case n > len(runs):
			return trees, exit.Usage(
				"diff: %s has no attempt %d: %d are recorded",
				run.Identifier,
				n,
				len(runs),
			)
		case n == 0:
			continue
		}
		end, readErr := eventlog.WorkEnd(p.StateDir, runs[n-1].ID)
		if end == nil {
			why := fmt.Sprintf(
				"what attempt %d of %s has left was not recorded: it has not ended, its worker was lost, or it had no git "+
					"repository",
				n,
				run.Identifier,
			)
			hint := "symphony show " + run.Identifier + " --attempts lists what is known"
			if readErr != nil {
				return trees, readErr
			}
			return trees, reconcile.NewError(host.CodeEndNotKept, why, hint)
		}
		trees[i] = end.Tree
		base = end.Base
	}
	return [2]string{cmp.Or(trees[0], base), cmp.Or(trees[1], base)}, err
}
