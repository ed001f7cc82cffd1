package cleanup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/host/local/git"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
	"github.com/symphony-cron/symphony/state"
)

// KeepRuns is the default of --older-than: runs that began or ended within this time stay.
const KeepRuns = 7 * 24 * time.Hour

// maxPastIssues bounds how many issues one prune asks the tracker about.
const maxPastIssues = 1000

// PruneOptions are the flags of symphony prune.
type PruneOptions struct {
	DryRun, Yes, Force bool
	OlderThan          time.Duration
}

// pruned is what one prune removes and keeps, as --json prints it.
type pruned struct {
	DryRun     bool          `json:"dry_run"`
	Workspaces []prunedSpace `json:"workspaces"`
	Kept       []prunedSpace `json:"kept"`
	Trash      []prunedTrash `json:"trash"`
	Runs       []prunedRuns  `json:"runs"`
	KeptTrash  []keptTrash   `json:"kept_trash"`
	// RunDirs are run directories without a row in the database.
	RunDirs []string `json:"run_directories"`
}

type prunedSpace struct {
	IssueID    string  `json:"issue_id"`
	Identifier string  `json:"issue_identifier"`
	Path       string  `json:"path"`
	Bytes      int64   `json:"bytes"`
	Why        string  `json:"why"`
	InUse      bool    `json:"in_use"`
	Unsaved    *string `json:"unsaved"`
	space      space
}

type prunedTrash struct {
	Path    string `json:"path"`
	Entries int    `json:"entries"`
	Bytes   int64  `json:"bytes"`
	root    *workspace.Root
}

type keptTrash struct {
	Path    string `json:"path"`
	Unsaved string `json:"unsaved"`
}

type prunedRuns struct {
	IssueID    string `json:"issue_id"`
	Identifier string `json:"issue_identifier"`
	Runs       int    `json:"runs"`
	Why        string `json:"why"`
}

func newPrunedSpace(s space, why string) prunedSpace {
	return prunedSpace{s.rec.IssueID, s.rec.Identifier, s.rec.Path, s.size, why, s.inUse, term.OrNull(s.unsaved), s}
}

// pruner is one call of symphony prune.
type pruner struct {
	p       *project.Project
	cfg     *workflow.Config
	options PruneOptions
	// claimed holds the issues that have a claim or an unsettled run: nothing of theirs is removed.
	claimed map[string]bool
	found   pruned
}

// Prune removes the trash, workspaces and runs of issues that are finished or gone from the tracker, and run directories
// without a row.
func Prune(ctx context.Context, p *project.Project, o PruneOptions) error {
	if err := p.Nested(); err != nil {
		return err
	}
	cfg, err := p.Config()
	if err != nil {
		return err
	}
	c := &pruner{p: p, cfg: cfg, options: o, claimed: map[string]bool{}, found: pruned{
		DryRun: o.DryRun, Workspaces: []prunedSpace{}, Kept: []prunedSpace{}, Trash: []prunedTrash{}, Runs: []prunedRuns{},
		KeptTrash: []keptTrash{}, RunDirs: []string{},
	}}
	if err := c.find(ctx); err != nil {
		return err
	}
	if !o.DryRun && !o.Yes && p.Env.OnTerminal() {
		if err := c.askAboutUnsaved(ctx); err != nil {
			return err
		}
	}
	if o.DryRun || c.found.empty() {
		c.report()
		return nil
	}
	if !o.Yes {
		c.found.print(p.Env, "goes")
		if sure, err := Confirm(ctx, p.Env, "Remove? [y]es, [N]o: "); err != nil || !sure {
			return err
		}
	}
	release, err := lockProject(ctx, p.Env, p.StateDir)
	if err != nil {
		return err
	}
	if err = c.dropRevived(ctx); err == nil {
		err = c.remove(context.WithoutCancel(ctx))
	}
	if unlockErr := release(); err == nil {
		err = unlockErr
	}
	if err != nil {
		return err
	}
	c.report()
	return nil
}

