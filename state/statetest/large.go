// Package statetest makes large states for tests and measurements. The program writes one claim and one run of each kind;
// Large then multiplies their rows in SQL, because ten thousand transactions would take minutes.
package statetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	// Registers the driver "sqlite".
	_ "modernc.org/sqlite"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Size is how large a state is.
type Size struct {
	Claims int // running, held and waiting, of the issues ABC-1, ABC-2 …
	Runs   int // finished, over the last 30 days and all issues
	Passes int // a minute apart, up to now
}

// Large500 is the state of the budgets: 500 claims, 5,000 finished runs, a month of cron.
var Large500 = Size{Claims: 500, Runs: 5000, Passes: 43_200}

// Every 50th claim is running, but no worker lives; every 10th other claim is held, and the others wait.
const (
	runningEvery = 50
	heldEvery    = 10
	history      = 30 * 24 * time.Hour
)

// Running is the number of running claims.
func (s Size) Running() int { return s.Claims / runningEvery }

// Held is the number of held claims.
func (s Size) Held() int { return s.Claims/heldEvery - s.Running() }

// Large makes the state of that size in a directory that has none.
func Large(ctx context.Context, dir string, now time.Time, s Size) error {
	if s.Claims < runningEvery || s.Runs < 1 {
		return fmt.Errorf("a large state has at least %d claims and a run", runningEvery)
	}
	if err := writeTemplate(ctx, dir, now); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "state.db")+"?mode=rw&_pragma=synchronous(off)")
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	tx, err := db.BeginTx(ctx, nil)
	if err == nil {
		err = multiply(ctx, tx, now.UnixMilli(), s)
	}
	if err == nil {
		err = tx.Commit()
	}
	return errors.Join(err, db.Close())
}

// The rows that are multiplied.
const (
	templateIssue = "template"
	templateEnded = "template-ended"
	templateLive  = "template-live"
)

// writeTemplate stores a claim with a live run, a run that has ended, and a pass.
func writeTemplate(ctx context.Context, dir string, now time.Time) (err error) {
	db, err := state.Create(ctx, dir, now.Add(-history))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	text, url, made := strings.Repeat("What is to be done, with its reasons and some steps.\n", 12), "https://linear.example.com/acme/issue/TEMPLATE", time.Unix(0, 0).UTC()
	issue := reconcile.Issue{
		ID: templateIssue, Identifier: "TEMPLATE", Title: "Make the thing do what its users expect", Description: &text, State: "In Progress",
		URL: &url, Labels: []string{"symphony", "bug"}, BlockedBy: []reconcile.BlockerRef{}, CreatedAt: &made,
	}
	for _, id := range []string{templateEnded, templateLive} {
		start := reconcile.Run{ID: id, Kind: reconcile.AgentRun, Phase: reconcile.Starting, IssueID: issue.ID, Identifier: issue.Identifier, Issue: issue, StartedAt: now.Add(-time.Hour)}
		if err := db.Store.Commit(ctx, now, reconcile.Change{Insert: &start}); err != nil {
			return err
		}
		r, err := db.Journal.TakeRun(ctx, id, reconcile.Handle{Boot: "none", PID: 1 << 30, Start: 1}, now)
		if err != nil {
			return err
		}
		r.Phase, r.Turns, r.TurnsDone, r.ThreadID, r.WorkspacePath, r.WorkspaceRoot = reconcile.StreamingTurn, 2, 1, "thread-"+id, "/nowhere/TEMPLATE", "/nowhere"
		r.Model, r.Links = "gpt-5.5", []reconcile.Link{{Kind: "pull_request", URL: "https://github.com/acme/app/pull/7"}}
		r.Tokens = reconcile.Tokens{Input: 120_000, Cached: 90_000, Output: 4_000, Reasoning: 1_500, Total: 124_000}
		r.LastEvent, r.LastMessage, r.LastEventAt = "notification", "I look at the tests first.", now
		r.RateLimits = []byte(`{"primary":{"used_percent":41.5,"resets_at":0}}`)
		if id == templateEnded {
			r.Outcome = reconcile.Succeeded
			err = db.Journal.Finish(ctx, now, r)
		} else {
			_, err = db.Journal.UpdateRun(ctx, now, r)
		}
		if err != nil {
			return err
		}
	}
	claim := reconcile.Claim{IssueID: issue.ID, Identifier: issue.Identifier, Status: reconcile.Running, RunID: templateLive, Issue: issue, ClaimedAt: now}
	if err := db.Store.Commit(ctx, now, reconcile.Change{Claim: &claim, Settle: templateEnded}); err != nil {
		return err
	}
	_, err = db.Store.SavePass(ctx, state.Pass{Trigger: "cron", StartedAt: now, Duration: 50 * time.Millisecond})
	return err
}

