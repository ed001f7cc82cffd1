package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/reconcile/crash"
)

// The guard of git directories. An agent may write into the git directory of its workspace, and what git takes from
// there can have programs run: hooks, and much of its configuration. In the agent's sandbox that does no harm. But
// the workflow's own hooks run git too, outside. So before the agent is launched TrustGit writes down what is there,
// where the agent can't write, and when it has ended UndoGit makes that so again, but for what is known to run
// nothing. Until that is done no hook may run, however the worker ended: what is written down says so.
//
//	before_run ─► TrustGit ─► agent ─► all its processes end ─► UndoGit ─► after_run
//	                             └─ the worker dies ─► the next holder reaps ─► UndoGit ─► its hooks
//
// # Decisions
//
// What the workflow's hooks set is trusted, in each run anew: it was there before the agent, or after it.
//
// Nothing is undone that only makes git read or write other data: remotes at other addresses, references, the index,
// exclude, attributes (files in the work tree say as much), alternates. What a setting of the operator's runs from the
// work tree, the agent has had its hands on; but hooks that git would take from there are switched off (TreeHooks).
//
// The search for repositories needs no git, for a repository to be found may be one that git was made to run
// something in. The configuration is read by git itself, for nobody else reads it just so.

// guardFor bounds the work of the guard, at its beginning and at its end.
const guardFor = 10 * time.Second

// searchFor bounds the search in it: a tree that takes longer is not searched to its end, and that is said.
const searchFor = 4 * time.Second

// trusted is what is written down before an agent is launched.
type trusted struct {
	// Pending: an agent may have been at work since, and nothing is undone yet.
	Pending bool `json:"pending"`
	// Outside are git directories outside of the workspace that the agent can write: that of a linked worktree.
	Outside []string `json:"outside,omitempty"`
	// Shared is a linked worktree's main repository, of which the agent can write some directories.
	Shared  string      `json:"shared,omitempty"`
	Files   []keptFile  `json:"files"`
	Tree    []string    `json:"tree_hooks,omitempty"`
	Partial bool        `json:"partial,omitempty"` // the search left something out
	files   trustedFile // Files, by path
	bytes   int         // in files
}

// keptFile has its path in bytes, because a path need not be text; relative to the workspace, if it lies in it.
type keptFile struct {
	Path []byte `json:"path"`
	kept
}

type trustedFile map[string]kept

// GuardOptions say what the guard has to know of the agent.
type GuardOptions struct {
	// Reaches reports whether the agent can write to a directory outside of the workspace. Its tmp and cache, and a
	// linked worktree's own git directory, are known to be.
	Reaches func(path string) bool
	// Env is what the hooks' git sees.
	Env []string
}

// Undone is what UndoGit has found.
type Undone struct {
	// Names are those of settings and files, for people: core.hooksPath, hooks/post-commit, sub/.git: alias.x.
	Names []string
	// Partial: the workspace was too large to be searched for further repositories to its end.
	Partial bool
	// Unsettled says why it could not be written down that all is undone: it is done once more.
	Unsettled error
}

func (w *Workspace) guardFile() string { return filepath.Join(w.root.work(w.Key), "git-trusted.json") }

// maxTrusted bounds what is read of the file, in bytes.
const maxTrusted = 1 << 30

// readTrusted gives what this holder has written down, else what is in the file: an agent that may write anywhere
// could have changed that.
func (w *Workspace) readTrusted() (*trusted, error) {
	if w.trusted != nil {
		return w.trusted, nil
	}
	data, err := readRegular(w.guardFile(), maxTrusted)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no agent was launched here yet
	}
	t := &trusted{files: trustedFile{}}
	if err == nil {
		err = json.Unmarshal(data, t)
	}
	if err != nil {
		return nil, &Error{
			Code: CodeFailed, Message: fmt.Sprintf("read what was trusted of git in %s: %s: %v", w.Path, w.guardFile(), err),
			Hint: "look at the git configuration and hooks of the workspace, then remove that file", Err: err,
		}
	}
	for _, f := range t.Files {
		path := string(f.Path)
		if !filepath.IsAbs(path) {
			path = filepath.Join(w.Path, path)
		}
		t.files[path] = f.kept
	}
	return t, nil
}

