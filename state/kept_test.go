package state

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// What a pass keeps of its first look at the database never hides what it has written since.
func TestKept(t *testing.T) {
	ctx, dir := context.Background(), newDir(t)
	check(t, createIn(t, dir).SetMeta(ctx, "key", "first"))
	db, other := createIn(t, dir), openIn(t, dir)
	wantMeta := func(db *DB, key, want string) {
		t.Helper()
		got, found, err := db.Meta(ctx, key)
		check(t, err)
		if got != want || found != (want != "") {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	wantMeta(db, "key", "first")
	check(t, db.SetMeta(ctx, "key", "second"))
	wantMeta(db, "key", "second")
	check(t, db.SetMeta(ctx, "key", "first")) // what was kept at first
	wantMeta(db, "key", "first")
	wantMeta(other, "key", "first")
	check(t, other.SetMeta(ctx, "workers", "used"))
	wantMeta(db, "workers", "used")
	check(t, other.SetMeta(ctx, "workers", "again"))
	wantMeta(other, "workers", "again")

	skips := func() int {
		t.Helper()
		list, err := other.Skips(ctx)
		check(t, err)
		return len(list)
	}
	for _, n := range []int{0, 2, 0, 1, 1, 0, 0} {
		_, err := db.State(ctx)
		check(t, err)
		for range 2 {
			check(t, db.SaveSkips(ctx, epoch, []reconcile.Skip{{IssueID: "a", Reason: "label"}, {IssueID: "b", Reason: "label"}}[:n]))
			if got := skips(); got != n {
				t.Errorf("%d skips are stored, want %d", got, n)
			}
		}
	}

	check(t, db.SaveSkips(ctx, epoch, []reconcile.Skip{{IssueID: "a", Reason: "label"}}))
	check(t, db.SaveSkips(ctx, epoch, nil))
	if got := skips(); got != 0 {
		t.Errorf("%d skips are stored, want none", got)
	}

	_, err := db.SavePass(ctx, Pass{Trigger: "cron", StartedAt: epoch})
	check(t, err)
	for _, at := range []time.Time{epoch, epoch.Add(2 * time.Hour)} {
		pass := createIn(t, dir)
		_, err = pass.Prune(ctx, at, 10)
		check(t, err)
		wantMeta(pass, metaPruned, fmt.Sprint(at.UnixMilli()))
	}
}
