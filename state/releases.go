package state

import (
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Release is an issue that was released after at least one run, and what was done for it since it was claimed.
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
	Created                    map[string]int // how many objects the agents created in the tracker, by kind
}

// ModelUse is what was used of one model; an empty model is unknown.
type ModelUse struct {
	Model  string           `json:"model"`
	Tokens reconcile.Tokens `json:"tokens"`
}

// noteRelease records what a deleted claim came to. Without a run nothing was done, and nothing is recorded.
func noteRelease(t tx, now time.Time, c reconcile.Change) error {
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
	if err := r.sumRuns(t); err != nil || r.Runs == 0 {
		return err
	}
	if err := r.countCreated(t); err != nil {
		return err
	}
	return r.insert(t, now)
}

// sumRuns adds up the runs of the claim.
func (r *Release) sumRuns(t tx) error {
	rows, err := t.query(`SELECT model, runtime_ms, links, json_extract(issue, '$.state'),
		tokens_input, tokens_cached, tokens_output, tokens_reasoning, tokens_total
		FROM runs WHERE issue_id = ? AND kind = 'agent' AND started_at >= ? ORDER BY id`, r.IssueID, stamp(r.ClaimedAt))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var use ModelUse
		var runtime time.Duration
		var links []reconcile.Link
		var state string
		if err := rows.Scan(append([]any{&use.Model, millisOf{&runtime}, linksOf{&links}, &state}, tokenColumns(&use.Tokens)...)...); err != nil {
			return err
		}
		if r.Runs == 0 {
			r.From = state
		}
		r.Runs++
		r.Runtime += runtime
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

func (r *Release) countCreated(t tx) error {
	rows, err := t.query(`SELECT c.kind, count(*) FROM runs JOIN created c ON c.run_id = runs.id
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

func (r *Release) insert(t tx, now time.Time) error {
	var texts [3]string
	for i, v := range []any{r.Models, r.Links, r.Created} {
		var err error
		if texts[i], err = toJSON(v); err != nil {
			return err
		}
	}
	return t.run(`INSERT INTO releases (issue_id, identifier, title, url, branch, reason, from_state, to_state,
		claimed_at, released_at, runs, runtime_ms, usage, links, created) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.IssueID, r.Identifier, r.Title, r.URL, r.Branch, r.Reason, r.From, r.To, stamp(r.ClaimedAt), stamp(now), r.Runs,
		r.Runtime.Milliseconds(), texts[0], texts[1], texts[2])
}

const releasesQuery = `SELECT issue_id, identifier, title, url, branch, reason, from_state, to_state, claimed_at, released_at,
	runs, runtime_ms, usage, links, created FROM releases WHERE released_at >= ? AND released_at < ? ORDER BY released_at, id`

// readReleases returns the releases of a period, the oldest first.
func readReleases(t tx, since, until time.Time) ([]Release, error) {
	rows, err := t.query(releasesQuery, stamp(since), stamp(until))
	return collect(rows, err, func(row scanner) (r Release, err error) {
		err = row.Scan(&r.IssueID, &r.Identifier, &r.Title, &r.URL, &r.Branch, &r.Reason, &r.From, &r.To, stampOf{&r.ClaimedAt},
			stampOf{&r.At}, &r.Runs, millisOf{&r.Runtime}, jsonOf{&r.Models}, jsonOf{&r.Links}, jsonOf{&r.Created})
		return r, err
	})
}

// Outage is a period in which a fault of the machine, agent or tracker kept everything waiting.
type Outage struct {
	Code, Message string
	Since         time.Time
	Until         time.Time // zero where it goes on
}

// noteOutage ends another outage of the same source that is open, and begins this one where it is not open yet. The block in
// meta is deleted with its end; this record stays. source is the block's key in meta.
func noteOutage(t tx, now time.Time, source string, b reconcile.Block) error {
	if err := t.run(`UPDATE outages SET until = max(?, since) WHERE source = ? AND until IS NULL AND code <> ?`,
		stamp(now), source, b.Code); err != nil || b.Code == "" {
		return err
	}
	return t.run(`INSERT INTO outages (source, code, message, since) VALUES (?, ?, ?, ?)
		ON CONFLICT (source) WHERE until IS NULL DO UPDATE SET message = excluded.message`,
		source, b.Code, b.Message, stamp(now))
}

// readOutages returns the outages that overlap a period, the oldest first. An outage that was ended by an older program,
// which keeps no such record, counts as ended where it began.
func readOutages(t tx, since, until time.Time) ([]Outage, error) {
	rows, err := t.query(`SELECT code, message, since, over FROM (SELECT *, iif(until IS NULL
			AND NOT EXISTS (SELECT 1 FROM meta WHERE key = source), since, until) AS over FROM outages)
		WHERE since < ? AND (over IS NULL OR over >= ?) ORDER BY since, id`, stamp(until), stamp(since))
	return collect(rows, err, func(row scanner) (o Outage, err error) {
		err = row.Scan(&o.Code, &o.Message, stampOf{&o.Since}, stampOf{&o.Until})
		return o, err
	})
}
