package state

import (
	"context"
	"errors"
	"strconv"
	"time"
)

const (
	keepRuns   = 20 // of each issue
	keepPasses = 20 // whatever their age
	keepFor    = 30 * 24 * time.Hour
	mostPasses = 50_000 // a pass a minute for a month, and some
	longJump   = 24 * time.Hour
	pruneEvery = time.Hour
)

// Prune deletes at most limit old runs, and as many other old rows of each table, and returns the ids of the runs, whose
// directories may go now. It keeps the last 20 runs of each issue, all of the last 30 days, and every unsettled run.
// Totals do not change. It looks at most once an hour, unless the last time it reached the limit, and not at all in a pass
// whose clock has jumped by more than a day since the pass before.
func (s Store) Prune(ctx context.Context, now time.Time, limit int) (runIDs []string, err error) {
	due, err := s.pruneDue(ctx, now)
	if err != nil || !due || limit <= 0 {
		return nil, err
	}
	err = s.update(ctx, "delete old runs", full, func(t tx) error {
		if runIDs, err = pruneRuns(t, now, limit); err != nil {
			return err
		}
		if err := pruneRequests(t, runIDs); err != nil {
			return err
		}
		passes, err := prunePasses(t, now, limit)
		if err != nil {
			return err
		}
		// No run will resume these threads.
		threads, err := pruneOrphans(t, "threads", "thread_id", "updated_at", now, limit)
		if err != nil {
			return err
		}
		attentions, err := pruneAttentions(t, s.dir, now, limit)
		if err != nil {
			return err
		}
		// Threads have been told of everything newer than these.
		created, err := pruneOrphans(t, "created", "id", "at", now, limit)
		if err != nil {
			return err
		}
		if max(int64(len(runIDs)), passes, threads, attentions, created) >= int64(limit) {
			return nil
		}
		return setMeta(t, metaPruned, strconv.FormatInt(now.UnixMilli(), 10))
	})
	if err != nil {
		return nil, err
	}
	return runIDs, nil
}

// pruneDue checks when the last look was, and whether the clock can be trusted.
func (s Store) pruneDue(ctx context.Context, now time.Time) (bool, error) {
	text, found, err := s.Meta(ctx, metaPruned)
	if err != nil {
		return false, err
	}
	if found {
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return false, fault(s.dir, "read when runs were last pruned", errors.Join(errStored, err))
		}
		if age := now.Sub(time.UnixMilli(ms)); age >= 0 && age < pruneEvery {
			return false, nil
		}
	}
	passes, err := s.passes(ctx, `ORDER BY id DESC LIMIT 2`)
	if err != nil || len(passes) == 0 {
		return false, err
	}
	if now.Sub(passes[0].StartedAt).Abs() > longJump {
		return false, nil
	}
	return len(passes) < 2 || !jumped(passes[1], passes[0]), nil
}

// jumped reports whether the wall clock moved by more than a day more or less than the monotonic clock between two passes.
// After a reboot there is only the wall clock to look at.
func jumped(before, after Pass) bool {
	gap := after.StartedAt.Sub(before.StartedAt)
	if before.BootID == after.BootID && before.BootID != "" {
		gap -= after.Mono - before.Mono
	}
	return gap.Abs() > longJump
}

func pruneRuns(t tx, now time.Time, limit int) ([]string, error) {
	// The grouping runs over the index alone and leaves the few issues that have more runs than are kept.
	rows, err := t.query(`DELETE FROM runs WHERE id IN (
		SELECT r.id FROM runs r
		WHERE r.issue_id IN (SELECT issue_id FROM runs GROUP BY issue_id HAVING count(*) > ?1)
		AND r.settled = 1 AND max(r.started_at, coalesce(r.ended_at, 0)) < ?2
		AND r.id < (SELECT n.id FROM runs n WHERE n.issue_id = r.issue_id ORDER BY n.id DESC LIMIT 1 OFFSET ?1 - 1)
		ORDER BY r.id LIMIT ?3) RETURNING id`, keepRuns, stamp(now.Add(-keepFor)), limit)
	return collect(rows, err, scanOne[string])
}

