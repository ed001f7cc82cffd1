package state

import (
	"context"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// metaRemoteBlock begins the keys of the blocks of hosts. Their names follow.
const metaRemoteBlock = "blocked_on:"

// TakeRemote makes the process h the owner of a run whose worker is dead, to end the run on its host. The run has an outcome, which stays.
// If the run is settled, or its host has confirmed its end, the error is reconcile.ErrConflict.
func (j Journal) TakeRemote(ctx context.Context, id string, h reconcile.Handle, now time.Time) (reconcile.Run, error) {
	return j.take(ctx, id, h, now, reconcile.EndingThere, `remote = 'begun' AND settled = 0 AND outcome IS NOT NULL`)
}

// SaveRemote stores what the process that took a run by TakeRemote knows of it on its host, and when it last had a link, zero if it had
// none.
func (j Journal) SaveRemote(ctx context.Context, id string, known reconcile.RemoteState, heard, now time.Time) error {
	return j.update(ctx, "update run "+id, full, change("run "+id, `UPDATE runs SET remote = ?, heard_at = coalesce(?, heard_at),
		heartbeat_at = ? WHERE id = ? AND remote = ? AND phase = ?`,
		known, stamp(heard), stamp(now), id, reconcile.RemoteBegun, reconcile.EndingThere))
}

// SaveRemoteWorkspace stores the workspace of a run's issue on the run's host; nil if there is none.
func (j Journal) SaveRemoteWorkspace(ctx context.Context, run reconcile.Run, w *reconcile.Workspace) error {
	return j.update(ctx, "store the workspace on "+run.Host, full, func(t tx) error {
		if w == nil {
			return t.run(`DELETE FROM remote_workspaces WHERE issue_id = ? AND host = ? AND root = ?`, run.IssueID, run.Host, run.WorkspaceRoot)
		}
		return t.run(`INSERT OR REPLACE INTO remote_workspaces (issue_id, host, root, run_id, workspace) VALUES (?, ?, ?, ?, ?)`,
			run.IssueID, run.Host, run.WorkspaceRoot, run.ID, jsonOf(w))
	})
}

// remoteBlocks returns the blocks of hosts among the values of meta.
func remoteBlocks(meta map[string]string) (map[string]reconcile.Block, error) {
	var all map[string]reconcile.Block
	for key, text := range meta {
		host, isBlock := strings.CutPrefix(key, metaRemoteBlock)
		if !isBlock {
			continue
		}
		var b reconcile.Block
		if err := jsonOf(&b).Scan(text); err != nil {
			return nil, err
		}
		if all == nil {
			all = map[string]reconcile.Block{}
		}
		all[host] = b
	}
	return all, nil
}
