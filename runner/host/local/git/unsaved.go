package git

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

const (
	unsavedTimeout  = 30 * time.Second // for one workspace
	maxRepositories = 50               // that are examined in one workspace
)

// Unsaved says which commits and changes below dir exist nowhere else, for instance "2 commits not on any remote,
// 1 change not committed". An empty answer means that nothing is lost when dir is deleted. Every decision to remove a
// workspace for good goes through this function.
//
// The rule: git decides, for each repository at or below dir. Saved is a commit that a remote-tracking reference contains, and a
// file that is committed as it is or ignored. A remote that lies below dir does not count. Unsaved are commits of HEAD (detached
// or not), branches, tags, stashes, other references and submodules that no remote has, and modified or untracked files, also
// those that the index hides from git status. A repository without a remote has saved nothing. Whatever can't be read counts as
// unsaved, and so does what exceeds the limits of the search.
//
// Files outside of every repository are not judged: a workspace without a repository goes to the trash when its issue is
// done, and is deleted after workspace.keep_removed_ms. A bare repository is judged where it lies in no work tree: there its
// files are untracked or ignored.
//
// git clone packs the tags of its remote, reachable or not, and those exist there. So packed tags count only once something that
// no clone packs is packed beside them: then they may have been made here. In a linked worktree whose main repository lies
// outside of dir the branches and stashes are safe there.
//
// Nothing that a repository names is run, and nothing in it is written.
func Unsaved(ctx context.Context, dir string) string {
	ctx, cancel := context.WithTimeout(ctx, unsavedTimeout)
	defer cancel()
	top, ok, err := resolveDir(dir)
	if err != nil {
		return "a folder that can't be read"
	}
	if !ok {
		return ""
	}
	var all []string
	report := func(path string, work []string) {
		place, inside := strings.CutPrefix(path, top+"/")
		switch {
		case len(work) == 0:
			return
		case path == top:
			place = ""
		case !inside || strings.Contains(path, "/.git/"):
			place = "in submodule " + filepath.Base(path) + " "
		default:
			place = "in " + place + " "
		}
		all = append(all, place+strings.Join(work, ", "))
	}
	trees, bare, unread := findRepositories(ctx, top)
	bare = slices.DeleteFunc(bare, func(dir string) bool {
		return slices.ContainsFunc(trees, func(tree string) bool { return text.PathInside(tree, dir) })
	})
	judged := map[string]bool{} // git directories
	for _, tree := range trees[:min(len(trees), maxRepositories)] {
		r, ok, err := openToCompare(tree)
		if err != nil || !ok {
			report(tree, []string{"a repository that can't be read"})
			continue
		}
		report(tree, append(r.unsavedCommits(ctx, top), r.unsavedChanges(ctx)...))
		judged[r.gitDir], judged[r.common] = true, true
		_, modules, missed := findRepositories(ctx, filepath.Join(r.gitDir, "modules"))
		bare, unread = append(bare, modules...), unread || missed
		_ = r.close() // a temporary directory
	}
	for _, dir := range bare[:min(len(bare), maxRepositories)] {
		if judged[dir] {
			continue
		}
		r, err := newReader(repository{tree: dir, gitDir: dir, common: dir})
		if err != nil {
			report(dir, []string{"a repository that can't be read"})
			continue
		}
		report(dir, r.unsavedCommits(ctx, top))
		_ = r.close() // a temporary directory
	}
	if max(len(trees), len(bare)) > maxRepositories {
		all = append(all, "more repositories than are examined")
	}
	if unread {
		all = append(all, "folders that can't be read")
	}
	return strings.Join(all, ", ")
}

// findRepositories lists the directories with a .git, and those that are a git directory themselves. It follows no links.
func findRepositories(ctx context.Context, top string) (trees, bare []string, unread bool) {
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		dir := filepath.Dir(path)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENAMETOOLONG): // git works at no such depth
		case err != nil:
			unread = true
		case d.Name() == ".git" && path != top:
			trees = append(trees, dir)
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.Name() == "HEAD" && exists(filepath.Join(dir, "objects")) && exists(filepath.Join(dir, "refs")):
			bare = append(bare, dir)
		}
		return nil // what could not be read is reported, and the rest is searched
	})
	return trees, bare, unread || err != nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// unsavedChanges says how many files are not committed as they are, nothing for none.
func (r *reader) unsavedChanges(ctx context.Context) []string {
	changes := 0
	err := r.showHidden(ctx)
	if err == nil {
		err = r.eachChange(ctx, func(_, path string) {
			if !strings.HasSuffix(path, "/") { // a repository of its own, which is judged by itself
				changes++
			}
		})
	}
	switch {
	case err != nil:
		return []string{"changes that git can't list"}
	case changes > 0:
		return []string{text.Plural(changes, "change") + " not committed"}
	}
	return nil
}

