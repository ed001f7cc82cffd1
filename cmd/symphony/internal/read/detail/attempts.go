package detail

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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

// Attempt is a run, with its changes to the workspace.
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
	if err != nil {
		return a, err
	}
	if !known {
		return a, wiring.UnknownIssue(ctx, f.DB, ref, "it has had no run")
	}
	runs, err := f.DB.Runs.Since(ctx, id, time.Time{})
	if err != nil {
		return a, err
	}
	a = AttemptList{GeneratedAt: f.Now, Identifier: identifier, Attempts: []Attempt{}}
	for i, run := range runs {
		end, err := eventlog.WorkEnd(p.StateDir, run.ID)
		if err != nil {
			return a, err
		}
		a.Attempts = append(a.Attempts, Attempt{i + 1, f.RunRow(run), end})
	}
	return a, nil
}

// between returns the trees that two attempts have left, such as "1..2", or those of two runs
// by their ids. 0 is where the work began.
func between(
	ctx context.Context, p *wiring.Project, db *state.DB, run reconcile.Run, attempts string,
) (from, to string, err error) {
	runs, err := db.Runs.Since(ctx, run.IssueID, time.Time{})
	if err != nil {
		return "", "", err
	}
	first, second, isPair := strings.Cut(attempts, "..")
	if !isPair || attempts == "0..0" {
		return "", "", notTwoAttempts(attempts)
	}
	var ends [2]host.WorkEnd // of no attempt it stays empty
	for i, word := range []string{first, second} {
		n, err := strconv.Atoi(word)
		if err != nil {
			n = 1 + slices.IndexFunc(runs, func(r reconcile.Run) bool { return r.ID == word })
		}
		if n < 0 || n == 0 && word != "0" {
			return "", "", notTwoAttempts(attempts)
		}
		if n > len(runs) {
			return "", "", exit.Usage("diff: %s has no attempt %d, only %d", run.Identifier, n, len(runs))
		}
		if n == 0 {
			continue
		}
		end, err := eventlog.WorkEnd(p.StateDir, runs[n-1].ID)
		if err != nil {
			return "", "", err
		}
		if end == nil {
			return "", "", notKept(run.Identifier, n)
		}
		ends[i] = *end
	}
	base := cmp.Or(ends[1].Base, ends[0].Base)
	return cmp.Or(ends[0].Tree, base), cmp.Or(ends[1].Tree, base), nil
}

func notTwoAttempts(attempts string) error {
	return exit.Usage(
		"diff: --attempt needs two attempts such as 1..2, or 0..2 from where the work began, not %q", attempts)
}

func notKept(identifier string, attempt int) error {
	why := fmt.Sprintf("what attempt %d of %s has left was not recorded: "+
		"it has not ended, its worker was lost, or it had no git repository", attempt, identifier)
	show := reconcile.CommandLine{Verb: "show", Name: identifier, Rest: "--attempts"}
	return reconcile.NewError(host.CodeEndNotKept, why, "").WithHint("%s lists what is known", show)
}
