package git

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// Guard protects the workflow's hooks from files that an agent leaves in git directories. An
// agent may write to the git directory of its workspace, where git finds programs to run: git
// hooks, and the values of many settings. In the agent's sandbox that is harmless, but the
// workflow's hooks run git outside the sandbox. So before the agent starts, Trust takes a
// snapshot, in a file that the agent can't write. After the agent ended, Undo compares.
//
//	before_run ─► Trust ─► agent ─► all its processes end ─► Undo ─► after_run
//
// If the worker dies, the next holder ends the processes and calls Undo before its hooks.
//
// Undo restores the configuration and hooks of the workspace's repository, even if the agent
// created it, and removes links in it. It keeps the agent's changes of settings that neither
// run a program nor change the result of a push. Other new files in the workspace that git
// could run are only reported. Files that could not be read completely are not trusted. In
// both cases no hook may run until a later Undo can read everything and finds nothing.
//
// Settings and git hooks made by the workflow's hooks are trusted, because every run takes a
// new snapshot. Data that git only reads or writes is not guarded: references, objects,
// attributes. The agent can change git hooks in the work tree. If the operator configured git
// to use them, git runs without hooks in the workflow's hooks (HookEnv).
type Guard struct {
	// Tree is the workspace. Temp are directories outside it that the agent can write: its tmp
	// and cache.
	Tree string
	Temp []string
	// File is the path of the snapshot, where the agent can't write.
	File string
	// Verify is called before anything in Tree is changed. It fails if Tree was replaced by
	// another directory.
	Verify func() error

	limit     int              // of files, for tests
	snapshot  *snapshot        // the snapshot of Trust, nil if Trust was not called on this value
	untrusted *reconcile.Error // why the last Undo does not trust the workspace
}

const (
	guardTimeout = time.Minute
	maxSnapshot  = 1 << 30 // bytes
	unsafeShown  = 10      // names in an error
)

// snapshot is the state of git before the agent.
type snapshot struct {
	// AgentWorked: an agent may have worked since, and Undo did not finish.
	AgentWorked bool `json:"pending"`
	// Dirs are the git directories of the workspace's repository that the agent can write.
	Dirs []string `json:"dirs"`
	// Files are the files to restore, by git directory and path.
	Files map[string]map[string]entry `json:"files"`
	// Known are the programs that git could run before the agent: digests by name.
	Known     map[string]string `json:"known"`
	TreeHooks []string          `json:"tree_hooks,omitempty"`
}

// readSnapshot returns the snapshot, from memory if possible, because an agent that can write
// anywhere could have changed the file. It returns nil if no agent worked here.
func (g *Guard) readSnapshot() (*snapshot, error) {
	if g.snapshot != nil {
		return g.snapshot, nil
	}
	data, err := files.ReadRegular(g.File, maxSnapshot)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // see above
	}
	if err != nil {
		return nil, g.snapshotFailed(err)
	}
	s := &snapshot{Known: map[string]string{}}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, g.snapshotFailed(err)
	}
	return s, nil
}

// snapshotFailed returns the error of a snapshot that can't be read.
func (g *Guard) snapshotFailed(err error) error {
	return reconcile.NewError(
		files.CodeFailed,
		fmt.Sprintf("read the git settings that were trusted in %s: %s: %v", g.Tree, g.File, err),
		"check the git configuration and hooks of the workspace, then remove that file",
	).WithCause(err)
}

func (g *Guard) writeSnapshot(s *snapshot) error {
	err := durable.WriteFile(g.File, text.JSON(s), 0o600)
	return files.Failed(err, "store the git settings that are trusted in %s", g.Tree)
}

// Trust durably stores a snapshot of everything that git would run in the workspace now. After
// that the agent may start. reaches reports whether the agent can write to a directory outside
// the workspace, apart from its tmp and cache. hooksPath is the setting core.hooksPath as git
// sees it in hooks.
func (g *Guard) Trust(ctx context.Context, reaches func(dir string) bool, hooksPath string) error {
	ctx, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	s, err := g.takeSnapshot(ctx, reaches, hooksPath)
	if err != nil {
		return g.judge(ctx, err)
	}
	before, err := g.readSnapshot()
	if err != nil {
		return g.judge(ctx, err)
	}
	if before != nil && before.AgentWorked {
		s.Known = before.Known // another run does not make an earlier agent's leftovers trusted
	}
	if err := g.writeSnapshot(s); err != nil {
		return err
	}
	g.snapshot = s
	return nil
}

