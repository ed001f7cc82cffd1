package state

import (
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// The tests in this file follow the table in the package documentation, row by row.

func TestClaimsAreWrittenOnlyInTheVersionRead(t *testing.T) {
	db := newState(t)
	c := claim(t, db, 1)
	test.Equal(t, "version after the insert", c.Version, 1)
	again := c
	again.Version = 0
	wantConflict(t, db.Store.Commit(ctx, epoch, reconcile.Change{Claim: &again}))

	mine := c
	theirs := c
	mine.Attempt = 1
	theirs.Attempt = 2
	later := epoch.Add(time.Minute)
	test.OK(t, db.Store.Commit(ctx, later, reconcile.Change{Claim: &mine}))
	wantConflict(t, db.Store.Commit(ctx, later, reconcile.Change{Claim: &theirs}))
	wantConflict(t, db.Store.Commit(ctx, later, reconcile.Change{Claim: &theirs, Delete: true}))
	want := mine
	want.Version = 2
	want.UpdatedAt = later
	got, _, err := db.Views.ClaimByIssue(ctx, c.IssueID)
	test.OK(t, err)
	test.Equal(t, "the claim", got, want)

	test.OK(t, db.Store.Commit(ctx, later, reconcile.Change{Claim: &got, Delete: true}))
	wantConflict(t, db.Store.Commit(ctx, later, reconcile.Change{Claim: &got, Delete: true}))
	wantConflict(t, db.Store.Commit(ctx, later, reconcile.Change{Claim: &got}))
	_, ok, err := db.Views.ClaimByIssue(ctx, c.IssueID)
	test.Equal(t, "the claim is still there, and error", []any{ok, err}, []any{false, nil})
}

func TestWorkerWritesUntilTheOutcome(t *testing.T) {
	for name, end := range map[string]func(*DB, reconcile.Run) error{
		"by itself": func(db *DB, r reconcile.Run) error {
			r.Outcome = reconcile.Succeeded
			return db.Journal.Finish(ctx, epoch, r)
		},
		"by a pass": func(db *DB, r reconcile.Run) error {
			return db.Store.EndDead(ctx, epoch, r, reconcile.Lost, "worker_lost", "gone")
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := newState(t)
			r := startedRun(t, db, 1)
			r.Phase = reconcile.StreamingTurn
			r.Beats = 7
			test.Must(db.Journal.UpdateRun(ctx, epoch, r))
			test.OK(t, end(db, r))
			ended := mustRun(t, db, r.ID)

			r.Beats = 8
			wantConflict(t, test.Err(db.Journal.UpdateRun(ctx, epoch, r)))
			wantConflict(
				t,
				db.Journal.SaveThread(
					ctx,
					r.ID,
					r.IssueID,
					reconcile.Thread{ID: "thread", WorkspaceID: "ws"},
					reconcile.Tokens{Total: 5},
					epoch,
				),
			)
			test.Equal(t, "the run", mustRun(t, db, r.ID), ended)
			_, known, err := db.Journal.Thread(ctx, "thread")
			test.Equal(t, "the thread was saved, and error", []any{known, err}, []any{false, nil})
		})
	}
}

func TestWorkerWritesOnlyATakenRun(t *testing.T) {
	db := newState(t)
	r := insertedRun(t, db, 1)
	r.Phase = reconcile.StreamingTurn
	wantConflict(t, test.Err(db.Journal.UpdateRun(ctx, epoch, r)))
	r.Outcome = reconcile.Succeeded
	wantConflict(t, db.Journal.Finish(ctx, epoch, r))
	got := mustRun(t, db, r.ID)
	test.Equal(
		t,
		"phase and outcome",
		[]any{got.Phase, got.Outcome},
		[]any{reconcile.Starting, reconcile.Outcome("")},
	)
}