// multiply copies the template's rows, derives the totals from the copies, and deletes the template.
func multiply(ctx context.Context, tx *sql.Tx, now int64, s Size) error {
	issueOf := func(number string) map[string]string {
		return map[string]string{
			"issue_id": `'id-' || (` + number + `)`, "identifier": `'ABC-' || (` + number + `)`,
			"issue": `replace(replace(t.issue, 'TEMPLATE', 'ABC-' || (` + number + `)), '"template"', '"id-' || (` + number + `) || '"')`,
		}
	}
	at := fmt.Sprintf("%d - CAST(%d.0 * (%d - i) / %[3]d AS INTEGER)", now-60_000, history.Milliseconds(), s.Runs)
	held := fmt.Sprintf("i %% %d = 0 AND i %% %d", heldEvery, runningEvery)
	live := `printf('20261120T%06d.000-alive', ` + fmt.Sprintf("i / %d)", runningEvery)
	for _, c := range []struct {
		table, where string
		n            int
		issue        string
		set          map[string]string // columns as expressions over i, which counts from 1
	}{
		{"runs", "id = '" + templateEnded + "'", s.Runs, fmt.Sprintf("i %% %d + 1", s.Claims), map[string]string{
			"id": `printf('20261020T%06d.%03d-large', i / 1000, i % 1000)`, "started_at": at + " - 600000", "ended_at": at,
			"runtime_ms": "540000 + i % 120000", "model": "iif(i % 5, 'gpt-5.5', 'gpt-5.5-mini')", "thread_id": "'thread-' || i",
			"outcome": "CASE WHEN i % 7 = 0 THEN 'failed' WHEN i % 11 = 0 THEN 'stalled' ELSE 'succeeded' END", "error_code": "iif(i % 7, '', 'turn_failed')",
		}},
		{"runs", "id = '" + templateLive + "'", s.Running(), fmt.Sprintf("i * %d", runningEvery), map[string]string{
			"id": `printf('20261120T%06d.000-alive', i)`, "thread_id": "'thread-live-' || i",
		}},
		{"claims", "issue_id = '" + templateIssue + "'", s.Claims, "i", map[string]string{
			"status": fmt.Sprintf("CASE WHEN i %% %d = 0 THEN 'running' WHEN %s THEN 'held' ELSE 'retry' END", runningEvery, held),
			"run_id": fmt.Sprintf("iif(i %% %d, '', %s)", runningEvery, live), "kind": fmt.Sprintf("iif(i %% %d, 'backoff', '')", heldEvery),
			"due_at": fmt.Sprintf("iif(i %% %d, %d + i * 1000, NULL)", heldEvery, now), "attempt": "i % 4",
			"hold_reason": "iif(" + held + ", 'max_failures', '')", "held_at": fmt.Sprintf("iif(%s, %d - i * 60000, NULL)", held, now),
		}},
		{"passes", "id = 1", s.Passes, "", map[string]string{"id": "i + 1", "started_at": fmt.Sprintf("%d - 60000 * (%d - i)", now-30_000, s.Passes)}},
	} {
		if c.issue != "" {
			for column, value := range issueOf(c.issue) {
				c.set[column] = value
			}
		}
		if err := copyRow(ctx, tx, c.table, c.where, c.n, c.set); err != nil {
			return err
		}
	}
	for _, statement := range []string{
		`DELETE FROM claims WHERE issue_id = 'template'`, `DELETE FROM runs WHERE issue_id = 'template'`, `DELETE FROM passes WHERE id = 1`,
		`DELETE FROM issue_totals`,
		`INSERT INTO issue_totals (issue_id, input, cached, output, reasoning, total, runtime_ms) SELECT issue_id, sum(tokens_input), sum(tokens_cached),
			sum(tokens_output), sum(tokens_reasoning), sum(tokens_total), sum(runtime_ms) FROM runs WHERE settled = 1 GROUP BY issue_id`,
		`INSERT INTO model_totals (day, model, input, cached, output, reasoning, total) SELECT date(coalesce(ended_at, heartbeat_at) / 1000, 'unixepoch') AS day, model, sum(tokens_input),
			sum(tokens_cached), sum(tokens_output), sum(tokens_reasoning), sum(tokens_total) FROM runs GROUP BY day, model`,
		`UPDATE meta SET value = (SELECT CAST(sum(total) AS TEXT) FROM issue_totals) WHERE key = 'totals_total'`,
		`INSERT INTO releases (issue_id, identifier, title, reason, from_state, to_state, claimed_at, released_at, runs, runtime_ms, usage, links)
			SELECT 'done-' || id, 'ABC-' || (10000 + rowid), json_extract(issue, '$.title'), 'inactive', 'Todo', 'Human Review', started_at, ended_at, 3,
			3 * runtime_ms, json_array(json_object('model', model, 'tokens', json_object('total', tokens_total))), links FROM runs WHERE settled = 1 AND rowid % 8 = 0`,
	} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%w: %s", err, statement)
		}
	}
	return nil
}

// copyRow inserts n copies of one row; what set does not name stays as it is in that row.
func copyRow(ctx context.Context, tx *sql.Tx, table, where string, n int, set map[string]string) error {
	rows, err := tx.QueryContext(ctx, `SELECT name FROM pragma_table_info(?)`, table)
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
			value = `t."` + name + `"`
		}
		columns, values = append(columns, `"`+name+`"`), append(values, value)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		INSERT INTO %s (%s) SELECT %s FROM n, (SELECT * FROM %[2]s WHERE %[5]s) AS t`, n, table, strings.Join(columns, ", "), strings.Join(values, ", "), where))
	return err
}
