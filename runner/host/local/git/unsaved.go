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
// The rule: git decides, for each repository at or below dir. Saved is a commit that a remote-tracking reference
// contains, and a file that is committed as it is or ignored. A remote that lies below dir does not count. Unsaved are
// commits of HEAD (detached or not), branches, stashes, other references and submodules that no remote has, and modified or
// untracked files. A repository without a remote has saved nothing. Whatever can't be read counts as unsaved, and so does what exceeds the limits of the search.
//
// Files outside of every repository are not judged: a workspace without a repository goes to the trash when its issue is
// done, and is deleted after workspace.keep_removed_ms.
//
// A tag counts only while it is a file of its own: git clone packs the tags of its remote, reachable or not, and those
// exist there. In a linked worktree whose main repository lies outside of dir the branches and stashes are safe there.
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
	trees, unread := findRepositories(ctx, top)
	var all []string
	seen := map[string]bool{} // git directories
	for i, tree := range trees {
		if i == maxRepositories {
			all = append(all, "more repositories than are examined")
			break
		}
		if work := unsavedIn(ctx, tree, top, seen); work != "" {
			if tree != top {
				work = "in " + strings.TrimPrefix(tree, top+"/") + " " + work
			}
			all = append(all, work)
		}
	}
	if unread {
		all = append(all, "folders that can't be read")
	}
	return strings.Join(all, ", ")
}

// findRepositories lists the directories with a .git. It follows no links.
func findRepositories(ctx context.Context, top string) (trees []string, unread bool) {
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENAMETOOLONG): // git works at no such depth
			return nil
		case err != nil:
			unread = true
			return nil //nolint:nilerr // it is reported, and the rest is searched
		case d.Name() != ".git" || path == top:
			return nil
		}
		trees = append(trees, filepath.Dir(path))
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	return trees, unread || err != nil
}

// unsavedIn judges the repository of one work tree, and the git directories of submodules that are not checked out.
func unsavedIn(ctx context.Context, tree, top string, seen map[string]bool) string {
	r, ok, err := openToCompare(tree)
	if err != nil || !ok {
		return "a repository that can't be read"
	}
	defer r.close() //nolint:errcheck // a temporary directory
	seen[r.gitDir] = true
	list := r.unsavedCommits(ctx, top)
	changes := 0
	err = r.eachChange(ctx, func(_, path string) {
		if !strings.HasSuffix(path, "/") { // a repository of its own, which is judged by itself
			changes++
		}
	})
	switch {
	case err != nil:
		list = append(list, "changes that git can't list")
	case changes > 0:
		list = append(list, text.Plural(changes, "change")+" not committed")
	}
	_ = filepath.WalkDir(filepath.Join(r.gitDir, "modules"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || seen[path] || !isFile(filepath.Join(path, "HEAD")) || !isFile(filepath.Join(path, "config")) {
			return nil //nolint:nilerr // most repositories have none
		}
		seen[path] = true
		module := reader{repository: repository{tree: path, gitDir: path, common: path}, scratch: r.scratch}
		work := []string{"commits that git can't count"}
		if err := module.readReferences(); err == nil {
			work = module.unsavedCommits(ctx, top)
		}
		if len(work) > 0 {
			list = append(list, "in submodule "+filepath.Base(path)+" "+work[0])
		}
		return nil
	})
	return strings.Join(list, ", ")
}

// unsavedCommits says how many commits no remote-tracking reference contains, nothing for none.
func (r *reader) unsavedCommits(ctx context.Context, top string) []string {
	unknown := []string{"commits that git can't count"}
	// Else branches survive in the main repository, but not those of a linked worktree's submodule: it goes with the worktree.
	ours := text.PathInside(top, r.common) || strings.Contains(r.common, "/worktrees/") && strings.Contains(r.common, "/modules/")
	work, err := r.heads(ours)
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
		case strings.HasPrefix(name, "refs/remotes/"), strings.HasPrefix(name, "refs/prefetch/"), !ours:
			saved = append(saved, "^"+id)
		case !r.packed[name] || !strings.HasPrefix(name, "refs/tags/"):
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

// heads are the commits of HEAD, and, where the repository itself is in the workspace, of the HEADs of its linked
// worktrees and of every stash: older ones than refs/stash stand in its log only.
func (r *reader) heads(ours bool) (ids []string, err error) {
	dirs := []string{r.gitDir}
	var log []byte
	if ours {
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
