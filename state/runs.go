package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

const runColumns = `id, kind, issue_id, identifier, attempt, phase, outcome, error_code, error_text,
	stop_reason, stop_mono, stop_boot, reap_tries, settled, issue, fingerprint,
	worker_boot, worker_pid, worker_start, host, workspace_path, workspace_root, workspace_id,
	thread_id, turn_id, turns, turns_done, progress, tokens_input, tokens_cached, tokens_output, tokens_reasoning, tokens_total,
	rate_limits, last_event, last_message, last_event_at, handoff_at, handoff_state,
	beats, heartbeat_at, started_at, ended_at, model, links, after_run_error`

func runFields(r *reconcile.Run) []any {
	return []any{
		&r.ID, &r.Kind, &r.IssueID, &r.Identifier, &r.Attempt, &r.Phase, orNull(&r.Outcome), &r.ErrorCode, &r.ErrorText,
		orNull(&r.StopReason), orNull(&r.StopAt.Mono), orNull(&r.StopAt.Boot), &r.ReapTries, &r.Settled, jsonOf(&r.Issue),
		&r.Fingerprint, &r.Worker.Boot, &r.Worker.PID, bitsOf(&r.Worker.Start), &r.Host, &r.WorkspacePath, &r.WorkspaceRoot,
		&r.WorkspaceID, &r.ThreadID, &r.TurnID, &r.Turns, &r.TurnsDone, &r.Progress, &r.Tokens.Input, &r.Tokens.Cached,
		&r.Tokens.Output, &r.Tokens.Reasoning, &r.Tokens.Total, textOf(&r.RateLimits), &r.LastEvent, &r.LastMessage,
		stampOf(&r.LastEventAt), stampOf(&r.HandoffAt), &r.HandoffState, &r.Beats, stampOf(&r.HeartbeatAt),
		stampOf(&r.StartedAt), stampOf(&r.EndedAt), &r.Model, jsonOf(&r.Links), &r.AfterRunError,
	}
}

// insertRun stores a new run. A second live one of the same issue is a conflict.
func insertRun(t tx, r reconcile.Run) error {
	err := t.run(`INSERT INTO runs (`+runColumns+`) VALUES (`+marks(runColumns)+`)`, runFields(&r)...)
	if isDuplicate(err) {
		return fmt.Errorf("run %s: the id is taken, or %s has a live run: %w", r.ID, r.Identifier, reconcile.ErrConflict)
	}
	return err
}

// runs reads runs by the rest of a statement.
func (v Views) runs(ctx context.Context, where string, args ...any) ([]reconcile.Run, error) {
	return readAll(ctx, v.conn, "read the runs", runFields, `SELECT `+runColumns+` FROM runs `+where, args...)
}

// firstRun reads the first of them, false where there is none.
func (v Views) firstRun(ctx context.Context, where string, args ...any) (reconcile.Run, bool, error) {
	return readOne(ctx, v.conn, "read a run", runFields, `SELECT `+runColumns+` FROM runs `+where, args...)
}

// Run returns one run; an error that wraps ErrNotFound where there is none of that id.
func (v Views) Run(ctx context.Context, id string) (reconcile.Run, error) {
	r, found, err := v.firstRun(ctx, `WHERE id = ?`, id)
	if err == nil && !found {
		err = fmt.Errorf("run %s: %w", id, ErrNotFound)
	}
	return r, err
}

// RunsOfIssue returns the newest runs of an issue, of either kind, at most limit of them.
func (v Views) RunsOfIssue(ctx context.Context, issueID string, limit int) ([]reconcile.Run, error) {
	return v.runs(ctx, `WHERE issue_id = ? ORDER BY id DESC LIMIT ?`, issueID, limit)
}

// AgentRuns returns the agent's newest runs of an issue, at most limit of them.
func (v Views) AgentRuns(ctx context.Context, issueID string, limit int) ([]reconcile.Run, error) {
	return v.runs(ctx, `WHERE issue_id = ? AND kind = 'agent' ORDER BY id DESC LIMIT ?`, issueID, limit)
}

// RecentRuns returns the newest runs of all issues, at most limit of them.
func (v Views) RecentRuns(ctx context.Context, limit int) ([]reconcile.Run, error) {
	return v.runs(ctx, `ORDER BY id DESC LIMIT ?`, limit)
}

// RunsSince returns the agent's runs of an issue that were at work at that time or later, the oldest first; all of them for
// the zero time.
func (v Views) RunsSince(ctx context.Context, issueID string, since time.Time) ([]reconcile.Run, error) {
	return v.runs(ctx, `WHERE issue_id = ? AND kind = 'agent' AND (ended_at IS NULL OR ended_at >= coalesce(?, 0)) ORDER BY id`,
		issueID, stamp(since))
}

// RunsByPrefix returns the runs of an issue, of either kind, whose ids begin with prefix, at most limit of them.
func (v Views) RunsByPrefix(ctx context.Context, issueID, prefix string, limit int) ([]reconcile.Run, error) {
	return v.runs(ctx, `WHERE issue_id = ?1 AND substr(id, 1, length(?2)) = ?2 ORDER BY id DESC LIMIT ?3`, issueID, prefix, limit)
}

// NextRun returns the agent's first run of an issue after the run of that id, false where there is none. After the empty id
// it is the oldest that is kept.
func (v Views) NextRun(ctx context.Context, issueID, after string) (reconcile.Run, bool, error) {
	return v.firstRun(ctx, `WHERE issue_id = ? AND id > ? AND kind = 'agent' ORDER BY id LIMIT 1`, issueID, after)
}

