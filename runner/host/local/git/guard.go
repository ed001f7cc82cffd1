package git

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// Guard protects the workflow's hooks from what an agent leaves in git directories. An agent may write into the git directory
// of its workspace, and git runs programs that it finds there: hooks, and many settings. In the agent's sandbox that is
// harmless, but the workflow's own hooks run git outside of it. So before the agent starts, Trust notes what is there, in a
// file that the agent can't write. After it has ended, Undo compares.
//
//	before_run ─► Trust ─► agent ─► all its processes end ─► Undo ─► after_run
//	                         └─ the worker dies ─► the next holder reaps ─► Undo ─► its hooks
//
// The configuration and hooks of the workspace's repository are put back, also where the agent has made it, and links in it
// removed; settings that can't run a program stay as the agent has made them. Everything else in the workspace that git could
// run, and that was not there before, is not repaired: Undo says what it is, and no hook may run until it is gone.
//
// Settings and hooks that the workflow's own hooks make are trusted, in each run anew. Data that git only reads or writes is
// not guarded: remotes, references, the index, attributes. Git hooks in the work tree are the agent's to write, so git runs
// without hooks in a workflow's hook where the operator has pointed it there (HookSettings).
type Guard struct {
	// Tree is the workspace. Temp are directories outside of it that the agent can write: its tmp and cache.
	Tree string
	Temp []string
	// File keeps the snapshot, where the agent can't write.
	File string
	// Verify is called before anything in Tree is changed: it fails where Tree was replaced by another directory.
	Verify func() error

	snapshot *snapshot // what Trust has written down, nil where this value's Trust was not called
}

const (
	guardTimeout  = 10 * time.Second
	searchTimeout = 4 * time.Second // of that; a larger tree is not searched to its end, which is reported
	maxSnapshot   = 1 << 30         // bytes
	unsafeShown   = 10              // names in an error
)

// snapshot is what Trust writes down.
type snapshot struct {
	// Pending: an agent may have been at work since.
	Pending bool `json:"pending"`
	// Dirs are the git directories of the workspace's repository that the agent can write. Shared is a linked worktree's main
	// repository, of which the agent can write some directories.
	Dirs   []string `json:"dirs"`
	Shared string   `json:"shared,omitempty"`
	// Files are what is put back, by git directory and path.
	Files map[string]map[string]entry `json:"files"`
	// Known are the programs that git could run before the agent: names and digests.
	Known     map[string]string `json:"known"`
	TreeHooks []string          `json:"tree_hooks,omitempty"`
	Partial   bool              `json:"partial,omitempty"` // the search left something out
}

// Undone is what Undo has put back.
type Undone struct {
	// Names are settings and files: core.hookspath, hooks/post-commit.
	Names []string
	// Partial: the workspace was too large to be searched to its end.
	Partial bool
	// Unsafe says what git could run in a hook; no hook may run then. Nil: nothing.
	Unsafe error
	// Unsettled says why it could not be written down that all is undone: it is done once more.
	Unsettled error
}

// readSnapshot returns what this holder has written down, else the file: an agent that may write anywhere could have
// changed that. Nil: no agent has worked here.
func (g *Guard) readSnapshot() (*snapshot, error) {
	if g.snapshot != nil {
		return g.snapshot, nil
	}
	data, err := files.ReadRegular(g.File, maxSnapshot)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // see above
	}
	s := &snapshot{}
	if err == nil {
		err = json.Unmarshal(data, s)
	}
	if err != nil {
		return nil, &reconcile.Error{
			Code: files.CodeFailed, Message: fmt.Sprintf("read what was trusted of git in %s: %s: %v", g.Tree, g.File, err),
			Hint: "look at the git configuration and hooks of the workspace, then remove that file", Err: err,
		}
	}
	return s, nil
}

func (g *Guard) writeSnapshot(s *snapshot) error {
	data, err := json.Marshal(s)
	if err == nil {
		err = durable.WriteFile(g.File, data, 0o600)
	}
	if err != nil {
		return files.Failed(err, "write what is trusted of git in %s", g.Tree)
	}
	return nil
}

