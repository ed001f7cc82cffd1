package state

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Journal is what a worker writes of its run, and what it reads of earlier runs of the issue.
type Journal struct{ *conn }

// TakeRun makes the process h the owner of a run that is still starting, and returns the run as it then stands. A run that
// was taken, ended or never recorded gives reconcile.ErrConflict: the worker must leave everything as it is.
func (j Journal) TakeRun(ctx context.Context, id string, h reconcile.Handle, now time.Time) (run reconcile.Run, err error) {
	err = j.update(ctx, "take run "+id, full, func(t tx) error {
		run, err = row(t, runFields, `UPDATE runs SET phase = ?, worker_boot = ?, worker_pid = ?,
			worker_start = ?, heartbeat_at = ? WHERE id = ? AND phase = ? AND outcome IS NULL RETURNING `+runColumns,
			reconcile.PreparingWorkspace, h.Boot, h.PID, bitsOf(&h.Start), stamp(now), id, reconcile.Starting)
		if errors.Is(err, sql.ErrNoRows) {
			err = reconcile.ErrConflict
		}
		return err
	})
	return run, err
}

// workerColumns are written by the worker alone, and only while its run has no outcome. Token counts never go back:
// SaveThread may have raised them already.
const workerColumns = `phase = ?, workspace_path = ?, workspace_root = ?, workspace_id = ?, thread_id = ?,
	turn_id = ?, turns = ?, turns_done = ?, progress = ?, tokens_input = max(tokens_input, ?),
	tokens_output = max(tokens_output, ?), tokens_total = max(tokens_total, ?),
	rate_limits_at = iif(rate_limits IS ?13, rate_limits_at, ?14), rate_limits = ?13, heartbeat_at = ?14,
	last_event = ?, last_message = ?, last_event_at = ?, beats = ?, handoff_at = ?, handoff_state = ?,
	tokens_cached = max(tokens_cached, ?), tokens_reasoning = max(tokens_reasoning, ?), model = ?, links = ?`

// workerValues are the values of workerColumns, and more.
func workerValues(now time.Time, r reconcile.Run, more ...any) []any {
	return append([]any{
		r.Phase, r.WorkspacePath, r.WorkspaceRoot, r.WorkspaceID, r.ThreadID, r.TurnID, r.Turns,
		r.TurnsDone, r.Progress, r.Tokens.Input, r.Tokens.Output, r.Tokens.Total,
		textOf(&r.RateLimits),
		stamp(now), r.LastEvent, r.LastMessage, stamp(r.LastEventAt), r.Beats, stamp(r.HandoffAt), r.HandoffState,
		r.Tokens.Cached, r.Tokens.Reasoning, r.Model,
		jsonOf(&r.Links),
	}, more...)
}

// decisive is what later decisions depend on, of all that a worker writes.
func decisive(r reconcile.Run) [12]any {
	return [12]any{
		r.Phase, r.WorkspacePath, r.WorkspaceRoot, r.WorkspaceID, r.ThreadID, r.TurnID, r.Turns, r.TurnsDone, r.Progress,
		stamp(r.HandoffAt), r.HandoffState, r.Model,
	}
}

// UpdateRun writes what the worker of a run knows of it: phase, workspace, thread, turns, progress, tokens, rate limits, last
// event and heartbeat. It returns the reason for which a pass asked the run to stop, empty if none did, and returns it
// also beside an error, on a full disk for instance. Once the run has an outcome, or where it was never taken, nothing is
// written and the error wraps reconcile.ErrConflict: the worker has lost the run and ends.
//
// A heartbeat alone survives the death of any process, but not always a power failure. Every other change is on the disk
// when UpdateRun returns.
func (j Journal) UpdateRun(ctx context.Context, now time.Time, run reconcile.Run) (stopReason string, err error) {
	doing := "update run " + run.ID
	// What is compared has no other writer, so that it may be read before the transaction.
	was, _, err := readOne(ctx, j.conn, doing, runFields, `SELECT `+runColumns+` FROM runs WHERE id = ?`, run.ID)
	if err != nil {
		return "", err
	}
	level, stopReason := full, was.StopReason
	if decisive(was) == decisive(run) && slices.Equal(was.Links, run.Links) {
		level = normal
	}
	err = j.update(ctx, doing, level, func(t tx) error {
		reason, err := row(t, itself[string], `UPDATE runs SET `+workerColumns+`
			WHERE id = ? AND outcome IS NULL AND phase <> 'starting' RETURNING coalesce(stop_reason, '')`,
			workerValues(now, run, run.ID)...)
		if errors.Is(err, sql.ErrNoRows) {
			return reconcile.ErrConflict
		}
		stopReason = reason
		return err
	})
	return stopReason, err
}

// Finish records how a run ended: its last counters, outcome and error, once. A run that has an outcome, or was never
// taken, gives reconcile.ErrConflict and stays as it is.
func (j Journal) Finish(ctx context.Context, now time.Time, run reconcile.Run) error {
	return j.update(ctx, "finish run "+run.ID, full, func(t tx) error {
		return t.must("run "+run.ID, `UPDATE runs SET `+workerColumns+`,
			outcome = ?, error_code = ?, error_text = ?, after_run_error = ?, ended_at = ?14, runtime_ms = max(0, ?14 - started_at)
			WHERE id = ? AND outcome IS NULL AND phase <> 'starting'`,
			workerValues(now, run, run.Outcome, run.ErrorCode, run.ErrorText, run.AfterRunError, run.ID)...)
	})
}

// SaveCreated stores what a run's agent has created in the tracker. It does so even when the run belongs to another
// process by now, because a later run must not take these objects for a human's.
func (j Journal) SaveCreated(ctx context.Context, runID, issueID string, created []reconcile.Created, now time.Time) error {
	if len(created) == 0 {
		return nil
	}
	return j.update(ctx, "keep what was created in the tracker", full, func(t tx) error {
		for _, c := range created {
			if err := t.run(`INSERT INTO created (id, kind, issue_id, run_id, at)
				VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`, c.ID, c.Kind, issueID, runID, stamp(now)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Created reports which of these ids of tracker objects were created by agents of this project.
func (j Journal) Created(ctx context.Context, ids []string) (map[string]bool, error) {
	ours, err := readAll(ctx, j.conn, "look for what agents created", itself[string],
		`SELECT id FROM created WHERE id IN (SELECT value FROM json_each(?))`, jsonOf(append([]string{}, ids...))) // one parameter, however many ids
	return setOf(ours), err
}

// IssueTokens is what an issue has used since its counters were last cleared, unsettled runs included. It is what
// agent.max_tokens bounds.
func (j Journal) IssueTokens(ctx context.Context, issueID string) (int64, error) {
	used, _, err := readOne(ctx, j.conn, "read the tokens of the issue", itself[int64], `SELECT
		coalesce((SELECT total FROM issue_totals WHERE issue_id = ?1), 0)
		+ coalesce((SELECT sum(tokens_total) FROM runs WHERE issue_id = ?1 AND settled = 0), 0)
		- coalesce((SELECT token_base FROM claims WHERE issue_id = ?1), 0)`, issueID)
	return used, err
}
