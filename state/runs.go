package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
)

const runColumns = `id, kind, issue_id, identifier, attempt, phase, coalesce(outcome, ''), error_code, error_text,
	coalesce(stop_reason, ''), coalesce(stop_mono, 0), coalesce(stop_boot, ''), reap_tries, coalesce(hb_seen, 0),
	coalesce(hb_seen_mono, 0), coalesce(hb_seen_boot, ''), settled, issue, fingerprint, worker_boot, worker_pid, worker_start, host,
	workspace_path, workspace_root, workspace_id, thread_id, turn_id, turns, turns_done, progress, tokens_input,
	tokens_cached, tokens_output, tokens_reasoning, tokens_total, rate_limits, last_event, last_message, last_event_at, handoff_at,
	handoff_state, beats, heartbeat_at, started_at, ended_at, model, links, after_run_error`

func scanRun(row scanner) (reconcile.Run, error) {
	var r reconcile.Run
	var start int64
	err := row.Scan(&r.ID, &r.Kind, &r.IssueID, &r.Identifier, &r.Attempt, &r.Phase, &r.Outcome, &r.ErrorCode,
		&r.ErrorText, &r.StopReason, &r.StopAt.Mono, &r.StopAt.Boot, &r.ReapTries, &r.Seen.Beats, &r.Seen.At.Mono,
		&r.Seen.At.Boot, &r.Settled, jsonOf{&r.Issue}, &r.Fingerprint, &r.Worker.Boot, &r.Worker.PID,
		&start, &r.Host, &r.WorkspacePath, &r.WorkspaceRoot, &r.WorkspaceID, &r.ThreadID, &r.TurnID, &r.Turns,
		&r.TurnsDone, &r.Progress, &r.Tokens.Input, &r.Tokens.Cached, &r.Tokens.Output, &r.Tokens.Reasoning, &r.Tokens.Total, &r.RateLimits,
		&r.LastEvent, &r.LastMessage, stampOf{&r.LastEventAt}, stampOf{&r.HandoffAt}, &r.HandoffState, &r.Beats, stampOf{&r.HeartbeatAt},
		stampOf{&r.StartedAt}, stampOf{&r.EndedAt}, &r.Model, linksIn{&r.Links}, &r.AfterRunError)
	r.Worker.Start = uint64(start) // stored as the same 64 bits
	return r, err
}

// Run returns one run; an error that wraps ErrNotFound where there is none of that id.
func (db *DB) Run(ctx context.Context, id string) (reconcile.Run, error) {
	r, err := scanRun(db.sql.QueryRowContext(ctx, `SELECT `+runColumns+` FROM runs WHERE id = ?`, id))
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return reconcile.Run{}, fault(db.dir, "read run "+id, err)
	}
	return r, nil
}

// RunsOfIssue returns the runs of an issue, the newest first, at most limit of them.
func (db *DB) RunsOfIssue(ctx context.Context, issueID string, limit int) ([]reconcile.Run, error) {
	rows, err := db.sql.QueryContext(ctx,
		`SELECT `+runColumns+` FROM runs WHERE issue_id = ? ORDER BY id DESC LIMIT ?`, issueID, limit)
	runs, err := collect(rows, err, scanRun)
	return runs, fault(db.dir, "read the runs of the issue", err)
}

// RecentRuns returns the newest runs of all issues, the newest first, at most limit of them.
func (db *DB) RecentRuns(ctx context.Context, limit int) ([]reconcile.Run, error) {
	rows, err := db.sql.QueryContext(ctx, `SELECT `+runColumns+` FROM runs ORDER BY id DESC LIMIT ?`, limit)
	runs, err := collect(rows, err, scanRun)
	return runs, fault(db.dir, "read the last runs", err)
}

func readUnsettled(ctx context.Context, tx *sql.Tx) ([]reconcile.Run, error) {
	rows, err := tx.QueryContext(ctx, `SELECT `+runColumns+` FROM runs WHERE settled = 0 ORDER BY id`)
	return collect(rows, err, scanRun)
}

