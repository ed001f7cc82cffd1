package cleanup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/text"
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

// removed is a workspace in the trash, as symphony trash lists it.
type removed struct {
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

// RestoreJSON is what restore --json prints.
type RestoreJSON struct {
	Restored string `json:"restored"` // the path of the workspace
}

// ListTrash prints the removed workspaces of a project.
func ListTrash(ctx context.Context, p *project.Project) error {
	rows, err := readTrash(ctx, p)
	if err != nil {
		return err
	}
	w := p.Env
	switch {
	case w.JSON:
		w.PrintJSON(rows)
		return nil
	case len(rows) == 0:
		fmt.Fprintln(w.Stdout, "the trash is empty")
		return nil
	}
	t := term.Table{Head: []string{"ISSUE", "SIZE", "REMOVED", "DELETED", "UNSAVED WORK", "NAME"}}
	for _, r := range rows {
		size, deleted, work := text.BytesText(r.Bytes), "kept", cmp.Or(r.loss.Unsaved, "none")
		if w.Width == 0 {
			size = fmt.Sprint(r.Bytes)
		}
		switch at := r.DeletedAt; {
		case at != nil && w.Width == 0:
			deleted = text.Rfc3339(*at)
		case at != nil && !at.After(w.Now()):
			deleted = "by the next pass that cleans up"
		case at != nil:
			deleted = "in " + text.Duration(at.Sub(w.Now()))
		}
		if r.Discarded && r.Unsaved != nil {
			work += " (discarded)"
		}
		t.Add(r.Identifier, size, term.AgoText(w, w.Now(), r.RemovedAt), deleted, work, filepath.Base(r.Path))
	}
	w.PrintTable("TRASH", t)
	return nil
}

// Restore brings the workspace of an issue back from the trash: the one that was removed last, unless ref is the name of an entry.
func Restore(ctx context.Context, p *project.Project, ref string) error {
	if err := p.Nested(); err != nil {
		return err
	}
	release, err := lockProject(ctx, p.Env, p.StateDir)
	if err != nil {
		return err
	}
	path, err := restore(ctx, p, ref)
	if err := errors.Join(err, release()); err != nil {
		return err
	}
	printResult(p.Env, RestoreJSON{path}, "restored "+path+"; passes do not remove it before a run has used it")
	return nil
}

func restore(ctx context.Context, p *project.Project, ref string) (path string, err error) {
	db, err := project.OpenForReading(ctx, p)
	if err != nil {
		return "", err
	}
	ref = project.IssueName(ctx, p, db, ref)
	db.Close()
	rows, err := readTrash(ctx, p)
	if err != nil {
		return "", err
	}
	rows = slices.DeleteFunc(rows, func(r removed) bool {
		return !slices.Contains([]string{r.Identifier, r.IssueID, filepath.Base(r.Path)}, ref)
	})
	if len(rows) == 0 {
		return "", exit.Fault("not_in_trash", "no workspace of "+ref+" is in the trash", "symphony trash lists what is there")
	}
	last := slices.MaxFunc(rows, func(a, b removed) int { return a.RemovedAt.Compare(b.RemovedAt) })
	return last.root.Restore(last.entry)
}

// readTrash lists the trash of the roots that a project has used.
func readTrash(ctx context.Context, p *project.Project) ([]removed, error) {
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
func trashOf(ctx context.Context, p *project.Project, cfg *workflow.Config, roots []*workspace.Root) ([]removed, error) {
	rows := []removed{} // in JSON an empty list
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
func listTrash(ctx context.Context, w *term.Env, root *workspace.Root, projects ...string) (rows []removed, err error) {
	entries, err := root.Removed(ctx, w.Now(), projects...)
	for _, e := range entries {
		r := removed{
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
