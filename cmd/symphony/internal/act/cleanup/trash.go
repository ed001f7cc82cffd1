package cleanup

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
	"github.com/symphony-cron/symphony/state"
)

// loss is work that exists nowhere else, and its place.
type loss struct {
	Path    string   `json:"path"`
	Unsaved string   `json:"unsaved,omitempty"`
	Items   []string `json:"unsaved_items,omitempty"`
}

// work describes and names the work.
func (l loss) work() string { return strings.Join(append([]string{l.Unsaved}, l.Items...), "\n") }

// Lines name the work; empty if there is none.
func (l loss) Lines(verb string) (lines string) {
	if l.Unsaved == "" {
		return ""
	}
	lines = text.Visible(fmt.Sprintf("%-7s %s in %s", verb, l.Unsaved, l.Path)) + "\n"
	for _, item := range l.Items {
		lines += "        " + text.Visible(item) + "\n"
	}
	return lines
}

// TrashRow is a workspace in the trash, as symphony trash lists it.
type TrashRow struct {
	IssueID    string    `json:"issue_id"`
	Identifier string    `json:"issue_identifier"`
	Path       string    `json:"path"`
	Bytes      int64     `json:"bytes"`
	RemovedAt  time.Time `json:"removed_at"`
	// DeletedAt is when a pass may delete it, null if it is kept because of unsaved work.
	DeletedAt *time.Time `json:"deleted_at"`
	Unsaved   *string    `json:"unsaved"`
	// Discarded: an operator has accepted the loss of Unsaved.
	Discarded  bool `json:"discarded"`
	Restorable bool `json:"restorable"`
	loss       loss
	root       *workspace.Root
	entry      workspace.Removed
}

// RestoreJSON is a restored workspace, as restore --json prints it.
type RestoreJSON struct {
	Restored string `json:"restored"` // the path of the workspace
}

// Restore brings the workspace of an issue back from the trash: the one that was removed last, unless ref is the name of an entry.
func Restore(ctx context.Context, p *project.Project, ref string) (RestoreJSON, error) {
	if err := p.Nested(); err != nil {
		return RestoreJSON{}, err
	}
	release, err := lockProject(ctx, p.Env, p.StateDir)
	if err != nil {
		return RestoreJSON{}, err
	}
	path, err := restore(ctx, p, ref)
	return RestoreJSON{path}, errors.Join(err, release())
}

func restore(ctx context.Context, p *project.Project, ref string) (path string, err error) {
	db, err := project.OpenForReading(ctx, p)
	if err != nil {
		return "", err
	}
	ref = project.IssueName(ctx, p, db, ref)
	db.Close()
	rows, err := Trash(ctx, p)
	if err != nil {
		return "", err
	}
	rows = slices.DeleteFunc(rows, func(r TrashRow) bool {
		return !slices.Contains([]string{r.Identifier, r.IssueID, filepath.Base(r.Path)}, ref)
	})
	if len(rows) == 0 {
		return "", reconcile.NewError("not_in_trash", "no workspace of "+ref+" is in the trash", "symphony trash lists what is there")
	}
	last := slices.MaxFunc(rows, func(a, b TrashRow) int { return a.RemovedAt.Compare(b.RemovedAt) })
	return last.root.Restore(last.entry)
}

// Trash returns the removed workspaces of a project, in all roots that it has used.
func Trash(ctx context.Context, p *project.Project) (TrashJSON, error) {
	cfg, err := p.ConfigWithoutKey()
	if err != nil {
		return nil, err
	}
	db, err := project.OpenForReading(ctx, p)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	roots, err := allRoots(ctx, cfg, db)
	if err != nil {
		return nil, err
	}
	return trashOf(ctx, p, cfg, roots)
}

// trashOf lists what a project has in the trash of its roots.
func trashOf(ctx context.Context, p *project.Project, cfg *workflow.Config, roots []*workspace.Root) ([]TrashRow, error) {
	rows := []TrashRow{} // in JSON an empty list
	for _, root := range roots {
		root.Trash = workspace.Trash{Project: cfg.Policy.Project, Keep: cfg.Workspace.KeepRemoved}
		list, err := listTrash(ctx, p.Env, root, cfg.Policy.Project)
		if err != nil {
			return nil, err
		}
		rows = append(rows, list...)
	}
	return rows, nil
}

// listTrash lists what projects have in the trash of a root.
func listTrash(ctx context.Context, w *environ.Env, root *workspace.Root, projects ...string) (rows []TrashRow, err error) {
	entries, err := root.Removed(ctx, w.Now(), projects...)
	for _, e := range entries {
		r := TrashRow{
			Identifier: e.Key, Path: e.Path, RemovedAt: e.At.UTC(), Unsaved: text.OrNull(e.Unsaved), Discarded: e.Discarded,
			Restorable: e.Record != nil, loss: loss{e.Path, e.Unsaved, e.Items}, root: root, entry: e,
		}
		if e.Record != nil { // otherwise the key has to do
			r.IssueID, r.Identifier = e.Record.IssueID, e.Record.Identifier
		}
		if e.Unsaved == "" || e.Discarded {
			r.DeletedAt = new(e.Due.UTC())
		}
		if r.Bytes, err = diskUsage(ctx, e.Path); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, err
}

// allRoots opens the workspace roots that a project has used, and the one that it uses now.
func allRoots(ctx context.Context, cfg *workflow.Config, db *state.DB) ([]*workspace.Root, error) {
	roots, err := project.RootsOf(ctx, db)
	if err != nil {
		return nil, err
	}
	if current := project.Policy(cfg).WorkspaceRoot; !slices.Contains(roots, current) {
		roots = append([]string{current}, roots...)
	}
	return openRoots(roots)
}
