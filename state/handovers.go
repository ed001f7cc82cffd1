package state

import (
	"context"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Handovers counts the issues that were handed over in a period, each once, and the known
// states of their pull requests now.
type Handovers struct {
	Issues int `json:"issues"`
	// First counts the issues whose first run handed them over, without a failure of verify.
	First    int `json:"first_attempt"`
	Verified int `json:"verified"` // verify had passed at the handover
	// PullRequests counts the pull requests that symphony watches with feedback.state, as it
	// read them last.
	PullRequests int `json:"pull_requests"`
	Merged       int `json:"merged"`
	Closed       int `json:"closed"`             // without a merge
	Checked      int `json:"first_push_checked"` // the checks of the first commit have ended
	Green        int `json:"first_push_green"`   // and none of them failed
	// how often pull requests have brought their issues back
	Rounds int `json:"rounds"`
}

// handoversQuery finds the handovers of a period: whether they succeeded at the first attempt,
// the delivery of their last run that delivered, and the pull requests. A pruned run counts as
// a good run, so that no handover changes later.
const handoversQuery = `SELECT issue_id,
		runs = 1 AND NOT EXISTS (SELECT 1 FROM runs AS a
			WHERE a.issue_id = r.issue_id AND kind = 'agent' AND started_at < released_at
			AND (started_at < claimed_at OR outcome <> 'succeeded'
			OR nullif(delivery, '') ->> '$.handover.verification.round' > 0
			OR nullif(delivery, '') ->> '$.handover.blocked' <> '')),
		(SELECT delivery FROM runs AS a
			WHERE a.issue_id = r.issue_id AND kind IN ('agent', 'delivery')
			AND started_at BETWEEN claimed_at AND released_at
			ORDER BY id DESC LIMIT 1),
		coalesce(watch, '')
	FROM releases AS r LEFT JOIN watches USING (issue_id)
	WHERE ` + handedOver + ` AND released_at >= ? AND released_at < ? ORDER BY r.id`

type handoverRow struct {
	issueID string
	first   bool
	last    reconcile.DeliveryResult
	watch   reconcile.Watch
}

func handoverRowFields(r *handoverRow) []any {
	return []any{&r.issueID, &r.first, jsonOf(&r.last), jsonOf(&r.watch)}
}

// Handovers counts the handovers from since to until, which is not part of it.
func (v Views) Handovers(ctx context.Context, since, until time.Time) (h Handovers, err error) {
	list, err := readAll(ctx, v.conn, "count the handovers", handoverRowFields, handoversQuery, stamp(since), stamp(until))
	if err != nil {
		return Handovers{}, err
	}
	latest := map[string]handoverRow{}
	for _, r := range list {
		r.first = r.first || latest[r.issueID].first
		latest[r.issueID] = r
	}
	h = Handovers{Issues: len(latest)}
	for _, r := range latest {
		h.add(r)
	}
	return h, nil
}

// add counts the last handover of an issue.
func (h *Handovers) add(r handoverRow) {
	count := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	checks := r.watch.FirstChecks()
	count(&h.First, r.first)
	count(&h.Verified, r.last.Verification().Passed())
	count(&h.PullRequests, r.watch.Pull.State != "")
	count(&h.Merged, r.watch.Pull.State == reconcile.PullMerged)
	count(&h.Closed, r.watch.Pull.State == reconcile.PullClosed)
	count(&h.Checked, checks != "")
	count(&h.Green, checks == reconcile.CheckSuccess)
	h.Rounds += len(r.watch.History)
}