func TestStopIsRequestedUntilTheOutcome(t *testing.T) {
	db := newState(t)
	r := startedRun(t, db, 1)
	test.OK(t, db.Store.RequestStop(ctx, r.ID, reconcile.StopTerminal, reconcile.Instant{
		Boot: "boot",
		Mono: 7,
	}))
	// the first reason stays
	test.OK(t, db.Store.RequestStop(ctx, r.ID, reconcile.StopOperator, reconcile.Instant{
		Boot: "boot",
		Mono: 7,
	}))
	orders := test.Must(db.Journal.UpdateRun(ctx, epoch, r))
	test.Equal(t, "stop reason", orders.Stop, reconcile.StopTerminal)

	test.Equal(t, "the stop was asked for at", mustRun(t, db, r.ID).StopAt, (reconcile.Instant{
		Boot: "boot",
		Mono: 7,
	}))
	test.OK(t, db.Store.ReapFailed(ctx, r.ID))
	test.OK(t, db.Store.ReapFailed(ctx, r.ID))
	test.Equal(t, "tries", mustRun(t, db, r.ID).ReapTries, 2)

	r.Outcome = reconcile.Canceled
	test.OK(t, db.Journal.Finish(ctx, epoch, r))
	other := startedRun(t, db, 2)
	other.Outcome = reconcile.Succeeded
	test.OK(t, db.Journal.Finish(ctx, epoch, other))
	test.OK(t, db.Store.RequestStop(ctx, other.ID, reconcile.StopTerminal, reconcile.Instant{
		Boot: "boot",
		Mono: 7,
	}))
	test.Equal(t, "an ended run was asked to stop", mustRun(t, db, other.ID).StopReason, "")
}

func TestOutcomeIsRecordedOnce(t *testing.T) {
	db := newState(t)
	r := startedRun(t, db, 1)
	stale := r
	stale.Phase = reconcile.Starting // what a pass read before the worker took the run
	wantConflict(t, db.Store.EndDead(ctx, epoch, stale, reconcile.Lost, "worker_lost", ""))
	if db.Journal.Finish(ctx, epoch, r) == nil || db.Store.EndDead(ctx, epoch, r, "", "", "") == nil {
		t.Error("a run was ended without an outcome")
	}
	r.Phase = reconcile.Finishing
	r.Outcome = reconcile.Succeeded
	test.OK(t, db.Journal.Finish(ctx, epoch, r))
	wantConflict(t, db.Store.EndDead(ctx, epoch, r, reconcile.Lost, "worker_lost", ""))
	wantConflict(t, db.Journal.Finish(ctx, epoch, r))
	ended := mustRun(t, db, r.ID)
	test.Equal(t, "outcome and end", []any{ended.Outcome, ended.EndedAt}, []any{reconcile.Succeeded, epoch})
}

func TestSettledOnceWithClaimAndTotals(t *testing.T) {
	db := newState(t)
	c := claim(t, db, 1)
	r := startedRun(t, db, 1)
	wantConflict(t, db.Store.Commit(ctx, epoch, reconcile.Change{Settle: r.ID})) // it has not ended
	r.Outcome = reconcile.Succeeded
	r.Tokens = reconcile.Tokens{Input: 10, Output: 5, Total: 15}
	test.OK(t, db.Journal.Finish(ctx, epoch.Add(90*time.Second), r))

	stale := c
	stale.Version = 9
	wantConflict(t, db.Store.Commit(ctx, epoch, reconcile.Change{Claim: &stale, Settle: r.ID}))
	wantTotals(t, db, Totals{}) // the refused claim took the totals back
	test.Equal(t, "the run was settled without its claim", mustRun(t, db, r.ID).Settled, false)

	test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{Claim: &c, Settle: r.ID}))
	want := Totals{Tokens: r.Tokens, Runtime: 90 * time.Second}
	wantTotals(t, db, want)
	c.Version++
	wantConflict(t, db.Store.Commit(ctx, epoch, reconcile.Change{Claim: &c, Settle: r.ID}))
	wantConflict(t, db.Store.Commit(ctx, epoch, reconcile.Change{Settle: "no such run"}))
	wantTotals(t, db, want)
	issue := test.Must(db.Runs.TotalsOf(ctx, r.IssueID))
	test.Equal(t, "the issue's totals", issue, want)
	test.Equal(t, "another issue's totals", test.Must(db.Runs.TotalsOf(ctx, "other")), (Totals{}))
}

func wantTotals(t testing.TB, db *DB, want Totals) {
	t.Helper()
	test.Equal(t, "totals", test.Must(db.Runs.Totals(ctx)), want)
}

