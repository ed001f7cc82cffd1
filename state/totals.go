package state

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Totals is what settled runs used. Unsettled runs are not in it.
type Totals struct {
	Tokens  reconcile.Tokens
	Runtime time.Duration
}

// settle marks an ended run as settled and adds its share to the totals of the project and of its issue. The time of a run
// that removed a workspace does not count.
func settle(t tx, runID string) error {
	var issueID string
	var used reconcile.Tokens
	var ms int64
	err := t.row(`UPDATE runs SET settled = 1
		WHERE id = ? AND settled = 0 AND outcome IS NOT NULL
		RETURNING issue_id, tokens_input, tokens_cached, tokens_output, tokens_reasoning, tokens_total, iif(kind = 'cleanup', 0, runtime_ms)`, runID).
		Scan(append(append([]any{&issueID}, tokenColumns(&used)...), &ms)...)
	if errors.Is(err, sql.ErrNoRows) {
		return runConflict(runID, false, nil)
	}
	if err != nil || used == (reconcile.Tokens{}) && ms == 0 {
		return err
	}
	for key, n := range map[string]int64{
		"input": used.Input, "cached": used.Cached, "output": used.Output, "reasoning": used.Reasoning, "total": used.Total, "runtime_ms": ms,
	} {
		if err := t.run(`UPDATE meta SET value = CAST(CAST(value AS INTEGER) + ? AS TEXT) WHERE key = ?`, n, metaTotals+key); err != nil {
			return err
		}
	}
	return t.run(`INSERT INTO issue_totals (issue_id, input, cached, output, reasoning, total, runtime_ms)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (issue_id) DO UPDATE SET input = input + excluded.input,
		cached = cached + excluded.cached, output = output + excluded.output,
		reasoning = reasoning + excluded.reasoning, total = total + excluded.total,
		runtime_ms = runtime_ms + excluded.runtime_ms`,
		issueID, used.Input, used.Cached, used.Output, used.Reasoning, used.Total, ms)
}

// Totals returns what all settled runs of the project used.
func (v Views) Totals(ctx context.Context) (Totals, error) {
	return v.totals(ctx, `SELECT sum(CAST(value AS INTEGER)) FILTER (WHERE key = 'totals_input'),
		sum(CAST(value AS INTEGER)) FILTER (WHERE key = 'totals_cached'),
		sum(CAST(value AS INTEGER)) FILTER (WHERE key = 'totals_output'),
		sum(CAST(value AS INTEGER)) FILTER (WHERE key = 'totals_reasoning'),
		sum(CAST(value AS INTEGER)) FILTER (WHERE key = 'totals_total'),
		sum(CAST(value AS INTEGER)) FILTER (WHERE key = 'totals_runtime_ms') FROM meta`)
}

// IssueTotals returns what all settled runs of an issue used.
func (v Views) IssueTotals(ctx context.Context, issueID string) (Totals, error) {
	return v.totals(ctx, `SELECT input, cached, output, reasoning, total, runtime_ms FROM issue_totals WHERE issue_id = ?`, issueID)
}

func (v Views) totals(ctx context.Context, query string, args ...any) (Totals, error) {
	var all Totals
	err := v.row(ctx, query, args...).Scan(append(tokenColumns(&all.Tokens), millisOf{&all.Runtime})...)
	all, _, err = found(v.dir, "read the totals", all, err)
	return all, err
}

// RateLimits returns the agents' latest rate-limit record as JSON, nil if none has come yet.
func (v Views) RateLimits(ctx context.Context) ([]byte, error) {
	text, err := scanOne[[]byte](v.row(ctx, `SELECT rate_limits FROM runs WHERE rate_limits IS NOT NULL ORDER BY rate_limits_at DESC LIMIT 1`))
	text, _, err = found(v.dir, "read the rate limits", text, err)
	return text, err
}

// countTokens adds tokens to the use of the run's model on the day (of UTC) on which they were reported.
func countTokens(t tx, runID string, now time.Time, more reconcile.Tokens) error {
	if more == (reconcile.Tokens{}) {
		return nil
	}
	return t.run(`INSERT INTO model_totals (day, model, input, cached, output, reasoning, total)
		SELECT ?, model, ?, ?, ?, ?, ? FROM runs WHERE id = ? ON CONFLICT (day, model) DO UPDATE SET input = input + excluded.input,
		cached = cached + excluded.cached, output = output + excluded.output,
		reasoning = reasoning + excluded.reasoning, total = total + excluded.total`,
		now.UTC().Format(dayLayout), more.Input, more.Cached, more.Output, more.Reasoning, more.Total, runID)
}

// dayLayout is how a day is written in model_totals.
const dayLayout = time.DateOnly
