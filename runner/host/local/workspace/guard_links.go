package workspace

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Git follows links in its own directories when it writes: to a reflog it appends who commits, a message it writes over
// COMMIT_EDITMSG. A link there to a file of the account would have a hook's `git commit` or `git push` write into that,
// in words of the agent's. Git makes no links itself, so those that are new go.

// sharedDirs are those of a main repository that an agent in a linked worktree can write (GitWritable).
var sharedDirs = []string{"objects", "refs", "logs", "reftable", "rr-cache"}

// writtenDirs are the directories of a repository that git writes in.
var writtenDirs = append(slices.Clone(sharedDirs),
	"info", "rebase-merge", "rebase-apply", "sequencer", "worktrees", "modules", "hooks", "remotes", "branches", "lfs", "svn")

// linkSearch says where in a git directory links count: in which of its directories, and which that stand right in it.
// Nil is all of them.
type linkSearch struct {
	dir       string
	in, names []string
	apart     map[string]bool // directories that are searched by themselves
}

// searchLinks is how one that was found is searched. What is in a .git is git's as a whole; elsewhere work trees may lie
// in it, or it only looks like one: git needs a HEAD in it, or worktrees that it is shared by.
func searchLinks(dir string, apart map[string]bool) linkSearch {
	s := linkSearch{dir: dir, apart: apart}
	if inDotGit(dir) {
		return s
	}
	s.in = writtenDirs
	_, noHead := os.Lstat(filepath.Join(dir, "HEAD"))
	_, noWorktrees := os.Lstat(filepath.Join(dir, "worktrees"))
	if noHead != nil && noWorktrees != nil {
		s.in, s.names = []string{}, []string{}
	}
	return s
}

// links gives them by path. What is not ours to read is not the agent's either.
func (s linkSearch) links(ctx context.Context) (map[string]kept, error) {
	links := map[string]kept{}
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case absent(err), errors.Is(err, fs.ErrPermission):
			return nil
		case err != nil || path == s.dir:
			return err
		}
		rel := strings.TrimPrefix(path, s.dir+"/")
		switch {
		case d.IsDir() && s.passes(path, rel):
			return fs.SkipDir
		case d.IsDir():
			if err := openForUs(path); err != nil && !errors.Is(err, fs.ErrPermission) {
				return err
			}
		case d.Type()&fs.ModeSymlink != 0 && (strings.Contains(rel, "/") || oneOf(s.names, rel)):
			k, err := lookAtFile(path)
			if err != nil {
				return err
			}
			if rel != "HEAD" || !isReference(k.Target) {
				links[path] = k
			}
		}
		return nil
	})
	return links, err
}

// passes reports a directory that is not looked into: objects has 256 with files that git only reads once they are there.
func (s linkSearch) passes(path, rel string) bool {
	first, below, _ := strings.Cut(rel, "/")
	return s.apart[path] || !oneOf(s.in, first) ||
		first == "objects" && len(below) == 2 && strings.Trim(below, "0123456789abcdef") == ""
}

func oneOf(list []string, name string) bool { return list == nil || slices.Contains(list, name) }

// isReference reports what git takes for the name of a reference where HEAD is a link, its old form, and doesn't follow.
func isReference(target string) bool {
	return strings.HasPrefix(target, "refs/") && filepath.IsLocal(target)
}

func setOf(list []string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, s := range list {
		set[s] = true
	}
	return set
}

// keepLinks writes down the links that are in git directories before the agent is.
func (t *trusted) keepLinks(ctx context.Context, dirs []string) error {
	apart := setOf(dirs)
	for _, dir := range dirs {
		links, err := searchLinks(dir, apart).links(ctx)
		if err != nil {
			return err
		}
		for path, k := range links {
			if _, known := t.files[path]; !known {
				t.add(path, k)
			}
		}
	}
	return nil
}

// links takes away the links in git directories that are new, and turns back those that now lead elsewhere. In what the
// main repository shares with its worktrees no link is trusted: it could be that of another's agent.
func (u *undoing) links(dirs []string) error {
	apart := setOf(dirs)
	for _, dir := range dirs {
		if err := u.linksOf(searchLinks(dir, apart), u.was.files); err != nil {
			return err
		}
	}
	if u.was.Shared == "" {
		return nil
	}
	return u.linksOf(linkSearch{dir: u.was.Shared, in: sharedDirs, names: []string{}}, nil)
}

func (u *undoing) linksOf(s linkSearch, was trustedFile) error {
	links, err := s.links(u.ctx)
	if err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(links)) {
		rel, err := filepath.Rel(s.dir, path)
		if err != nil {
			return err
		}
		if err := u.restore(path, was[path], func() { u.note(s.dir, rel) }); err != nil {
			return err
		}
	}
	return nil
}
