package github

import (
	"cmp"
	"context"
	"strconv"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	maxName    = 255  // bytes of the name of a check, a branch or a file
	maxAddress = 2048 // bytes of the address of a check
)

// commit is a commit with its checks.
type commit struct {
	OID    string `json:"oid"`
	Rollup struct {
		State string `json:"state"`
		// null stands for a check that the token may not see
		Contexts transport.List[*check] `json:"contexts"`
	} `json:"statusCheckRollup"`
}

// check is a CheckRun or a StatusContext, in GitHub's words. A CheckRun with a workflow
// belongs to GitHub Actions.
type check struct {
	Name       string `json:"name"`
	URL        string `json:"url"`
	Status     string `json:"status"`     // of a CheckRun, such as IN_PROGRESS
	Conclusion string `json:"conclusion"` // of a CheckRun whose status is COMPLETED
	State      string `json:"state"`      // of a StatusContext
	Suite      struct {
		Run *struct {
			Workflow struct {
				Name string `json:"name"`
			} `json:"workflow"`
		} `json:"workflowRun"`
	} `json:"checkSuite"`
}

// checkStates are the states of checks by GitHub's words. A check that ended with another word
// gives no verdict.
var checkStates = map[string]string{
	"SUCCESS":         reconcile.CheckSuccess,
	"FAILURE":         reconcile.CheckFailure,
	"TIMED_OUT":       reconcile.CheckFailure,
	"STARTUP_FAILURE": reconcile.CheckFailure,
	"ERROR":           reconcile.CheckFailure,
	"NEUTRAL":         reconcile.CheckSkipped,
	"SKIPPED":         reconcile.CheckSkipped,
	"PENDING":         reconcile.CheckPending,
	"EXPECTED":        reconcile.CheckPending,
}

// job finds the numbers of the run and the job in the address of a check of GitHub Actions.
// GraphQL returns only 32 bits of them.
var job = text.Pattern(`/actions/runs/(\d{1,18})/job/(\d{1,18})$`)

// value returns the check in the words of the core.
func (c *check) value() reconcile.Check {
	v := reconcile.Check{
		Name:  text.Short(c.Name, maxName),
		State: c.verdict(),
		URL:   text.Short(c.URL, maxAddress),
	}
	run := c.Suite.Run
	if run == nil {
		return v
	}
	v.Name = text.Short(run.Workflow.Name+" / "+c.Name, maxName)
	if m := job().FindStringSubmatch(c.URL); m != nil {
		v.Run, _ = strconv.ParseInt(m[1], 10, 64)
		v.Job, _ = strconv.ParseInt(m[2], 10, 64)
	}
	return v
}

// verdict returns the state of the check. It is reconcile.CheckOpen for a word that is not in
// checkStates, such as CANCELLED.
func (c *check) verdict() string {
	word := c.Conclusion
	switch {
	case c.State != "":
		word = c.State
	case c.Status != "COMPLETED":
		return reconcile.CheckPending
	}
	return cmp.Or(checkStates[word], reconcile.CheckOpen)
}

// readChecks implements reconcile.Forge.
func (h hub) readChecks(ctx context.Context, ref string) (reconcile.Checks, error) {
	c, err := h.readCommit(ctx, ref, nil)
	if err != nil {
		return reconcile.Checks{}, err
	}
	return h.allChecks(ctx, *c)
}

var commitID = text.Pattern(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// readCommit reads a commit, or the newest commit of a branch, with a page of its checks.
func (h hub) readCommit(ctx context.Context, ref string, after any) (*commit, error) {
	if !commitID().MatchString(ref) {
		ref = "refs/heads/" + ref
	}
	vars := map[string]any{"ref": ref, "after": after}
	fields, err := h.query(ctx, readPulls, document("commit", "checks"), vars)
	if err != nil {
		return nil, err
	}
	c, err := decode[*commit](h, "commit", fields["object"])
	if err != nil {
		return nil, err
	}
	if c == nil || c.OID == "" {
		return nil, h.gone(readPulls, "there is no commit "+ref)
	}
	return c, nil
}

// allChecks returns the checks of a commit, sorted by their names. It also reads the pages
// after the first: GitHub can't be asked for the failed checks alone. Their state is GitHub's,
// which also counts the checks that the token may not see.
func (h hub) allChecks(ctx context.Context, c commit) (reconcile.Checks, error) {
	most := reconcile.MaxChecks
	if checkStates[c.Rollup.State] == reconcile.CheckFailure {
		most = reconcile.MaxChecksRead
	}
	checks := reconcile.Checks{Commit: c.OID, State: checkStates[c.Rollup.State]}
	for {
		page := c.Rollup.Contexts
		for _, one := range page.Nodes {
			if one == nil {
				checks.Hidden = true
				continue
			}
			checks.List = append(checks.List, one.value())
		}
		checks.Cut = page.PageInfo.HasNextPage
		if !checks.Cut || len(checks.List) >= most || len(page.Nodes) == 0 {
			break
		}
		next, err := h.readCommit(ctx, c.OID, page.PageInfo.EndCursor)
		if err != nil {
			return checks, err
		}
		c = *next
	}
	checks.List, checks.Cut = reconcile.ShortChecks(checks.List, checks.Cut)
	return checks, nil
}