func TestCommandsAreConsumedWithTheChange(t *testing.T) {
	db := newState(t)
	c := claim(t, db, 1)
	want := []reconcile.Command{
		{Verb: reconcile.VerbHold, IssueID: c.IssueID, Identifier: c.Identifier, CreatedAt: epoch},
		{Verb: reconcile.VerbPause, CreatedAt: epoch.Add(time.Second)},
	}
	for i := range want {
		id := test.Must(db.Operator.AddCommand(ctx, want[i]))
		want[i].ID = id
	}
	test.Equal(t, "Commands", test.Must(db.Store.State(ctx)).Commands, want)

	stale := c
	stale.Version = 9
	wantConflict(t, db.Store.Commit(ctx, epoch, reconcile.Change{
		Claim:    &stale,
		Commands: []int64{want[0].ID},
	}))
	wantDone(t, db, want[0].ID, false)
	test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{
		Claim:    &c,
		Commands: []int64{want[0].ID},
	}))
	wantDone(t, db, want[0].ID, true)
	wantDone(t, db, want[1].ID, false)
	test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{Commands: []int64{want[0].ID, want[1].ID}}))
	wantDone(t, db, want[1].ID, true)
	next := test.Must(db.Operator.AddCommand(ctx, want[0]))
	if next <= want[1].ID {
		t.Errorf("id %d was given again", next)
	}
	test.Equal(
		t,
		"a command without a verb was kept",
		test.Err(db.Operator.AddCommand(ctx, reconcile.Command{})) == nil,
		false,
	)
}

func wantDone(t *testing.T, db *DB, id int64, want bool) {
	t.Helper()
	test.Equal(t, "done", test.Must(db.Operator.CommandDone(ctx, id)), want)
}

func TestSkipsAreReplaced(t *testing.T) {
	db := newState(t)
	a := reconcile.Skip{
		IssueID:    "a",
		Identifier: "ABC-1",
		Reason:     reconcile.SkipNoSlot,
		Message:    "full",
	}
	b := reconcile.Skip{
		IssueID:    "b",
		Identifier: "ABC-2",
		Reason:     reconcile.SkipBlockedBy,
		Message:    "ABC-1",
		Mend:       "create ABC-1",
	}
	named := b
	named.Subject = "ABC-1"
	later := epoch.Add(time.Minute)
	last := epoch.Add(time.Hour)
	test.OK(t, db.Store.SaveSkips(ctx, epoch, []reconcile.Skip{b, a, b}))
	wantSkips(t, db, StoredSkip{a, epoch}, StoredSkip{b, epoch})
	for id, want := range map[string]string{"a": a.Reason, "c": ""} {
		s, ok, err := db.Views.SkipOf(ctx, id)
		test.Equal(
			t,
			id+": error, reason, and whether there is a skip",
			[]any{err, s.Reason, ok},
			[]any{nil, want, want != ""},
		)
	}
	before := changes(t, db)
	test.OK(t, db.Store.SaveSkips(ctx, later, []reconcile.Skip{a, named}))
	test.Equal(t, "rows written for the same skips", changes(t, db), before)
	a.Reason = reconcile.SkipPaused
	b.Message = "ABC-7"
	test.OK(t, db.Store.SaveSkips(ctx, later, []reconcile.Skip{a, b}))
	wantSkips(t, db, StoredSkip{a, later}, StoredSkip{b, epoch})
	test.OK(t, db.Store.SaveSkips(ctx, last, []reconcile.Skip{a}))
	wantSkips(t, db, StoredSkip{a, later})
	test.OK(t, db.Store.SaveSkips(ctx, last, nil))
	wantSkips(t, db)
}

// A command can start an issue that the last pass skipped.
func TestSkipEndsWithARun(t *testing.T) {
	db := newState(t)
	r := newRun(1)
	skips := []reconcile.Skip{{
		IssueID:    r.IssueID,
		Identifier: r.Identifier,
		Reason:     reconcile.SkipNoSlot,
	}, {
		IssueID: "b",
		Reason:  reconcile.SkipNoSlot,
	}}
	test.OK(t, db.Store.SaveSkips(ctx, epoch, skips))
	insertedRun(t, db, 1)
	wantSkips(t, db, StoredSkip{skips[1], epoch})
}

func wantSkips(t *testing.T, db *DB, want ...StoredSkip) {
	t.Helper()
	test.Equal(t, "skips", test.Must(db.Views.Skips(ctx)), append([]StoredSkip{}, want...))
}

// changes counts the rows that the connection has ever written.
func changes(t testing.TB, db *DB) (n int) {
	t.Helper()
	test.OK(t, db.sql.QueryRow(`SELECT total_changes()`).Scan(&n))
	return n
}

// TestTokenBaseOfANewClaim checks that a new claim counts only the tokens that its issue uses
// from then on.
func TestTokenBaseOfANewClaim(t *testing.T) {
	db := newState(t)
	ctx := t.Context()
	test.Must(db.sql.ExecContext(ctx, `INSERT INTO issue_totals (issue_id, input, output, total, runtime_ms)
		VALUES (?, 60, 40, 100, 0)`, issueOf(1).ID))
	test.Equal(t, "base", claim(t, db, 1).TokenBase, 100)
}
