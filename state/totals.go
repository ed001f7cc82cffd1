package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

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
