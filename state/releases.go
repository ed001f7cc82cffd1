package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Release is an issue that was let go after a run at least, and what was done for it since it was claimed.
type Release struct {
	IssueID, Identifier, Title string
	URL, Branch                string // empty where the tracker has none
	Reason                     string // a reason to stop or to skip
	From, To                   string // states; To is empty where the tracker no longer returned the issue
	ClaimedAt, At              time.Time
	Runs                       int
	Runtime                    time.Duration
	Models                     []ModelUse
	Links                      []reconcile.Link
	Created                    map[string]int // how many the agents made in the tracker, by kind
}

// ModelUse is what was used of one model; of an empty one nobody knows which it was.
type ModelUse struct {
	Model  string           `json:"model"`
	Tokens reconcile.Tokens `json:"tokens"`
}

// noteRelease keeps what a deleted claim came to. Without a run nothing was done, and nothing is kept.
func noteRelease(ctx context.Context, tx *sql.Tx, now time.Time, c reconcile.Change) error {
	if c.Gone == nil {
		return nil
	}
	r := Release{
		IssueID: c.Claim.IssueID, Identifier: c.Claim.Identifier, Title: c.Claim.Issue.Title, Reason: c.Gone.Reason, To: c.Gone.State,
		From: c.Claim.Issue.State, ClaimedAt: c.Claim.ClaimedAt, Links: []reconcile.Link{}, Created: map[string]int{},
	}
	if url := c.Claim.Issue.URL; url != nil {
		r.URL = *url
	}
	if branch := c.Claim.Issue.BranchName; branch != nil {
		r.Branch = *branch
	}
	if err := r.gather(ctx, tx); err != nil || r.Runs == 0 {
		return err
	}
	if err := r.countCreated(ctx, tx); err != nil {
		return err
	}
	return r.insert(ctx, tx, now)
}

// gather adds up the runs of the claim.
func (r *Release) gather(ctx context.Context, tx *sql.Tx) error {
	rows, err := tx.QueryContext(ctx, `SELECT model, runtime_ms, links, json_extract(issue, '$.state'),
		tokens_input, tokens_cached, tokens_output, tokens_reasoning, tokens_total
		FROM runs WHERE issue_id = ? AND kind = 'agent' AND started_at >= ? ORDER BY id`, r.IssueID, stamp(r.ClaimedAt))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var use ModelUse
		var ms int64
		var links []reconcile.Link
		var state string
		t := &use.Tokens
		if err := rows.Scan(&use.Model, &ms, linksIn{&links}, &state, &t.Input, &t.Cached, &t.Output, &t.Reasoning, &t.Total); err != nil {
			return err
		}
		if r.Runs == 0 {
			r.From = state
		}
		r.Runs++
		r.Runtime += time.Duration(ms) * time.Millisecond
		r.Models = addUse(r.Models, use)
		r.Links = reconcile.MergeLinks(r.Links, links)
	}
	return rows.Err()
}

func addUse(all []ModelUse, use ModelUse) []ModelUse {
	for i := range all {
		if all[i].Model == use.Model {
			all[i].Tokens = all[i].Tokens.Plus(use.Tokens)
			return all
		}
	}
	return append(all, use)
}

func (r *Release) countCreated(ctx context.Context, tx *sql.Tx) error {
	rows, err := tx.QueryContext(ctx, `SELECT c.kind, count(*) FROM runs JOIN created c ON c.run_id = runs.id
		WHERE runs.issue_id = ? AND runs.kind = 'agent' AND runs.started_at >= ? GROUP BY c.kind`, r.IssueID, stamp(r.ClaimedAt))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var kind string
		var n int
		if err := rows.Scan(&kind, &n); err != nil {
			return err
		}
		r.Created[kind] = n
	}
	return rows.Err()
}

func (r *Release) insert(ctx context.Context, tx *sql.Tx, now time.Time) error {
	var texts [3]string
	for i, v := range []any{r.Models, r.Links, r.Created} {
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		texts[i] = string(text)
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO releases (issue_id, identifier, title, url, branch, reason, from_state, to_state,
		claimed_at, released_at, runs, runtime_ms, usage, links, created) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.IssueID, r.Identifier, r.Title, r.URL, r.Branch, r.Reason, r.From, r.To, stamp(r.ClaimedAt), stamp(now), r.Runs,
		r.Runtime.Milliseconds(), texts[0], texts[1], texts[2])
	return err
}

const releasesQuery = `SELECT issue_id, identifier, title, url, branch, reason, from_state, to_state, claimed_at, released_at,
	runs, runtime_ms, usage, links, created FROM releases WHERE released_at >= ? AND released_at < ? ORDER BY released_at, id`

// readReleases returns those of some time, the oldest first.
func readReleases(ctx context.Context, tx *sql.Tx, since, until time.Time) ([]Release, error) {
	rows, err := tx.QueryContext(ctx, releasesQuery,
		stamp(since), stamp(until))
	return collect(rows, err, func(row scanner) (r Release, err error) {
		var ms int64
		err = row.Scan(&r.IssueID, &r.Identifier, &r.Title, &r.URL, &r.Branch, &r.Reason, &r.From, &r.To, stampOf{&r.ClaimedAt},
			stampOf{&r.At}, &r.Runs, &ms, jsonOf{&r.Models}, jsonOf{&r.Links}, jsonOf{&r.Created})
		r.Runtime = time.Duration(ms) * time.Millisecond
		return r, err
	})
}
