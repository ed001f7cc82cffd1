package cleanup

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/state"
)

// loss is work that exists nowhere else, and its place.
type loss struct {
	Path    string   `json:"path"`
	Unsaved string   `json:"unsaved,omitempty"`
	Items   []string `json:"unsaved_items,omitempty"`
}

func newLoss(path string, u host.Unsaved) loss {
	return loss{Path: path, Unsaved: u.Work, Items: u.Items}
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

// TrashRow is a workspace in the trash, as symphony restore lists it.
type TrashRow struct {
	IssueID    string    `json:"issue_id"`
	Identifier string    `json:"issue_identifier"`
	Path       string    `json:"path"`
	Bytes      int64     `json:"bytes"`
	RemovedAt  time.Time `json:"removed_at"`
	// DeletedAt is when a pass may delete it, null if it is kept because of unsaved work.
	DeletedAt *time.Time `json:"deleted_at"`
	Unsaved   *string    `json:"unsaved"`
	// Discarded: an operator accepted the loss of Unsaved.
	Discarded  bool `json:"discarded"`
	Restorable bool `json:"restorable"`
	loss       loss
	root       string
}

// RestoreJSON is a restored workspace, as restore --json prints it.
type RestoreJSON struct {
	Restored string `json:"restored"` // the path of the workspace
}

// Restore brings a workspace back from the trash. ref is the name of an entry, or an issue: then
// the workspace that was removed last is restored.
func Restore(ctx context.Context, p *wiring.Project, ref string) (RestoreJSON, error) {
	if err := p.Nested(); err != nil {
		return RestoreJSON{}, err
	}
	release, err := wiring.LockProject(ctx, p.Env, p.StateDir)
	if err != nil {
		return RestoreJSON{}, err
	}
	path, err := restore(ctx, p, ref)
	return RestoreJSON{path}, errors.Join(err, release())
}

func restore(ctx context.Context, p *wiring.Project, ref string) (path string, err error) {
	db, err := wiring.OpenForReading(ctx, p)
	if err != nil {
		return "", err
	}
	defer db.Close()
	id, ref, err := wiring.IssueName(ctx, db, ref)
	if err != nil {
		return "", err
	}
	if id != "" {
		if err := wiring.RefuseElsewhere(ctx, db, id, "restore"); err != nil {
			return "", err
		}
	}
	rows, err := Trash(ctx, p)
	if err != nil {
		return "", err
	}
	rows = slices.DeleteFunc(rows, func(r TrashRow) bool {
		return !slices.Contains([]string{r.Identifier, r.IssueID, filepath.Base(r.Path)}, ref)
	})
	if len(rows) == 0 {
		return "", reconcile.NewError(
			"not_found",
			"no workspace of "+ref+" is in the trash",
			"symphony restore lists what is there",
		)
	}
	last := slices.MaxFunc(rows, func(a, b TrashRow) int { return a.RemovedAt.Compare(b.RemovedAt) })
	restored, err := wiring.ThisMachine().Restore(ctx, host.TrashRequest{
		Root: last.root,
		Path: last.Path,
	})
	return restored.Path, err
}

// Trash returns the removed workspaces of a project, in all roots that it ever used.
func Trash(ctx context.Context, p *wiring.Project) (TrashJSON, error) {
	cfg, err := p.ConfigWithoutKey()
	if err != nil {
		return nil, err
	}
	db, err := wiring.OpenForReading(ctx, p)
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

// trashOf lists the trash of a project in its roots.
func trashOf(
	ctx context.Context,
	p *wiring.Project,
	cfg *workflow.Config,
	roots []string,
) ([]TrashRow, error) {
	rows := []TrashRow{} // in JSON an empty list
	for _, root := range roots {
		list, err := listTrash(ctx, host.ProjectTrash{
			Root:        root,
			Project:     cfg.Policy.Project,
			KeepRemoved: cfg.Workspace.KeepRemoved,
			Now:         p.Env.Now(),
		})
		if err != nil {
			return nil, err
		}
		rows = append(rows, list...)
	}
	return rows, nil
}

// listTrash lists the trash of a project of the tracker in a root.
func listTrash(ctx context.Context, t host.ProjectTrash) (rows []TrashRow, err error) {
	entries, err := wiring.ThisMachine().ListTrash(ctx, t)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		row := TrashRow{
			IssueID:    e.IssueID,
			Identifier: e.Identifier,
			Path:       e.Path,
			Bytes:      e.Bytes,
			RemovedAt:  e.At.UTC(),
			Unsaved:    text.OrNull(e.Unsaved.Work),
			Discarded:  e.Discarded,
			Restorable: e.Restorable,
			loss:       newLoss(e.Path, e.Unsaved),
			root:       t.Root,
		}
		if e.Unsaved.Work == "" || e.Discarded {
			row.DeletedAt = new(e.Due.UTC())
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// allRoots returns every workspace root on this machine that a project used or uses now.
func allRoots(ctx context.Context, cfg *workflow.Config, db *state.DB) ([]string, error) {
	roots, err := wiring.RootsOf(ctx, db)
	if err != nil {
		return nil, err
	}
	if len(cfg.Policy.Hosts) > 0 { // workspaces are elsewhere
		return roots, nil
	}
	current := wiring.Policy(cfg).WorkspaceRoot
	if !slices.Contains(roots, current) {
		roots = append([]string{current}, roots...)
	}
	return roots, nil
}
