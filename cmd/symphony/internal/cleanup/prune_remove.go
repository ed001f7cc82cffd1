package cleanup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
	"github.com/symphony-cron/symphony/state"
)

// removePrunable removes what was found, as far as it still may go: the project lock is held from here on, so that no run
// begins. found then holds what has gone.
func removePrunable(ctx context.Context, p *project.Project, cfg *workflow.Config, found *prunable, force bool) error {
	db, err := state.Open(ctx, p.StateDir)
	if err != nil {
		return project.NoState(p, err)
	}
	defer db.Close()
	for _, t := range found.trash {
		purged, err := t.root.PurgeTrash(ctx, workspace.Purge{Now: p.Env.Now(), Discard: force})
		if err != nil {
			return project.WorkspaceError(err)
		}
		if len(purged.Undeletable) > 0 {
			fmt.Fprintln(p.Env.Stderr, term.Visible("symphony: warning: could not be deleted: "+strings.Join(purged.Undeletable, ", ")))
		}
	}
	spaces := found.spaces
	found.spaces = nil
	for _, s := range spaces {
		gone, err := removeSpace(ctx, p, db, cfg, &s)
		if err != nil {
			return err
		}
		if gone {
			found.spaces = append(found.spaces, s)
		} else {
			found.kept = append(found.kept, s)
		}
	}
	for i, issue := range found.issues {
		ids, err := db.ForgetIssue(ctx, issue.IssueID)
		if err != nil {
			return err
		}
		found.issues[i].Runs = len(ids)
		for _, id := range ids {
			found.orphans = append(found.orphans, runner.RunDir(p.StateDir, id))
		}
	}
	for _, dir := range found.orphans {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("old run: %w", err)
		}
		crash.At("prune.run")
	}
	return nil
}

// removeSpace moves a workspace to the trash as a cleanup run does, unless somebody has claimed it or taken its lease
// meanwhile.
func removeSpace(ctx context.Context, p *project.Project, db *state.DB, cfg *workflow.Config, s *goneSpace) (gone bool, err error) {
	if _, claimed, err := db.ClaimByIssue(ctx, s.rec.IssueID); err != nil || claimed {
		return false, err
	}
	if now := workspace.Unsaved(ctx, s.rec.Path); now != s.unsaved && now != "" {
		s.unsaved = now
		return false, nil // of that work nobody was told
	}
	hand := &runner.Takeover{
		Config: project.RunnerConfig(cfg), StateDir: p.StateDir, ID: project.NewRunID(p.Env.Now()), Root: s.root.Path,
		Issue: reconcile.Issue{ID: s.rec.IssueID, Identifier: s.rec.Identifier},
		Env:   p.Environ(), Version: project.Version(), Now: p.Env.Now, Log: project.NewLog(p.Env, slog.LevelWarn),
	}
	err = hand.Remove(ctx, s.unsaved != "")
	busy := err != nil && exit.From(err).Code == workspace.CodeBusy
	if busy {
		err = nil
	}
	return err == nil && !busy, errors.Join(err, hand.Close(ctx))
}

func (f *prunable) print(w *term.Env, verb string) {
	if w.JSON {
		return
	}
	say := func(verb, text string) { fmt.Fprintln(w.Stdout, term.Visible(fmt.Sprintf("%-5s %s", verb, text))) }
	for _, t := range f.trash {
		say(verb, fmt.Sprintf("%s: %d removed before (%s)", t.path, t.entries, term.BytesText(t.size)))
	}
	for _, s := range f.spaces {
		say(verb, s.rec.Path+": "+s.rec.Identifier+" is "+s.why+s.remark())
	}
	for _, i := range f.issues {
		say(verb, fmt.Sprintf("%s of %s, which is %s", text.Plural(i.Runs, "run"), i.Identifier, i.why))
	}
	for _, t := range f.keptTrash {
		say("stays", t.Path+": removed before, with work that exists nowhere else ("+t.Work+")")
	}
	for _, s := range f.kept {
		say("stays", s.rec.Path+": "+s.rec.Identifier+" is "+s.why+s.remark())
	}
	if len(f.orphans) > 0 {
		say(verb, fmt.Sprintf("below %s: %s of runs", filepath.Dir(f.orphans[0]), text.Plural(len(f.orphans), "folder")))
	}
}

func (f *prunable) sum() string {
	var size int64
	runs := 0
	for _, t := range f.trash {
		size += t.size
	}
	for _, s := range f.spaces {
		size += s.size
	}
	for _, i := range f.issues {
		runs += i.Runs
	}
	return fmt.Sprintf("%s, %s, %s", text.Plural(len(f.spaces), "workspace"), text.Plural(runs, "run"), term.BytesText(size))
}

// prunedJSON is what has gone, or would.
type prunedJSON struct {
	DryRun     bool          `json:"dry_run"`
	Workspaces []prunedSpace `json:"workspaces"`
	Kept       []prunedSpace `json:"kept"`
	Trash      []prunedTrash `json:"trash"`
	Runs       []prunedRuns  `json:"runs"`
	KeptTrash  []keptTrash   `json:"kept_trash"`
	RunDirs    []string      `json:"run_directories"`
}

type prunedSpace struct {
	IssueID    string  `json:"issue_id"`
	Identifier string  `json:"issue_identifier"`
	Path       string  `json:"path"`
	Bytes      int64   `json:"bytes"`
	Why        string  `json:"why"`
	InUse      bool    `json:"in_use"`
	Unsaved    *string `json:"unsaved"`
}

type prunedTrash struct {
	Path    string `json:"path"`
	Entries int    `json:"entries"`
	Bytes   int64  `json:"bytes"`
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

func (f *prunable) json(dryRun bool) prunedJSON {
	out := prunedJSON{
		DryRun: dryRun, Workspaces: []prunedSpace{}, Kept: []prunedSpace{}, Trash: []prunedTrash{}, Runs: []prunedRuns{}, KeptTrash: []keptTrash{},
		RunDirs: append([]string{}, f.orphans...),
	}
	row := func(s goneSpace) prunedSpace {
		return prunedSpace{s.rec.IssueID, s.rec.Identifier, s.rec.Path, s.size, s.why, s.held, term.OrNull(s.unsaved)}
	}
	for _, s := range f.spaces {
		out.Workspaces = append(out.Workspaces, row(s))
	}
	for _, s := range f.kept {
		out.Kept = append(out.Kept, row(s))
	}
	for _, t := range f.trash {
		out.Trash = append(out.Trash, prunedTrash{t.path, t.entries, t.size})
	}
	for _, t := range f.keptTrash {
		out.KeptTrash = append(out.KeptTrash, keptTrash{t.Path, t.Work})
	}
	for _, i := range f.issues {
		out.Runs = append(out.Runs, prunedRuns{i.IssueID, i.Identifier, i.Runs, i.why})
	}
	return out
}
