package state

import (
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// TestMoveWorkspaces checks that a delivery finds a workspace of this machine that was moved.
// The same path on another machine stays.
func TestMoveWorkspaces(t *testing.T) {
	for name, row := range map[string]struct {
		delivery reconcile.Delivery
		want     string
	}{
		"here":           {reconcile.Delivery{Due: true, Root: "/old/ws"}, "/new/ws"},
		"the folder":     {reconcile.Delivery{Due: true, Root: "/old"}, "/new"},
		"beside it":      {reconcile.Delivery{Due: true, Root: "/older/ws"}, "/older/ws"},
		"on a host":      {reconcile.Delivery{Due: true, Root: "/old/ws", Host: "far"}, "/old/ws"},
		"nothing is due": {reconcile.Delivery{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			db := newState(t)
			c := claim(t, db, 1)
			c.Delivery = row.delivery
			test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{Claim: &c}))
			for range 2 {
				test.OK(t, db.Operator.MoveWorkspaces(ctx, "/old", "/new"))
			}
			want := row.delivery
			want.Root = row.want
			all := test.Must(db.Store.State(ctx))
			test.Equal(t, "delivery", all.Claims[0].Delivery, want)
		})
	}
}

// TestMoveProjects checks that the workspaces on hosts stay the workspaces of the project.
func TestMoveProjects(t *testing.T) {
	db := newState(t)
	run := newRun(1)
	run.Host = "far"
	w := reconcile.Workspace{IssueID: run.IssueID, Host: "far", Project: "file /old"}
	test.OK(t, db.Journal.SaveRemoteWorkspace(ctx, run, &w))
	test.OK(t, db.Operator.MoveProjects(ctx, func(project string) string {
		return strings.Replace(project, "/old", "/new", 1)
	}))
	w.Project = "file /new"
	all := test.Must(db.Store.State(ctx))
	test.Equal(t, "workspaces", all.RemoteWorkspaces, []reconcile.Workspace{w})
}
