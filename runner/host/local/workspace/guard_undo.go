package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// undoing is one UndoGit.
type undoing struct {
	ctx     context.Context
	w       *Workspace
	was     *trusted
	names   []string
	partial bool
}

// note names something that is undone; the name of what lies in another repository than the workspace's own begins
// with where that is.
func (u *undoing) note(dir, what string) {
	if dir != filepath.Join(u.w.Path, ".git") && !slices.Contains(u.was.Outside, dir) {
		if rel, err := filepath.Rel(u.w.Path, dir); err == nil && filepath.IsLocal(rel) {
			dir = rel
		}
		what = dir + ": " + what
	}
	if !slices.Contains(u.names, what) {
		u.names = append(u.names, what)
	}
}

// run undoes from the outside in: first where git directories are, for that decides what is looked at, then what
// stands in them.
func (u *undoing) run() error {
	if err := u.mainPointers(); err != nil {
		return err
	}
	search, cancel := context.WithTimeout(u.ctx, searchFor)
	found := findGit(search, append([]string{u.w.Path}, insides(u.was.Outside)...)...)
	dirs := slices.Concat(found.dirs, u.was.Outside)
	found = found.and(findGit(search, found.ledTo(u.w.Path, u.w.TmpDir, u.w.CacheDir)...))
	cancel()
	u.partial = !found.whole
	for _, path := range found.pointers {
		leads, err := u.pointer(path, dirs)
		if err != nil {
			return err
		}
		dirs = append(dirs, leads...)
	}
	dirs = slices.Compact(slices.Sorted(slices.Values(slices.Concat(dirs, found.dirs))))
	if err := u.links(dirs); err != nil {
		return err
	}
	judged := map[string]bool{}
	for _, dir := range dirs {
		if err := u.gitDir(dir, judged); err != nil {
			return err
		}
	}
	return u.included(dirs, judged)
}

