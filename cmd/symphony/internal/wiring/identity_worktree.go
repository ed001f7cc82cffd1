package wiring

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// shownCommit describes the worktree in which a directory is, if that shows a commit and no
// branch, such as ../look after "git worktree add --detach ../look symphony/ABC-7": a person
// looks at the work of an agent there. It is empty for any other directory. owner is the
// WORKFLOW.md of the repository; empty if it has none.
func shownCommit(ctx context.Context, dir string) (place, owner string) {
	top, gitDir := linkedWorktree(dir)
	if top == "" {
		return "", ""
	}
	head, err := os.ReadFile(filepath.Join(gitDir, "HEAD"))
	if err != nil {
		return "", ""
	}
	branch, isOnBranch := strings.CutPrefix(strings.TrimSpace(string(head)), "ref: ")
	if branch == inTables {
		isOnBranch = git.OnBranch(ctx, top)
	}
	if isOnBranch {
		return "", ""
	}
	place = "the worktree " + top + ", which shows a commit and no branch: an agent may have written it"
	common := filepath.Dir(filepath.Dir(gitDir)) // /shop/.git of /shop/.git/worktrees/look
	path := filepath.Join(filepath.Dir(common), "WORKFLOW.md")
	if filepath.Base(common) == ".git" && Exists(path) {
		owner = path
	}
	return place, owner
}

// inTables is the branch in the file HEAD of a repository that keeps its references in tables,
// which only git reads.
const inTables = "refs/heads/.invalid"

// linkedWorktree returns the top of the linked worktree of git in which a directory is, and
// git's directory for it; empty if it is in none.
func linkedWorktree(dir string) (top, gitDir string) {
	top = RepositoryAbove(dir)
	if top == "" {
		return "", ""
	}
	link, err := os.ReadFile(filepath.Join(top, ".git"))
	if err != nil { // the directory of a whole repository
		return "", ""
	}
	to, isLink := strings.CutPrefix(strings.TrimSpace(string(link)), "gitdir: ")
	if !isLink {
		return "", ""
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(top, to)
	}
	if filepath.Base(filepath.Dir(to)) != "worktrees" { // a submodule
		return "", ""
	}
	return top, to
}

// RepositoryAbove returns the top of the work tree of git that contains a directory, such as
// /src/shop for /src/shop/ops; empty if there is none.
func RepositoryAbove(dir string) string {
	for !isRepository(filepath.Join(dir, ".git")) {
		if dir == filepath.Dir(dir) {
			return ""
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

// isRepository reports whether git takes a path .git for a repository: a file or a link that leads to
// one, or a directory with HEAD. Codex leaves an empty directory behind where it is killed.
func isRepository(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && (!info.IsDir() || existsAt(filepath.Join(path, "HEAD")))
}

// existsAt reports whether there is something at the path, even a link that leads nowhere.
func existsAt(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
