package state

import (
	"context"
	"database/sql"
	"time"

	"github.com/symphony-cron/symphony/reconcile/crash"
)

// RunIDs are the ids of all runs that there is a row about.
func (db *DB) RunIDs(ctx context.Context) (map[string]bool, error) {
	rows, err := db.sql.QueryContext(ctx, `SELECT id FROM runs`)
	list, err := collect(rows, err, func(row scanner) (id string, err error) {
		err = row.Scan(&id)
		return id, err
	})
	ids := make(map[string]bool, len(list))
	for _, id := range list {
		ids[id] = true
	}
	return ids, fault(db.dir, "list runs", err)
}

// PastIssue is an issue of which only ended runs are left.
type PastIssue struct {
	IssueID    string
	Identifier string
	Runs       int
}

// PastIssues lists issues without a claim all of whose runs are settled and began before a time, the oldest first.
func (db *DB) PastIssues(ctx context.Context, before time.Time, limit int) ([]PastIssue, error) {
	rows, err := db.sql.QueryContext(ctx, `SELECT issue_id, max(identifier), count(*) FROM runs
		WHERE issue_id <> '' AND NOT EXISTS (SELECT 1 FROM claims WHERE claims.issue_id = runs.issue_id)
		GROUP BY issue_id HAVING min(settled) = 1 AND max(max(started_at), coalesce(max(ended_at), 0)) < ?
		ORDER BY max(id) LIMIT ?`, stamp(before), limit)
	list, err := collect(rows, err, func(row scanner) (p PastIssue, err error) {
		err = row.Scan(&p.IssueID, &p.Identifier, &p.Runs)
		return p, err
	})
	return list, fault(db.dir, "list past issues", err)
}

// ForgetIssue deletes the runs of an issue that PastIssues named, with their threads and requests, and returns the
// runs' ids, whose directories may go now. Its totals stay. An issue that was claimed since is left as it is.
func (db *DB) ForgetIssue(ctx context.Context, issueID string) (runIDs []string, err error) {
	crash.At("state.forget.before")
	err = db.update(ctx, "forget an issue", full, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `DELETE FROM runs WHERE issue_id = ?1 AND settled = 1
			AND NOT EXISTS (SELECT 1 FROM claims WHERE issue_id = ?1)
			AND NOT EXISTS (SELECT 1 FROM runs WHERE issue_id = ?1 AND settled = 0) RETURNING id`, issueID)
		runIDs, err = collect(rows, err, func(row scanner) (id string, err error) {
			err = row.Scan(&id)
			return id, err
		})
		if err != nil || len(runIDs) == 0 {
			return err
		}
		if err := pruneRequests(ctx, tx, runIDs); err != nil {
			return err
		}
		for _, table := range []string{"threads", "created"} {
			if _, err := tx.ExecContext(ctx, `DELETE FROM `+table+` WHERE issue_id = ?`, issueID); err != nil {
				return err
			}
		}
		return nil
	})
	crash.At("state.forget.after")
	return runIDs, err
}
