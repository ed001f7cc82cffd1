// Package statetest creates large states for tests and benchmarks.
package statetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Size is the size of a state.
type Size struct {
	Claims int // running, held and waiting, of the issues ABC-1, ABC-2 …
	Runs   int // finished runs, spread over the last 30 days and all issues
	Passes int // a minute apart, the last pass now
}

// Large500 is the state to which the budgets apply: 500 claims, 5,000 finished runs and a
// month of passes by cron.
var Large500 = Size{Claims: 500, Runs: 5000, Passes: 43_200}

// Every 50th claim is running, but without a worker. Of the others every 10th is held, and the
// rest wait.
const (
	runningEvery = 50
	heldEvery    = 10
	history      = 30 * 24 * time.Hour
)

// Large creates a state of size s in dir, where there is none yet. It stores many rows in each
// transaction, because ten thousand transactions would take minutes, and uses SQL for the rows
// that no Commit writes.
func Large(ctx context.Context, dir string, now time.Time, s Size) error {
	if s.Claims < runningEvery || s.Runs < 1 {
		return fmt.Errorf("a large state has at least %d claims and a run", runningEvery)
	}
	db, err := state.Create(ctx, dir, now.Add(-history))
	if err != nil {
		return err
	}
	err = errors.Join(fill(ctx, db, now, s), db.Close())
	if err != nil {
		return err
	}
	pool, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "state.db")+"?mode=rw")
	if err != nil {
		return err
	}
	for _, statement := range []string{
		`UPDATE runs SET runtime_ms = ended_at - started_at WHERE ended_at IS NOT NULL`,
		`UPDATE issue_totals
			SET runtime_ms = (SELECT sum(runtime_ms) FROM runs WHERE runs.issue_id = issue_totals.issue_id)`,
		`INSERT INTO model_totals (day, model, input, cached, output, reasoning, total)
			SELECT date(coalesce(ended_at, heartbeat_at) / 1000, 'unixepoch') AS day, model,
				sum(tokens_input), sum(tokens_cached), sum(tokens_output), sum(tokens_reasoning), sum(tokens_total)
			FROM runs GROUP BY day, model`,
		`INSERT INTO releases (issue_id, identifier, title, reason, from_state, to_state,
				claimed_at, released_at, runs, runtime_ms, usage, links, labels, words, commits)
			SELECT 'done-' || id, 'ABC-' || (10000 + rowid), issue ->> '$.title', 'inactive', 'Todo', 'Human Review',
				started_at, ended_at, 3, 3 * runtime_ms,
				json_array(json_object('model', model, 'tokens', json_object('total', tokens_total))),
				links, labels, words, 1
			FROM runs WHERE settled = 1 AND rowid % 8 = 0`,
		fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %[1]d)
			INSERT INTO passes ("trigger", started_at, duration_ms, actions, skipped)
			SELECT 'cron', %[2]d - 60000 * (%[1]d - i), 50, 0, 0 FROM n`,
			s.Passes, now.Add(-30*time.Second).UnixMilli()),
	} {
		_, execErr := pool.ExecContext(ctx, statement)
		err = errors.Join(err, execErr)
	}
	return errors.Join(err, pool.Close())
}

// fill stores the claims and the runs.
func fill(ctx context.Context, db *state.DB, now time.Time, s Size) error {
	var changes, ends []reconcile.Change
	for i := 1; i <= s.Runs; i++ {
		r := newRun(fmt.Sprintf("20261020T%06d.%03d-large", i/1000, i%1000), i%s.Claims+1)
		r.EndedAt = now.Add(-time.Minute - history/time.Duration(s.Runs)*time.Duration(s.Runs-i))
		r.StartedAt = r.EndedAt.Add(-10 * time.Minute)
		r.HeartbeatAt = r.EndedAt
		r.Outcome = reconcile.Succeeded
		switch {
		case i%7 == 0:
			r.Outcome = reconcile.Failed
			r.ErrorCode = "turn_failed"
		case i%11 == 0:
			r.Outcome = reconcile.Stalled
		}
		if i%5 == 0 {
			r.Model = "gpt-5.5-mini"
		}
		changes = append(changes, reconcile.Change{Insert: &r})
		ends = append(ends, reconcile.Change{Settle: r.ID})
	}
	for i := 1; i <= s.Claims; i++ {
		issue := issueOf(i)
		claim := reconcile.Claim{
			IssueID:    issue.ID,
			Identifier: issue.Identifier,
			Status:     reconcile.Waiting,
			Kind:       reconcile.Backoff,
			Attempt:    i % 4,
			DueAt:      now.Add(time.Duration(i) * time.Second),
			Issue:      issue,
			ClaimedAt:  now,
		}
		change := reconcile.Change{Claim: &claim}
		if i%heldEvery == 0 {
			claim.Status = reconcile.Held
			claim.Kind = ""
			claim.DueAt = time.Time{}
			claim.HoldReason = reconcile.HoldMaxFailures
			claim.HeldAt = now.Add(-time.Duration(i) * time.Minute)
		}
		if i%runningEvery == 0 {
			r := newRun(fmt.Sprintf("20261120T%06d.000-alive", i/runningEvery), i)
			r.StartedAt = now.Add(-time.Hour)
			r.HeartbeatAt = now
			claim.Status = reconcile.Running
			claim.RunID = r.ID
			claim.HoldReason = ""
			claim.HeldAt = time.Time{}
			change.Insert = &r
		}
		changes = append(changes, change)
	}
	if err := db.Store.Commit(ctx, now, changes...); err != nil {
		return err
	}
	if err := db.Store.Commit(ctx, now, ends...); err != nil {
		return err
	}
	return db.Attentions.DropAttentions(ctx, now) // the notifications of the held claims
}

func issueOf(i int) reconcile.Issue {
	text := strings.Repeat("What to do, with its reasons and some steps.\n", 12)
	url := fmt.Sprint("https://linear.example.com/acme/issue/ABC-", i)
	created := time.Unix(0, 0).UTC()
	return reconcile.Issue{
		ID:          fmt.Sprint("id-", i),
		Identifier:  fmt.Sprint("ABC-", i),
		Title:       "Make the thing do what its users expect",
		Description: &text,
		State:       "In Progress",
		URL:         &url,
		Labels:      []string{"symphony", "bug"},
		BlockedBy:   []reconcile.BlockerRef{},
		CreatedAt:   &created,
	}
}

// newRun returns a run in the middle of a turn.
func newRun(id string, i int) reconcile.Run {
	issue := issueOf(i)
	return reconcile.Run{
		ID:            id,
		Kind:          reconcile.AgentRun,
		IssueID:       issue.ID,
		Identifier:    issue.Identifier,
		Issue:         issue,
		Phase:         reconcile.StreamingTurn,
		Worker:        reconcile.Handle{Boot: "none", PID: 1 << 30, Start: 1},
		Turns:         2,
		TurnsDone:     1,
		ThreadID:      "thread-" + id,
		WorkspacePath: "/nowhere/" + issue.Identifier,
		WorkspaceRoot: "/nowhere",
		Model:         "gpt-5.5",
		Links: []reconcile.Link{{
			Kind: "pull_request",
			URL:  "https://github.com/acme/app/pull/7",
		}},
		Tokens: reconcile.Tokens{
			Input:     120_000,
			Cached:    90_000,
			Output:    4_000,
			Reasoning: 1_500,
			Total:     124_000,
		},
		LastEvent:   "notification",
		LastMessage: "First I look at the tests.",
		RateLimits:  []byte(`{"primary":{"used_percent":41.5,"resets_at":0}}`),
	}
}