// find reads the state, the workspaces and the trash, and asks the tracker. It changes nothing.
func (c *pruner) find(ctx context.Context) error {
	db, err := project.OpenForReading(ctx, c.p)
	if err != nil {
		return err
	}
	defer db.Close()
	rec, err := db.Store.State(ctx)
	if err != nil {
		return err
	}
	for _, claim := range rec.Claims {
		c.claimed[claim.IssueID] = true
	}
	for _, r := range rec.Runs {
		c.claimed[r.IssueID] = true
	}
	roots, err := project.RootsOf(ctx, db)
	if err != nil {
		return err
	}
	if current := project.Policy(c.cfg).WorkspaceRoot; !slices.Contains(roots, current) {
		roots = append([]string{current}, roots...)
	}
	spaces, err := listSpaces(ctx, project.Known{StateDir: c.p.StateDir, Roots: roots})
	if err != nil {
		return err
	}
	past, err := db.Views.PastIssues(ctx, c.p.Env.Now().Add(-c.options.OlderThan), maxPastIssues)
	if err != nil {
		return err
	}
	if err := c.findFinished(ctx, spaces, past); err != nil {
		return err
	}
	if err := c.findTrash(ctx, roots); err != nil {
		return err
	}
	return c.findRunDirs(ctx, db)
}

// findFinished selects the workspaces and runs whose issues are finished or gone.
func (c *pruner) findFinished(ctx context.Context, spaces []space, past []state.PastIssue) error {
	ours := c.cfg.Policy.Project
	spaces = slices.DeleteFunc(spaces, func(s space) bool { return c.claimed[s.rec.IssueID] || s.rec.Project != ours })
	var ids []string
	for _, s := range spaces {
		ids = append(ids, s.rec.IssueID)
	}
	for _, i := range past {
		ids = append(ids, i.IssueID)
	}
	why, err := c.finished(ctx, ids)
	if err != nil {
		return err
	}
	for _, s := range spaces {
		switch reason, gone := why[s.rec.IssueID]; {
		case !gone:
		case s.inUse || s.unsaved != "" && !c.options.Force:
			c.found.Kept = append(c.found.Kept, newPrunedSpace(s, reason))
		default:
			c.found.Workspaces = append(c.found.Workspaces, newPrunedSpace(s, reason))
		}
	}
	for _, i := range past {
		if reason, gone := why[i.IssueID]; gone {
			c.found.Runs = append(c.found.Runs, prunedRuns{i.IssueID, i.Identifier, i.Runs, reason})
		}
	}
	return nil
}

// finished returns, for the issues that are in a terminal state or no longer in the tracker, a word that says which. The
// project is verified first: with the key of another workspace every issue would be missing.
func (c *pruner) finished(ctx context.Context, ids []string) (map[string]string, error) {
	why := map[string]string{}
	if len(ids) == 0 {
		return why, nil
	}
	silent := func(string) {}
	tracker, err := project.NewTracker(c.cfg, c.p.Env.Now, silent)
	if err != nil {
		return nil, err
	}
	issues, err := project.VerifyFirst(tracker, nil, c.cfg, c.p.Path, silent).ByIDs(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if issue, there := issues[id]; !there {
			why[id] = "not in the tracker"
		} else if c.cfg.Policy.Terminal(issue.State) {
			why[id] = issue.State
		}
	}
	return why, nil
}

// findTrash selects what the trash of this project holds, however young, but for work that exists nowhere else.
func (c *pruner) findTrash(ctx context.Context, roots []string) error {
	for _, path := range roots {
		root, exists, err := workspace.FindRoot(path)
		if err != nil {
			return err
		}
		if !exists {
			continue
		}
		root.Trash = workspace.Trash{Project: c.cfg.Policy.Project, Recheck: true, Clock: func() (string, time.Duration, error) {
			boot, err := proc.BootID()
			return boot, proc.Monotonic(), err
		}}
		entries, err := root.ExpiredTrash(c.p.Env.Now(), 0)
		if err != nil {
			return err
		}
		t := prunedTrash{root: root, Path: filepath.Join(root.Path, ".symphony", "trash")}
		for _, e := range entries {
			if work := root.UnsavedInTrash(ctx, e); work != "" && !c.options.Force {
				c.found.KeptTrash = append(c.found.KeptTrash, keptTrash{e, work})
				continue
			}
			size, _, err := diskUsage(ctx, e)
			if err != nil {
				return err
			}
			t.Entries++
			t.Bytes += size
		}
		if t.Entries > 0 || hasStrayNotes(t.Path) {
			c.found.Trash = append(c.found.Trash, t)
		}
	}
	return nil
}

