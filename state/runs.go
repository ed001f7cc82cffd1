package state

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// list returns the runs that match, where being the end of the statement.
func (r Runs) list(ctx context.Context, where string, args ...any) ([]reconcile.Run, error) {
	return readAll(ctx, r.conn, "read the runs", runFields, `SELECT `+runColumns+` FROM runs `+where, args...)
}

// first is list for the first match; false if there is none.
func (r Runs) first(ctx context.Context, where string, args ...any) (reconcile.Run, bool, error) {
	return readOne(ctx, r.conn, "read a run", runFields, `SELECT `+runColumns+` FROM runs `+where, args...)
}

// Find returns the run with that id. If there is none the error wraps ErrNotFound.
func (r Runs) Find(ctx context.Context, id string) (reconcile.Run, error) {
	run, found, err := r.first(ctx, `WHERE id = ?`, id)
	if err != nil {
		return run, err
	}
	if !found {
		return run, fmt.Errorf("run %s: %w", id, ErrNotFound)
	}
	return run, nil
}

// OfIssue returns the newest runs of an issue, of either kind, at most limit of them.
func (r Runs) OfIssue(ctx context.Context, issueID string, limit int) ([]reconcile.Run, error) {
	return r.list(ctx, `WHERE issue_id = ? ORDER BY id DESC LIMIT ?`, issueID, limit)
}

// OfAgents returns the agent's newest runs of an issue, at most limit of them.
func (r Runs) OfAgents(ctx context.Context, issueID string, limit int) ([]reconcile.Run, error) {
	return r.list(ctx, `WHERE issue_id = ? AND kind IN ('agent', 'free') ORDER BY id DESC LIMIT ?`, issueID, limit)
}

// Recent returns the newest runs of all issues, at most limit of them.
func (r Runs) Recent(ctx context.Context, limit int) ([]reconcile.Run, error) {
	return r.list(ctx, `ORDER BY id DESC LIMIT ?`, limit)
}

// Since returns the agent's runs of an issue that had not ended before a time, oldest first;
// all of them for the zero time.
func (r Runs) Since(ctx context.Context, issueID string, since time.Time) ([]reconcile.Run, error) {
	return r.list(ctx, `WHERE issue_id = ? AND kind IN ('agent', 'free')
		AND (ended_at IS NULL OR ended_at >= coalesce(?, 0)) ORDER BY id`, issueID, stamp(since))
}

// ByPrefix returns the runs of an issue, of either kind, whose ids begin with prefix, at most
// limit of them.
func (r Runs) ByPrefix(ctx context.Context, issueID, prefix string, limit int) ([]reconcile.Run, error) {
	return r.list(ctx, `WHERE issue_id = ?1 AND substr(id, 1, length(?2)) = ?2 ORDER BY id DESC LIMIT ?3`,
		issueID, prefix, limit)
}

// Next returns the agent's first run of an issue after the run with that id; false if there is
// none. With an empty id it is the oldest run that is not pruned.
func (r Runs) Next(ctx context.Context, issueID, after string) (reconcile.Run, bool, error) {
	return r.first(ctx, `WHERE issue_id = ? AND id > ? AND kind IN ('agent', 'free') ORDER BY id LIMIT 1`,
		issueID, after)
}

// Unsettled returns the runs that no pass settled yet.
func (r Runs) Unsettled(ctx context.Context) ([]reconcile.Run, error) {
	return r.list(ctx, `WHERE settled = 0 ORDER BY id DESC`)
}

// Last returns the agent's newest run of an issue; false if there is none.
func (r Runs) Last(ctx context.Context, issueID string) (reconcile.Run, bool, error) {
	return r.first(ctx, `WHERE issue_id = ? AND kind = 'agent' ORDER BY id DESC LIMIT 1`, issueID)
}

// Count returns the number of stored runs of an issue, of either kind.
func (r Runs) Count(ctx context.Context, issueID string) (int, error) {
	n, _, err := readOne(ctx, r.conn, "count the runs", itself[int],
		`SELECT count(*) FROM runs WHERE issue_id = ?`, issueID)
	return n, err
}

// CountOfAgents returns the number of stored runs of the agent for an issue that started at a
// time or later.
func (r Runs) CountOfAgents(ctx context.Context, issueID string, since time.Time) (int, error) {
	n, _, err := readOne(ctx, r.conn, "count the runs", itself[int],
		`SELECT count(*) FROM runs WHERE issue_id = ? AND kind = 'agent' AND started_at >= ?`, issueID, stamp(since))
	return n, err
}

// IDs returns the ids of all runs.
func (r Runs) IDs(ctx context.Context) (map[string]bool, error) {
	list, err := readAll(ctx, r.conn, "list runs", itself[string], `SELECT id FROM runs`)
	return setOf(list), err
}

// Totals returns the use of all settled runs of the project.
func (r Runs) Totals(ctx context.Context) (Totals, error) {
	return r.totals(ctx, `SELECT coalesce(sum(input), 0), coalesce(sum(cached), 0), coalesce(sum(output), 0),
		coalesce(sum(reasoning), 0), coalesce(sum(total), 0), coalesce(sum(paid), 0),
		coalesce(sum(runtime_ms), 0) FROM issue_totals`)
}

// TotalsOf returns the use of all settled runs of an issue.
func (r Runs) TotalsOf(ctx context.Context, issueID string) (Totals, error) {
	return r.totals(ctx, `SELECT `+totalColumns+` FROM issue_totals WHERE issue_id = ?`, issueID)
}

func (r Runs) totals(ctx context.Context, query string, args ...any) (Totals, error) {
	all, _, err := readOne(ctx, r.conn, "read the totals", totalFields, query, args...)
	return all, err
}

func modelUseFields(u *reconcile.ModelUse) []any {
	return slices.Concat([]any{&u.Model}, tokenFields(&u.Tokens))
}

// UseOf returns the use of the agent's runs of an issue, by model. Pruned runs are missing.
func (r Runs) UseOf(ctx context.Context, issueID string) ([]reconcile.ModelUse, error) {
	return readAll(ctx, r.conn, "read what the runs have used", modelUseFields, `SELECT model,
		sum(tokens_input), sum(tokens_cached), sum(tokens_output), sum(tokens_reasoning), sum(tokens_total),
		sum(tokens_paid)
		FROM runs WHERE issue_id = ? AND kind = 'agent' GROUP BY model ORDER BY min(id)`, issueID)
}
