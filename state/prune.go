package state

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

const (
	keepRuns   = 20 // of each issue
	keepPasses = 20 // whatever their age
	keepFor    = 30 * 24 * time.Hour
	mostPasses = 50_000 // a bit more than a pass a minute for a month
	longJump   = 24 * time.Hour
	pruneEvery = time.Hour
)

// Prune deletes at most limit old runs, and at most limit old rows of each other table. It
// returns the ids of the deleted runs, so that the caller can remove their directories. Prune
// keeps the last 20 runs of each issue, all runs of the last 30 days and every unsettled run.
// Totals do not change.
//
// Prune does nothing if it completed less than an hour ago, or if the clock jumped by more
// than a day since the previous pass: the rows only seem to be old then.
func (s Store) Prune(ctx context.Context, now time.Time, limit int) (runIDs []string, err error) {
	due, err := s.pruneDue(ctx, now)
	if err != nil || !due || limit <= 0 {
		return nil, err
	}
	err = s.update(ctx, "delete old runs", full, func(t tx) error {
		old := stamp(now.Add(-keepFor))
		// The grouping reads only an index and finds the few issues with more than keepRuns
		// runs.
		runIDs, err = rows(t, itself[string], `DELETE FROM runs WHERE id IN (
			SELECT r.id FROM runs r
			WHERE r.issue_id IN (SELECT issue_id FROM runs GROUP BY issue_id HAVING count(*) > ?1)
			AND r.settled = 1 AND max(r.started_at, coalesce(r.ended_at, 0)) < ?2
			AND r.id < (SELECT n.id FROM runs n WHERE n.issue_id = r.issue_id ORDER BY n.id DESC LIMIT 1 OFFSET ?1 - 1)
			ORDER BY r.id LIMIT ?3) RETURNING id`, keepRuns, old, limit)
		if err != nil {
			return err
		}
		if err := deleteRequests(t, runIDs); err != nil {
			return err
		}
		most, err := deleteOld(t, old, limit)
		if err != nil {
			return err
		}
		if max(most, int64(len(runIDs))) >= int64(limit) {
			return nil // there is more to delete
		}
		return setMeta(t, metaPruned, strconv.FormatInt(now.UnixMilli(), 10))
	})
	return runIDs, err
}

// deleteOld deletes at most limit rows of each table but runs that are older than a stored time.
// It returns how many rows it deleted in the table where these were most.
func deleteOld(t tx, old any, limit int) (most int64, err error) {
	for _, statement := range []string{
		// Passes, except the newest passes and the passes that ScheduledPasses returns.
		fmt.Sprintf(`DELETE FROM passes WHERE id IN (SELECT id FROM passes, (SELECT max(id) AS newest FROM passes)
			WHERE id <= newest - %d AND (started_at < ?1 OR id <= newest - %d)
			AND id NOT IN (SELECT id FROM passes WHERE %s ORDER BY id DESC LIMIT %d)
			ORDER BY id LIMIT ?2)`, keepPasses, mostPasses, bySchedule, scheduledKept),
		// Threads whose last run was pruned: no run resumes them.
		`DELETE FROM threads WHERE thread_id IN (SELECT thread_id FROM threads WHERE updated_at < ?1
			AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = threads.run_id) LIMIT ?2)`,
		// Objects that agents created in pruned runs: the threads saw later comments, so
		// nothing looks up the author of these.
		`DELETE FROM created WHERE id IN (SELECT id FROM created WHERE at < ?1
			AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = created.run_id) LIMIT ?2)`,
		// Comments of symphony: while an issue is claimed, they are not made again.
		`DELETE FROM comments WHERE key IN (SELECT key FROM comments WHERE at < ?1
			AND NOT EXISTS (SELECT 1 FROM claims WHERE claims.issue_id = comments.issue_id) LIMIT ?2)`,
		// Pull requests of issues that are not refreshed any more.
		`DELETE FROM pull_requests WHERE issue_id IN (SELECT issue_id FROM pull_requests
			WHERE seen_at < ?1 LIMIT ?2)`,
		// Notifications, but only while there is no block: a block whose notification is
		// deleted would be notified again.
		`DELETE FROM attentions WHERE key IN (SELECT key FROM attentions WHERE at < ?1
			AND NOT EXISTS (SELECT 1 FROM meta WHERE key LIKE 'blocked\_%' ESCAPE '\') LIMIT ?2)`,
	} {
		n, err := t.count(statement, old, limit)
		if err != nil {
			return most, err
		}
		most = max(most, n)
	}
	return most, nil
}

