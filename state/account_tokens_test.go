package state

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/symphony-cron/symphony/reconcile"
)

// What agent.max_tokens bounds begins anew with a retry, whose mark is the claim's token base; settled runs and the
// one that goes on count.
func TestIssueTokensSinceTheRetry(t *testing.T) {
	db := newState(t)
	ctx := t.Context()
	c := claim(t, db, 1)
	use := func(run reconcile.Run, thread string, n int64) {
		t.Helper()
		check(t, db.SaveThread(ctx, run.ID, run.IssueID, thread, "ws", reconcile.Tokens{Input: n, Total: n}, epoch))
	}
	want := func(n int64) {
		t.Helper()
		if got, err := db.IssueTokens(ctx, c.IssueID); err != nil || got != n {
			t.Errorf("%d tokens, want %d, %v", got, n, err)
		}
	}
	want(0)
	first := startedRun(t, db, 1)
	use(first, "thread-1", 700)
	want(700)
	first.Outcome = reconcile.Succeeded
	check(t, db.Finish(ctx, epoch, first))
	want(700)
	c.TokenBase = 700
	check(t, db.Commit(ctx, epoch, reconcile.Change{Settle: first.ID, Claim: &c}))
	want(0)

	second := newRun(1)
	second.ID = runID(2)
	check(t, db.Commit(ctx, epoch, reconcile.Change{Insert: &second}))
	second, err := db.TakeRun(ctx, second.ID, worker, epoch)
	check(t, err)
	use(second, "thread-1", 900)
	use(second, "thread-2", 50)
	want(250)
}

// Where the account's directory can't be made, whoever needs it says so, with the place.
func TestAccountThatCantBeMade(t *testing.T) {
	a := newAccount(t)
	check(t, os.MkdirAll(filepath.Dir(filepath.Dir(a.Dir)), 0o700))
	check(t, os.WriteFile(filepath.Dir(a.Dir), nil, 0o600))
	_, _, err := a.TakeSlots(t.Context(), 1, 1)
	wantCode(t, err, "account_state")
	_, err = a.CountSlots(t.Context(), 1, 1)
	wantCode(t, err, "account_state")
	wantCode(t, a.Failed(t.Context(), epoch, reconcile.CodeAgentAuth, "log in"), "account_state")
	_, err = a.Read(epoch)
	wantCode(t, err, "account_state")
}
