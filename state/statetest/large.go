package statetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	// Registers the driver "sqlite".
	_ "modernc.org/sqlite"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Size is how large a state is.
type Size struct {
	Claims int // running, held and waiting, in the order of their identifiers ABC-1, ABC-2 …
	Runs   int // finished, over the last 30 days and all issues
	Passes int // a minute apart, up to now
	Events int // in the event files of the newest runs
}

// Large500 is what the budgets of the commands speak of: 500 claims, 5,000 finished runs, a month of cron.
var Large500 = Size{Claims: 500, Runs: 5000, Passes: 43_200, Events: 100_000}

// One claim in each so many runs, or is held; the others wait. No worker is there: what runs is without life.
const (
	runningEvery = 50
	heldEvery    = 10
	history      = 30 * 24 * time.Hour
)

// Running and Held are how many claims do.
func (s Size) Running() int { return s.Claims / runningEvery }

// Held counts those that a person holds.
func (s Size) Held() int { return s.Claims/heldEvery - s.Running() }

// Large makes the state of that size in a directory that has none.
func Large(ctx context.Context, dir string, now time.Time, s Size) error {
	if s.Claims < runningEvery || s.Runs < 1 {
		return fmt.Errorf("a large state has %d claims and a run at least", runningEvery)
	}
	models, err := template(ctx, dir, now)
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "state.db")+"?mode=rw&_pragma=synchronous(off)")
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	tx, err := db.BeginTx(ctx, nil)
	if err == nil {
		g := grower{ctx: ctx, tx: tx, now: now.UnixMilli(), size: s, models: models}
		if err = g.grow(); err == nil {
			err = tx.Commit()
		}
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("grow the state: %w", err)
	}
	return writeEvents(dir, now, s)
}

// models are the ids of the rows that are multiplied.
type models struct{ issue, ended, live string }

// template writes one claim that runs and one run that has ended, in the way of the program.
func template(ctx context.Context, dir string, now time.Time) (m models, err error) {
	db, err := state.Create(ctx, dir, now.Add(-history))
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	m = models{issue: "template", ended: "template-ended", live: "template-live"}
	claim := reconcile.Claim{IssueID: m.issue, Identifier: "TEMPLATE", Status: reconcile.Running, RunID: m.live, Issue: issue(), ClaimedAt: now}
	ended, err := run(ctx, db, m.ended, now)
	if err != nil {
		return m, err
	}
	ended.Outcome = reconcile.Succeeded
	if err := db.Finish(ctx, now, ended); err != nil {
		return m, err
	}
	if err := db.Commit(ctx, now, reconcile.Change{Claim: &claim, Settle: m.ended}); err != nil {
		return m, err
	}
	if _, err := run(ctx, db, m.live, now); err != nil {
		return m, err
	}
	_, err = db.SavePass(ctx, state.Pass{Trigger: "cron", StartedAt: now, Duration: 50 * time.Millisecond})
	return m, err
}

func issue() reconcile.Issue {
	text, url, branch, made := description, "https://linear.example.com/acme/issue/TEMPLATE", "ann/template", time.Unix(0, 0).UTC()
	return reconcile.Issue{
		ID: "template", Identifier: "TEMPLATE", Title: "Make the thing do what it should, as the people who use it expect", Description: &text,
		State: "In Progress", URL: &url, BranchName: &branch, Labels: []string{"symphony", "bug"}, BlockedBy: []reconcile.BlockerRef{}, CreatedAt: &made,
	}
}

// run is one that streams its second turn.
func run(ctx context.Context, db *state.DB, id string, now time.Time) (reconcile.Run, error) {
	i := issue()
	start := reconcile.Run{ID: id, IssueID: i.ID, Identifier: i.Identifier, Issue: i, Fingerprint: i.Fingerprint(), StartedAt: now.Add(-time.Hour)}
	if err := db.Commit(ctx, now, reconcile.Change{Insert: &start}); err != nil {
		return start, err
	}
	r, err := db.TakeRun(ctx, id, reconcile.Handle{Boot: "none", PID: 1 << 30, Start: 1}, now)
	if err != nil {
		return r, err
	}
	r.Phase, r.Turns, r.TurnsDone, r.Beats, r.HeartbeatAt = reconcile.StreamingTurn, 2, 1, 700, now
	r.ThreadID, r.TurnID, r.WorkspacePath, r.WorkspaceRoot, r.WorkspaceID = "thread-"+id, "turn", "/nowhere/TEMPLATE", "/nowhere", "w"
	r.Model, r.Links = "gpt-5.5", []reconcile.Link{{Kind: "pull_request", URL: "https://github.com/acme/app/pull/7"}}
	r.Tokens = reconcile.Tokens{Input: 120_000, Cached: 90_000, Output: 4_000, Reasoning: 1_500, Total: 124_000}
	r.LastEvent, r.LastMessage, r.LastEventAt = "notification", "I look at the tests first.", now
	r.RateLimits = []byte(`{"primary":{"used_percent":41.5,"resets_at":0},"secondary":{"used_percent":12}}`)
	_, err = db.UpdateRun(ctx, now, r)
	return r, err
}
