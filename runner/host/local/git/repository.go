package git

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// repository is where git keeps the data of a work tree. All paths are absolute and free of links.
type repository struct {
	tree   string
	gitDir string // HEAD and index
	// common holds objects and refs: gitDir itself, but for a linked worktree the main repository's.
	common string
	linked bool
	inTree bool // gitDir is <work tree>/.git, a real directory
}

// maxGitFile bounds what is read of git's small files, in bytes. packed-refs is the largest of them.
const maxGitFile = 32 << 20

// openRepository reads what <tree>/.git says; ok is false where there is no repository or it makes no sense.
// None of it is trusted: it may point anywhere.
func openRepository(tree string) (repo repository, ok bool, err error) {
	dotGit := filepath.Join(tree, ".git")
	info, err := os.Lstat(dotGit)
	if files.Absent(err) {
		return repository{}, false, nil
	}
	if err != nil {
		return repository{}, false, files.Failed(err, "read the repository of %s", tree)
	}
	gitDir := dotGit
	if info.Mode().IsRegular() {
		if gitDir, ok, err = pointer(dotGit, "gitdir:"); !ok || err != nil {
			return repository{}, false, err
		}
	}
	if repo.gitDir, ok, err = resolveDir(gitDir); !ok || err != nil {
		return repository{}, false, err
	}
	repo.tree, repo.inTree = tree, info.IsDir()
	common, ok, err := pointer(filepath.Join(repo.gitDir, "commondir"), "")
	if err != nil {
		return repository{}, false, err
	}
	if !ok {
		repo.common = repo.gitDir
		return repo, true, nil
	}
	repo.common, repo.linked, err = resolveDir(common)
	return repo, repo.linked, err
}

// pointer reads a file of one line that names a path, relative to the file's directory if it is not absolute.
func pointer(file, prefix string) (path string, ok bool, err error) {
	b, err := files.ReadRegular(file, 1<<16)
	if files.Absent(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, files.Failed(err, "read the repository's %s", file)
	}
	path, ok = strings.CutPrefix(strings.TrimRight(string(b), "\r\n"), prefix)
	path = strings.TrimSpace(path)
	if !ok || path == "" || strings.ContainsAny(path, "\n\x00") {
		return "", false, nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(file), path)
	}
	return path, true, nil
}

// resolveDir resolves all links of an existing directory; ok is false where there is none.
func resolveDir(path string) (real string, ok bool, err error) {
	real, err = filepath.EvalSymlinks(path)
	var info fs.FileInfo
	if err == nil {
		info, err = os.Stat(real)
	}
	if files.Absent(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, files.Failed(err, "resolve %s", path)
	}
	return real, info.IsDir(), nil
}

// Writable gives exactly the directories that `git commit` in dir needs to write (design section 9):
// <dir>/.git of an ordinary clone; of a linked worktree its own git directory and those of the main
// repository's objects, refs (reftable), logs and recorded resolutions of conflicts that exist; nothing without a
// repository in dir itself. It reads files and runs nothing. (A bare main repository has no logs until they
// are made; until then git refuses to commit in its worktrees where it may not make them itself.)
//
// The agent can have written what is read here, to be given more the next time. So a directory outside dir
// is named only where it is proven to be part of a repository that itself names dir as its worktree: it lies
// in <main>/worktrees and points back. A git directory elsewhere (a link, --separate-git-dir, a submodule)
// is given only where it resolves to a place inside dir, or inside one of the opened directories: those the agent
// may write anyhow, but codex protects the git directory in them for as long as it is not named itself.
func Writable(dir string, opened ...string) (list []string, err error) {
	tree, ok, err := resolveDir(dir)
	if err != nil || !ok {
		return nil, err
	}
	repo, ok, err := openRepository(tree)
	switch {
	case err != nil || !ok:
		return nil, err
	case repo.inTree && !repo.linked:
		return []string{repo.gitDir}, nil
	case !repo.linked:
		for _, dir := range append([]string{tree}, opened...) {
			real, ok, err := resolveDir(dir)
			if err != nil || ok && text.PathInside(real, repo.gitDir) {
				return []string{repo.gitDir}, err
			}
		}
		return nil, nil
	case filepath.Dir(repo.gitDir) != filepath.Join(repo.common, "worktrees"):
		return nil, nil
	}
	back, ok, err := pointer(filepath.Join(repo.gitDir, "gitdir"), "")
	if err != nil || !ok || filepath.Base(back) != ".git" {
		return nil, err
	}
	// Resolved but for its last part: that must be our .git, not a link to it.
	if owner, ok, err := resolveDir(filepath.Dir(back)); err != nil || !ok || owner != tree {
		return nil, err
	}
	list = []string{repo.gitDir}
	for _, name := range sharedDirs {
		path := filepath.Join(repo.common, name)
		// A link here would open what it leads to.
		if info, err := os.Lstat(path); err == nil && info.IsDir() {
			list = append(list, path)
		} else if err != nil && !files.Absent(err) {
			return nil, files.Failed(err, "read the repository's %s", path)
		}
	}
	return list, nil
}

// Root is the root of the main repository that dir lies in, under which codex looks its trust up: that of
// the nearest directory upwards with a .git, or of the repository that it is a linked worktree of. Without a
// repository it is dir itself. All links are resolved.
func Root(dir string) (string, error) {
	real, ok, err := resolveDir(dir)
	if err == nil && !ok {
		err = files.Failed(fs.ErrNotExist, "find the repository of %s", dir)
	}
	if err != nil {
		return "", err
	}
	for at := real; ; at = filepath.Dir(at) {
		info, err := os.Lstat(filepath.Join(at, ".git"))
		switch {
		case files.Absent(err) && at == filepath.Dir(at):
			return real, nil
		case files.Absent(err):
			continue
		case err != nil:
			return "", files.Failed(err, "find the repository of %s", dir)
		case !info.Mode().IsRegular():
			return at, nil
		}
		gitDir, ok, err := pointer(filepath.Join(at, ".git"), "gitdir:")
		if err == nil && ok {
			gitDir, ok, err = resolveDir(gitDir)
		}
		if worktrees := filepath.Dir(gitDir); ok && filepath.Base(worktrees) == "worktrees" {
			return filepath.Dir(filepath.Dir(worktrees)), err
		}
		return at, err
	}
}