// showHidden has git status look at the files that git was told to take for unchanged (git update-index --assume-unchanged,
// --skip-worktree), as far as they exist: in a sparse checkout most do not.
func (r *reader) showHidden(ctx context.Context) error {
	var hidden strings.Builder
	cmd := r.git(ctx, "ls-files", "-v", "-z")
	cmd.Stdout = &splitWriter{each: func(entry string) {
		tag, path, _ := strings.Cut(entry, " ")
		if (tag == "S" || tag != strings.ToUpper(tag)) && exists(filepath.Join(r.tree, path)) {
			hidden.WriteString(path + "\x00")
		}
	}}
	err := r.run(cmd)
	if err == nil && hidden.Len() > 0 {
		err = r.copyIndex()
		for _, show := range []string{"--no-assume-unchanged", "--no-skip-worktree"} {
			if err == nil {
				cmd := r.git(ctx, "update-index", show, "-z", "--stdin")
				cmd.Stdin = strings.NewReader(hidden.String())
				err = r.run(cmd)
			}
		}
	}
	return err
}

// unsavedCommits says how many commits no remote-tracking reference contains, nothing for none.
func (r *reader) unsavedCommits(ctx context.Context, top string) []string {
	unknown := []string{"commits that git can't count"}
	// Else branches survive in the main repository, but not those of a linked worktree's submodule: it goes with the worktree.
	goesWithDir := text.PathInside(top, r.common) || strings.Contains(r.common, "/worktrees/") && strings.Contains(r.common, "/modules/")
	work, err := r.heads(goesWithDir)
	if err != nil {
		return unknown
	}
	within, err := r.remotesBelow(ctx, top)
	if err != nil {
		return unknown
	}
	var saved []string
	for name, id := range r.refs {
		switch {
		case strings.HasPrefix(id, "ref:"): // what it leads to is listed, too
		case !objectID(id):
			return unknown
		case slices.ContainsFunc(within, func(remote string) bool { return strings.HasPrefix(name, "refs/remotes/"+remote+"/") }):
		case strings.HasPrefix(name, "refs/remotes/"), strings.HasPrefix(name, "refs/prefetch/"), !goesWithDir:
			saved = append(saved, "^"+id)
		case !r.packed[name] || r.repacked || !strings.HasPrefix(name, "refs/tags/"):
			work = append(work, id)
		}
	}
	if len(work) == 0 {
		return nil
	}
	cmd := r.git(ctx, "rev-list", "--count", "--stdin")
	cmd.Stdin = strings.NewReader(strings.Join(append(work, saved...), "\n") + "\n")
	var out bytes.Buffer
	cmd.Stdout = &out
	err = r.run(cmd)
	n, notNumber := strconv.Atoi(strings.TrimSpace(out.String()))
	switch {
	case err != nil || notNumber != nil:
		return unknown
	case n > 0:
		return []string{text.Plural(n, "commit") + " not on any remote"}
	}
	return nil
}

// remotesBelow returns the remotes that lie below top themselves: what was pushed there goes with it.
func (r *reader) remotesBelow(ctx context.Context, top string) (names []string, err error) {
	data, err := files.ReadRegular(filepath.Join(r.common, "config"), maxControlFile)
	if files.Absent(err) {
		return nil, nil
	}
	var list []setting
	if err == nil {
		list, err = parseConfig(ctx, data)
	}
	for _, s := range list {
		if s.section != "remote" || s.name != "url" || s.sub == "" {
			continue
		}
		path := absolute(r.tree, strings.TrimPrefix(s.value, "file://"))
		if real, ok, err := resolveDir(path); err == nil && ok && text.PathInside(top, real) {
			names = append(names, s.sub)
		}
	}
	return names, err
}

// heads are the commits of HEAD, and, where the repository goes with the workspace, of the HEADs of its linked
// worktrees and of every stash: older ones than refs/stash stand in its log only.
func (r *reader) heads(goesWithDir bool) (ids []string, err error) {
	dirs := []string{r.gitDir}
	var log []byte
	if goesWithDir {
		worktrees, err := os.ReadDir(filepath.Join(r.common, "worktrees"))
		if err != nil && !files.Absent(err) {
			return nil, err
		}
		for _, w := range worktrees {
			dirs = append(dirs, filepath.Join(r.common, "worktrees", w.Name()))
		}
		if log, err = files.ReadRegular(filepath.Join(r.common, "logs", "refs", "stash"), maxGitFile); err != nil && !files.Absent(err) {
			return nil, err
		}
	}
	for _, dir := range dirs {
		_, commit, err := r.headOf(dir)
		if err != nil {
			return nil, err
		}
		if commit != "" {
			ids = append(ids, commit)
		}
	}
	for line := range strings.Lines(string(log)) {
		if words := strings.Fields(line); len(words) > 1 && objectID(words[1]) {
			ids = append(ids, words[1])
		}
	}
	return ids, nil
}
