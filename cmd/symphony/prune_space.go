package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/workspace"
)

// space is a workspace that may go.
type space struct {
	root *workspace.Root
	rec  workspace.Record
	size int64
	// held: somebody has its lease.
	held bool
	// unsaved is the work in it that is nowhere else, empty for none.
	unsaved string
}

// remark is what a person should know before it goes.
func (s space) remark() string {
	text := " (" + bytesText(s.size)
	if s.held {
		text += ", in use"
	}
	if s.unsaved != "" {
		text += ", " + s.unsaved
	}
	return text + ")"
}

// spacesOf are the workspaces that a project has in its roots, and those there that no project has.
func (w *world) spacesOf(ctx context.Context, row projectState) ([]space, error) {
	var list []space
	for _, path := range row.Roots {
		root, found, err := workspace.FindRoot(path)
		if err != nil {
			return nil, workspaceError(err)
		}
		if !found {
			continue
		}
		records, err := root.List()
		if err != nil {
			return nil, workspaceError(err)
		}
		for _, rec := range records {
			if rec.StateDir != row.StateDir && exists(filepath.Join(rec.StateDir, "state.db")) {
				continue // another's; one of a project that was removed is whoever's has the root now
			}
			s := space{root: root, rec: rec}
			if err := s.look(ctx, w.environ); err != nil {
				return nil, err
			}
			list = append(list, s)
		}
	}
	return list, nil
}

// look finds out how large the workspace is, who has it, and what would be lost with it.
func (s *space) look(ctx context.Context, environ []string) (err error) {
	if s.held, err = s.root.Held(s.rec.Key); err != nil {
		return workspaceError(err)
	}
	if s.size, _, err = sizeOf(ctx, s.rec.Path); err != nil {
		return err
	}
	s.unsaved = unsaved(ctx, s.rec.Path, environ)
	return nil
}

// removable refuses what somebody works in, and what would be lost.
func removable(spaces []space, force bool) error {
	for _, s := range spaces {
		switch {
		case s.held:
			return &reconcile.Error{
				Code: workspace.CodeBusy, Message: s.rec.Path + " is in use by run " + s.rec.RunID,
				Hint: "end what works in it first: symphony stop " + s.rec.Identifier,
			}
		case s.unsaved != "" && !force:
			return &reconcile.Error{
				Code: "unsaved_work", Message: s.rec.Path + " has " + s.unsaved,
				Hint: "push or copy it first, or give --force to lose it",
			}
		}
	}
	return nil
}

// removedByHand names who has removed a workspace where no run has.
const removedByHand = "by-hand"

// delete removes the workspace for good, under its lease.
func (s space) delete(ctx context.Context, now time.Time) error {
	owner := workspace.Owner{
		IssueID: s.rec.IssueID, Identifier: s.rec.Identifier, Project: s.rec.Project, StateDir: s.rec.StateDir, RunID: removedByHand,
	}
	removed, err := s.root.Remove(ctx, owner, 0, now, nil)
	return errors.Join(err, removed.Undeletable)
}

// gitBound is how long one question to git may take.
const gitBound = 5 * time.Second

// unsaved says what of a repository is nowhere else: commits that no remote has, and changes that no commit has. It is
// empty for what is no repository. Where git does not say, that is said: nobody should lose work for it.
func unsaved(ctx context.Context, dir string, environ []string) string {
	info, err := os.Lstat(filepath.Join(dir, ".git"))
	if err != nil {
		return ""
	}
	var list []string
	// Of a linked worktree the branches stay where its main repository is.
	refs := []string{"--branches", "--glob=refs/stash", "--not", "--remotes"}
	if !info.IsDir() {
		refs = []string{"--not", "--branches", "--remotes"}
	}
	if _, err := gitAsk(ctx, dir, environ, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"); err == nil { // else there is no commit yet
		refs = append([]string{"HEAD"}, refs...)
	}
	count, err := gitAsk(ctx, dir, environ, append([]string{"rev-list", "--count"}, refs...)...)
	switch n, notNumber := strconv.Atoi(count); {
	case err != nil || notNumber != nil:
		list = append(list, "commits that git can't count")
	case n > 0:
		list = append(list, plural(n, "commit")+" not on any remote")
	}
	changes, err := gitAsk(ctx, dir, environ, "status", "--porcelain", "--ignore-submodules=all")
	switch {
	case err != nil:
		list = append(list, "changes that git can't list")
	case changes != "":
		list = append(list, plural(strings.Count(changes, "\n")+1, "change")+" not committed")
	}
	return strings.Join(list, ", ")
}

// gitAsk asks git about a repository that an agent could write: nothing that it names is run, and nothing is fetched.
func gitAsk(ctx context.Context, dir string, environ []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, gitBound)
	defer cancel()
	settings := []string{"-C", dir, "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "protocol.allow=never"}
	filters, err := exec.CommandContext(ctx, "git", "-C", dir, "config", "--name-only", "--get-regexp", `^filter\.`).Output() //nolint:gosec // our own words
	var none *exec.ExitError
	if err != nil && (!errors.As(err, &none) || none.ExitCode() != 1) {
		return "", fmt.Errorf("git config: %w", err)
	}
	for name := range strings.Lines(string(filters)) {
		if name = strings.TrimSpace(name); strings.HasSuffix(name, ".required") {
			settings = append(settings, "-c", name+"=false")
		} else {
			settings = append(settings, "-c", name+"=")
		}
	}
	cmd := exec.CommandContext(ctx, "git", append(settings, args...)...) //nolint:gosec // see above
	cmd.Env = append(append([]string{}, environ...), "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimRight(string(out), "\n"), nil
}
