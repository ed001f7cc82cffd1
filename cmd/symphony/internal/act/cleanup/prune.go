// Package cleanup removes files that symphony made and no longer needs: prune cleans a
// project, projects remove removes it completely. Both search, ask, take the project lock,
// search again, and then remove.
package cleanup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/state"
)

// KeepRuns is the default of --older-than: runs that began or ended within this time are kept.
const KeepRuns = 7 * 24 * time.Hour

// maxPastIssues limits how many issues a prune asks the tracker about.
const maxPastIssues = 1000

// PruneOptions select the things that Prune removes, and how the operator is asked.
type PruneOptions struct {
	DryRun    bool // nothing is removed
	Force     bool // work that exists nowhere else is removed, too
	OlderThan time.Duration
	// Issues are the identifiers or ids of the only issues to remove something of; empty for
	// all.
	Issues []string
	// Confirm is asked before anything is removed. Its error is returned; nil: nothing is asked.
	Confirm func(context.Context, *PruneJSON) error
	Log     *slog.Logger
}

// PruneJSON lists the things that a prune removes and keeps, as --json prints them.
type PruneJSON struct {
	DryRun     bool          `json:"dry_run"`
	Workspaces []Space       `json:"workspaces"`
	Kept       []Space       `json:"kept"`
	Trash      []prunedTrash `json:"trash"`
	Runs       []prunedRuns  `json:"runs"`
	KeptTrash  []loss        `json:"kept_trash"`
	// KeptRuns are finished issues that were worked on on another machine. This machine holds
	// commits of them that exist nowhere else.
	KeptRuns []prunedRuns `json:"kept_runs"`
	// RunDirs are run directories without a row in the database.
	RunDirs []string `json:"run_directories"`

	// how long the trash keeps a workspace; 0: it is deleted at once
	KeptFor  time.Duration `json:"-"`
	Warnings []string      `json:"-"` // things that could not be deleted or examined

	names []string // ids and identifiers of the issues of which something was found
}

type prunedTrash struct {
	Path    string `json:"path"`
	Entries int    `json:"entries"`
	Bytes   int64  `json:"bytes"`
	// Discarded are the entries with unsaved work.
	Discarded []loss `json:"discarded"`
	rows      []TrashRow
}

type prunedRuns struct {
	IssueID    string `json:"issue_id"`
	Identifier string `json:"issue_identifier"`
	Runs       int    `json:"runs"`
	Why        string `json:"why"`
	// Commits are in a mirror of this machine, and were not delivered to a remote.
	Commits []loss `json:"commits"`
}

// pruner is a call of symphony prune.
type pruner struct {
	p       *wiring.Project
	cfg     *workflow.Config
	options PruneOptions
	// agreed maps the workspaces and entries of the trash that the operator agreed to remove
	// to the work that each had; nil before the operator agreed.
	agreed map[string]string
}

