package repository

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
)

// checkFreeName returns an error if an existing branch on the remote rules out the new branch:
// git keeps a/b in the directory a, so that there is no branch a then. It reads the branches
// of the mirror, which must be new.
func (m *Mirror) checkFreeName(ctx context.Context, branch string) error {
	top, _, _ := strings.Cut(branch, "/")
	names, err := m.output(m.localGit(ctx, "for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/"+top))
	if err != nil {
		return m.failed(host.CodeRepositoryUnavailable, "list the branches", err)
	}
	for name := range strings.Lines(names) {
		name = strings.TrimSpace(name)
		message := fmt.Sprintf("the remote has a branch %q, so git can't make %q there", name, branch)
		switch {
		case strings.HasPrefix(branch, name+"/"):
			return reconcile.NewError(host.CodeBranchInTheWay, message,
				"rename that branch, or begin repository.branch without "+name+"/")
		case strings.HasPrefix(name, branch+"/"):
			return reconcile.NewError(host.CodeInvalidBranch, message,
				"rename that branch, or change repository.branch")
		}
	}
	return nil
}

// checkNotCheckedOut returns an error if a person works on the branch in a work tree of a
// remote on this machine: git would refuse the push.
func (c *commands) checkNotCheckedOut(ctx context.Context, branch string) error {
	dir := c.localDir()
	if dir == "" {
		return nil
	}
	list, err := c.output(c.commandAt(ctx, dir, gitcmd.Operator, "worktree", "list", "--porcelain"))
	if err != nil {
		return nil //nolint:nilerr // the fetch or the push reports why git can't read it
	}
	tree := worktreeOf(list, branch)
	if tree == "" {
		return nil
	}
	look := c.commandAt(ctx, dir, gitcmd.Operator, "config", "--get", "receive.denyCurrentBranch")
	setting, _ := c.output(look) // it fails without such a setting
	if slices.Contains(allowsPush, strings.ToLower(setting)) {
		return nil
	}
	return reconcile.NewError(
		host.CodeBranchCheckedOut,
		fmt.Sprintf("%s is checked out in %s: switch to another branch there", branch, tree),
		"git -C "+text.ShellQuote(tree)+" switch -",
	)
}

// allowsPush are the values of receive.denyCurrentBranch with which git accepts a push to a
// branch that is checked out. A false in any of git's words means ignore.
var allowsPush = []string{"ignore", "warn", "updateinstead", "false", "no", "off", "0"}

// localDir returns the directory of a remote on this machine, empty for other remotes.
func (c *commands) localDir() string {
	path := strings.TrimPrefix(c.remote.URL, "file://")
	if !filepath.IsAbs(path) {
		return ""
	}
	return path
}

// worktreeOf returns the work tree in git's list that is on a branch, empty if there is none.
func worktreeOf(list, branch string) string {
	tree := ""
	for line := range strings.Lines(list) {
		line = strings.TrimSuffix(line, "\n")
		if path, begins := strings.CutPrefix(line, "worktree "); begins {
			tree = path
		}
		if line == "branch refs/heads/"+branch {
			return tree
		}
	}
	return ""
}

// checkWhole returns an error if a remote on this machine is a shallow clone: git would leave
// out its branches, and not say so.
func (c *commands) checkWhole(ctx context.Context) error {
	dir := c.localDir()
	if dir == "" {
		return nil
	}
	shallow, err := c.output(
		c.commandAt(ctx, dir, gitcmd.Operator, "rev-parse", "--is-shallow-repository"),
	)
	if err != nil || shallow != "true" {
		return nil //nolint:nilerr // the fetch reports why git can't read it
	}
	mend := "git -C " + text.ShellQuote(dir) + " fetch --unshallow"
	return reconcile.NewError(host.CodeRepositoryUnavailable,
		dir+" is a shallow clone, which lacks the beginning of its history: run "+mend, mend)
}
