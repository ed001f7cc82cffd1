package state

import (
	"slices"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Release is an issue that was released after at least one run, and what was done for it since it was claimed.
type Release struct {
	IssueID    string           `json:"issue_id"`
	Identifier string           `json:"issue_identifier"`
	Title      string           `json:"title"`
	URL        *string          `json:"url"`
	Branch     *string          `json:"branch_name"`
	Reason     string           `json:"reason"` // to stop or to skip
	From       string           `json:"from_state"`
	To         *string          `json:"to_state"` // null where the tracker no longer returned the issue
	ClaimedAt  time.Time        `json:"claimed_at"`
	At         time.Time        `json:"at"`
	Runs       int              `json:"runs"`
	Runtime    time.Duration    `json:"-"`
	Models     []ModelUse       `json:"-"`
	Links      []reconcile.Link `json:"links"`
	Created    map[string]int   `json:"created"` // how many objects the agents created in the tracker, by kind
}

// ModelUse is what was used of one model; an empty model is unknown.
type ModelUse struct {
	Model  string           `json:"model"`
	Tokens reconcile.Tokens `json:"tokens"`
}

const releaseColumns = `issue_id, identifier, title, url, branch, reason, from_state, to_state, claimed_at, released_at,
	runs, runtime_ms, usage, links, created`

func releaseFields(r *Release) []any {
	return []any{
		&r.IssueID, &r.Identifier, &r.Title, nilOf(&r.URL), nilOf(&r.Branch), &r.Reason, &r.From, nilOf(&r.To), stampOf(&r.ClaimedAt),
		stampOf(&r.At), &r.Runs, millisOf(&r.Runtime), jsonOf(&r.Models), jsonOf(&r.Links), jsonOf(&r.Created),
	}
}

// recordRelease records what a released claim came to. Without a run nothing was done, and nothing is recorded.
func recordRelease(t tx, now time.Time, c reconcile.Claim, gone reconcile.Gone) error {
	type part struct {
		ModelUse
		runtime time.Duration
		links   []reconcile.Link
		state   string
	}
	runs, err := rows(t, func(p *part) []any {
		return append([]any{&p.Model, millisOf(&p.runtime), jsonOf(&p.links), &p.state}, tokenFields(&p.Tokens)...)
	}, `SELECT model, runtime_ms, links, issue ->> '$.state', tokens_input, tokens_cached, tokens_output, tokens_reasoning, tokens_total
		FROM runs WHERE issue_id = ? AND kind = 'agent' AND started_at >= ? ORDER BY id`, c.IssueID, stamp(c.ClaimedAt))
	if err != nil || len(runs) == 0 {
		return err
	}
	r := Release{
		IssueID: c.IssueID, Identifier: c.Identifier, Title: c.Issue.Title, URL: c.Issue.URL, Branch: c.Issue.BranchName,
		Reason: gone.Reason, From: runs[0].state, To: &gone.State, ClaimedAt: c.ClaimedAt, At: now, Runs: len(runs), Links: []reconcile.Link{}, Created: map[string]int{},
	}
	for _, run := range runs {
		r.Runtime += run.runtime
		r.Links = reconcile.MergeLinks(r.Links, run.links)
		if i := slices.IndexFunc(r.Models, func(use ModelUse) bool { return use.Model == run.Model }); i >= 0 {
			r.Models[i].Tokens = r.Models[i].Tokens.Plus(run.Tokens)
		} else {
			r.Models = append(r.Models, run.ModelUse)
		}
	}
	kinds, err := rows(t, itself[string], `SELECT c.kind FROM runs JOIN created c ON c.run_id = runs.id
		WHERE runs.issue_id = ? AND runs.kind = 'agent' AND runs.started_at >= ?`, c.IssueID, stamp(c.ClaimedAt))
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		r.Created[kind]++
	}
	return t.run(`INSERT INTO releases (`+releaseColumns+`) VALUES (`+marks(releaseColumns)+`)`, releaseFields(&r)...)
}

// Outage is a period in which a fault of the machine, agent or tracker kept everything waiting.
type Outage struct {
	Code, Message string
	Since         time.Time
	Until         time.Time // zero where it goes on
}

// recordOutage ends another outage of the same source that is open, and begins this one where it is not open yet. The block
// in meta is deleted with its end; this record stays. source is the block's key in meta.
func recordOutage(t tx, now time.Time, source string, b reconcile.Block) error {
	if err := t.run(`UPDATE outages SET until = max(?, since) WHERE source = ? AND until IS NULL AND code <> ?`,
		stamp(now), source, b.Code); err != nil || b.Code == "" {
		return err
	}
	return t.run(`INSERT INTO outages (source, code, message, since) VALUES (?, ?, ?, ?)
		ON CONFLICT (source) WHERE until IS NULL DO UPDATE SET message = excluded.message`,
		source, b.Code, b.Message, stamp(now))
}
