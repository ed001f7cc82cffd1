package state

import (
	"context"

	"github.com/symphony-cron/symphony/reconcile"
)

const watchColumns = `d.issue_id, coalesce((SELECT max(identifier) FROM runs WHERE runs.issue_id = d.issue_id), ''),
	d.url, d.branch, d."commit", d.base, d.at, coalesce(nullif(d.pull_request, ''), w.pull_request),
	coalesce(c.status, ''),
	coalesce((SELECT nullif(delivery, '') ->> '$.handover.blocked' FROM runs AS r WHERE r.issue_id = d.issue_id
		ORDER BY id DESC LIMIT 1), '') <> '',
	coalesce(w.watch, '')`

func watchFields(w *reconcile.Watch) []any {
	return append(append([]any{&w.IssueID, &w.Identifier}, deliveredFields(&w.Delivered)...), &w.Claim, &w.Blocked, jsonOf(w))
}

// watched joins what was delivered with what is known of its pull request. After a push the address is not known again yet.
const watched = ` FROM deliveries AS d LEFT JOIN claims AS c USING (issue_id)
	LEFT JOIN watches AS w ON w.issue_id = d.issue_id AND d.pull_request IN ('', w.pull_request)
	WHERE (d.pull_request <> '' OR w.issue_id IS NOT NULL)`

// Watches returns what is known of the pull requests of which something is still expected.
func (s Store) Watches(ctx context.Context) ([]reconcile.Watch, error) {
	return readAll(ctx, s.conn, "read the pull requests to watch", watchFields,
		`SELECT `+watchColumns+watched+` AND coalesce(w.ended, 0) = 0 ORDER BY d.issue_id`)
}

// Watch returns what is known of the pull request of an issue; false if it has none.
func (c *conn) Watch(ctx context.Context, issueID string) (reconcile.Watch, bool, error) {
	return readOne(ctx, c, "read what is known of the pull request", watchFields,
		`SELECT `+watchColumns+watched+` AND d.issue_id = ?`, issueID)
}

func saveWatch(t tx, w reconcile.Watch) error {
	return t.run(`INSERT OR REPLACE INTO watches (issue_id, pull_request, ended, watch) VALUES (?, ?, ?, ?)`,
		w.IssueID, w.Delivered.PullRequest, w.Ended, jsonOf(&w))
}

// EndRework records that what an issue has come back for is answered.
func (j Journal) EndRework(ctx context.Context, issueID string) error {
	w, found, err := j.Watch(ctx, issueID)
	if err != nil || !found || w.Rework == nil {
		return err
	}
	w.Rework = nil
	return j.update(ctx, "record that a pull request was answered", full, func(t tx) error { return saveWatch(t, w) })
}
