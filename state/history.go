package state

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// RunsSince returns the agent's runs of an issue that were at work at that time or later, the oldest first; all of them
// for the zero time.
func (db *DB) RunsSince(ctx context.Context, issueID string, since time.Time) ([]reconcile.Run, error) {
	var from int64
	if !since.IsZero() {
		from = since.UnixMilli()
	}
	rows, err := db.sql.QueryContext(ctx, `SELECT `+runColumns+` FROM runs
		WHERE issue_id = ? AND kind = 'agent' AND (ended_at IS NULL OR ended_at >= ?) ORDER BY id`, issueID, from)
	runs, err := collect(rows, err, scanRun)
	return runs, fault(db.dir, "read the runs of the issue", err)
}

// NextRun returns the agent's first run of an issue after the one of that id, false where there is none. After the
// empty id it is the oldest that is kept.
func (db *DB) NextRun(ctx context.Context, issueID, after string) (reconcile.Run, bool, error) {
	return db.oneRun(ctx, `WHERE issue_id = ? AND id > ? AND kind = 'agent' ORDER BY id LIMIT 1`, issueID, after)
}

// LastRun returns the agent's newest run of an issue, false where there is none.
func (db *DB) LastRun(ctx context.Context, issueID string) (reconcile.Run, bool, error) {
	return db.oneRun(ctx, `WHERE issue_id = ? AND kind = 'agent' ORDER BY id DESC LIMIT 1`, issueID)
}

func (db *DB) oneRun(ctx context.Context, where string, args ...any) (reconcile.Run, bool, error) {
	r, err := scanRun(db.sql.QueryRowContext(ctx, `SELECT `+runColumns+` FROM runs `+where, args...))
	if errors.Is(err, sql.ErrNoRows) {
		return reconcile.Run{}, false, nil
	}
	return r, err == nil, fault(db.dir, "read a run of the issue", err)
}

// RunsByPrefix returns the runs of an issue, of either kind, whose ids begin so, the newest first, at most limit of them.
func (db *DB) RunsByPrefix(ctx context.Context, issueID, prefix string, limit int) ([]reconcile.Run, error) {
	rows, err := db.sql.QueryContext(ctx, `SELECT `+runColumns+` FROM runs
		WHERE issue_id = ?1 AND id >= ?2 AND substr(id, 1, length(?2)) = ?2 ORDER BY id DESC LIMIT ?3`, issueID, prefix, limit)
	runs, err := collect(rows, err, scanRun)
	return runs, fault(db.dir, "look for the run", err)
}

// CountRuns says how many runs of an issue are kept, of either kind.
func (db *DB) CountRuns(ctx context.Context, issueID string) (n int, err error) {
	err = db.sql.QueryRowContext(ctx, `SELECT count(*) FROM runs WHERE issue_id = ?`, issueID).Scan(&n)
	return n, fault(db.dir, "count the runs of the issue", err)
}

// Identifiers returns the identifiers of all issues that there is anything of, in their order.
func (db *DB) Identifiers(ctx context.Context) ([]string, error) {
	rows, err := db.sql.QueryContext(ctx, `SELECT identifier FROM claims UNION SELECT identifier FROM skips
		UNION SELECT identifier FROM runs ORDER BY 1`)
	names, err := collect(rows, err, func(row scanner) (name string, err error) {
		err = row.Scan(&name)
		return name, err
	})
	return names, fault(db.dir, "list the issues", err)
}

// StateOf is State as far as a plan for one issue depends on it: its claim, those that have a slot, and all that
// holds for every issue. The other claims are counted.
func (db *DB) StateOf(ctx context.Context, issueID string) (reconcile.State, error) {
	rec := reconcile.State{}
	err := db.view(ctx, "read the state", func(tx *sql.Tx) (err error) {
		if err := readMeta(ctx, tx, db.dir, &rec); err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, `SELECT `+claimColumns+` FROM claims WHERE issue_id = ? OR status = 'running' ORDER BY issue_id`, issueID)
		if rec.Claims, err = collect(rows, err, scanClaim); err != nil {
			return err
		}
		err = tx.QueryRowContext(ctx, `SELECT count(*) FILTER (WHERE status = 'retry'), count(*) FILTER (WHERE status = 'held'),
			min(due_at) FILTER (WHERE status = 'retry') FROM claims WHERE issue_id <> ? AND status <> 'running'`, issueID).
			Scan(&rec.Others.Waiting, &rec.Others.Held, stampOf{&rec.Others.NextDue})
		if err != nil {
			return err
		}
		if rec.Runs, err = readUnsettled(ctx, tx); err != nil {
			return err
		}
		if rec.Commands, err = readCommands(ctx, tx); err != nil {
			return err
		}
		rec.Tokens, err = readTokens(ctx, tx, rec)
		return err
	})
	return rec, err
}

// CountDue says how many other issues wait for a slot at that time.
func (db *DB) CountDue(ctx context.Context, issueID string, at time.Time) (n int, err error) {
	err = db.sql.QueryRowContext(ctx, `SELECT count(*) FROM claims WHERE status = 'retry' AND due_at <= ? AND issue_id <> ?`, stamp(at), issueID).Scan(&n)
	return n, fault(db.dir, "count what is due", err)
}

// SkipOf returns why the last pass that fetched candidates left an issue alone; false where it did not.
func (db *DB) SkipOf(ctx context.Context, issueID string) (s StoredSkip, ok bool, err error) {
	err = db.sql.QueryRowContext(ctx, `SELECT issue_id, identifier, reason, message, since FROM skips WHERE issue_id = ?`, issueID).
		Scan(&s.IssueID, &s.Identifier, &s.Reason, &s.Message, stampOf{&s.Since})
	if errors.Is(err, sql.ErrNoRows) {
		return StoredSkip{}, false, nil
	}
	return s, err == nil, fault(db.dir, "read why the issue was skipped", err)
}
