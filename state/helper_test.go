package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// epoch is the time of most tests.
var epoch = time.Date(2026, 11, 20, 8, 0, 0, 123_000_000, time.UTC)

// ctx is the context of most tests.
var ctx = context.Background()

// helperVariable turns the test binary into a helper process of a test.
const helperVariable = "SYMPHONY_STATE_TEST_HELPER"

func TestMain(m *testing.M) {
	name := os.Getenv(helperVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	if err := helpers[name](os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// helper prepares a process of this binary that runs helpers[name] and is killed with the
// test.
func helper(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, test.Patience())
	t.Cleanup(cancel)
	exe := test.Must(os.Executable())
	cmd := exec.CommandContext(ctx, exe, args...)
	cmd.Env = append(os.Environ(), helperVariable+"="+name)
	cmd.Stderr = os.Stderr
	return cmd
}

func newDir(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "state")
}

func newState(t testing.TB) *DB {
	t.Helper()
	return createIn(t, newDir(t))
}

func createIn(t testing.TB, dir string) *DB {
	t.Helper()
	db := test.Must(Create(ctx, dir, epoch))
	t.Cleanup(func() { test.OK(t, db.Close()) })
	return db
}

func openIn(t testing.TB, dir string) *DB {
	t.Helper()
	db := test.Must(Open(ctx, dir))
	t.Cleanup(func() { test.OK(t, db.Close()) })
	return db
}

func wantConflict(t testing.TB, err error) {
	t.Helper()
	if !errors.Is(err, reconcile.ErrConflict) {
		t.Fatalf("error is %v, want a conflict", err)
	}
}

func wantCode(t testing.TB, err error, code string) *reconcile.Error {
	t.Helper()
	e, is := errors.AsType[*reconcile.Error](err)
	if !is || e.Code != code {
		t.Fatalf("error is %v, want code %s", err, code)
	}
	test.Equal(t, code+" has a hint", e.Hint != "", true)
	return e
}

func issueOf(i int) reconcile.Issue {
	text := "What is to be done, at some length, with \"quotes\" and a line\nor two."
	return reconcile.Issue{
		ID:          fmt.Sprintf("id-%04d", i),
		Identifier:  fmt.Sprintf("ABC-%d", i),
		Title:       "Title",
		Description: &text,
		State:       "Todo",
		Labels:      []string{"bug"},
		BlockedBy:   []reconcile.BlockerRef{},
		CreatedAt:   &epoch,
	}
}

func runID(i int) string { return fmt.Sprintf("run-%06d", i) }

// claim stores a new claim of issue i and returns it as stored.
func claim(t testing.TB, db *DB, i int) reconcile.Claim {
	t.Helper()
	issue := issueOf(i)
	c := reconcile.Claim{
		IssueID:    issue.ID,
		Identifier: issue.Identifier,
		Status:     reconcile.Waiting,
		Issue:      issue,
	}
	test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{Claim: &c}))
	stored, ok, err := db.Views.ClaimByIssue(ctx, issue.ID)
	test.OK(t, err)
	if !ok {
		t.Fatal("the claim was not stored")
	}
	return stored
}

// newRun returns a run of issue i that is not stored.
func newRun(i int) reconcile.Run {
	issue := issueOf(i)
	return reconcile.Run{
		ID:          runID(i),
		Kind:        reconcile.AgentRun,
		Phase:       reconcile.Starting,
		IssueID:     issue.ID,
		Identifier:  issue.Identifier,
		Issue:       issue,
		Fingerprint: issue.Fingerprint(),
		StartedAt:   epoch,
	}
}

// insertedRun stores a run of issue i without a claim.
func insertedRun(t testing.TB, db *DB, i int) reconcile.Run {
	t.Helper()
	r := newRun(i)
	test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{Insert: &r}))
	return mustRun(t, db, r.ID)
}

var worker = reconcile.Handle{Boot: "boot-1", PID: 4711, Start: 1 << 63}

// startedRun stores a run of issue i that a worker has taken.
func startedRun(t testing.TB, db *DB, i int) reconcile.Run {
	t.Helper()
	r := insertedRun(t, db, i)
	return test.Must(db.Journal.TakeRun(ctx, r.ID, worker, epoch))
}

// pastRun stores run n of issue 1 and changes it as its worker, which also ends it if change
// sets an outcome.
func pastRun(t testing.TB, db *DB, n int, change func(r *reconcile.Run)) reconcile.Run {
	t.Helper()
	r := newRun(1)
	r.ID = runID(n)
	test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{Insert: &r}))
	r = test.Must(db.Journal.TakeRun(ctx, r.ID, worker, epoch))
	change(&r)
	if r.Outcome == "" {
		test.Must(db.Journal.UpdateRun(ctx, epoch, r))
	} else {
		test.OK(t, db.Journal.Finish(ctx, epoch, r))
	}
	return r
}

func mustRun(t testing.TB, db *DB, id string) reconcile.Run {
	t.Helper()
	return test.Must(db.Runs.Find(ctx, id))
}

// helpers are the programs of the helper processes.
var helpers = map[string]func(args []string) error{}
