package state

import (
	"errors"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// TestRemoteRun ends a run on its host after its worker has died. An issue never has two runs
// that may be at work on hosts.
func TestRemoteRun(t *testing.T) {
	db := newState(t)
	begin := func(id int, change reconcile.Change) reconcile.Run {
		r := newRun(id)
		r.IssueID = "id-1"
		r.Identifier = "ABC-1"
		r.Issue = issueOf(1)
		r.Host = "near"
		change.Insert = &r
		test.OK(t, db.Store.Commit(ctx, epoch, change))
		return test.Must(db.Journal.TakeRun(ctx, r.ID, worker, epoch))
	}
	conflict := func(what string, err error) {
		t.Helper()
		test.Equal(t, what, errors.Is(err, reconcile.ErrConflict), true)
	}
	r := begin(1, reconcile.Change{})
	r.Remote = reconcile.RemoteBegun
	r.HeardAt = epoch
	test.Must(db.Journal.UpdateRun(ctx, epoch, r))
	_, err := db.Journal.TakeRemote(ctx, r.ID, worker, epoch)
	conflict("taken from a living worker", err)
	r = mustRun(t, db, r.ID)
	test.OK(t, db.Store.EndDead(ctx, epoch, r, reconcile.Lost, reconcile.CodeWorkerLost, "died"))

	second := begin(2, reconcile.Change{})
	second.Remote = reconcile.RemoteBegun
	_, err = db.Journal.UpdateRun(ctx, epoch, second)
	test.Contains(t, "a second run on a host", err.Error(), "may still be at work")

	heir := worker
	heir.PID++
	taken := test.Must(db.Journal.TakeRemote(ctx, r.ID, heir, epoch))
	test.Equal(
		t,
		"taken",
		[]any{taken.Phase, taken.Worker, taken.Outcome},
		[]any{reconcile.EndingThere, heir, reconcile.Lost},
	)
	later := epoch.Add(time.Minute)
	taken.Remote = reconcile.RemoteEnded
	taken.HeardAt = later
	taken.Delivery.Handover = &reconcile.Handover{Commit: "c0ffee"}
	test.OK(t, db.Journal.SaveRemote(ctx, taken, later))
	r = mustRun(t, db, r.ID)
	test.Equal(
		t,
		"confirmed",
		[]any{r.Remote, r.HeardAt, r.HeartbeatAt},
		[]any{reconcile.RemoteEnded, later, later},
	)
	test.Equal(t, "commit of the handover", r.Delivery.Handover.Commit, "c0ffee")
	_, err = db.Journal.TakeRemote(ctx, r.ID, heir, epoch)
	conflict("taken after its end", err)
	test.Must(db.Journal.UpdateRun(ctx, epoch, second))

	// The host of the second run is gone for good.
	for _, host := range []string{"near", "far"} {
		second.Host = host
		test.OK(t, db.Journal.SaveRemoteWorkspace(ctx, second, &reconcile.Workspace{
			IssueID: "id-1",
			Host:    host,
		}))
	}
	test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{
		HostGone: second.ID,
		Abandon:  second.IssueID,
	}))
	test.Equal(t, "gone", mustRun(t, db, second.ID).Remote, reconcile.RemoteGone)
	spaces := func() (list []string) {
		for _, w := range test.Must(db.Store.State(ctx)).RemoteWorkspaces {
			list = append(list, w.Host+map[bool]string{true: " abandoned"}[w.Abandoned])
		}
		return list
	}
	test.Equal(t, "workspaces", spaces(), []string{"far abandoned", "near abandoned"})
	test.OK(t, db.Journal.SaveRemoteWorkspace(ctx, second, nil))
	test.Equal(t, "one removed", spaces(), []string{"near abandoned"})
	conflict("gone twice", db.Store.Commit(ctx, epoch, reconcile.Change{HostGone: second.ID}))

	block := func(b reconcile.Block) map[string]reconcile.Block {
		test.OK(
			t,
			db.Store.Commit(
				ctx,
				epoch,
				reconcile.Change{RemoteBlocks: map[string]reconcile.Block{"near": b}},
			),
		)
		return test.Must(db.Store.State(ctx)).RemoteBlocks
	}
	test.Equal(t, "block", block(reconcile.Block{Code: "host_unreachable"})["near"].Code, "host_unreachable")
	test.Equal(t, "unblocked", len(block(reconcile.Block{})), 0)
}