// prunePasses keeps the newest passes, whatever their age, and those that ScheduleGaps needs.
func prunePasses(t tx, now time.Time, limit int) (int64, error) {
	return t.count(`DELETE FROM passes WHERE id IN (
		SELECT id FROM passes, (SELECT max(id) AS newest FROM passes)
		WHERE id <= newest - ?1 AND (started_at < ?2 OR id <= newest - ?3)
		AND id NOT IN (SELECT id FROM passes WHERE "trigger" IN ('cron', 'timer', 'loop') ORDER BY id DESC LIMIT ?4)
		ORDER BY id LIMIT ?5)`, keepPasses, stamp(now.Add(-keepFor)), mostPasses, scheduledKept, limit)
}

// pruneOrphans deletes old rows of a table whose runs are gone; key and at name columns.
func pruneOrphans(t tx, table, key, at string, now time.Time, limit int) (int64, error) {
	return t.count(`DELETE FROM `+table+` WHERE `+key+` IN (
		SELECT `+key+` FROM `+table+` WHERE `+at+` < ?
		AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = `+table+`.run_id) LIMIT ?)`,
		stamp(now.Add(-keepFor)), limit)
}

// pruneRequests deletes the requests of runs that are deleted.
func pruneRequests(t tx, runIDs []string) error {
	for _, id := range runIDs {
		if err := t.run(`DELETE FROM requests WHERE run_id = ?`, id); err != nil {
			return err
		}
	}
	return nil
}

// PastIssue is an issue of which only ended runs are left.
type PastIssue struct {
	IssueID    string
	Identifier string
	Runs       int
}

// PastIssues lists issues without a claim all of whose runs are settled and were over before a time, the oldest first.
func (v Views) PastIssues(ctx context.Context, before time.Time, limit int) ([]PastIssue, error) {
	rows, err := v.query(ctx, `SELECT issue_id, max(identifier), count(*) FROM runs
		WHERE issue_id <> '' AND NOT EXISTS (SELECT 1 FROM claims WHERE claims.issue_id = runs.issue_id)
		GROUP BY issue_id HAVING min(settled) = 1 AND max(max(started_at), coalesce(max(ended_at), 0)) < ?
		ORDER BY max(id) LIMIT ?`, stamp(before), limit)
	list, err := collect(rows, err, func(row scanner) (p PastIssue, err error) {
		err = row.Scan(&p.IssueID, &p.Identifier, &p.Runs)
		return p, err
	})
	return list, fault(v.dir, "list past issues", err)
}

// ForgetIssue deletes the runs of an issue that PastIssues named, with their threads and requests, and returns the runs'
// ids, whose directories may go now. Its totals stay. An issue that was claimed since is left as it is.
func (o Operator) ForgetIssue(ctx context.Context, issueID string) (runIDs []string, err error) {
	err = o.update(ctx, "forget an issue", full, func(t tx) error {
		rows, err := t.query(`DELETE FROM runs WHERE issue_id = ?1 AND settled = 1
			AND NOT EXISTS (SELECT 1 FROM claims WHERE issue_id = ?1)
			AND NOT EXISTS (SELECT 1 FROM runs WHERE issue_id = ?1 AND settled = 0) RETURNING id`, issueID)
		if runIDs, err = collect(rows, err, scanOne[string]); err != nil || len(runIDs) == 0 {
			return err
		}
		if err := pruneRequests(t, runIDs); err != nil {
			return err
		}
		for _, table := range []string{"threads", "created"} {
			if err := t.run(`DELETE FROM `+table+` WHERE issue_id = ?`, issueID); err != nil {
				return err
			}
		}
		return nil
	})
	return runIDs, err
}