// LastRun returns the agent's newest run of an issue, false where there is none.
func (v Views) LastRun(ctx context.Context, issueID string) (reconcile.Run, bool, error) {
	return v.firstRun(ctx, `WHERE issue_id = ? AND kind = 'agent' ORDER BY id DESC LIMIT 1`, issueID)
}

// CountRuns returns how many runs of an issue are kept, of either kind.
func (v Views) CountRuns(ctx context.Context, issueID string) (int, error) {
	n, _, err := readOne(ctx, v.conn, "count the runs of the issue", itself[int], `SELECT count(*) FROM runs WHERE issue_id = ?`, issueID)
	return n, err
}

// RunIDs returns the ids of all runs.
func (v Views) RunIDs(ctx context.Context) (map[string]bool, error) {
	list, err := readAll(ctx, v.conn, "list runs", itself[string], `SELECT id FROM runs`)
	return setOf(list), err
}

// EndedRuns returns the newest settled runs, at most limit of them: of all issues, or of those named by id. Of the issue,
// which is most of a row, it reads the address alone, and nothing that only live runs have.
func (v Views) EndedRuns(ctx context.Context, issueIDs []string, limit int) ([]reconcile.Run, error) {
	return readAll(ctx, v.conn, "read the last runs", func(r *reconcile.Run) []any {
		r.Settled = true
		return append([]any{
			&r.ID, &r.Kind, &r.IssueID, &r.Identifier, &r.Issue.URL, &r.Outcome, &r.ErrorCode, &r.ErrorText, &r.AfterRunError,
			&r.Turns, stampOf(&r.StartedAt), stampOf(&r.EndedAt),
		}, tokenFields(&r.Tokens)...)
	}, `SELECT id, kind, issue_id, identifier, issue ->> '$.url', outcome, error_code, error_text,
		after_run_error, turns, started_at, ended_at, tokens_input, tokens_cached, tokens_output, tokens_reasoning, tokens_total
		FROM runs WHERE settled = 1 AND (json_array_length(?1) = 0 OR issue_id IN (SELECT value FROM json_each(?1)))
		ORDER BY id DESC LIMIT ?2`, jsonOf(append([]string{}, issueIDs...)), limit)
}

// Totals is what settled runs used. Unsettled runs are not in it.
type Totals struct {
	Tokens  reconcile.Tokens
	Runtime time.Duration
}

func totalFields(all *Totals) []any { return append(tokenFields(&all.Tokens), millisOf(&all.Runtime)) }

const totalColumns = tokenColumns + `, runtime_ms`

// settle marks an ended run as settled and adds its share to the totals of the project and of its issue. The time of a run
// that removed a workspace does not count.
func settle(t tx, runID string) error {
	type share struct {
		issueID string
		Totals
	}
	used, err := row(t, func(s *share) []any { return append([]any{&s.issueID}, totalFields(&s.Totals)...) },
		`UPDATE runs SET settled = 1 WHERE id = ? AND settled = 0 AND outcome IS NOT NULL
		RETURNING issue_id, tokens_input, tokens_cached, tokens_output, tokens_reasoning, tokens_total, iif(kind = 'cleanup', 0, runtime_ms)`, runID)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("run %s: %w", runID, reconcile.ErrConflict)
	}
	if err != nil || used.Totals == (Totals{}) {
		return err
	}
	values := totalFields(&used.Totals)
	if err := t.run(`UPDATE meta SET value = CAST(value + CASE key WHEN 'totals_input' THEN ?1 WHEN 'totals_cached' THEN ?2
		WHEN 'totals_output' THEN ?3 WHEN 'totals_reasoning' THEN ?4 WHEN 'totals_total' THEN ?5 ELSE ?6 END AS TEXT)
		WHERE key LIKE 'totals_%'`, values...); err != nil {
		return err
	}
	return t.run(`INSERT INTO issue_totals (issue_id, `+totalColumns+`) VALUES (?7, ?1, ?2, ?3, ?4, ?5, ?6)
		ON CONFLICT (issue_id) DO UPDATE SET input = input + excluded.input, cached = cached + excluded.cached,
		output = output + excluded.output, reasoning = reasoning + excluded.reasoning, total = total + excluded.total,
		runtime_ms = runtime_ms + excluded.runtime_ms`, append(values, used.issueID)...)
}

// Totals returns what all settled runs of the project used.
func (v Views) Totals(ctx context.Context) (Totals, error) {
	return v.totals(ctx, `SELECT sum(value) FILTER (WHERE key = 'totals_input'), sum(value) FILTER (WHERE key = 'totals_cached'),
		sum(value) FILTER (WHERE key = 'totals_output'), sum(value) FILTER (WHERE key = 'totals_reasoning'),
		sum(value) FILTER (WHERE key = 'totals_total'), sum(value) FILTER (WHERE key = 'totals_runtime_ms')
		FROM (SELECT key, CAST(value AS INTEGER) AS value FROM meta WHERE key LIKE 'totals_%')`)
}

// IssueTotals returns what all settled runs of an issue used.
func (v Views) IssueTotals(ctx context.Context, issueID string) (Totals, error) {
	return v.totals(ctx, `SELECT `+totalColumns+` FROM issue_totals WHERE issue_id = ?`, issueID)
}

func (v Views) totals(ctx context.Context, query string, args ...any) (Totals, error) {
	all, _, err := readOne(ctx, v.conn, "read the totals", totalFields, query, args...)
	return all, err
}

// RateLimits returns the agents' latest rate-limit record as JSON, nil if none has come yet.
func (v Views) RateLimits(ctx context.Context) ([]byte, error) {
	text, _, err := readOne(ctx, v.conn, "read the rate limits", itself[[]byte],
		`SELECT rate_limits FROM runs WHERE rate_limits IS NOT NULL ORDER BY rate_limits_at DESC LIMIT 1`)
	return text, err
}
