package git

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host"
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
// without hooks in a workflow's hook where the operator has pointed it there (HookEnv).
type Guard struct {
	// Tree is the workspace. Temp are directories outside of it that the agent can write: its tmp and cache.
	Tree string
	Temp []string
	// File keeps the snapshot, where the agent can't write.
	File string
	// Verify is called before anything in Tree is changed: it fails where Tree was replaced by another directory.
	Verify func() error
	// Off leaves git's settings to agents (agent.keep_git_config).
	Off bool

	snapshot *snapshot // what Trust has written down, nil where this value's Trust was not called
	unsafe   error     // what git could run in a hook, as of the last Undo
}

const (
	guardTimeout  = 10 * time.Second
	searchTimeout = 4 * time.Second // of that; a larger tree is not searched to its end, which is reported
	maxSnapshot   = 1 << 30         // bytes
	unsafeShown   = 10              // names in an error
)

// snapshot is what Trust writes down.
type snapshot struct {
	// AgentWorked: an agent may have worked since, and all that Undo has to do is not done.
	AgentWorked bool `json:"pending"`
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
	if g.Off {
		return g.forget()
	}
	ctx, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	s := &snapshot{AgentWorked: true, Files: map[string]map[string]entry{}}
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
	if before != nil && before.AgentWorked {
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
// there before: then no hook runs until a later Undo finds nothing. With an error no hook may run either, and the next call
// begins anew.
func (g *Guard) Undo(ctx context.Context) (restored host.GitRestored, err error) {
	if g.Off {
		return restored, g.forget()
	}
	g.unsafe = nil
	s, err := g.readSnapshot()
	if err == nil && s != nil && s.AgentWorked {
		err = g.Verify()
	}
	if err != nil || s == nil || !s.AgentWorked {
		return restored, err
	}
	ctx, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	restored.Names, err = s.restore(ctx)
	found := &search{}
	if err == nil {
		found, err = g.search(ctx, s)
	}
	if err != nil {
		return restored, g.failed(ctx, err)
	}
	var unsafe []string
	for _, name := range slices.Sorted(maps.Keys(found.programs)) {
		if s.Known[name] != found.programs[name] {
			unsafe = append(unsafe, name)
		}
	}
	if len(unsafe) > 0 { // the snapshot stays as it is
		g.unsafe = unsafeError(g.Tree, unsafe)
		return restored, nil
	}
	crash.At("workspace.guard.undone")
	s.AgentWorked, s.Partial = false, found.partial
	if err := g.writeSnapshot(s); err != nil { // on a full disk too a hook may have to save the work
		restored.Incomplete = "git configuration will be looked at again: " + err.Error()
	} else if s.Partial {
		restored.Incomplete = "the workspace is too large to look at every git repository in it: hooks see none but its own"
	}
	return restored, nil
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

func (g *Guard) forget() error {
	g.snapshot = nil
	err := os.Remove(g.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return files.Failed(err, "forget what was trusted of git in %s", g.Tree)
	}
	return nil
}

// HookEnv returns the environment of a hook with the settings that git needs in it, and why the repository's hooks are off: an
// agent has worked here and can write them. The error is what git could run, for which no hook may.
func (g *Guard) HookEnv(env []string) (guarded, hooksOff []string, err error) {
	s, err := g.readSnapshot()
	if err = cmp.Or(g.unsafe, err); err != nil || s == nil || g.Off {
		return env, nil, err
	}
	var settings []string
	if len(s.TreeHooks) > 0 {
		settings = append(settings, "core.hooksPath=/dev/null")
	}
	if s.Partial { // git looks into no repository but the workspace's own
		settings = append(settings, "safe.bareRepository=explicit", "diff.ignoreSubmodules=all", "submodule.recurse=false",
			"status.submoduleSummary=false")
	}
	return withConfig(env, settings), s.TreeHooks, nil
}

// withConfig adds settings to those that an environment has for git.
func withConfig(env, settings []string) []string {
	if len(settings) == 0 {
		return env
	}
	const name = "GIT_CONFIG_COUNT"
	count := 0
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		value, ok := strings.CutPrefix(kv, name+"=")
		if n, err := strconv.Atoi(value); ok && err == nil {
			count = max(n, 0)
		}
		return ok
	})
	for _, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", count, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", count, value))
		count++
	}
	return append(env, name+"="+strconv.Itoa(count))
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