// Prune removes the trash, the workspaces and runs of issues that are finished or no longer in
// the tracker, and run directories without a row.
func Prune(ctx context.Context, p *wiring.Project, o PruneOptions) (*PruneJSON, error) {
	if err := p.Nested(); err != nil {
		return nil, err
	}
	cfg, err := p.Config()
	if err != nil {
		return nil, err
	}
	o.Issues, err = issueNames(ctx, p, o.Issues)
	if err != nil {
		return nil, err
	}
	c := &pruner{p: p, cfg: cfg, options: o}
	found, err := c.find(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.refuseUnknown(ctx, found); err != nil {
		return nil, err
	}
	if o.DryRun || found.Empty() {
		return found, nil
	}
	if o.Confirm != nil {
		if err := o.Confirm(ctx, found); err != nil {
			return nil, err
		}
	}
	release, err := wiring.LockProject(ctx, p.Env, p.StateDir)
	if err != nil {
		return nil, err
	}
	// While the operator was asked, an issue may have been reopened or a workspace changed.
	c.agreed = found.work()
	found, err = c.findAndRemove(ctx)
	return found, errors.Join(err, release())
}

// issueNames returns the names of issues, for which an operator may also give their addresses,
// such as https://linear.app/acme/issue/ABC-7.
func issueNames(ctx context.Context, p *wiring.Project, refs []string) (names []string, err error) {
	if len(refs) == 0 {
		return nil, nil
	}
	db, err := wiring.OpenForReading(ctx, p)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	for _, ref := range refs {
		_, name, err := wiring.IssueName(ctx, db, ref)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// work maps each item to remove to its unsaved work.
func (f *PruneJSON) work() map[string]string {
	work := map[string]string{}
	for _, s := range f.Workspaces {
		work[s.Path] = s.work()
	}
	for _, t := range f.Trash {
		for _, r := range t.rows {
			work[r.Path] = r.loss.work()
		}
	}
	for _, r := range f.Runs {
		for _, l := range r.Commits {
			work[l.Path] = l.work()
		}
	}
	return work
}

// findAndRemove searches again, and removes the items that the operator agreed to.
func (c *pruner) findAndRemove(ctx context.Context) (*PruneJSON, error) {
	found, err := c.find(ctx)
	if err != nil {
		return nil, err
	}
	return found, c.remove(context.WithoutCancel(ctx), found)
}

// claimedIn returns the issues with a claim or an unsettled run.
func claimedIn(rec reconcile.State) map[string]bool {
	claimed := map[string]bool{}
	for _, claim := range rec.Claims {
		claimed[claim.IssueID] = true
	}
	for _, r := range rec.Runs {
		claimed[r.IssueID] = true
	}
	return claimed
}

// find reads the state, the workspaces and the trash, and asks the tracker. It changes
// nothing.
func (c *pruner) find(ctx context.Context) (*PruneJSON, error) {
	f := &PruneJSON{
		DryRun:     c.options.DryRun,
		Workspaces: []Space{},
		Kept:       []Space{},
		Trash:      []prunedTrash{},
		Runs:       []prunedRuns{},
		KeptTrash:  []loss{},
		KeptRuns:   []prunedRuns{},
		RunDirs:    []string{},
		KeptFor:    c.cfg.Workspace.KeepRemoved,
	}
	db, err := wiring.OpenForReading(ctx, c.p)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	rec, err := db.Store.State(ctx)
	if err != nil {
		return nil, err
	}
	past, err := db.Views.PastIssues(ctx, c.p.Env.Now().Add(-c.options.OlderThan), maxPastIssues)
	if err != nil {
		return nil, err
	}
	roots, err := allRoots(ctx, c.cfg, db)
	if err != nil {
		return nil, err
	}
	spaces, err := listSpaces(ctx, c.p.StateDir, roots)
	if err != nil {
		return nil, err
	}
	claimed := claimedIn(rec) // nothing of these issues is removed
	spaces = text.Filter(spaces, func(s Space) bool {
		return !claimed[s.IssueID] && s.rec.Project == c.cfg.Policy.Project &&
			c.wants(s.IssueID, s.Identifier)
	})
	past = text.Filter(past, func(i state.PastIssue) bool { return c.wants(i.IssueID, i.Identifier) })
	why, err := c.finished(ctx, spaces, past)
	if err != nil {
		return nil, err
	}
	c.selectSpaces(f, spaces, why)
	c.selectRuns(ctx, f, db, past, why)
	if err := c.findTrash(ctx, f, roots); err != nil {
		return nil, err
	}
	if len(c.options.Issues) == 0 {
		if err := c.findRunDirs(ctx, f, db); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// selectSpaces selects the workspaces of finished issues. why maps the finished issues to the
// reason.
func (c *pruner) selectSpaces(f *PruneJSON, spaces []Space, why map[string]string) {
	for _, s := range spaces {
		s.Why = why[s.IssueID]
		if s.Why == "" {
			continue
		}
		f.names = append(f.names, s.IssueID, s.Identifier)
		if !s.InUse && c.mayRemove(s.loss) {
			f.Workspaces = append(f.Workspaces, s)
		} else {
			f.Kept = append(f.Kept, s)
		}
	}
}

// selectRuns selects the runs of finished issues, unless a mirror keeps the only copy of their
// commits.
func (c *pruner) selectRuns(
	ctx context.Context,
	f *PruneJSON,
	db *state.DB,
	past []state.PastIssue,
	why map[string]string,
) {
	for _, i := range past {
		if why[i.IssueID] == "" {
			continue
		}
		f.names = append(f.names, i.IssueID, i.Identifier)
		commits, err := c.keptHere(ctx, db, i)
		if err != nil {
			f.Warnings = append(f.Warnings, i.Identifier+" stays: "+
				"it is not known which of its commits only this machine has: "+err.Error())
			continue
		}
		runs := prunedRuns{
			IssueID:    i.IssueID,
			Identifier: i.Identifier,
			Runs:       i.Runs,
			Why:        why[i.IssueID],
			Commits:    commits,
		}
		if slices.ContainsFunc(commits, func(l loss) bool { return !c.mayRemove(l) }) {
			f.KeptRuns = append(f.KeptRuns, runs)
		} else {
			f.Runs = append(f.Runs, runs)
		}
	}
}

// keptHere returns the undelivered work on an issue from other machines that the mirrors of
// this machine keep. Mirrors are shared, so each path is followed by the commit.
func (c *pruner) keptHere(ctx context.Context, db *state.DB, i state.PastIssue) ([]loss, error) {
	kept, err := wiring.KeptHere(ctx, c.p, db, i.IssueID)
	if err != nil {
		return nil, err
	}
	return text.Map(kept, func(k host.Kept) loss {
		return loss{
			Path:    k.Mirror + " " + k.Commit,
			Unsaved: text.Plural(len(k.Commits), "commit") + " not on any remote",
			Items:   k.Commits,
		}
	}), nil
}

// findRunDirs selects the run directories without a row that are neither new nor in use.
func (c *pruner) findRunDirs(ctx context.Context, f *PruneJSON, db *state.DB) error {
	dirs, err := wiring.Rowless(ctx, c.p, db)
	if err != nil {
		return err
	}
	for _, e := range dirs {
		info, err := e.Info()
		if err != nil { // it was just removed
			continue
		}
		isOld := c.p.Env.Now().Sub(info.ModTime()) >= wiring.OrphanAge
		if isOld && !wiring.Alive(c.p.StateDir, e.Name()) {
			f.RunDirs = append(f.RunDirs, host.RunDir(c.p.StateDir, e.Name()))
		}
	}
	return nil
}

// mayRemove reports whether something may be removed, together with its unsaved work: the
// operator agreed to lose exactly this, or will be asked.
func (c *pruner) mayRemove(l loss) bool {
	if c.agreed == nil {
		return l.Unsaved == "" || c.options.Force
	}
	work, agreed := c.agreed[l.Path]
	return agreed && (l.Unsaved == "" || work == l.work())
}

// finished maps the issues that are in a final state, or no longer in the tracker, to the
// reason in words. It verifies the project first: with the key of another Linear workspace
// every issue would be missing.
func (c *pruner) finished(
	ctx context.Context,
	spaces []Space,
	past []state.PastIssue,
) (map[string]string, error) {
	ids := text.Map(spaces, func(s Space) string { return s.IssueID })
	ids = append(ids, text.Map(past, func(i state.PastIssue) string { return i.IssueID })...)
	why := map[string]string{}
	if len(ids) == 0 {
		return why, nil
	}
	tracker, err := wiring.NewTracker(c.p, c.cfg, wiring.TrackerOptions{})
	if err != nil {
		return nil, err
	}
	issues, err := wiring.VerifyNames(tracker, nil, c.cfg, c.p.Path, func(string) {}).ByIDs(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		issue, there := issues[id]
		switch {
		case !there:
			why[id] = "not in the tracker"
		case c.cfg.Policy.Terminal(issue.State):
			why[id] = issue.State
		}
	}
	return why, nil
}

// wants reports whether something of an issue with these names may be removed.
func (c *pruner) wants(names ...string) bool {
	if len(c.options.Issues) == 0 {
		return true
	}
	return slices.ContainsFunc(names, func(name string) bool {
		return slices.Contains(c.options.Issues, name)
	})
}

// refuseUnknown returns an error for an issue of the command line of which nothing was found.
func (c *pruner) refuseUnknown(ctx context.Context, f *PruneJSON) error {
	for _, name := range c.options.Issues {
		if !slices.Contains(f.names, name) {
			return c.whyKept(ctx, name)
		}
	}
	return nil
}

// whyKept is the error for an issue of which nothing is removed.
func (c *pruner) whyKept(ctx context.Context, name string) error {
	db, err := wiring.OpenForReading(ctx, c.p)
	if err != nil {
		return err
	}
	defer db.Close()
	id, _, known, err := db.Views.FindIssue(ctx, name)
	if err != nil {
		return err
	}
	claim, _, err := db.Views.ClaimByIssue(ctx, id)
	if err != nil {
		return err
	}
	if claim.Status == reconcile.Running {
		return reconcile.NewError("not_possible", "nothing of "+name+" is removed: an agent is at work on it",
			"symphony wait "+name+" waits for its end")
	}
	if !known {
		return reconcile.NewError("issue_not_found", name+" is not known here", "symphony ps --all lists the known issues")
	}
	return reconcile.NewError(
		"not_possible",
		"nothing of "+name+" is removed: it is not finished, or had a run in the last "+text.Duration(c.options.OlderThan),
		"symphony show "+name+" says what it waits for; --older-than 0s removes the runs of a finished issue, too",
	)
}

// findTrash selects the contents of this project's trash, however recent, except work that
// exists nowhere else. The rows of a root follow one another.
func (c *pruner) findTrash(ctx context.Context, f *PruneJSON, roots []string) error {
	rows, err := trashOf(ctx, c.p, c.cfg, roots)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if !c.wants(r.IssueID, r.Identifier) {
			continue
		}
		f.names = append(f.names, r.IssueID, r.Identifier)
		if r.Discarded || c.mayRemove(r.loss) {
			f.addTrash(r)
		} else if r.Unsaved != nil {
			f.KeptTrash = append(f.KeptTrash, r.loss)
		}
	}
	return nil
}

// addTrash adds an entry to the trash of its root.
func (f *PruneJSON) addTrash(r TrashRow) {
	n := len(f.Trash)
	if n == 0 || f.Trash[n-1].rows[0].root != r.root {
		f.Trash = append(f.Trash, prunedTrash{Path: filepath.Dir(r.Path), Discarded: []loss{}})
	}
	t := &f.Trash[len(f.Trash)-1]
	t.Entries++
	t.Bytes += r.Bytes
	t.rows = append(t.rows, r)
	if r.loss.Unsaved != "" {
		t.Discarded = append(t.Discarded, r.loss)
	}
}

// remove deletes the things that find selected, and updates f to list the things that it
// deleted. The caller holds the project lock, so that no run starts.
func (c *pruner) remove(ctx context.Context, f *PruneJSON) error {
	db, err := state.Open(ctx, c.p.StateDir)
	if err != nil {
		return wiring.NoState(c.p, err, wiring.FirstPass, reconcile.CommandFor("tick", ""))
	}
	defer db.Close()
	f.deleteTrash(ctx)
	selected := f.Workspaces
	f.Workspaces = []Space{}
	for _, s := range selected {
		left, err := c.removeSpace(ctx, s)
		if err != nil {
			return err
		}
		if left != nil {
			f.Kept = append(f.Kept, *left)
		} else {
			f.Workspaces = append(f.Workspaces, s)
		}
	}
	for i, r := range f.Runs {
		if err := wiring.ForgetKept(ctx, c.p, r.IssueID); err != nil {
			return err
		}
		ids, err := db.Operator.ForgetIssue(ctx, r.IssueID)
		if err != nil {
			return err
		}
		f.Runs[i].Runs = len(ids)
		for _, id := range ids {
			f.RunDirs = append(f.RunDirs, host.RunDir(c.p.StateDir, id))
		}
	}
	for _, dir := range f.RunDirs {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove old run: %w", err)
		}
		crash.At("prune.run")
	}
	return nil
}

// deleteTrash deletes the selected entries of the trash, and lists only the deleted ones.
func (f *PruneJSON) deleteTrash(ctx context.Context) {
	selected := f.Trash
	f.Trash = []prunedTrash{}
	for _, t := range selected {
		for _, r := range t.rows {
			err := wiring.ThisMachine().DeleteTrash(ctx, host.TrashRequest{Root: r.root, Path: r.Path})
			if err != nil {
				f.Warnings = append(f.Warnings, "could not be deleted: "+err.Error())
				continue
			}
			f.addTrash(r)
		}
	}
}

// removeSpace moves a workspace to the trash as a cleanup run does. It returns the workspace
// if it stays: because a run took its lease since, or because it now contains unsaved work,
// for instance from the hook before_remove.
func (c *pruner) removeSpace(ctx context.Context, s Space) (left *Space, err error) {
	issue := reconcile.Issue{ID: s.IssueID, Identifier: s.Identifier}
	holding := wiring.NewHolding(c.p, c.cfg.ForIssue(issue.Labels, ""), issue, s.rec.Root, c.options.Log)
	defer func() { err = errors.Join(err, holding.Release(ctx)) }()
	unsaved, err := holding.CleanUp(ctx, s.Unsaved != "")
	if err != nil {
		if exit.From(err).Code != reconcile.CodeWorkspaceBusy {
			return nil, err
		}
		s.InUse = true
		return &s, nil
	}
	if unsaved != "" {
		s.loss = loss{Path: s.Path, Unsaved: unsaved} // the items that were found before may differ
		return &s, nil
	}
	return nil, nil
}

// Empty reports whether there is nothing to remove.
func (f *PruneJSON) Empty() bool {
	return len(f.Trash)+len(f.Workspaces)+len(f.Runs)+len(f.RunDirs) == 0
}
