package cleanup

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
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
	// Host is the machine that has it, null for this one.
	Host  *string `json:"host"`
	loss  loss
	root  string
	place *place
}

// Name is the name of the entry, after that of its host and a colon if that is another machine.
func (r TrashRow) Name() string {
	return reconcile.Workspace{Host: text.OrEmpty(r.Host), Path: filepath.Base(r.Path)}.Where()
}

// RestoreJSON is a restored workspace, as restore --json prints it.
type RestoreJSON struct {
	Restored string `json:"restored"` // the path of the workspace, after the name of its host and a colon if that is another machine
}

// Restore brings the workspace of an issue back from the trash: the one that was removed last, unless ref is the name of an entry.
func Restore(ctx context.Context, p *project.Project, ref string) (restored RestoreJSON, err error) {
	if err := p.Nested(); err != nil {
		return restored, err
	}
	cfg, err := p.ConfigWithoutKey()
	if err != nil {
		return restored, err
	}
	db, err := state.Open(ctx, p.StateDir)
	if err != nil {
		return restored, project.NoState(p, err)
	}
	defer db.Close()
	all, unreached := openPlaces(ctx, p, cfg, db)
	defer func() { err = errors.Join(err, all.close()) }()
	release, err := lockProject(ctx, p.Env, p.StateDir)
	if err != nil {
		return restored, err
	}
	defer func() { err = errors.Join(err, release()) }()
	rows, err := all.trash(ctx, p, cfg)
	if err != nil {
		return restored, err
	}
	ref = project.IssueName(ctx, p, db, ref)
	rows = slices.DeleteFunc(rows, func(r TrashRow) bool {
		return !slices.Contains([]string{r.Identifier, r.IssueID, filepath.Base(r.Path)}, ref)
	})
	switch {
	case len(rows) == 0 && unreached != nil:
		return restored, unreached
	case len(rows) == 0:
		return restored, reconcile.NewError("not_in_trash", "no workspace of "+ref+" is in the trash", "symphony trash lists what is there")
	}
	last := slices.MaxFunc(rows, func(a, b TrashRow) int { return a.RemovedAt.Compare(b.RemovedAt) })
	answer, err := last.place.Restore(ctx, host.TrashRequest{Root: last.root, Path: last.Path})
	if err == nil {
		err = last.place.record(ctx, db, last.IssueID, last.root)
	}
	return RestoreJSON{last.place.where(answer.Path)}, err
}

// Trash returns the removed workspaces of a project, in all roots that it has used. An error that comes with rows describes machines that
// do not answer.
func Trash(ctx context.Context, p *project.Project) (rows []TrashRow, err error) {
	cfg, err := p.ConfigWithoutKey()
	if err != nil {
		return nil, err
	}
	db, err := project.OpenForReading(ctx, p)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	all, unreached := openPlaces(ctx, p, cfg, db)
	defer func() { err = errors.Join(err, all.close()) }()
	if rows, err = all.trash(ctx, p, cfg); err != nil {
		return nil, err
	}
	return rows, unreached
}

// trash lists what a project has in the trash of its roots.
func (p places) trash(ctx context.Context, of *project.Project, cfg *workflow.Config) ([]TrashRow, error) {
	rows := []TrashRow{} // in JSON an empty list
	for _, one := range p.list() {
		for _, root := range one.roots {
			list, err := one.trash(ctx, host.RootRequest{
				Root: root, Project: cfg.Policy.Project, KeepRemoved: cfg.Workspace.KeepRemoved, Now: of.Env.Now(),
			})
			if err != nil {
				return nil, err
			}
			rows = append(rows, list...)
		}
	}
	return rows, nil
}

// trash lists what a project of the tracker has in the trash of a root.
func (p *place) trash(ctx context.Context, r host.RootRequest) (rows []TrashRow, err error) {
	entries, err := p.ListTrash(ctx, r)
	for _, e := range entries {
		row := TrashRow{
			IssueID: e.IssueID, Identifier: e.Identifier, Path: e.Path, Bytes: e.Bytes, RemovedAt: e.At.UTC(), Unsaved: text.OrNull(e.Unsaved.Work),
			Discarded: e.Discarded, Restorable: e.Restorable, Host: text.OrNull(p.name),
			loss: newLoss(p.where(e.Path), e.Unsaved), root: r.Root, place: p,
		}
		if e.Unsaved.Work == "" || e.Discarded {
			row.DeletedAt = new(e.Due.UTC())
		}
		rows = append(rows, row)
	}
	return rows, err
}

// allRoots returns the workspace roots that a project has used, and the one that it uses now.
func allRoots(ctx context.Context, cfg *workflow.Config, db *state.DB) ([]string, error) {
	roots, err := project.RootsOf(ctx, db)
	if current := project.Policy(cfg).WorkspaceRoot; err == nil && !slices.Contains(roots, current) {
		roots = append([]string{current}, roots...)
	}
	return roots, err
}