// takeSnapshot returns the programs that git would run in the workspace now.
func (g *Guard) takeSnapshot(
	ctx context.Context, reaches func(dir string) bool, hooksPath string,
) (*snapshot, error) {
	s := &snapshot{AgentWorked: true, Files: map[string]map[string]entry{}}
	if err := s.locate(g.Tree, reaches); err != nil {
		return nil, err
	}
	for _, dir := range s.Dirs {
		list := map[string]entry{}
		if err := readGitDir(ctx, list, dir); err != nil {
			return nil, err
		}
		if err := unreadable(list); err != nil {
			return nil, err
		}
		s.Files[dir] = list
	}
	found, err := g.search(ctx, s)
	if err != nil {
		return nil, err
	}
	s.Known = found.programs
	s.TreeHooks, err = g.treeHooks(ctx, s, found.hooks, reaches, hooksPath)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// locate finds the git directories of the workspace's repository that the agent can write.
func (s *snapshot) locate(tree string, reaches func(dir string) bool) error {
	repo, ok, err := openRepository(tree)
	if err != nil || !ok {
		s.Dirs = []string{filepath.Join(tree, ".git")} // the agent may create a repository
		return err
	}
	writable := func(dir string) bool { return paths.Reaches(tree, dir) || reaches(dir) }
	if repo.linked || writable(repo.gitDir) {
		s.Dirs = append(s.Dirs, repo.gitDir)
	}
	if repo.linked && writable(repo.common) {
		s.Dirs = append(s.Dirs, repo.common)
	}
	return nil
}

// Undo restores the workspace's repository after an agent, and searches for anything else that
// git could run and that is new. If it does not trust the result, or returns an error, no hook
// may run, and the next call starts over.
func (g *Guard) Undo(ctx context.Context) (restored host.GitRestored, err error) {
	g.untrusted = nil
	s, err := g.readSnapshot()
	if err != nil || s == nil || !s.AgentWorked {
		return restored, err
	}
	if err := g.Verify(); err != nil {
		return restored, err
	}
	restored.Names, err = g.undo(ctx, s)
	known, isKnown := errors.AsType[*reconcile.Error](err)
	if isKnown && known.Code == host.CodeUntrusted { // the snapshot stays as it is
		g.untrusted = known
		restored.Untrusted = known.Message
		return restored, nil
	}
	if err != nil {
		return restored, err
	}
	crash.At("workspace.guard.undone")
	s.AgentWorked = false
	// hooks run even on a full disk, because a hook may save the work
	if err := g.writeSnapshot(s); err != nil {
		restored.Incomplete = "the git configuration will be checked again: " + err.Error()
	}
	return restored, nil
}

// undo restores the files of a snapshot, and searches for anything else that git could run.
func (g *Guard) undo(ctx context.Context, s *snapshot) (names []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	names, err = s.restore(ctx)
	if err != nil {
		return names, g.judge(ctx, err)
	}
	if _, err := g.search(ctx, s); err != nil {
		return names, g.judge(ctx, err)
	}
	return names, nil
}

// foundError is the error for programs that an agent left.
func foundError(names []string) error {
	shown := strings.Join(names[:min(len(names), unsafeShown)], ", ")
	if more := len(names) - unsafeShown; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("git could run outside the sandbox: %q", shown)
}

// judge returns workspace_untrusted for an error of the search, except for a fault of the
// machine and the end of the run.
func (g *Guard) judge(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = errors.New("the check takes longer than " + text.Duration(guardTimeout))
	} else if ctx.Err() != nil {
		return ctx.Err()
	}
	failed := files.Failed(err, "check the git files of %s", g.Tree)
	if known, ok := errors.AsType[*reconcile.Error](failed); ok && known.Code != files.CodeFailed {
		return known
	}
	return reconcile.NewError(
		host.CodeUntrusted,
		fmt.Sprintf("no hook runs in %s: %v", g.Tree, err),
		"remove it or make it readable",
	).WithCause(err)
}

// HookEnv returns the environment for a hook of the workflow, with settings for git. hooksOff
// gives the reasons if git runs without the repository's hooks: an agent worked here and can
// change them. It returns an error if no hook may run.
func (g *Guard) HookEnv(env []string) (guarded, hooksOff []string, err error) {
	s, err := g.readSnapshot()
	if err != nil || s == nil {
		return env, nil, err
	}
	if g.untrusted != nil {
		return env, nil, g.untrusted
	}
	if s.AgentWorked {
		return env, nil, &reconcile.Error{
			Code:    host.CodeUntrusted,
			Message: fmt.Sprintf("no hook runs in %s before it is checked", g.Tree),
		}
	}
	if len(s.TreeHooks) > 0 {
		env = withConfig(env, "core.hooksPath=/dev/null")
	}
	return env, s.TreeHooks, nil
}

// withConfig adds settings to the settings for git in an environment.
func withConfig(env []string, settings ...string) []string {
	const name = "GIT_CONFIG_COUNT"
	count := 0
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		value, ok := strings.CutPrefix(kv, name+"=")
		if !ok {
			return false
		}
		n, err := strconv.Atoi(value)
		if err == nil {
			count = max(n, 0)
		}
		return true
	})
	for _, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		env = append(
			env,
			fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", count, key),
			fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", count, value),
		)
		count++
	}
	return append(env, name+"="+strconv.Itoa(count))
}
