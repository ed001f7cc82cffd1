package state

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

const (
	metaTotalInput     = "totals_input"
	metaTotalCached    = "totals_cached"
	metaTotalOutput    = "totals_output"
	metaTotalReasoning = "totals_reasoning"
	metaTotalTotal     = "totals_total"
	metaTotalRuntime   = "totals_runtime_ms"
)

// Totals is what settled runs used (specification 13.5). Runs that go on are not in it: whoever shows totals adds
// theirs.
type Totals struct {
	Tokens  reconcile.Tokens
	Runtime time.Duration
}

// settle marks an ended run as settled and adds its share to the totals of the project and of its issue. A run
// that removed a workspace has no session, so its time is nobody's.
func settle(ctx context.Context, tx *sql.Tx, runID string) error {
	var issueID string
	var t reconcile.Tokens
	var ms int64
	err := tx.QueryRowContext(ctx, `UPDATE runs SET settled = 1
		WHERE id = ? AND settled = 0 AND outcome IS NOT NULL
		RETURNING issue_id, tokens_input, tokens_cached, tokens_output, tokens_reasoning, tokens_total, iif(kind = 'cleanup', 0, runtime_ms)`, runID).
		Scan(&issueID, &t.Input, &t.Cached, &t.Output, &t.Reasoning, &t.Total, &ms)
	if errors.Is(err, sql.ErrNoRows) {
		return runConflict(runID, false, nil)
	}
	if err != nil || t == (reconcile.Tokens{}) && ms == 0 {
		return err
	}
	for _, add := range []struct {
		key string
		n   int64
	}{
		{metaTotalInput, t.Input},
		{metaTotalCached, t.Cached},
		{metaTotalOutput, t.Output},
		{metaTotalReasoning, t.Reasoning},
		{metaTotalTotal, t.Total},
		{metaTotalRuntime, ms},
	} {
		if _, err := tx.ExecContext(ctx, `UPDATE meta SET value = CAST(CAST(value AS INTEGER) + ? AS TEXT)
			WHERE key = ?`, add.n, add.key); err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO issue_totals (issue_id, input, cached, output, reasoning, total, runtime_ms)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (issue_id) DO UPDATE SET input = input + excluded.input,
		cached = cached + excluded.cached, output = output + excluded.output,
		reasoning = reasoning + excluded.reasoning, total = total + excluded.total,
		runtime_ms = runtime_ms + excluded.runtime_ms`,
		issueID, t.Input, t.Cached, t.Output, t.Reasoning, t.Total, ms)
	return err
}

// Totals returns what all settled runs of the project used.
func (db *DB) Totals(ctx context.Context) (Totals, error) {
	return db.totals(ctx, `SELECT sum(CAST(value AS INTEGER)) FILTER (WHERE key = 'totals_input'),
		sum(CAST(value AS INTEGER)) FILTER (WHERE key = 'totals_cached'),
		sum(CAST(value AS INTEGER)) FILTER (WHERE key = 'totals_output'),
		sum(CAST(value AS INTEGER)) FILTER (WHERE key = 'totals_reasoning'),
		sum(CAST(value AS INTEGER)) FILTER (WHERE key = 'totals_total'),
		sum(CAST(value AS INTEGER)) FILTER (WHERE key = 'totals_runtime_ms') FROM meta`)
}

// IssueTotals returns what all settled runs of an issue used.
func (db *DB) IssueTotals(ctx context.Context, issueID string) (Totals, error) {
	return db.totals(ctx, `SELECT input, cached, output, reasoning, total, runtime_ms FROM issue_totals WHERE issue_id = ?`, issueID)
}

func (db *DB) totals(ctx context.Context, query string, args ...any) (Totals, error) {
	var t Totals
	var ms int64
	err := db.sql.QueryRowContext(ctx, query, args...).Scan(&t.Tokens.Input, &t.Tokens.Cached, &t.Tokens.Output,
		&t.Tokens.Reasoning, &t.Tokens.Total, &ms)
	if errors.Is(err, sql.ErrNoRows) {
		return Totals{}, nil
	}
	if err != nil {
		return Totals{}, fault(db.dir, "read the totals", err)
	}
	t.Runtime = time.Duration(ms) * time.Millisecond
	return t, nil
}

// RateLimits returns the agents' latest rate-limit record as JSON, nil if none came yet.
func (db *DB) RateLimits(ctx context.Context) ([]byte, error) {
	var text []byte
	err := db.sql.QueryRowContext(ctx, `SELECT rate_limits FROM runs WHERE rate_limits IS NOT NULL
		ORDER BY rate_limits_at DESC LIMIT 1`).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return text, fault(db.dir, "read the rate limits", err)
}

// dayLayout is how a day is written in day_totals.
const dayLayout = time.DateOnly

// countDay adds what a thread has used more than was known to the day on which it said so.
func countDay(ctx context.Context, tx *sql.Tx, runID string, now time.Time, more reconcile.Tokens) error {
	if more == (reconcile.Tokens{}) {
		return nil
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO day_totals (day, input, cached, output, reasoning, total)
		VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (day) DO UPDATE SET input = input + excluded.input,
		cached = cached + excluded.cached, output = output + excluded.output,
		reasoning = reasoning + excluded.reasoning, total = total + excluded.total`,
		now.UTC().Format(dayLayout), more.Input, more.Cached, more.Output, more.Reasoning, more.Total)
	if err != nil {
		return err
	}
	return countModel(ctx, tx, runID, now, more)
}

// Day is what was used on one day (of UTC).
type Day struct {
	Date   string // YYYY-MM-DD
	Tokens reconcile.Tokens
}

// Days returns the days with use since the given one, the oldest first.
func (db *DB) Days(ctx context.Context, since time.Time) ([]Day, error) {
	rows, err := db.sql.QueryContext(ctx, `SELECT day, input, cached, output, reasoning, total FROM day_totals
		WHERE day >= ? ORDER BY day`, since.UTC().Format(dayLayout))
	days, err := collect(rows, err, func(row scanner) (d Day, err error) {
		err = row.Scan(&d.Date, &d.Tokens.Input, &d.Tokens.Cached, &d.Tokens.Output, &d.Tokens.Reasoning, &d.Tokens.Total)
		return d, err
	})
	return days, fault(db.dir, "read the days", err)
}
