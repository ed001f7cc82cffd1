package statetest

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// grower multiplies the rows of the template within one transaction.
type grower struct {
	ctx    context.Context
	tx     *sql.Tx
	now    int64 // milliseconds
	size   Size
	models models
}

func (g grower) grow() error {
	for _, step := range []func() error{g.runs, g.claims, g.around, g.past, g.clean} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// copies inserts n copies of one row of a table; set gives columns as expressions over i, which counts from 1. Of what is
// not set the copies have what the row has.
func (g grower) copies(table, where string, n int, set map[string]string) error {
	rows, err := g.tx.QueryContext(g.ctx, `SELECT name FROM pragma_table_info(?)`, table)
	if err != nil {
		return err
	}
	defer rows.Close()
	var columns, values []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		value, given := set[name]
		if !given {
			value = "t." + `"` + name + `"`
		}
		columns, values = append(columns, `"`+name+`"`), append(values, value)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	query := fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		INSERT INTO %s (%s) SELECT %s FROM n, (SELECT * FROM %[2]s WHERE %[5]s) AS t`,
		n, table, strings.Join(columns, ", "), strings.Join(values, ", "), where)
	_, err = g.tx.ExecContext(g.ctx, query)
	return err
}

// named are the columns of an issue, whose number is the expression.
func named(number string) map[string]string {
	return map[string]string{
		"issue_id": `'id-' || (` + number + `)`, "identifier": `'ABC-' || (` + number + `)`,
		"issue": `replace(replace(t.issue, 'TEMPLATE', 'ABC-' || (` + number + `)), '"template"', '"id-' || (` + number + `) || '"')`,
	}
}

func with(base map[string]string, more map[string]string) map[string]string {
	for k, v := range more {
		base[k] = v
	}
	return base
}

// runs are spread evenly over the time, the newest the last; every seventh has failed, every eleventh stalled.
func (g grower) runs() error {
	at := fmt.Sprintf("%d - CAST(%d.0 * (%d - i) / %[3]d AS INTEGER)", g.now-60_000, history.Milliseconds(), g.size.Runs)
	ended := with(named(fmt.Sprintf("i %% %d + 1", g.size.Claims)), map[string]string{
		"id": `printf('20261020T%06d.%03d-large', i / 1000, i % 1000)`, "started_at": at + " - 600000", "ended_at": at, "heartbeat_at": at,
		"last_event_at": at, "rate_limits_at": at, "runtime_ms": "540000 + i % 120000", "model": "iif(i % 5, 'gpt-5.5', 'gpt-5.5-mini')",
		"thread_id": "'thread-' || i", "tokens_total": "t.tokens_total + i", "tokens_input": "t.tokens_input + i",
		"outcome":    "CASE WHEN i % 7 = 0 THEN 'failed' WHEN i % 11 = 0 THEN 'stalled' ELSE 'succeeded' END",
		"error_code": "iif(i % 7, '', 'turn_failed')", "error_text": "iif(i % 7, '', 'the tests of package ' || i || ' fail')",
	})
	if err := g.copies("runs", "id = '"+g.models.ended+"'", g.size.Runs, ended); err != nil {
		return err
	}
	live := with(named(fmt.Sprintf("i * %d", runningEvery)), map[string]string{
		"id": `printf('20261120T%06d.000-alive', i)`, "thread_id": "'thread-live-' || i",
	})
	return g.copies("runs", "id = '"+g.models.live+"'", g.size.Running(), live)
}

func (g grower) claims() error {
	kind := fmt.Sprintf("CASE WHEN i %% %d = 0 THEN 'running' WHEN i %% %d = 0 THEN 'held' ELSE 'retry' END", runningEvery, heldEvery)
	return g.copies("claims", "issue_id = '"+g.models.issue+"'", g.size.Claims, with(named("i"), map[string]string{
		"status": kind, "run_id": fmt.Sprintf("iif(i %% %d, '', printf('20261120T%%06d.000-alive', i / %[1]d))", runningEvery),
		"kind":   fmt.Sprintf("iif(i %% %d, 'backoff', '')", heldEvery),
		"due_at": fmt.Sprintf("iif(i %% %d, %d + i * 1000, NULL)", heldEvery, g.now), "attempt": "i % 4",
		"error_code": "'turn_failed'", "error_message": "'the tests of package ' || i || ' fail'",
		"hold_reason": fmt.Sprintf("iif(i %% %d = 0 AND i %% %d, 'max_failures', '')", heldEvery, runningEvery),
		"held_at":     fmt.Sprintf("iif(i %% %d = 0 AND i %% %d, %d - i * 60000, NULL)", heldEvery, runningEvery, g.now),
		"claimed_at":  fmt.Sprintf("%d - i * 60000", g.now),
	}))
}

// around are passes, skips, and what was counted.
func (g grower) around() error {
	if err := g.copies("passes", "id = 1", g.size.Passes, map[string]string{
		"id": "i + 1", "started_at": fmt.Sprintf("%d - 60000 * (%d - i)", g.now-30_000, g.size.Passes),
	}); err != nil {
		return err
	}
	for _, statement := range []string{
		`INSERT INTO skips (issue_id, identifier, reason, message, since)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50)
			SELECT 'skip-' || i, 'ABC-' || (9000 + i), 'no_slot', 'all slots are taken', ?1 FROM n`,
		`INSERT INTO issue_totals (issue_id, input, cached, output, reasoning, total, runtime_ms)
			SELECT issue_id, sum(tokens_input), sum(tokens_cached), sum(tokens_output), sum(tokens_reasoning), sum(tokens_total), sum(runtime_ms)
			FROM runs WHERE settled = 1 AND issue_id <> 'template' AND ?1 GROUP BY issue_id`,
		`INSERT INTO model_totals (day, model, input, cached, output, reasoning, total)
			SELECT date(coalesce(ended_at, ?1) / 1000, 'unixepoch') AS day, model, sum(tokens_input), sum(tokens_cached), sum(tokens_output), sum(tokens_reasoning),
			sum(tokens_total) FROM runs WHERE issue_id <> 'template' GROUP BY day, model`,
		`INSERT INTO day_totals (day, input, cached, output, reasoning, total)
			SELECT day, sum(input), sum(cached), sum(output), sum(reasoning), sum(total) FROM model_totals WHERE ?1 GROUP BY day`,
		`INSERT INTO threads (thread_id, issue_id, run_id, input, cached, output, reasoning, total, updated_at)
			SELECT thread_id, issue_id, id, tokens_input, tokens_cached, tokens_output, tokens_reasoning, tokens_total, coalesce(ended_at, ?1) FROM runs`,
	} {
		if _, err := g.tx.ExecContext(g.ctx, statement, g.now); err != nil {
			return fmt.Errorf("%w: %s", err, statement)
		}
	}
	return nil
}

// past are the issues that were handed over, one of each eight runs, and the outages.
func (g grower) past() error {
	for _, statement := range []string{
		`INSERT INTO releases (issue_id, identifier, title, url, reason, from_state, to_state, claimed_at, released_at, runs, runtime_ms, usage, links)
			SELECT 'done-' || id, 'ABC-' || (10000 + rowid), json_extract(issue, '$.title'), json_extract(issue, '$.url'), 'inactive', 'Todo', 'Human Review',
			started_at, ended_at, 3, 3 * runtime_ms, json_array(json_object('model', model, 'tokens', json_object('input', tokens_input, 'cached', tokens_cached,
			'output', tokens_output, 'reasoning', tokens_reasoning, 'total', tokens_total))), links
			FROM runs WHERE settled = 1 AND rowid % 8 = 0 AND ?1`,
		`INSERT INTO outages (source, code, message, since, until)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
			SELECT 'blocked_tracker', 'linear_api_status', 'HTTP 503', ?1 - i * 60000000, ?1 - i * 60000000 + 300000 FROM n`,
	} {
		if _, err := g.tx.ExecContext(g.ctx, statement, g.now); err != nil {
			return fmt.Errorf("%w: %s", err, statement)
		}
	}
	return nil
}

// clean takes the template out.
func (g grower) clean() error {
	for _, statement := range []string{
		`DELETE FROM claims WHERE issue_id = ?1`, `DELETE FROM runs WHERE issue_id = ?1`, `DELETE FROM threads WHERE issue_id = ?1`,
		`DELETE FROM issue_totals WHERE issue_id = ?1`, `DELETE FROM passes WHERE id = 1 AND ?1 <> ''`,
		`DELETE FROM releases WHERE issue_id LIKE '%template%' AND ?1 <> ''`,
		`INSERT OR REPLACE INTO meta (key, value) SELECT 'totals_' || name, CAST(value AS TEXT) FROM (
			SELECT 'input' AS name, sum(input) AS value FROM issue_totals UNION ALL SELECT 'cached', sum(cached) FROM issue_totals
			UNION ALL SELECT 'output', sum(output) FROM issue_totals UNION ALL SELECT 'reasoning', sum(reasoning) FROM issue_totals
			UNION ALL SELECT 'total', sum(total) FROM issue_totals UNION ALL SELECT 'runtime_ms', sum(runtime_ms) FROM issue_totals) WHERE ?1 <> ''`,
	} {
		if _, err := g.tx.ExecContext(g.ctx, statement, g.models.issue); err != nil {
			return fmt.Errorf("%w: %s", err, statement)
		}
	}
	return nil
}
