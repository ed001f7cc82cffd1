package state

import (
	"fmt"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// A message is on the disk before anything else happens, waits for the agent of its issue
// alone, and is told once.
func TestMessages(t *testing.T) {
	db := newState(t)
	run := startedRun(t, db, 7)
	one := reconcile.Message{
		ID:      "m1",
		IssueID: run.IssueID,
		Words:   reconcile.Words{By: "ann", Text: "use \"red\""},
		At:      epoch,
	}
	two := reconcile.Message{
		ID:      "m2",
		IssueID: run.IssueID,
		Words:   reconcile.Words{By: "ann", Text: "no, blue"},
		At:      epoch.Add(time.Second),
	}
	test.OK(t, db.Operator.AddMessage(ctx, reconcile.Message{ID: "m3", IssueID: "other", At: epoch}))
	test.Equal(t, "none wait", test.Must(db.Journal.UpdateRun(ctx, epoch, run)).Messages, false)
	for _, m := range []reconcile.Message{two, one} {
		test.OK(t, db.Operator.AddMessage(ctx, m))
	}
	test.Equal(t, "durability", synchronous(t, db), full)
	test.Equal(t, "some wait", test.Must(db.Journal.UpdateRun(ctx, epoch, run)).Messages, true)
	test.Equal(
		t,
		"waiting",
		test.Must(db.Journal.UntoldMessages(ctx, run.IssueID, 5)),
		[]reconcile.Message{two, one},
	)
	test.OK(t, db.Journal.MarkMessages(ctx, []reconcile.Message{one}, run.ID, time.Time{}))
	one.RunID = run.ID
	test.Equal(
		t,
		"one may be told",
		test.Must(db.Journal.UntoldMessages(ctx, run.IssueID, 5)),
		[]reconcile.Message{two, one},
	)
	test.OK(t, db.Journal.MarkMessages(ctx, []reconcile.Message{one}, run.ID, epoch.Add(time.Minute)))
	test.OK(t, db.Journal.MarkMessages(ctx, []reconcile.Message{one}, run.ID, epoch.Add(time.Hour)))
	test.OK(t, db.Journal.MarkMessages(ctx, []reconcile.Message{one}, "later", time.Time{}))
	one.ToldAt = epoch.Add(time.Minute)
	test.Equal(
		t,
		"one was told",
		test.Must(db.Journal.UntoldMessages(ctx, run.IssueID, 5)),
		[]reconcile.Message{two},
	)
	test.Equal(
		t,
		"all",
		test.Must(db.Views.Messages(ctx, run.IssueID, 5)),
		[]reconcile.Message{two, one},
	)
	for i := 1; i < reconcile.MaxMessages; i++ {
		test.OK(t, db.Operator.AddMessage(ctx, reconcile.Message{
			ID:      fmt.Sprint("more", i),
			IssueID: run.IssueID,
			At:      epoch,
		}))
	}
	wantCode(t, db.Operator.AddMessage(ctx, reconcile.Message{
		ID:      "last",
		IssueID: run.IssueID,
		At:      epoch,
	}), "not_possible")
}
