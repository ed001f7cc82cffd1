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

// TakeRun makes the process h the owner of a run that is still starting, and returns the run as it then stands.
// A run that was taken, ended or never recorded gives reconcile.ErrConflict: the worker leaves everything as it
// is (design 6).
func (db *DB) TakeRun(ctx context.Context, id string, h reconcile.Handle, now time.Time) (reconcile.Run, error) {
	var run reconcile.Run
	crash.At("state.take_run.before")
	err := db.update(ctx, "take run "+id, full, func(tx *sql.Tx) (err error) {
		run, err = scanRun(tx.QueryRowContext(ctx, `UPDATE runs SET phase = ?, worker_boot = ?, worker_pid = ?,
			worker_start = ?, heartbeat_at = ? WHERE id = ? AND phase = ? AND outcome IS NULL
			RETURNING `+runColumns, string(reconcile.PreparingWorkspace), h.Boot, h.PID, int64(h.Start), stamp(now),
			id, string(reconcile.Starting)))
		if errors.Is(err, sql.ErrNoRows) {
			return reconcile.ErrConflict
		}
		return err
	})
	crash.At("state.take_run.after")
	if err != nil {
		return reconcile.Run{}, err
	}
	return run, nil
}

// workerColumns are those that only the worker writes, and only while its run has no outcome. Token counts never
// go back: SaveThread may have raised them already.
const workerColumns = `phase = ?, workspace_path = ?, workspace_root = ?, workspace_id = ?, thread_id = ?,
	turn_id = ?, turns = ?, turns_done = ?, progress = ?, tokens_input = max(tokens_input, ?),
	tokens_output = max(tokens_output, ?), tokens_total = max(tokens_total, ?),
	rate_limits_at = iif(rate_limits IS ?13, rate_limits_at, ?14), rate_limits = ?13, heartbeat_at = ?14,
	last_event = ?, last_message = ?, last_event_at = ?, beats = ?, handoff_at = ?, handoff_state = ?,
	tokens_cached = max(tokens_cached, ?), tokens_reasoning = max(tokens_reasoning, ?),
	model = ?, links = ?`

func workerValues(now time.Time, r reconcile.Run, links string) []any {
	return []any{
		string(r.Phase), r.WorkspacePath, r.WorkspaceRoot, r.WorkspaceID, r.ThreadID, r.TurnID, r.Turns,
		r.TurnsDone, r.Progress, r.Tokens.Input, r.Tokens.Output, r.Tokens.Total, nullText(string(r.RateLimits)),
		stamp(now), r.LastEvent, r.LastMessage, stamp(r.LastEventAt), r.Beats, stamp(r.HandoffAt), r.HandoffState,
		r.Tokens.Cached, r.Tokens.Reasoning, r.Model, links,
	}
}

// UpdateRun writes what the worker of a run knows of it: phase, workspace, thread, turns, progress, tokens, rate
// limits, last event and heartbeat. It returns the reason for which a pass asked the run to stop, empty if none
// did. Once the run has an outcome, or was never taken, nothing is written and the error wraps
// reconcile.ErrConflict: the worker has lost the run and ends. Where nothing can be written, on a full disk for
// instance, the reason is returned beside the error all the same.
//
// A change of phase, workspace, thread, model, links, turn or progress is on the disk when UpdateRun returns; a heartbeat alone
// survives the death of any process, but not always a power failure.
func (db *DB) UpdateRun(ctx context.Context, now time.Time, run reconcile.Run) (stopReason string, err error) {
	if run.Phase == "" || run.Phase == reconcile.Starting {
		return "", fmt.Errorf("update run %s: phase %q is not a worker's", run.ID, run.Phase)
	}
	doing := "update run " + run.ID
	links, err := linksText(run.Links)
	if err != nil {
		return "", fault(db.dir, doing, err)
	}
	// These columns have no other writer, so they may be compared before the transaction.
	var beatOnly bool
	err = db.sql.QueryRowContext(ctx, `SELECT phase = ? AND thread_id = ? AND turn_id = ? AND turns = ?
		AND turns_done = ? AND progress = ? AND workspace_path = ? AND workspace_root = ? AND workspace_id = ?
		AND handoff_at IS ? AND handoff_state = ? AND model = ? AND links = ?, coalesce(stop_reason, '')
		FROM runs WHERE id = ?`, string(run.Phase), run.ThreadID, run.TurnID, run.Turns, run.TurnsDone,
		run.Progress, run.WorkspacePath, run.WorkspaceRoot, run.WorkspaceID, stamp(run.HandoffAt),
		run.HandoffState, run.Model, links, run.ID).Scan(&beatOnly, &stopReason)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fault(db.dir, doing, err)
	}
	level := full
	if beatOnly {
		level = normal
	}
	crash.At("state.update_run.before")
	err = db.update(ctx, doing, level, func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, `UPDATE runs SET `+workerColumns+`
			WHERE id = ? AND outcome IS NULL AND phase <> 'starting' RETURNING coalesce(stop_reason, '')`,
			append(workerValues(now, run, links), run.ID)...).Scan(&stopReason)
		crash.At("state.update_run.half")
		if errors.Is(err, sql.ErrNoRows) {
			return reconcile.ErrConflict
		}
		return err
	})
	crash.At("state.update_run.after")
	return stopReason, err
}

// Finish records how a run ended: its last counters, outcome and error. The end is now. It is done once: a run
// that has an outcome, or was never taken, gives reconcile.ErrConflict and stays as it is.
func (db *DB) Finish(ctx context.Context, now time.Time, run reconcile.Run) error {
	if run.Outcome == "" || run.Phase == "" || run.Phase == reconcile.Starting {
		return fmt.Errorf("finish run %s: outcome %q in phase %q", run.ID, run.Outcome, run.Phase)
	}
	links, err := linksText(run.Links)
	if err != nil {
		return fault(db.dir, "finish run "+run.ID, err)
	}
	crash.At("state.finish.before")
	err = db.update(ctx, "finish run "+run.ID, full, func(tx *sql.Tx) error {
		found, err := affected(tx.ExecContext(ctx, `UPDATE runs SET `+workerColumns+`,
			outcome = ?, error_code = ?, error_text = ?, after_run_error = ?, ended_at = ?14, runtime_ms = max(0, ?14 - started_at)
			WHERE id = ? AND outcome IS NULL AND phase <> 'starting'`,
			append(workerValues(now, run, links), string(run.Outcome), run.ErrorCode, run.ErrorText, run.AfterRunError, run.ID)...))
		return runConflict(run.ID, found, err)
	})
	crash.At("state.finish.after")
	return err
}
