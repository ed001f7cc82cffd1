package state

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/symphony-cron/symphony/reconcile"
)

func TestEndedRuns(t *testing.T) {
	ctx := context.Background()
	db := newState(t)
	for i := range 6 {
		r := newRun(i % 3)
		r.ID = runID(i)
		check(t, db.Commit(ctx, epoch, reconcile.Change{Insert: &r}))
		if i == 5 {
			break // goes on
		}
		check(t, db.EndDead(ctx, epoch, mustRun(t, db, r.ID), reconcile.Lost, "worker_lost", "gone"))
		if i != 4 { // that one is still to be settled
			check(t, db.Commit(ctx, epoch, reconcile.Change{Settle: r.ID}))
		}
	}
	ids := func(issues []string, limit int) (ids []string) {
		t.Helper()
		runs, err := db.EndedRuns(ctx, issues, limit)
		check(t, err)
		for _, r := range runs {
			whole := mustRun(t, db, r.ID)
			whole.Issue, whole.Phase, whole.Fingerprint = reconcile.Issue{}, "", ""
			want := reconcile.Run{
				ID: whole.ID, Kind: whole.Kind, IssueID: whole.IssueID, Identifier: whole.Identifier, Outcome: whole.Outcome,
				ErrorCode: whole.ErrorCode, ErrorText: whole.ErrorText, Turns: whole.Turns, Tokens: whole.Tokens,
				StartedAt: whole.StartedAt, EndedAt: whole.EndedAt, Settled: true,
			}
			if diff := cmp.Diff(want, r); diff != "" {
				t.Error(diff)
			}
			ids = append(ids, r.ID)
		}
		return ids
	}
	for _, c := range []struct {
		issues []string
		limit  int
		want   []string
	}{
		{nil, 9, []string{runID(3), runID(2), runID(1), runID(0)}},
		{nil, 2, []string{runID(3), runID(2)}},
		{[]string{issueOf(0).ID}, 9, []string{runID(3), runID(0)}},
		{[]string{issueOf(0).ID, issueOf(1).ID}, 2, []string{runID(3), runID(1)}},
		{[]string{"nobody"}, 9, nil},
	} {
		if diff := cmp.Diff(c.want, ids(c.issues, c.limit)); diff != "" {
			t.Errorf("%v %d: %s", c.issues, c.limit, diff)
		}
	}
}

func TestDataVersion(t *testing.T) {
	ctx := context.Background()
	db := newState(t)
	reader, err := OpenReadOnly(ctx, db.Dir())
	check(t, err)
	defer reader.Close()
	version := func() int64 {
		t.Helper()
		n, err := reader.DataVersion(ctx)
		check(t, err)
		return n
	}
	before := version()
	if again := version(); again != before {
		t.Errorf("nobody has written, and %d became %d", before, again)
	}
	check(t, db.SetMeta(ctx, "last_good_workflow", "one"))
	if after := version(); after == before {
		t.Error("a change was not seen")
	}
}