// insertRun stores a new run. A second live one of the same issue is a conflict.
func insertRun(ctx context.Context, tx *sql.Tx, now time.Time, r reconcile.Run) error {
	if r.ID == "" || r.Outcome != "" || r.Settled {
		return fmt.Errorf("insert run %q: a new run has an id and no end", r.ID)
	}
	issue, err := toJSON(r.Issue)
	if err != nil {
		return err
	}
	if r.StartedAt.IsZero() {
		r.StartedAt = now
	}
	if r.Kind == "" {
		r.Kind = reconcile.AgentRun
	}
	if r.Phase == "" {
		r.Phase = reconcile.Starting
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO runs (id, kind, issue_id, identifier, attempt, phase, stop_reason,
		issue, fingerprint, worker_boot, host, workspace_path, workspace_root, workspace_id, thread_id, started_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.ID, string(r.Kind), r.IssueID, r.Identifier, r.Attempt, string(r.Phase), nullText(r.StopReason),
		issue, r.Fingerprint, r.Worker.Boot, r.Host, r.WorkspacePath, r.WorkspaceRoot, r.WorkspaceID, r.ThreadID,
		stamp(r.StartedAt))
	if unique(err) {
		return fmt.Errorf("run %s: the id is taken, or %s has a live run: %w", r.ID, r.Identifier,
			reconcile.ErrConflict)
	}
	return err
}

// RequestStop implements reconcile.Store: the first reason stays, and a run with an outcome is left alone.
func (db *DB) RequestStop(ctx context.Context, runID, reason string, at reconcile.Instant) error {
	crash.At("state.request_stop.before")
	err := db.update(ctx, "ask run "+runID+" to stop", full, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE runs SET stop_reason = ?, stop_mono = ?, stop_boot = ?
			WHERE id = ? AND outcome IS NULL AND stop_reason IS NULL`, nullText(reason), int64(at.Mono), at.Boot, runID)
		return err
	})
	crash.At("state.request_stop.after")
	return err
}

// ReapFailed implements reconcile.Store.
func (db *DB) ReapFailed(ctx context.Context, runID string) error {
	crash.At("state.reap_failed.before")
	err := db.update(ctx, "count a try to end run "+runID, full, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE runs SET reap_tries = reap_tries + 1 WHERE id = ? AND settled = 0`, runID)
		return err
	})
	crash.At("state.reap_failed.after")
	return err
}

// EndDead implements reconcile.Store. The run's share of the totals of runtime ends with its last sign of life,
// not when its death was found out, which may be days later.
func (db *DB) EndDead(ctx context.Context, now time.Time, run reconcile.Run, outcome reconcile.Outcome,
	code, message string,
) error {
	if outcome == "" {
		return fmt.Errorf("end run %s: without an outcome", run.ID)
	}
	crash.At("state.end_dead.before")
	err := db.update(ctx, "end run "+run.ID, full, func(tx *sql.Tx) error {
		found, err := affected(tx.ExecContext(ctx, `UPDATE runs SET outcome = ?, error_code = ?, error_text = ?,
			ended_at = ?, runtime_ms = max(0, coalesce(heartbeat_at, started_at) - started_at)
			WHERE id = ? AND outcome IS NULL AND phase = ?`,
			string(outcome), code, message, stamp(now), run.ID, string(run.Phase)))
		return runConflict(run.ID, found, err)
	})
	crash.At("state.end_dead.after")
	return err
}

// RecordHeartbeat implements reconcile.Store. The same counter in the same boot changes nothing, so that the time stays
// when it was first seen; that is how a frozen worker is found.
func (db *DB) RecordHeartbeat(ctx context.Context, runID string, beats int64, at reconcile.Instant) error {
	crash.At("state.saw_heartbeat.before")
	err := db.update(ctx, "record the heartbeat of run "+runID, normal, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE runs SET hb_seen = ?, hb_seen_mono = ?, hb_seen_boot = ?
			WHERE id = ? AND outcome IS NULL AND (hb_seen IS NOT ?1 OR hb_seen_boot IS NOT ?3)`,
			beats, int64(at.Mono), at.Boot, runID)
		return err
	})
	crash.At("state.saw_heartbeat.after")
	return err
}

func runConflict(id string, found bool, err error) error {
	if err == nil && !found {
		return fmt.Errorf("run %s: %w", id, reconcile.ErrConflict)
	}
	return err
}