// Trust writes down, durably, what git would run in the workspace now. From here on an agent may be at work. reaches reports
// whether it can write to a directory outside of the workspace, besides its tmp and cache and the git directory of a linked
// worktree; env is what git in hooks sees.
func (g *Guard) Trust(ctx context.Context, reaches func(dir string) bool, env []string) error {
	ctx, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	s := &snapshot{Pending: true, Files: map[string]map[string]entry{}}
	err := s.locate(g.Tree, reaches)
	for _, dir := range s.Dirs {
		s.Files[dir] = map[string]entry{}
		if err == nil {
			err = readGitDir(ctx, s.Files[dir], dir)
		}
	}
	found := &search{}
	if err == nil {
		found, err = g.search(ctx, s)
	}
	if err == nil {
		s.TreeHooks, err = g.treeHooks(ctx, s, reaches, env)
	}
	var before *snapshot
	if err == nil {
		before, err = g.readSnapshot()
	}
	if err != nil {
		return g.failed(ctx, err)
	}
	s.Known, s.Partial = found.programs, found.partial
	if before != nil && before.Pending {
		s.Known = before.Known // what an earlier agent has left does not become trusted by another run
	}
	if err := g.writeSnapshot(s); err != nil {
		return err
	}
	g.snapshot = s
	return nil
}

// locate fills in which git directories of the workspace's repository the agent can write.
func (s *snapshot) locate(tree string, reaches func(dir string) bool) error {
	repo, ok, err := openRepository(tree)
	if err != nil || !ok {
		s.Dirs = []string{filepath.Join(tree, ".git")} // the agent may make one
		return err
	}
	writable := func(dir string) bool { return text.PathInside(tree, dir) || reaches(dir) }
	if repo.linked || writable(repo.gitDir) {
		s.Dirs = append(s.Dirs, repo.gitDir)
	}
	switch {
	case repo.linked && writable(repo.common):
		s.Dirs = append(s.Dirs, repo.common)
	case repo.linked:
		s.Shared = repo.common
	}
	return nil
}

// Undo puts back what an agent has changed of the workspace's repository, and finds what else git could run that was not
// there before. With an error no hook may run either, and the next call begins anew.
func (g *Guard) Undo(ctx context.Context) (undone Undone, err error) {
	s, err := g.readSnapshot()
	if err != nil || s == nil || !s.Pending {
		return undone, err
	}
	if err := g.Verify(); err != nil {
		return undone, err
	}
	ctx, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	undone.Names, err = s.restore(ctx)
	found := &search{}
	if err == nil {
		found, err = g.search(ctx, s)
	}
	if err != nil {
		return undone, g.failed(ctx, err)
	}
	var unsafe []string
	for _, name := range slices.Sorted(maps.Keys(found.programs)) {
		if s.Known[name] != found.programs[name] {
			unsafe = append(unsafe, name)
		}
	}
	if len(unsafe) > 0 { // it stays pending
		undone.Unsafe = unsafeError(g.Tree, unsafe)
		return undone, nil
	}
	crash.At("workspace.guard.undone")
	s.Pending, s.Partial, undone.Partial = false, found.partial, found.partial
	undone.Unsettled = g.writeSnapshot(s) // on a full disk too a hook may have to save the work
	return undone, nil
}

func unsafeError(path string, names []string) error {
	shown := strings.Join(names[:min(len(names), unsafeShown)], ", ")
	if more := len(names) - unsafeShown; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return &reconcile.Error{
		Code:    files.CodeFailed,
		Message: fmt.Sprintf("the agent has left in %s what git could run outside of its sandbox: %q", path, shown),
		Hint:    "no hook runs in the workspace until that is removed; agent.keep_git_config: true leaves to the agent what it sets",
	}
}

// Forget is for a workflow that leaves git's settings to agents.
func (g *Guard) Forget() error {
	g.snapshot = nil
	err := os.Remove(g.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return files.Failed(err, "forget what was trusted of git in %s", g.Tree)
	}
	return nil
}

// HookSettings returns settings for git in a hook, and why the repository's hooks are off: an agent has worked here and can
// write them. Both are empty before the first agent.
func (g *Guard) HookSettings() (settings [][2]string, reasons []string, err error) {
	s, err := g.readSnapshot()
	if err != nil || s == nil {
		return nil, nil, err
	}
	if len(s.TreeHooks) > 0 {
		settings = append(settings, [2]string{"core.hooksPath", "/dev/null"})
	}
	if s.Partial { // git looks into no repository but the workspace's own
		settings = append(settings, [2]string{"safe.bareRepository", "explicit"}, [2]string{"diff.ignoreSubmodules", "all"},
			[2]string{"submodule.recurse", "false"}, [2]string{"status.submoduleSummary", "false"})
	}
	return settings, s.TreeHooks, nil
}

func (g *Guard) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = fmt.Errorf("it took longer than %s", guardTimeout)
	}
	var e *reconcile.Error
	if !errors.As(err, &e) {
		errors.As(files.Failed(err, "look at git's files of %s", g.Tree), &e)
	}
	if e.Hint == "" {
		e.Hint = "see what is at that path; agent.keep_git_config: true leaves to the agent what it sets"
	}
	return e
}
