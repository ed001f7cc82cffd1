package state

import (
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

const runColumns = `id, kind, issue_id, identifier, attempt, phase, coalesce(outcome, ''), error_code, error_text,
	coalesce(stop_reason, ''), coalesce(stop_mono, 0), coalesce(stop_boot, ''), reap_tries, settled, issue, fingerprint, worker_boot, worker_pid, worker_start, host,
	workspace_path, workspace_root, workspace_id, thread_id, turn_id, turns, turns_done, progress, tokens_input,
	tokens_cached, tokens_output, tokens_reasoning, tokens_total, rate_limits, last_event, last_message, last_event_at, handoff_at,
	handoff_state, beats, heartbeat_at, started_at, ended_at, model, links, after_run_error`

func scanRun(row scanner) (reconcile.Run, error) {
	var r reconcile.Run
	var start int64
	err := row.Scan(&r.ID, &r.Kind, &r.IssueID, &r.Identifier, &r.Attempt, &r.Phase, &r.Outcome, &r.ErrorCode,
		&r.ErrorText, &r.StopReason, &r.StopAt.Mono, &r.StopAt.Boot, &r.ReapTries, &r.Settled, jsonOf{&r.Issue}, &r.Fingerprint, &r.Worker.Boot, &r.Worker.PID,
		&start, &r.Host, &r.WorkspacePath, &r.WorkspaceRoot, &r.WorkspaceID, &r.ThreadID, &r.TurnID, &r.Turns,
		&r.TurnsDone, &r.Progress, &r.Tokens.Input, &r.Tokens.Cached, &r.Tokens.Output, &r.Tokens.Reasoning, &r.Tokens.Total, &r.RateLimits,
		&r.LastEvent, &r.LastMessage, stampOf{&r.LastEventAt}, stampOf{&r.HandoffAt}, &r.HandoffState, &r.Beats, stampOf{&r.HeartbeatAt},
		stampOf{&r.StartedAt}, stampOf{&r.EndedAt}, &r.Model, linksOf{&r.Links}, &r.AfterRunError)
	r.Worker.Start = uint64(start) // stored as the same 64 bits
	return r, err
}

func readUnsettled(t tx) ([]reconcile.Run, error) {
	rows, err := t.query(`SELECT ` + runColumns + ` FROM runs WHERE settled = 0 ORDER BY id`)
	return collect(rows, err, scanRun)
}

// insertRun stores a new run. A second live one of the same issue is a conflict.
func insertRun(t tx, now time.Time, r reconcile.Run) error {
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
	err = t.run(`INSERT INTO runs (id, kind, issue_id, identifier, attempt, phase, stop_reason,
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

func runConflict(id string, found bool, err error) error {
	if err == nil && !found {
		return fmt.Errorf("run %s: %w", id, reconcile.ErrConflict)
	}
	return err
}
