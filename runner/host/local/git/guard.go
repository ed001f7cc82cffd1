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

// Guard protects the workflow's hooks from what an agent leaves in git directories. An agent may write to the git directory of
// its workspace, where git finds programs to run: git hooks, and the values of many settings. In the agent's sandbox that is
// harmless, but the workflow's hooks run git outside of the sandbox. So before the agent starts, Trust takes a snapshot, in a
// file that the agent can't write. After the agent has ended, Undo compares.
//
//	before_run ─► Trust ─► agent ─► all its processes end ─► Undo ─► after_run
//	                         └─ the worker dies ─► the next holder ends them ─► Undo ─► its hooks
//
// Undo restores the configuration and hooks of the workspace's repository, even if the agent has created it, and removes links in
// it. It keeps the agent's changes of settings that can't run a program. Everything else in the workspace that git could run, and
// that is new, is only reported: no hook may run until it is removed.
//
// Settings and git hooks made by the workflow's hooks are trusted, because every run takes a new snapshot. Data that git only
// reads or writes is not guarded: addresses of remotes, references, the index, attributes. The agent can change git hooks in the
// work tree. If the operator has configured git to use those, git runs without hooks in the workflow's hooks (HookEnv).
type Guard struct {
	// Tree is the workspace. Temp are directories outside of it that the agent can write: its tmp and cache.
	Tree string
	Temp []string
	// File is the path of the snapshot, where the agent can't write.
	File string
	// Verify is called before anything in Tree is changed. It fails if Tree was replaced by another directory.
	Verify func() error
	// Off disables the guard: agents may change all git settings (agent.keep_git_config).
	Off bool

	snapshot *snapshot // the snapshot of Trust, nil if Trust was not called on this value
	unsafe   error     // what git could run in a hook, as of the last Undo
}

const (
	guardTimeout  = 10 * time.Second
	searchTimeout = 4 * time.Second // of that; if a tree needs longer, the incomplete search is reported
	maxSnapshot   = 1 << 30         // bytes
	unsafeShown   = 10              // names in an error
)

// snapshot is the state of git before the agent.
type snapshot struct {
	// AgentWorked: an agent may have worked since, and Undo has not finished.
	AgentWorked bool `json:"pending"`
	// Dirs are the git directories of the workspace's repository that the agent can write. Shared is a linked worktree's main
	// repository, of which the agent can write some directories.
	Dirs   []string `json:"dirs"`
	Shared string   `json:"shared,omitempty"`
	// Files are the files to restore, by git directory and path.
	Files map[string]map[string]entry `json:"files"`
	// Known are the programs that git could run before the agent: digests by name.
	Known     map[string]string `json:"known"`
	TreeHooks []string          `json:"tree_hooks,omitempty"`
	Partial   bool              `json:"partial,omitempty"` // the search left something out
}

// readSnapshot returns the snapshot, from memory if possible, because an agent that can write anywhere could have changed the
// file. It returns nil if no agent has worked here.
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
			Code: files.CodeFailed, Message: fmt.Sprintf("read the git settings that were trusted in %s: %s: %v", g.Tree, g.File, err),
			Hint: "check the git configuration and hooks of the workspace, then remove that file", Err: err,
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
		return files.Failed(err, "store the git settings that are trusted in %s", g.Tree)
	}
	return nil
}

// Trust durably stores a snapshot of what git would run in the workspace now. After that the agent may start. reaches reports
// whether the agent can write to a directory outside of the workspace, apart from its tmp and cache and the git directory of a
// linked worktree. env is the environment of git in hooks.
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
		s.Known = before.Known // another run does not make trusted what an earlier agent has left
	}
	if err := g.writeSnapshot(s); err != nil {
		return err
	}
	g.snapshot = s
	return nil
}

// locate finds the git directories of the workspace's repository that the agent can write.
func (s *snapshot) locate(tree string, reaches func(dir string) bool) error {
	repo, ok, err := openRepository(tree)
	if err != nil || !ok {
		s.Dirs = []string{filepath.Join(tree, ".git")} // the agent may create one
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

// Undo restores the workspace's repository after an agent, and searches for anything else that git could run and that is new. If
// it finds something, no hook runs until a later Undo finds nothing. After an error no hook may run either, and the next call
// starts over.
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
	if err := g.writeSnapshot(s); err != nil { // hooks run even on a full disk, because one may save the work
		restored.Incomplete = "the git configuration will be checked again: " + err.Error()
	} else if s.Partial {
		restored.Incomplete = "the workspace is too large to check every git repository in it: in hooks git uses only the workspace's own"
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
		Message: fmt.Sprintf("the agent has left something in %s that git could run outside of the sandbox: %q", path, shown),
		Hint:    "no hook runs in the workspace until you remove it; agent.keep_git_config: true keeps what agents set",
	}
}

func (g *Guard) forget() error {
	g.snapshot = nil
	err := os.Remove(g.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return files.Failed(err, "remove the git settings that were trusted in %s", g.Tree)
	}
	return nil
}

// HookEnv returns the environment for a hook of the workflow, with settings for git, and why git runs without the repository's
// hooks in it: an agent has worked here and can change them. It returns an error if no hook may run.
func (g *Guard) HookEnv(env []string) (guarded, hooksOff []string, err error) {
	s, err := g.readSnapshot()
	if err = cmp.Or(g.unsafe, err); err != nil || s == nil || g.Off {
		return env, nil, err
	}
	var settings []string
	if len(s.TreeHooks) > 0 {
		settings = append(settings, "core.hooksPath=/dev/null")
	}
	if s.Partial { // git must use only the workspace's own repository
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
		errors.As(files.Failed(err, "check the git files of %s", g.Tree), &e)
	}
	if e.Hint == "" {
		e.Hint = "check what is at that path; agent.keep_git_config: true keeps what agents set"
	}
	return e
}