func (w *Workspace) writeTrusted(t *trusted) error {
	t.Files = nil
	for path, k := range t.files {
		if rel, err := filepath.Rel(w.Path, path); err == nil && filepath.IsLocal(rel) {
			path = rel
		}
		t.Files = append(t.Files, keptFile{[]byte(path), k})
	}
	slices.SortFunc(t.Files, func(a, b keptFile) int { return strings.Compare(string(a.Path), string(b.Path)) })
	data, err := json.Marshal(t)
	if err == nil {
		err = durable.WriteFile(w.guardFile(), data, 0o600)
	}
	if err != nil {
		return failed(err, "write what is trusted of git in %s", w.Path)
	}
	return nil
}

// TrustGit writes down, durably, what git would take from the workspace now. From here on an agent may be at work.
func (w *Workspace) TrustGit(ctx context.Context, o GuardOptions) error {
	ctx, cancel := context.WithTimeout(ctx, guardFor)
	defer cancel()
	t := &trusted{Pending: true, files: trustedFile{}}
	if err := t.gather(ctx, w, o); err != nil {
		return guardFailed(ctx, err, "look at git's files of %s", w.Path)
	}
	if err := w.writeTrusted(t); err != nil {
		return err
	}
	w.trusted = t
	return nil
}

// UndoGit makes git's files what they were, where an agent has been at work since, and reports what it had to undo.
// With an error no hook may run, and the next call begins anew.
func (w *Workspace) UndoGit(ctx context.Context) (Undone, error) {
	t, err := w.readTrusted()
	if err != nil || t == nil || !t.Pending {
		return Undone{}, err
	}
	if err := w.Verify(); err != nil {
		return Undone{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, guardFor)
	defer cancel()
	u := undoing{ctx: ctx, w: w, was: t}
	if err := u.run(); err != nil {
		return Undone{Names: u.names}, guardFailed(ctx, err, "undo git configuration in %s", w.Path)
	}
	crash.At("workspace.guard.undone")
	t.Pending, t.Partial = false, u.partial
	unsettled := w.writeTrusted(t) // on a full disk too a hook may have to save what was done
	return Undone{Names: u.names, Partial: u.partial, Unsettled: unsettled}, nil
}

// ForgetGit is for a workflow that wants what agents set to stay.
func (w *Workspace) ForgetGit() error {
	w.trusted = nil
	err := os.Remove(w.guardFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failed(err, "forget what was trusted of git in %s", w.Path)
	}
	return nil
}

// HookGit gives what git in a hook has to be told, and the reasons for people: an agent has worked here, and some
// hooks are its to write. It is empty before the first agent.
func (w *Workspace) HookGit() (settings [][2]string, reasons []string, err error) {
	t, err := w.readTrusted()
	if err != nil || t == nil {
		return nil, nil, err
	}
	if len(t.Tree) > 0 {
		settings = append(settings, [2]string{"core.hooksPath", "/dev/null"})
	}
	if t.Partial {
		settings = append(settings, [2]string{"safe.bareRepository", "explicit"}, [2]string{"diff.ignoreSubmodules", "all"},
			[2]string{"submodule.recurse", "false"}, [2]string{"status.submoduleSummary", "false"})
	}
	return settings, t.Tree, nil
}

// guardFailed says what could not be done. That the time was over is told as such.
func guardFailed(ctx context.Context, err error, format string, args ...any) error {
	var known *Error
	if errors.As(err, &known) {
		return err
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("it took longer than %s", guardFor)
	}
	e := &Error{Code: CodeFailed}
	errors.As(failed(err, format, args...), &e)
	if e.Hint == "" {
		e.Hint = "see what is at that path; agent.keep_git_config: true leaves to the agent what it sets"
	}
	return e
}
