package state

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
)

// SaveThread keeps the highest token totals of a codex thread, which are cumulative over all its runs, and raises
// the run's own tokens in the same transaction by what the thread used since this run first met it. A crash
// between two reports therefore neither loses nor doubles a token. Call it before UpdateRun reports the same
// tokens. A run that has an outcome gives reconcile.ErrConflict: what came too late counts for the next run of
// the thread.
func (db *DB) SaveThread(ctx context.Context, runID, issueID, threadID, workspaceID string, t reconcile.Tokens,
	now time.Time,
) error {
	doing := "save the thread of run " + runID
	var known bool
	err := db.sql.QueryRowContext(ctx, `SELECT 1 FROM threads WHERE thread_id = ? AND run_id = ?`,
		threadID, runID).Scan(&known)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fault(db.dir, doing, err)
	}
	level := full
	if known {
		level = normal
	}
	crash.At("state.save_thread.before")
	err = db.update(ctx, doing, level, func(tx *sql.Tx) error {
		return saveThread(ctx, tx, runID, issueID, threadID, workspaceID, t, now)
	})
	crash.At("state.save_thread.after")
	return err
}

func saveThread(ctx context.Context, tx *sql.Tx, runID, issueID, threadID, workspaceID string,
	t reconcile.Tokens, now time.Time,
) error {
	var known reconcile.Tokens
	err := scanTokens(tx.QueryRowContext(ctx, threadTokens, threadID), &known)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	found, err := affected(tx.ExecContext(ctx, `INSERT INTO threads AS old
			(thread_id, issue_id, run_id, workspace_id, input, cached, output, reasoning, total, updated_at)
		SELECT ?, ?, id, ?, ?, ?, ?, ?, ?, ? FROM runs WHERE id = ? AND outcome IS NULL
		ON CONFLICT (thread_id) DO UPDATE SET
			base_input = iif(run_id = excluded.run_id, base_input, input),
			base_cached = iif(run_id = excluded.run_id, base_cached, cached),
			base_output = iif(run_id = excluded.run_id, base_output, output),
			base_reasoning = iif(run_id = excluded.run_id, base_reasoning, reasoning),
			base_total = iif(run_id = excluded.run_id, base_total, total),
			run_id = excluded.run_id, issue_id = excluded.issue_id, workspace_id = excluded.workspace_id,
			input = max(input, excluded.input), cached = max(cached, excluded.cached),
			output = max(output, excluded.output), reasoning = max(reasoning, excluded.reasoning),
			total = max(total, excluded.total), updated_at = excluded.updated_at`,
		threadID, issueID, workspaceID, t.Input, t.Cached, t.Output, t.Reasoning, t.Total, stamp(now), runID))
	if err := runConflict(runID, found, err); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE runs SET
			tokens_input = max(tokens_input, own.input), tokens_output = max(tokens_output, own.output),
			tokens_total = max(tokens_total, own.total), tokens_cached = max(tokens_cached, own.cached),
			tokens_reasoning = max(tokens_reasoning, own.reasoning)
		FROM (SELECT sum(input - base_input) AS input, sum(cached - base_cached) AS cached,
			sum(output - base_output) AS output, sum(reasoning - base_reasoning) AS reasoning,
			sum(total - base_total) AS total FROM threads WHERE run_id = ?1) AS own
		WHERE id = ?1`, runID)
	if err != nil {
		return err
	}
	return countDay(ctx, tx, runID, now, t.Since(known))
}

const threadTokens = `SELECT input, cached, output, reasoning, total FROM threads WHERE thread_id = ?`

func scanTokens(row scanner, t *reconcile.Tokens) error {
	return row.Scan(&t.Input, &t.Cached, &t.Output, &t.Reasoning, &t.Total)
}

// Thread returns the highest totals that were seen of a codex thread; false where it is not known. A resumed
// thread goes on counting from there.
func (db *DB) Thread(ctx context.Context, threadID string) (reconcile.Tokens, bool, error) {
	var t reconcile.Tokens
	err := scanTokens(db.sql.QueryRowContext(ctx, threadTokens, threadID), &t)
	if errors.Is(err, sql.ErrNoRows) {
		return t, false, nil
	}
	return t, err == nil, fault(db.dir, "read the thread", err)
}

// LastThread returns the thread that the issue's newest run with one worked in, and beside it the newest that codex
// can have in that home: one that is there, or of which nobody knows where it is. Mostly they are the same; either is
// empty where there is none. Home is empty where it is not known: then all count as there.
//
// Failed counts a thread's latest ended runs up to the last that succeeded or was ended from outside (succeeded,
// interrupted, canceled). Runs that got no thread say nothing about it, and neither do those that failed by the
// machine's fault (design 5 and 9, Resume).
func (db *DB) LastThread(ctx context.Context, issueID, home string) (newest, here reconcile.Thread, err error) {
	err = db.view(ctx, "read the last thread", func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT r.thread_id, r.workspace_id, coalesce(t.codex_home, '') FROM runs AS r
			LEFT JOIN threads AS t ON t.thread_id = r.thread_id
			WHERE r.issue_id = ? AND r.thread_id <> '' ORDER BY r.id DESC`, issueID)
		threads, err := collect(rows, err, func(row scanner) (t reconcile.Thread, err error) {
			err = row.Scan(&t.ID, &t.WorkspaceID, &t.CodexHome)
			return t, err
		})
		if err != nil || len(threads) == 0 {
			return err
		}
		newest = threads[0]
		at := slices.IndexFunc(threads, func(t reconcile.Thread) bool { return home == "" || t.CodexHome == "" || t.CodexHome == home })
		if at < 0 {
			return nil
		}
		here = threads[at]
		here.Failed, err = failedInARow(ctx, tx, issueID, here.ID)
		return err
	})
	return newest, here, err
}

func failedInARow(ctx context.Context, tx *sql.Tx, issueID, threadID string) (int, error) {
	rows, err := tx.QueryContext(ctx, `SELECT error_code FROM runs
		WHERE issue_id = ?1 AND thread_id = ?2 AND outcome IS NOT NULL AND id > coalesce((
			SELECT max(id) FROM runs WHERE issue_id = ?1 AND thread_id <> '' AND outcome IS NOT NULL
			AND (thread_id <> ?2 OR outcome IN ('succeeded', 'interrupted', 'canceled'))), '')`, issueID, threadID)
	codes, err := collect(rows, err, func(row scanner) (code string, err error) {
		err = row.Scan(&code)
		return code, err
	})
	return len(slices.DeleteFunc(codes, sparesThread)), err
}

// sparesThread reports whether an error is the machine's fault and so says nothing about the thread. Of an agent that
// refuses what it is asked nobody knows whether it would refuse a new thread too.
func sparesThread(code string) bool {
	return reconcile.MachineFault(code) && code != "codex_incompatible"
}
