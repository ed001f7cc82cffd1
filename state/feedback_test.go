package state

import (
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// TestWatches checks that what is known of a pull request belongs to its address, and survives
// a push after which the address is not known.
func TestWatches(t *testing.T) {
	db := newState(t)
	delivered := reconcile.Delivered{
		URL:         "u",
		Branch:      "b",
		Commit:      "1",
		Base:        "main",
		At:          epoch,
		PullRequest: "p/1",
	}
	addresses := func() (list []string) {
		for _, w := range test.Must(db.Store.Watches(ctx)) {
			list = append(list, w.IssueID+" "+w.Delivered.PullRequest+" "+w.AllCauses())
		}
		return list
	}
	test.Equal(t, "nothing", addresses(), nil)
	test.OK(t, db.Journal.RecordDelivered(ctx, "id", delivered))
	test.OK(t, db.Journal.RecordDelivered(ctx, "other", reconcile.Delivered{
		URL:    "u",
		Commit: "1",
		At:     epoch,
	}))
	test.Equal(t, "a new one", addresses(), []string{"id p/1 "})
	w, found, err := db.Watch(ctx, "id")
	test.Equal(t, "found", []any{found, err}, []any{true, nil})
	w.BeginRound(&reconcile.Rework{Round: 1, Rounds: 3, At: epoch, Commit: "1", Conflict: true})
	test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{Watch: &w}))
	test.Equal(t, "after a round", addresses(), []string{"id p/1 it conflicts with its base"})

	delivered.Commit = "2"
	delivered.PullRequest = ""
	test.OK(t, db.Journal.RecordDelivered(ctx, "id", delivered))
	test.Equal(t, "after a push", addresses(), []string{"id p/1 it conflicts with its base"})
	test.OK(t, db.Journal.EndRework(ctx, "id"))
	w, _, err = db.Watch(ctx, "id")
	test.Equal(t, "answered", []any{w.Rework == nil, w.Delivered.Commit, err}, []any{true, "2", nil})

	w.Ended = true
	test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{Watch: &w}))
	test.Equal(t, "ended", addresses(), nil)
	delivered.PullRequest = "p/2"
	test.OK(t, db.Journal.RecordDelivered(ctx, "id", delivered))
	test.Equal(t, "another one", addresses(), []string{"id p/2 "})
	w, _, err = db.Watch(ctx, "id") // the branch may get its first one again
	test.Equal(
		t,
		"what is told once for all",
		[]any{w.Handled, w.Rounds, err},
		[]any{[]string{"conflict 1"}, 0, nil},
	)

	// The repository gets another name: a pass finds that out, or a worker. What is known
	// stays known.
	w.Ended = false
	w.Pull.ID = "PR_1"
	w.BeginRound(&reconcile.Rework{Round: 1, Rounds: 3, At: epoch, Commit: "2", Conflict: true})
	w.Renamed = "q/2"
	test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{Watch: &w}))
	test.Equal(t, "found out by a pass", addresses(), []string{"id q/2 it conflicts with its base"})
	delivered.PullRequest = "r/2"
	delivered.PullID = "PR_1"
	test.OK(t, db.Journal.RecordDelivered(ctx, "id", delivered))
	test.Equal(t, "found out by a worker", addresses(), []string{"id r/2 it conflicts with its base"})
	delivered.PullRequest = "r/3"
	delivered.PullID = "PR_2"
	test.OK(t, db.Journal.RecordDelivered(ctx, "id", delivered))
	test.Equal(t, "a new one", addresses(), []string{"id r/3 "})
}

// A worker that records an answer keeps what a pass stores at the same moment.
func TestAnswerDuringAPass(t *testing.T) {
	dir := newDir(t)
	pass := createIn(t, dir)
	worker := openIn(t, dir)
	test.OK(t, pass.Journal.RecordDelivered(ctx, "id", reconcile.Delivered{
		URL:         "u",
		Commit:      "1",
		At:          epoch,
		PullRequest: "p/1",
	}))
	w, _, err := pass.Watch(ctx, "id")
	test.OK(t, err)
	w.BeginRound(&reconcile.Rework{Round: 1, Rounds: 3, At: epoch, Commit: "1", Conflict: true})
	test.OK(t, pass.Store.Commit(ctx, epoch, reconcile.Change{Watch: &w}))

	answered := make(chan error, 1)
	test.OK(t, pass.Store.update(ctx, "store a rerun", full, func(begun tx) error {
		go func() { answered <- worker.Journal.EndRework(ctx, "id") }()
		test.Until(t, "the worker wants to write", func() bool {
			free := worker.Journal.write.TryLock()
			if free {
				worker.Journal.write.Unlock()
			}
			return !free
		})
		w.Rerun = "1"
		return saveWatch(begun, w)
	}))
	test.OK(t, <-answered)
	w, _, err = pass.Watch(ctx, "id")
	test.Equal(t, "answered, and the rerun", []any{w.Rework == nil, w.Rerun, err}, []any{true, "1", nil})
}

// A watch that is stored already is not written again.
func TestWatchIsWrittenOnce(t *testing.T) {
	dir := newDir(t)
	db := createIn(t, dir)
	other := openIn(t, dir)
	version := func() int64 { return test.Must(other.Clients.Version(ctx)) }
	watch := reconcile.Watch{IssueID: "id", Rounds: 1}
	watch.Delivered.PullRequest = "p/1"
	store := func() { test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{Watch: &watch})) }
	store()
	before := version()
	store()
	test.Equal(t, "the same", version(), before)
	watch.Rounds = 2
	store()
	test.Equal(t, "another round is written", version() != before, true)
}