// pruneDue reports whether Prune last completed an hour ago or more, and whether the clock can
// be trusted: between the last two passes the wall clock must not have moved a day more or
// less than the monotonic clock. After a reboot only the wall clock counts.
func (s Store) pruneDue(ctx context.Context, now time.Time) (bool, error) {
	text, _, err := s.Meta(ctx, metaPruned)
	if err != nil {
		return false, err
	}
	last, err := parseMillis(text)
	if err != nil {
		return false, fault(s.dir, "read the time of the last pruning", err)
	}
	if age := now.Sub(last); age >= 0 && age < pruneEvery {
		return false, nil
	}
	passes, err := s.passes(ctx, `ORDER BY id DESC LIMIT 2`)
	if err != nil || len(passes) == 0 || now.Sub(passes[0].StartedAt).Abs() > longJump {
		return false, err
	}
	if len(passes) < 2 {
		return true, nil
	}
	after := passes[0]
	before := passes[1]
	gap := after.StartedAt.Sub(before.StartedAt)
	if before.BootID == after.BootID && before.BootID != "" {
		gap -= after.Mono - before.Mono
	}
	return gap.Abs() <= longJump, nil
}

// deleteRequests deletes the requests of deleted runs.
func deleteRequests(t tx, runIDs []string) error {
	return t.run(`DELETE FROM requests WHERE run_id IN (SELECT value FROM json_each(?))`, jsonOf(runIDs))
}

// PastIssue is an issue with runs but without a claim.
type PastIssue struct {
	IssueID    string
	Identifier string
	Runs       int
}

func pastIssueFields(p *PastIssue) []any { return []any{&p.IssueID, &p.Identifier, &p.Runs} }

// PastIssues returns the issues without a claim whose runs are all settled and ended before a
// time, oldest first.
func (v Views) PastIssues(ctx context.Context, before time.Time, limit int) ([]PastIssue, error) {
	return readAll(ctx, v.conn, "list past issues", pastIssueFields,
		`SELECT issue_id, max(identifier), count(*) FROM runs
		WHERE issue_id <> '' AND NOT EXISTS (SELECT 1 FROM claims WHERE claims.issue_id = runs.issue_id)
		GROUP BY issue_id HAVING min(settled) = 1 AND max(max(started_at), coalesce(max(ended_at), 0)) < ?
		ORDER BY max(id) LIMIT ?`, stamp(before), limit)
}

// ForgetIssue deletes the runs of an issue, or an agent, that PastIssues returned, with their
// threads, requests and calls. It returns the ids of the runs, so that the caller can remove
// their directories. The totals do not change. If the issue was claimed in the meantime,
// ForgetIssue deletes nothing.
func (o Operator) ForgetIssue(ctx context.Context, issueID string) (runIDs []string, err error) {
	err = o.update(ctx, "forget an issue", full, func(t tx) error {
		runIDs, err = rows(t, itself[string], `DELETE FROM runs WHERE issue_id = ?1 AND settled = 1
			AND NOT EXISTS (SELECT 1 FROM claims WHERE issue_id = ?1)
			AND NOT EXISTS (SELECT 1 FROM runs WHERE issue_id = ?1 AND settled = 0) RETURNING id`, issueID)
		if err != nil || len(runIDs) == 0 {
			return err
		}
		if err := deleteRequests(t, runIDs); err != nil {
			return err
		}
		for _, statement := range []string{
			`DELETE FROM calls WHERE agent = ?`,
			`DELETE FROM threads WHERE issue_id = ?`,
			`DELETE FROM pull_requests WHERE issue_id = ?`,
			`DELETE FROM comments WHERE issue_id = ?`,
			`DELETE FROM created WHERE issue_id = ?`,
		} {
			if err := t.run(statement, issueID); err != nil {
				return err
			}
		}
		return nil
	})
	return runIDs, err
}
