package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
// contains, and a file that is committed as it is or ignored. Unsaved are commits of HEAD (detached or not), branches,
// stashes, other references and submodules that no remote has, and modified or untracked files. A repository without a
// remote has saved nothing. Whatever can't be read counts as unsaved, and so does what exceeds the limits of the search.
//
// Files outside of every repository are not judged: a workspace without a repository goes to the trash when its issue is
// done, and is deleted after workspace.keep_removed_ms.
//
// A tag counts only while it is a file of its own: git clone packs the tags of its remote, reachable or not, and those
// exist there. In a linked worktree whose main repository lies outside of dir the branches and stashes are safe there.
//
// Nothing that a repository names is run, and nothing in it is written: see borrowedGit.
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
	b, ok, err := borrow(tree)
	if err != nil || !ok {
		return "a repository that can't be read"
	}
	defer b.done() //nolint:errcheck // a temporary directory
	seen[b.repo.gitDir] = true
	var list []string
	if work := b.unsavedCommits(ctx, top); work != "" {
		list = append(list, work)
	}
	changes := 0
	err = b.eachChange(ctx, func(c Changed) {
		if !strings.HasSuffix(c.Path, "/") { // a repository of its own, which is judged by itself
			changes++
		}
	})
	switch {
	case err != nil:
		list = append(list, "changes that git can't list")
	case changes > 0:
		list = append(list, text.Plural(changes, "change")+" not committed")
	}
	for _, module := range b.repo.modules() {
		if seen[module] {
			continue
		}
		seen[module] = true
		m := borrowed{repo: repository{gitDir: module, common: module}, tree: module, scratch: b.scratch}
		if work := m.unsavedCommits(ctx, top); work != "" {
			list = append(list, "in submodule "+filepath.Base(module)+" "+work)
		}
	}
	return strings.Join(list, ", ")
}

// modules lists the git directories of submodules.
func (repo repository) modules() (dirs []string) {
	_ = filepath.WalkDir(filepath.Join(repo.gitDir, "modules"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || !exists(filepath.Join(path, "HEAD")) || !exists(filepath.Join(path, "config")) {
			return nil //nolint:nilerr // most repositories have none
		}
		dirs = append(dirs, path)
		return nil
	})
	return dirs
}

// unsavedCommits counts the commits that no remote-tracking reference contains.
func (b *borrowed) unsavedCommits(ctx context.Context, top string) string {
	const unknown = "commits that git can't count"
	refs, err := b.repo.references()
	if err != nil {
		return unknown
	}
	ours := b.repo.common == top || within(top, b.repo.common) // else branches survive in the main repository
	var saved, work []string
	for _, r := range refs {
		switch {
		case strings.HasPrefix(r.name, "refs/remotes/"), strings.HasPrefix(r.name, "refs/prefetch/"), !ours:
			saved = append(saved, "^"+r.id)
		case r.packed && strings.HasPrefix(r.name, "refs/tags/"):
		default:
			work = append(work, r.id)
		}
	}
	heads, err := b.repo.heads(ours)
	if err != nil {
		return unknown
	}
	if work = append(work, heads...); len(work) == 0 {
		return ""
	}
	cmd := b.git(ctx, "rev-list", "--count", "--stdin")
	cmd.Stdin = strings.NewReader(strings.Join(append(work, saved...), "\n") + "\n")
	var out bytes.Buffer
	cmd.Stdout = &out
	err = b.run(cmd)
	n, notNumber := strconv.Atoi(strings.TrimSpace(out.String()))
	switch {
	case err != nil || notNumber != nil:
		return unknown
	case n > 0:
		return text.Plural(n, "commit") + " not on any remote"
	}
	return ""
}

// heads are the commits of HEAD, and, where the repository itself is in the workspace, of the HEADs of its linked
// worktrees and of every stash: older ones than refs/stash stand in its log only.
func (repo repository) heads(ours bool) (ids []string, err error) {
	add := func(gitDir string) error {
		_, commit, err := repository{gitDir: gitDir, common: repo.common}.head()
		if commit != "" {
			ids = append(ids, commit)
		}
		return err
	}
	if err := add(repo.gitDir); err != nil || !ours {
		return ids, err
	}
	worktrees, err := os.ReadDir(filepath.Join(repo.common, "worktrees"))
	if err != nil && !files.Absent(err) {
		return nil, err
	}
	for _, w := range worktrees {
		if err := add(filepath.Join(repo.common, "worktrees", w.Name())); err != nil {
			return nil, err
		}
	}
	log, err := files.ReadRegular(filepath.Join(repo.common, "logs", "refs", "stash"), maxGitFile)
	if err != nil && !files.Absent(err) {
		return nil, err
	}
	for line := range strings.Lines(string(log)) {
		if words := strings.Fields(line); len(words) > 1 && objectID(words[1]) {
			ids = append(ids, words[1])
		}
	}
	return ids, nil
}

// reference is a name in a repository with the object that it stands for.
type reference struct {
	name, id string
	packed   bool
}

// references lists all references but symbolic ones: what those lead to is listed, too. A link or anything else that git
// does not write itself is an error.
func (repo repository) references() (refs []reference, err error) {
	loose := map[string]bool{}
	root := filepath.Join(repo.common, "refs")
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is not a file", path)
		}
		if strings.HasSuffix(path, ".lock") {
			return nil
		}
		data, err := files.ReadRegular(path, 1<<10)
		if err != nil {
			return err
		}
		id := strings.TrimSpace(string(data))
		name := "refs/" + filepath.ToSlash(strings.TrimPrefix(path, root+"/"))
		loose[name] = true
		switch {
		case strings.HasPrefix(id, "ref:"):
		case !objectID(id):
			return fmt.Errorf("%s holds %.60q", path, id)
		default:
			refs = append(refs, reference{name: name, id: id})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	packed, err := files.ReadRegular(filepath.Join(repo.common, "packed-refs"), maxGitFile)
	if err != nil && !files.Absent(err) {
		return nil, err
	}
	for line := range strings.Lines(string(packed)) {
		id, name, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && objectID(id) && !loose[name] {
			refs = append(refs, reference{name: name, id: id, packed: true})
		}
	}
	return refs, nil
}