// included judges the configurations that were trusted and are in no git directory now.
func (u *undoing) included(dirs []string, judged map[string]bool) error {
	paths := u.was.configs()
	slices.Sort(paths) // links on the way before what lies behind them
	for _, path := range paths {
		away, err := u.ledAway(path, dirs)
		if err == nil && !away {
			err = u.config(path, "", judged)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ledAway reports that a configuration, and what stands there now, is no longer where it was: the agent has put a link
// in the place of a directory above it. That link goes, and nothing is written where it leads.
func (u *undoing) ledAway(path string, dirs []string) (bool, error) {
	dir := filepath.Dir(path)
	if real, err := filepath.EvalSymlinks(dir); absent(err) || err == nil && (real == dir || slices.Contains(dirs, real)) {
		return false, nil
	}
	link := ""
	for _, place := range append([]string{u.w.Path, u.w.TmpDir, u.w.CacheDir}, u.was.Outside...) {
		for up := dir; within(place, up); up = filepath.Dir(up) {
			if info, err := os.Lstat(up); err == nil && info.Mode()&fs.ModeSymlink != 0 {
				link = up
			}
		}
	}
	if link == "" {
		return true, nil // not the agent's
	}
	return true, u.restore(link, u.was.files[link], func() { u.note(link, "leads elsewhere") })
}

// mainPointers puts back where the workspace's own git directory is, and what that says of its main repository. A
// directory that stands in the way is kept in the trash: there may be work in it.
func (u *undoing) mainPointers() error {
	top := filepath.Join(u.w.Path, ".git")
	if was := u.was.files[top]; was.Kind == isFile || was.Kind == isLink {
		if err := u.restore(top, was, func() { u.note(top, ".git") }); err != nil {
			return err
		}
	}
	for _, dir := range u.was.Outside {
		if gone, err := u.outside(dir); gone || err != nil {
			return err
		}
		for _, name := range pointerFiles {
			path := filepath.Join(dir, name)
			if err := u.restore(path, u.was.files[path], func() { u.note(dir, name) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// outside takes away what stands in the place of a git directory outside of the workspace, and is none.
func (u *undoing) outside(dir string) (gone bool, err error) {
	now, err := lookAtFile(dir)
	if err != nil || now.Kind == isNothing {
		return true, err
	}
	if now.Kind != isDir {
		u.note(dir, "no directory")
		return true, takeAway(u.ctx, dir)
	}
	if real, err := filepath.EvalSymlinks(dir); err != nil || real != dir {
		return true, errors.Join(err, fmt.Errorf("%s is now %s", dir, real))
	}
	return false, nil
}

// restore makes a path what it was, if it is not.
func (u *undoing) restore(path string, was kept, changed func()) error {
	now, err := lookAtFile(path)
	if err != nil || now.same(was) {
		return err
	}
	changed()
	if now.Kind == isDir && was.Kind != isDir {
		if err := u.setAside(path); err != nil {
			return err
		}
	}
	if was.Kind == isNothing {
		return takeAway(u.ctx, path)
	}
	if now.Kind == isDir && was.Kind == isDir {
		return makeDir(u.ctx, path, was.Mode)
	}
	if was.Sum != "" {
		return takeAway(u.ctx, path)
	}
	return was.putBack(u.ctx, path)
}

// setAside moves a directory into the trash, or removes it where that lies on another volume.
func (u *undoing) setAside(path string) error {
	if err := openForUs(filepath.Dir(path)); err != nil {
		return err
	}
	if _, err := u.w.root.moveToTrash(path, u.w.Key, u.w.root.now()); err == nil {
		return nil
	}
	return takeAway(u.ctx, path)
}

// pointer judges a file or link named .git. It may lead to a git directory that is looked at here, to nothing, and to
// where it led when it was trusted. leads is a git directory that is to be looked at because of it: of a worktree that
// was added to a repository elsewhere.
func (u *undoing) pointer(path string, dirs []string) (leads []string, err error) {
	now, err := lookAtFile(path)
	if err != nil || now.Kind == isNothing {
		return nil, err
	}
	was, real := u.was.files[path], leadsTo(path, now)
	if real == leadsNowhere || slices.Contains(dirs, real) || now.same(was) && real == was.Real && real != "" {
		return nil, nil
	}
	if above := filepath.Dir(real); filepath.Base(above) == "worktrees" && slices.Contains(u.was.Outside, filepath.Dir(above)) {
		return []string{real}, nil
	}
	if path == filepath.Join(u.w.Path, ".git") {
		u.note(path, ".git")
	} else {
		u.note(path, "leads elsewhere")
	}
	return nil, takeAway(u.ctx, path)
}

// leadsNowhere is where a .git leads that git can make nothing of.
const leadsNowhere = "nowhere"

// leadsTo is the real path of the directory that a file or link named .git leads to; empty where that is not clear.
func leadsTo(path string, k kept) string {
	leads := path
	if k.Kind == isFile {
		// A line's end or a zero byte in it means to git what it would not mean here.
		text := strings.TrimRight(string(k.Data), "\r\n")
		to, ok := strings.CutPrefix(text, "gitdir:")
		switch {
		case k.Sum != "" || strings.ContainsAny(to, "\r\n\x00"):
			return ""
		case !ok:
			return leadsNowhere
		}
		leads = absolute(filepath.Dir(path), strings.TrimPrefix(to, " "))
	}
	real, err := filepath.EvalSymlinks(leads)
	switch {
	case absent(err):
		return leadsNowhere
	case err != nil || k.Kind == isOther:
		return ""
	}
	return real
}

// gitDir judges what stands in a git directory.
func (u *undoing) gitDir(dir string, judged map[string]bool) error {
	if err := openForUs(dir); err != nil {
		if absent(err) {
			return nil // it was outside, and is gone
		}
		return err
	}
	if err := u.common(dir); err != nil {
		return err
	}
	for _, name := range configFiles {
		if err := u.config(filepath.Join(dir, name), dir, judged); err != nil {
			return err
		}
	}
	for _, name := range guardedTrees {
		if err := u.tree(dir, name); err != nil {
			return err
		}
	}
	return u.continued(dir)
}

// common judges a commondir file that is new: that of a worktree which was added to a repository here leads two
// directories up. Any other would have git read the configuration of whatever it leads to.
func (u *undoing) common(dir string) error {
	path := filepath.Join(dir, "commondir")
	now, err := lookAtFile(path)
	if err != nil || now.Kind == isNothing || now.same(u.was.files[path]) {
		return err
	}
	if now.Kind == isFile && strings.TrimRight(string(now.Data), "\r\n") == "../.." && filepath.Base(filepath.Dir(dir)) == "worktrees" {
		return nil
	}
	u.note(dir, "commondir")
	return u.restore(path, u.was.files[path], func() {})
}

// config judges a configuration file.
func (u *undoing) config(path, dir string, judged map[string]bool) error {
	if judged[path] {
		return nil
	}
	judged[path] = true
	was := u.was.files[path]
	now, err := lookAtFile(path)
	if err != nil || now.same(was) || now.Kind == isNothing && was.Kind != isLink {
		return err // a file that is gone sets nothing
	}
	where := dir
	if where == "" { // it is included
		where = path
	}
	if was.Kind != isFile && was.Kind != isNothing || was.Sum != "" || now.Kind != isFile || now.Sum != "" {
		return u.restore(path, was, func() { u.note(where, filepath.Base(path)) })
	}
	result, changed, err := u.rules(dir).settle(u.ctx, now.Data, was.Data)
	if err != nil || len(changed) == 0 {
		return err
	}
	for _, name := range changed {
		if name == wholeFile {
			name = filepath.Base(path)
		}
		u.note(where, name)
	}
	return replaceFile(path, result, now.Mode|0o600)
}

func (u *undoing) rules(dir string) configRules {
	c := configRules{tree: u.w.Path}
	if strings.Contains(dir, "/modules/") {
		c.module = dir
	}
	return c
}

// tree makes hooks, remotes or branches what they were. Such a directory itself may be new: each repository has them.
func (u *undoing) tree(dir, name string) error {
	root := filepath.Join(dir, name)
	now, err := treeOf(u.ctx, root)
	if errors.Is(err, errEnough) {
		u.note(dir, name)
		if err := takeAway(u.ctx, root); err != nil {
			return err
		}
		now, err = nil, nil
	}
	if err != nil {
		return err
	}
	for _, path := range u.treePaths(root, now) {
		was, is := u.was.files[path], now[path]
		if was.same(is) || was.Kind == isNothing && (is.Kind == isNothing || is.Kind == isDir && path == root) {
			continue
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if err := u.restore(path, was, func() { u.note(dir, rel) }); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// treePaths are those of then and now, parents before what is in them.
func (u *undoing) treePaths(root string, now map[string]kept) (paths []string) {
	for path := range now {
		paths = append(paths, path)
	}
	for path := range u.was.files {
		if _, both := now[path]; !both && (path == root || within(root, path)) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}
