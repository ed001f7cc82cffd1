package runner

import (
	"context"
	"log/slog"

	"github.com/symphony-cron/symphony/runner/host"
)

// cleanup is the only step of a cleanup run (specification 8.6 and 9.4).
type cleanup struct{ *workspaceStep }

// run removes the workspace of the run's issue, if there is one, and deletes what has been in the trash for its time.
func (c cleanup) run(ctx context.Context) error {
	if c.job.run.IssueID != "" {
		if err := c.remove(ctx, false); err != nil {
			return err
		}
	}
	answer, err := c.Host.Purge(ctx, host.PurgeRequest{
		Root: c.job.run.WorkspaceRoot, Project: c.Config.Policy.Project, KeepRemoved: c.Config.KeepRemoved,
		MinFree: c.Config.Policy.MinFreeBytes, Now: c.Now(),
	})
	if len(answer.Undeletable) > 0 {
		c.Log.LogAttrs(ctx, slog.LevelWarn, "could not be deleted", slog.Any("paths", answer.Undeletable))
	}
	for path, work := range answer.Unsaved {
		c.Log.LogAttrs(ctx, slog.LevelWarn, "left in the trash: it holds work that exists nowhere else", slog.String("path", path), slog.String("work", work))
	}
	return err
}

// remove removes the workspace. With discard it goes even if work in it exists nowhere else.
func (c cleanup) remove(ctx context.Context, discard bool) error {
	removal, err := c.Host.PrepareRemoval(ctx, host.RemovalRequest{PrepareRequest: c.prepareRequest(), Now: c.Now(), Discard: discard})
	if removal.Unsaved != "" {
		c.logUnsaved(ctx, removal.Unsaved)
	}
	if !removal.Found {
		return err
	}
	c.hold(ctx, removal.PrepareAnswer)
	defer func() { c.space = nil }() // the lease is given up
	if err == nil && removal.HookDue {
		err = c.hook(ctx, "before_remove", c.Config.Hooks.BeforeRemove, "")
	}
	if err != nil {
		c.Log.LogAttrs(ctx, slog.LevelWarn, "workspace removed, but", slog.String("error", err.Error()))
	}
	answer, err := c.Host.Remove(ctx, host.RemoveRequest{Run: c.hostRun()})
	if err != nil {
		return err
	}
	if answer.Unsaved != "" {
		c.logUnsaved(ctx, answer.Unsaved)
		return nil
	}
	c.Log.LogAttrs(ctx, slog.LevelInfo, "workspace removed", slog.String("trash", answer.Trash))
	if answer.Warning != "" {
		c.Log.LogAttrs(ctx, slog.LevelWarn, "workspace removed, but", slog.String("error", answer.Warning))
	}
	return nil
}

func (c cleanup) logUnsaved(ctx context.Context, work string) {
	c.Log.LogAttrs(ctx, slog.LevelWarn, "workspace left alone: it holds work that exists nowhere else", slog.String("work", work))
}
