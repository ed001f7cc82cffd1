package cleanup

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
	"github.com/symphony-cron/symphony/state"
)

// mostPast bounds for how many issues the tracker is asked at once.
const mostPast = 1000

// prunable is what may go.
type prunable struct {
	trash []trashFound
	// keptTrash was removed with work that exists nowhere else.
	keptTrash []workspace.UnsavedPath
	spaces    []goneSpace
	kept      []goneSpace // they would be lost, or are in use
	issues    []goneIssue
	orphans   []string // directories of runs without a row
}

type trashFound struct {
	root    *workspace.Root
	path    string
	entries int
	size    int64
}

// goneSpace is a workspace of an issue that is gone, why says how.
type goneSpace struct {
	space
	why string
}

type goneIssue struct {
	state.PastIssue
	why string
}

func (f *prunable) nothing() bool {
	return len(f.trash)+len(f.spaces)+len(f.issues)+len(f.orphans) == 0
}

// findPrunable looks around and asks the tracker. Nothing is changed.
func findPrunable(ctx context.Context, p *project.Project, cfg *workflow.Config, o PruneOptions) (*prunable, error) {
	db, err := project.OpenForReading(ctx, p)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	rec, err := db.State(ctx)
	if err != nil {
		return nil, err
	}
	busy := map[string]bool{}
	for _, c := range rec.Claims {
		busy[c.IssueID] = true
	}
	for _, r := range rec.Runs {
		busy[r.IssueID] = true
	}
	roots, err := allRoots(ctx, p, db, cfg)
	if err != nil {
		return nil, err
	}
	spaces, err := spacesOf(ctx, p.Env, project.State{StateDir: p.StateDir, Roots: roots})
	if err != nil {
		return nil, err
	}
	past, err := db.PastIssues(ctx, p.Env.Now().Add(-o.OlderThan), mostPast)
	if err != nil {
		return nil, err
	}
	found := &prunable{}
	if err := askGone(ctx, p, cfg, found, spaces, past, busy, o.Force); err != nil {
		return nil, err
	}
	if err := found.findTrash(ctx, p, cfg, roots, o.Force); err != nil {
		return nil, err
	}
	found.orphans, err = findOrphans(ctx, p, db)
	return found, err
}

// askGone keeps of what was found the part whose issues are gone.
func askGone(
	ctx context.Context, p *project.Project, cfg *workflow.Config, found *prunable, spaces []space, past []state.PastIssue, busy map[string]bool, force bool,
) error {
	var ids []string
	for _, s := range spaces {
		if !busy[s.rec.IssueID] && s.rec.Project == cfg.Policy().Project {
			ids = append(ids, s.rec.IssueID)
		}
	}
	for _, i := range past {
		ids = append(ids, i.IssueID)
	}
	if len(ids) == 0 {
		return nil
	}
	why, err := findGone(ctx, p, cfg, ids)
	if err != nil {
		return err
	}
	for _, s := range spaces {
		reason, gone := why[s.rec.IssueID]
		switch {
		case !gone || busy[s.rec.IssueID] || s.rec.Project != cfg.Policy().Project:
		case s.held || s.unsaved != "" && !force:
			found.kept = append(found.kept, goneSpace{s, reason})
		default:
			found.spaces = append(found.spaces, goneSpace{s, reason})
		}
	}
	for _, i := range past {
		if reason, gone := why[i.IssueID]; gone {
			found.issues = append(found.issues, goneIssue{i, reason})
		}
	}
	return nil
}

// gone asks the tracker which of the issues are done or no longer there. The project is looked up first: with the key of
// somebody else's Linear no issue at all would be there.
func findGone(ctx context.Context, p *project.Project, cfg *workflow.Config, ids []string) (map[string]string, error) {
	silent := func(string) {}
	tracker, err := project.NewTracker(cfg, p.Env.Now, silent)
	if err != nil {
		return nil, err
	}
	issues, err := project.VerifyFirst(tracker, nil, cfg, p.Path, silent).ByIDs(ctx, ids)
	if err != nil {
		return nil, err
	}
	why := map[string]string{}
	for _, id := range ids {
		issue, there := issues[id]
		switch {
		case !there:
			why[id] = "not in the tracker"
		case cfg.Policy().Terminal(issue.State):
			why[id] = issue.State
		}
	}
	return why, nil
}

// dropRevived asks again, now that no pass can come between: an issue may have been taken up while a person was asked, or
// while another command had the lock.
func dropRevived(ctx context.Context, p *project.Project, cfg *workflow.Config, found *prunable) error {
	var ids []string
	for _, s := range found.spaces {
		ids = append(ids, s.rec.IssueID)
	}
	for _, i := range found.issues {
		ids = append(ids, i.IssueID)
	}
	if len(ids) == 0 {
		return nil
	}
	why, err := findGone(ctx, p, cfg, ids)
	if err != nil {
		return err
	}
	found.spaces = slices.DeleteFunc(found.spaces, func(s goneSpace) bool { return why[s.rec.IssueID] == "" })
	found.issues = slices.DeleteFunc(found.issues, func(i goneIssue) bool { return why[i.IssueID] == "" })
	return nil
}

// ownTrash are the settings by which a root deletes what this project has in its trash, however young, and leaves other
// projects' alone.
func ownTrash(cfg *workflow.Config) workspace.Trash {
	clock := func() (string, time.Duration, error) {
		boot, err := proc.BootID()
		return boot, proc.Monotonic(), err
	}
	return workspace.Trash{Clock: clock, Project: cfg.Policy().Project, Recheck: true}
}

func (f *prunable) findTrash(ctx context.Context, p *project.Project, cfg *workflow.Config, roots []string, force bool) error {
	for _, path := range roots {
		root, there, err := workspace.FindRoot(path)
		if err != nil {
			return project.WorkspaceError(err)
		}
		if !there {
			continue
		}
		root.Trash = ownTrash(cfg)
		entries, err := root.ExpiredTrash(p.Env.Now(), 0)
		if err != nil {
			return project.WorkspaceError(err)
		}
		t := trashFound{root: root, path: filepath.Join(root.Path, ".symphony", "trash")}
		for _, e := range entries {
			if work := root.UnsavedInTrash(ctx, e); work != "" && !force {
				f.keptTrash = append(f.keptTrash, workspace.UnsavedPath{Path: e, Work: work})
				continue
			}
			t.entries++
			size, _, err := sizeOf(ctx, e)
			if err != nil {
				return err
			}
			t.size += size
		}
		if t.entries > 0 || lostNotes(t.path) {
			f.trash = append(f.trash, t)
		}
	}
	return nil
}

// lostNotes reports notes in the trash about what never came in: of a removal that was cut off.
func lostNotes(trash string) bool {
	entries, err := os.ReadDir(trash)
	if err != nil {
		return false // none has ever been
	}
	names := map[string]bool{}
	for _, e := range entries {
		names[e.Name()] = true
	}
	for name := range names {
		if entry, isNote := strings.CutSuffix(name, ".note"); isNote && !names[entry] && !names[entry+".stuck"] {
			return true
		}
	}
	return false
}

// orphans are the directories of runs that no row is about, and that nobody lives in or is just making.
func findOrphans(ctx context.Context, p *project.Project, db *state.DB) (list []string, err error) {
	entries, err := project.Rowless(ctx, p, db)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || p.Env.Now().Sub(info.ModTime()) < project.OrphanAge || runner.Alive(p.StateDir, e.Name()) {
			continue
		}
		list = append(list, runner.RunDir(p.StateDir, e.Name()))
	}
	return list, nil
}
