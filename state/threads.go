package state

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// SaveThread stores the highest token totals of a codex thread, and raises the run's own tokens in the same transaction by
// what the thread used since this run first met it. The totals are cumulative over all runs of the thread: two records
// written one after the other would lose or double what a crash between them cuts off. Call it before UpdateRun reports
// the same tokens. A run that has an outcome gives reconcile.ErrConflict: what came too late counts for the next run of
// the thread.
func (j Journal) SaveThread(ctx context.Context, runID, issueID, threadID, workspaceID string, used reconcile.Tokens, now time.Time) error {
	return j.update(ctx, "save the thread of run "+runID, normal, func(t tx) error {
		return saveThread(t, runID, issueID, threadID, workspaceID, used, now)
	})
}

const threadTokens = `SELECT ` + tokenColumns + ` FROM threads WHERE thread_id = ?`

func saveThread(t tx, runID, issueID, threadID, workspaceID string, used reconcile.Tokens, now time.Time) error {
	known, err := row(t, tokenFields, threadTokens, threadID)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	err = t.must("run "+runID, `INSERT INTO threads AS old
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
		threadID, issueID, workspaceID, used.Input, used.Cached, used.Output, used.Reasoning, used.Total, stamp(now), runID)
	if err != nil {
		return err
	}
	err = t.run(`UPDATE runs SET
			tokens_input = max(tokens_input, own.input), tokens_output = max(tokens_output, own.output),
			tokens_total = max(tokens_total, own.total), tokens_cached = max(tokens_cached, own.cached),
			tokens_reasoning = max(tokens_reasoning, own.reasoning)
		FROM (SELECT sum(input - base_input) AS input, sum(cached - base_cached) AS cached,
			sum(output - base_output) AS output, sum(reasoning - base_reasoning) AS reasoning,
			sum(total - base_total) AS total FROM threads WHERE run_id = ?1) AS own
		WHERE id = ?1`, runID)
	more := used.Since(known)
	if err != nil || more == (reconcile.Tokens{}) {
		return err
	}
	// The use of the run's model on the day (of UTC) on which it was reported.
	return t.run(`INSERT INTO model_totals (day, model, input, cached, output, reasoning, total)
		SELECT ?, model, ?, ?, ?, ?, ? FROM runs WHERE id = ? ON CONFLICT (day, model) DO UPDATE SET input = input + excluded.input,
		cached = cached + excluded.cached, output = output + excluded.output,
		reasoning = reasoning + excluded.reasoning, total = total + excluded.total`,
		now.UTC().Format(time.DateOnly), more.Input, more.Cached, more.Output, more.Reasoning, more.Total, runID)
}

// Thread returns the highest totals that were seen of a codex thread; false where it is not known. A resumed thread goes on
// counting from there.
func (j Journal) Thread(ctx context.Context, threadID string) (reconcile.Tokens, bool, error) {
	return readOne(ctx, j.conn, "read the thread", tokenFields, threadTokens, threadID)
}

// LastThread returns the thread that the issue's newest run with a thread worked in, and beside it the newest thread that
// codex can have in that home: one that is stored there, or whose home is not known. Mostly they are the same; either is
// empty where there is none. With an empty home every thread counts as stored there.
//
// Failed counts a thread's latest ended runs, back to the last that succeeded or was ended from outside (interrupted,
// canceled). Runs without a thread say nothing about it, and neither do those that failed by the machine's fault.
func (j Journal) LastThread(ctx context.Context, issueID, home string) (newest, here reconcile.Thread, err error) {
	err = j.view(ctx, "read the last thread", func(t tx) error {
		threads, err := rows(t, func(th *reconcile.Thread) []any { return []any{&th.ID, &th.WorkspaceID, &th.CodexHome} },
			`SELECT r.thread_id, r.workspace_id, coalesce(t.codex_home, '') FROM runs AS r LEFT JOIN threads AS t USING (thread_id)
			WHERE r.issue_id = ? AND r.thread_id <> '' ORDER BY r.id DESC`, issueID)
		if err != nil || len(threads) == 0 {
			return err
		}
		newest = threads[0]
		at := slices.IndexFunc(threads, func(th reconcile.Thread) bool { return home == "" || th.CodexHome == "" || th.CodexHome == home })
		if at < 0 {
			return nil
		}
		here = threads[at]
		codes, err := rows(t, itself[string], `SELECT error_code FROM runs
			WHERE issue_id = ?1 AND thread_id = ?2 AND outcome IS NOT NULL AND id > coalesce((
				SELECT max(id) FROM runs WHERE issue_id = ?1 AND thread_id <> '' AND outcome IS NOT NULL
				AND (thread_id <> ?2 OR outcome IN ('succeeded', 'interrupted', 'canceled'))), '')`, issueID, here.ID)
		// An agent that is incompatible might accept a new thread, so that it counts.
		here.Failed = len(slices.DeleteFunc(codes, func(code string) bool { return reconcile.MachineFault(code) && code != "codex_incompatible" }))
		return err
	})
	return newest, here, err
}

// LastSeen returns what a thread knows of its issue; false where that was never stored, as with threads of earlier versions.
func (j Journal) LastSeen(ctx context.Context, threadID string) (reconcile.LastSeen, bool, error) {
	return readOne(ctx, j.conn, "read what the thread was told",
		func(s *reconcile.LastSeen) []any { return []any{stampOf(&s.CommentAt), &s.Description, &s.Prompt} },
		`SELECT told_comment_at, told_description, told_prompt FROM threads WHERE thread_id = ? AND told_description <> ''`, threadID)
}

// RecordLastSeen stores what a thread of the run has been told of its issue. The thread may be new here: it has used no tokens then.
// A run that has an outcome gives reconcile.ErrConflict.
func (j Journal) RecordLastSeen(ctx context.Context, runID, issueID string, thread reconcile.Thread, seen reconcile.LastSeen, now time.Time) error {
	return j.update(ctx, "write down what the thread of run "+runID+" was told", full, func(t tx) error {
		if err := saveThread(t, runID, issueID, thread.ID, thread.WorkspaceID, reconcile.Tokens{}, now); err != nil {
			return err
		}
		return t.run(`UPDATE threads SET told_description = ?, told_prompt = ?,
			told_comment_at = max(coalesce(told_comment_at, 0), ?), codex_home = coalesce(nullif(?, ''), codex_home)
			WHERE thread_id = ?`,
			seen.Description, seen.Prompt, seen.CommentAt.UnixMilli(), thread.CodexHome, thread.ID)
	})
}

// LastRunOf returns the newest ended run of the issue on that thread, preferring runs that had a turn on it; false where
// there is none, or it was pruned.
func (j Journal) LastRunOf(ctx context.Context, issueID, threadID string) (reconcile.Run, bool, error) {
	return readOne(ctx, j.conn, "read the thread's last run", runFields, `SELECT `+runColumns+` FROM runs
		WHERE issue_id = ? AND thread_id = ? AND outcome IS NOT NULL ORDER BY turns > 0 DESC, id DESC LIMIT 1`, issueID, threadID)
}