// hasStrayNotes reports notes in the trash about entries that never arrived, because their removal was interrupted.
func hasStrayNotes(trash string) bool {
	notes, _ := filepath.Glob(filepath.Join(trash, "*.note")) // the pattern is well-formed
	return slices.ContainsFunc(notes, func(note string) bool {
		entry := strings.TrimSuffix(note, ".note")
		return !project.Exists(entry) && !project.Exists(entry+".stuck")
	})
}

// findRunDirs selects run directories without a row that are neither new nor in use.
func (c *pruner) findRunDirs(ctx context.Context, db *state.DB) error {
	entries, err := project.Rowless(ctx, c.p, db)
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && c.p.Env.Now().Sub(info.ModTime()) >= project.OrphanAge && !runner.Alive(c.p.StateDir, e.Name()) {
			c.found.RunDirs = append(c.found.RunDirs, runner.RunDir(c.p.StateDir, e.Name()))
		}
	}
	return err
}

// askAboutUnsaved lets the operator name each workspace with unsaved work that is to go. A plain yes would be typed too
// quickly, so the answer is the issue's identifier.
func (c *pruner) askAboutUnsaved(ctx context.Context) error {
	kept := c.found.Kept
	c.found.Kept = []prunedSpace{}
	for _, s := range kept {
		word := ""
		if !s.InUse {
			var err error
			fmt.Fprintln(c.p.Env.Stdout, term.Visible(s.Path+" has "+s.space.unsaved))
			prompt := "Type " + term.Visible(s.Identifier) + " to remove it all the same, or nothing to keep it: "
			if word, err = term.AskLine(ctx, c.p.Env, prompt, false); err != nil {
				return err
			}
		}
		if strings.TrimSpace(word) == s.Identifier {
			c.found.Workspaces = append(c.found.Workspaces, s)
		} else {
			c.found.Kept = append(c.found.Kept, s)
		}
	}
	return nil
}

// dropRevived asks the tracker again under the lock: an issue may have been reopened while the operator was asked.
func (c *pruner) dropRevived(ctx context.Context) error {
	var ids []string
	for _, s := range c.found.Workspaces {
		ids = append(ids, s.IssueID)
	}
	for _, r := range c.found.Runs {
		ids = append(ids, r.IssueID)
	}
	why, err := c.finished(ctx, ids)
	if err != nil {
		return err
	}
	c.found.Workspaces = slices.DeleteFunc(c.found.Workspaces, func(s prunedSpace) bool { return why[s.IssueID] == "" })
	c.found.Runs = slices.DeleteFunc(c.found.Runs, func(r prunedRuns) bool { return why[r.IssueID] == "" })
	return nil
}

// remove removes what find selected; afterwards found lists what is gone. The caller holds the project lock, so no run starts.
func (c *pruner) remove(ctx context.Context) error {
	db, err := state.Open(ctx, c.p.StateDir)
	if err != nil {
		return project.NoState(c.p, err)
	}
	defer db.Close()
	for _, t := range c.found.Trash {
		purged, err := t.root.PurgeTrash(ctx, workspace.Purge{Now: c.p.Env.Now(), Discard: c.options.Force})
		if err != nil {
			return err
		}
		if len(purged.Undeletable) > 0 {
			fmt.Fprintln(c.p.Env.Stderr, term.Visible("symphony: warning: could not be deleted: "+strings.Join(purged.Undeletable, ", ")))
		}
	}
	selected := c.found.Workspaces
	c.found.Workspaces = []prunedSpace{}
	for _, s := range selected {
		gone, err := c.removeSpace(ctx, db, &s)
		if err != nil {
			return err
		}
		if gone {
			c.found.Workspaces = append(c.found.Workspaces, s)
		} else {
			c.found.Kept = append(c.found.Kept, s)
		}
	}
	for i, r := range c.found.Runs {
		ids, err := db.Operator.ForgetIssue(ctx, r.IssueID)
		if err != nil {
			return err
		}
		c.found.Runs[i].Runs = len(ids)
		for _, id := range ids {
			c.found.RunDirs = append(c.found.RunDirs, runner.RunDir(c.p.StateDir, id))
		}
	}
	for _, dir := range c.found.RunDirs {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("old run: %w", err)
		}
		crash.At("prune.run")
	}
	return nil
}

