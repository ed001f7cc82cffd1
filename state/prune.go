package state

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"time"

	"github.com/symphony-cron/symphony/reconcile/crash"
)

const (
	keepRuns   = 20 // of each issue
	keepPasses = 20 // whatever their age
	keepFor    = 30 * 24 * time.Hour
	mostPasses = 50_000 // a pass a minute for a month, and some
	longJump   = 24 * time.Hour
	pruneEvery = time.Hour
)

// Prune deletes at most limit old runs, and as many old passes and threads, and returns the ids of the runs, whose
// directories may go now. Kept are the last 20 runs of each issue, all of the last 30 days, and every run that is
// not settled (design 3). Totals do not change. It looks at most once an hour, unless the last look did not reach
// the end, and not at all in a pass whose clock has jumped by more than a day since the one before.
func (db *DB) Prune(ctx context.Context, now time.Time, limit int) (runIDs []string, err error) {
	due, err := db.pruneDue(ctx, now)
	if err != nil || !due || limit <= 0 {
		return nil, err
	}
	crash.At("state.prune.before")
	more, pruned := false, strconv.FormatInt(now.UnixMilli(), 10)
	err = db.update(ctx, "delete old runs", full, func(tx *sql.Tx) error {
		runIDs, err = pruneRuns(ctx, tx, now, limit)
		if err != nil {
			return err
		}
		if err := pruneRequests(ctx, tx, runIDs); err != nil {
			return err
		}
		passes, err := prunePasses(ctx, tx, now, limit)
		if err != nil {
			return err
		}
		// Nothing will resume these.
		threads, err := pruneOrphans(ctx, tx, "threads", "thread_id", "updated_at", now, limit)
		if err != nil {
			return err
		}
		attentions, err := pruneAttentions(ctx, tx, db.dir, now, limit)
		if err != nil {
			return err
		}
		// Whatever is newer than these has been told to a thread since.
		created, err := pruneOrphans(ctx, tx, "created", "id", "at", now, limit)
		if err != nil {
			return err
		}
		if more = max(int64(len(runIDs)), passes, threads, attentions, created) >= int64(limit); more {
			return nil
		}
		return setMeta(ctx, tx, metaPruned, pruned)
	})
	crash.At("state.prune.after")
	if err != nil {
		return nil, err
	}
	if !more {
		db.kept.set(metaPruned, pruned)
	}
	return runIDs, nil
}

// pruneDue asks when the last look was, and whether the clock can be trusted.
func (db *DB) pruneDue(ctx context.Context, now time.Time) (bool, error) {
	text, found, err := db.Meta(ctx, metaPruned)
	if err != nil {
		return false, err
	}
	if found {
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return false, fault(db.dir, "read when runs were last pruned", errors.Join(errStored, err))
		}
		if age := now.Sub(time.UnixMilli(ms)); age >= 0 && age < pruneEvery {
			return false, nil
		}
	}
	passes, err := db.RecentPasses(ctx, 2)
	if err != nil || len(passes) == 0 {
		return false, err
	}
	if now.Sub(passes[0].StartedAt).Abs() > longJump {
		return false, nil
	}
	return len(passes) < 2 || !jumped(passes[1], passes[0]), nil
}

// jumped reports whether the wall clock went more than a day further, or less far, than the monotonic one between
// two passes. After a reboot nothing but the wall clock is left to look at.
func jumped(before, after Pass) bool {
	gap := after.StartedAt.Sub(before.StartedAt)
	if before.BootID == after.BootID && before.BootID != "" {
		gap -= after.Mono - before.Mono
	}
	return gap.Abs() > longJump
}

func pruneRuns(ctx context.Context, tx *sql.Tx, now time.Time, limit int) ([]string, error) {
	// The grouping runs over the index alone and leaves the few issues that have more runs than are kept.
	rows, err := tx.QueryContext(ctx, `DELETE FROM runs WHERE id IN (
		SELECT r.id FROM runs r
		WHERE r.issue_id IN (SELECT issue_id FROM runs GROUP BY issue_id HAVING count(*) > ?1)
		AND r.settled = 1 AND max(r.started_at, coalesce(r.ended_at, 0)) < ?2
		AND r.id < (SELECT n.id FROM runs n WHERE n.issue_id = r.issue_id ORDER BY n.id DESC LIMIT 1 OFFSET ?1 - 1)
		ORDER BY r.id LIMIT ?3) RETURNING id`, keepRuns, stamp(now.Add(-keepFor)), limit)
	return collect(rows, err, func(row scanner) (id string, err error) {
		err = row.Scan(&id)
		return id, err
	})
}

// prunePasses spares the newest passes, whatever their age, and those that tell the schedule's rhythm.
func prunePasses(ctx context.Context, tx *sql.Tx, now time.Time, limit int) (int64, error) {
	res, err := tx.ExecContext(ctx, `DELETE FROM passes WHERE id IN (
		SELECT id FROM passes, (SELECT max(id) AS newest FROM passes)
		WHERE id <= newest - ?1 AND (started_at < ?2 OR id <= newest - ?3)
		AND id NOT IN (SELECT id FROM passes WHERE "trigger" IN ('cron', 'timer', 'loop') ORDER BY id DESC LIMIT ?4)
		ORDER BY id LIMIT ?5)`, keepPasses, stamp(now.Add(-keepFor)), mostPasses, scheduledKept, limit)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// pruneOrphans deletes old rows of a table whose runs are gone; key and at name its columns.
func pruneOrphans(ctx context.Context, tx *sql.Tx, table, key, at string, now time.Time, limit int) (int64, error) {
	res, err := tx.ExecContext(ctx, `DELETE FROM `+table+` WHERE `+key+` IN (
		SELECT `+key+` FROM `+table+` WHERE `+at+` < ?
		AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = `+table+`.run_id) LIMIT ?)`,
		stamp(now.Add(-keepFor)), limit)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
