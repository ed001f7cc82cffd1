package wiring

import (
	"os"
	"path/filepath"
	"strings"
)

// shownCommit describes the worktree in which a directory is, if that shows a commit and no
// branch, such as ../look after "git worktree add --detach ../look symphony/ABC-7": a person
// looks at the work of an agent there. It is empty for any other directory. owner is the
// WORKFLOW.md of the repository; empty if it has none.
func shownCommit(dir string) (place, owner string) {
	top, gitDir := linkedWorktree(dir)
	if top == "" {
		return "", ""
	}
	head, err := os.ReadFile(filepath.Join(gitDir, "HEAD"))
	if err != nil || strings.HasPrefix(string(head), "ref: ") {
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

// linkedWorktree returns the top of the linked worktree of git in which a directory is, and
// git's directory for it; empty if it is in none.
func linkedWorktree(dir string) (top, gitDir string) {
	for top = dir; ; top = filepath.Dir(top) {
		path := filepath.Join(top, ".git")
		if _, err := os.Lstat(path); err == nil {
			link, err := os.ReadFile(path) // an error for the directory of a whole repository
			to, isLink := strings.CutPrefix(strings.TrimSpace(string(link)), "gitdir: ")
			if err != nil || !isLink {
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
		if top == filepath.Dir(top) {
			return "", ""
		}
	}
}
