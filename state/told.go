package state

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
)

// Told returns what a thread knows of its issue; false where that was never written down, as with threads of earlier
// versions.
func (db *DB) Told(ctx context.Context, threadID string) (reconcile.Told, bool, error) {
	var told reconcile.Told
	err := db.sql.QueryRowContext(ctx, `SELECT told_comment_at, told_description, told_prompt FROM threads WHERE thread_id = ?`,
		threadID).Scan(stampOf{&told.CommentAt}, &told.Description, &told.Prompt)
	if errors.Is(err, sql.ErrNoRows) {
		return told, false, nil
	}
	return told, err == nil && told.Description != "", fault(db.dir, "read what the thread was told", err)
}

// Tell writes down what a thread of the run has been told. The thread may be new here: it has used nothing then.
// A run that has an outcome gives reconcile.ErrConflict.
func (db *DB) Tell(ctx context.Context, runID, issueID string, thread reconcile.Thread, told reconcile.Told, now time.Time) error {
	crash.At("state.tell.before")
	err := db.update(ctx, "write down what the thread of run "+runID+" was told", full, func(tx *sql.Tx) error {
		if err := saveThread(ctx, tx, runID, issueID, thread.ID, thread.WorkspaceID, reconcile.Tokens{}, now); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `UPDATE threads SET told_description = ?, told_prompt = ?,
			told_comment_at = max(coalesce(told_comment_at, 0), ?), codex_home = coalesce(nullif(?, ''), codex_home)
			WHERE thread_id = ?`,
			told.Description, told.Prompt, told.CommentAt.UnixMilli(), thread.CodexHome, thread.ID)
		return err
	})
	crash.At("state.tell.after")
	return err
}

// LastRunOf returns the newest ended run of the issue on that thread, one that had a turn on it before all others;
// false where there is none, or it was tidied away.
func (db *DB) LastRunOf(ctx context.Context, issueID, threadID string) (reconcile.Run, bool, error) {
	r, err := scanRun(db.sql.QueryRowContext(ctx, `SELECT `+runColumns+` FROM runs
		WHERE issue_id = ? AND thread_id = ? AND outcome IS NOT NULL
		ORDER BY turns > 0 DESC, id DESC LIMIT 1`, issueID, threadID))
	if errors.Is(err, sql.ErrNoRows) {
		return reconcile.Run{}, false, nil
	}
	return r, err == nil, fault(db.dir, "read the thread's last run", err)
}