// removeSpace moves a workspace to the trash as a cleanup run does. It stays if its issue was claimed, its lease taken, or
// work was added meanwhile.
func (c *pruner) removeSpace(ctx context.Context, db *state.DB, s *prunedSpace) (gone bool, err error) {
	if _, claimed, err := db.Views.ClaimByIssue(ctx, s.IssueID); err != nil || claimed {
		return false, err
	}
	if now := git.Unsaved(ctx, s.Path); now != "" && now != s.space.unsaved {
		s.space.unsaved, s.Unsaved = now, &now
		return false, nil
	}
	hand := &runner.Takeover{
		Config: project.RunnerConfig(c.cfg), StateDir: c.p.StateDir, ID: project.NewRunID(c.p.Env.Now()), Root: s.space.root.Path,
		Issue: reconcile.Issue{ID: s.IssueID, Identifier: s.Identifier},
		Env:   c.p.Environ(), Version: project.Version(), Now: c.p.Env.Now, Log: project.NewLog(c.p.Env, slog.LevelWarn),
	}
	err = hand.Remove(ctx, s.space.unsaved != "")
	if err != nil && exit.From(err).Code == workspace.CodeBusy {
		return false, hand.Close(ctx)
	}
	return err == nil, errors.Join(err, hand.Close(ctx))
}

func (f *pruned) empty() bool {
	return len(f.Trash)+len(f.Workspaces)+len(f.Runs)+len(f.RunDirs) == 0
}

func (c *pruner) report() {
	w := c.p.Env
	if w.JSON {
		w.PrintJSON(c.found)
		return
	}
	verb, end := "gone", "removed"
	if c.options.DryRun {
		verb, end = "goes", "would remove"
	}
	c.found.print(w, verb)
	if c.found.empty() {
		fmt.Fprintln(w.Stdout, "nothing to remove")
		return
	}
	var size int64
	runs := 0
	for _, t := range c.found.Trash {
		size += t.Bytes
	}
	for _, s := range c.found.Workspaces {
		size += s.Bytes
	}
	for _, r := range c.found.Runs {
		runs += r.Runs
	}
	fmt.Fprintf(w.Stdout, "%s %s, %s, %s\n", end, text.Plural(len(c.found.Workspaces), "workspace"), text.Plural(runs, "run"), term.BytesText(size))
}

// print writes a line for each thing that goes or stays.
func (f *pruned) print(w *term.Env, verb string) {
	if w.JSON {
		return
	}
	line := func(verb, format string, args ...any) {
		fmt.Fprintln(w.Stdout, term.Visible(fmt.Sprintf("%-5s "+format, append([]any{verb}, args...)...)))
	}
	for _, t := range f.Trash {
		line(verb, "%s: %d removed before (%s)", t.Path, t.Entries, term.BytesText(t.Bytes))
	}
	for _, s := range f.Workspaces {
		line(verb, "%s: %s is %s %s", s.Path, s.Identifier, s.Why, s.space.remark())
	}
	for _, r := range f.Runs {
		line(verb, "%s of %s, which is %s", text.Plural(r.Runs, "run"), r.Identifier, r.Why)
	}
	for _, t := range f.KeptTrash {
		line("stays", "%s: removed before, with work that exists nowhere else (%s)", t.Path, t.Unsaved)
	}
	for _, s := range f.Kept {
		line("stays", "%s: %s is %s %s", s.Path, s.Identifier, s.Why, s.space.remark())
	}
	if len(f.RunDirs) > 0 {
		line(verb, "below %s: %s of runs", filepath.Dir(f.RunDirs[0]), text.Plural(len(f.RunDirs), "folder"))
	}
}
