package workspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Of a git directory these are guarded. What stands in the trees git runs (hooks) or reads addresses from (remotes
// and branches, an old way to write remotes down).
var (
	configFiles  = []string{"config", "config.worktree"}
	pointerFiles = []string{"commondir", "gitdir"}
	guardedTrees = []string{"hooks", "remotes", "branches"}
)

// gather fills in what is there.
func (t *trusted) gather(ctx context.Context, w *Workspace, o GuardOptions) error {
	repo, ok, err := openRepository(w.Path)
	if err != nil {
		return err
	}
	if ok {
		t.Outside = w.outside(repo, o)
		if repo.linked && !within(w.Path, repo.common) && !slices.Contains(t.Outside, repo.common) {
			t.Shared = repo.common
		}
	}
	search, cancel := context.WithTimeout(ctx, searchFor)
	defer cancel()
	found := findGit(search, append([]string{w.Path}, insides(t.Outside)...)...)
	t.Partial = !found.whole
	for _, path := range append(found.pointers, filepath.Join(w.Path, ".git")) {
		if err := t.keep(path, false); err != nil {
			return err
		}
	}
	dirs := slices.Concat(found.dirs, t.Outside)
	for _, dir := range dirs {
		if err := t.keepDir(ctx, dir); err != nil {
			return err
		}
	}
	if err := t.keepLinks(ctx, dirs); err != nil {
		return err
	}
	places := slices.Concat([]string{w.Path, w.TmpDir, w.CacheDir}, t.Outside)
	mine := func(path string) bool {
		return slices.ContainsFunc(places, func(dir string) bool { return path == dir || within(dir, path) }) || o.Reaches(path)
	}
	if err := t.keepIncluded(ctx, mine); err != nil {
		return err
	}
	return t.findTreeHooks(ctx, w, o, mine)
}

// outside are the workspace's git directories that lie elsewhere and that the agent can write.
func (w *Workspace) outside(repo repository, o GuardOptions) (list []string) {
	if !within(w.Path, repo.gitDir) && (repo.linked || o.Reaches(repo.gitDir)) {
		list = append(list, repo.gitDir)
	}
	if repo.linked && !within(w.Path, repo.common) && o.Reaches(repo.common) {
		list = append(list, repo.common)
	}
	return list
}

// insides are where further git directories lie in one that was found by its name.
func insides(dirs []string) (list []string) {
	for _, dir := range dirs {
		list = append(list, filepath.Join(dir, "modules"))
	}
	return list
}

func (t *trusted) keep(path string, config bool) error {
	k, err := lookAtFile(path)
	if err != nil {
		return err
	}
	k.Config = config
	if strings.EqualFold(filepath.Base(path), ".git") && k.Kind != isDir {
		k.Real = leadsTo(path, k)
	}
	if k.Kind != isNothing || config {
		t.add(path, k)
	}
	return nil
}

// add bounds what is kept in all: of a file too much it is known only whether it changes.
func (t *trusted) add(path string, k kept) {
	if t.bytes += len(k.Data); t.bytes > keepTotal && k.Data != nil {
		sum := sha256.Sum256(k.Data)
		k.Data, k.Sum = nil, fmt.Sprintf("%x %d", sum, len(k.Data))
	}
	t.files[path] = k
}

func (t *trusted) keepDir(ctx context.Context, dir string) error {
	for _, name := range configFiles {
		if err := t.keep(filepath.Join(dir, name), true); err != nil {
			return err
		}
	}
	for _, name := range pointerFiles {
		if err := t.keep(filepath.Join(dir, name), false); err != nil {
			return err
		}
	}
	for _, name := range guardedTrees {
		tree, err := treeOf(ctx, filepath.Join(dir, name))
		if errors.Is(err, errEnough) {
			err = fmt.Errorf("%s holds more than %d files", filepath.Join(dir, name), treeFiles)
		}
		if err != nil {
			return err
		}
		for path, k := range tree {
			t.add(path, k)
		}
	}
	return nil
}

// includeDepth is how deep git follows includes.
const includeDepth = 10

// keepIncluded keeps the files that trusted configuration includes from where the agent can write, also those that
// are not there yet, and whatever the condition: a branch has the name that an agent gives it.
func (t *trusted) keepIncluded(ctx context.Context, mine func(string) bool) error {
	todo := t.configs()
	for range includeDepth {
		var next []string
		for _, file := range todo {
			list, err := t.included(ctx, file)
			if err != nil {
				return err
			}
			for _, path := range list {
				if path, err = t.straight(path, mine); err != nil {
					return err
				}
				if _, known := t.files[path]; known || !mine(path) {
					continue
				}
				if err := t.keep(path, true); err != nil {
					return err
				}
				next = append(next, path)
			}
		}
		todo = next
	}
	return nil
}

// straight gives a path without links on the way to it, and keeps those links.
func (t *trusted) straight(path string, mine func(string) bool) (string, error) {
	dir := filepath.Dir(path)
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || real == dir {
		return path, nil //nolint:nilerr // there is nothing behind them
	}
	for up := dir; mine(up) && up != filepath.Dir(up); up = filepath.Dir(up) {
		if info, err := os.Lstat(up); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			if err := t.keep(up, true); err != nil {
				return "", err
			}
		}
	}
	return filepath.Join(real, filepath.Base(path)), nil
}

// included are the files that a kept configuration has git read, or that it is a link to.
func (t *trusted) included(ctx context.Context, file string) (paths []string, err error) {
	if t.files[file].Kind == isLink {
		if real, err := filepath.EvalSymlinks(file); err == nil {
			return []string{real}, nil
		}
	}
	list, err := t.settingsOf(ctx, file, "include")
	for _, s := range list {
		if (s.section == "include" || s.section == "includeif") && s.name == "path" && !strings.HasPrefix(s.value, "~") {
			paths = append(paths, absolute(filepath.Dir(file), s.value))
		}
	}
	return paths, err
}

func (t *trusted) configs() (list []string) {
	for path, k := range t.files {
		if k.Config {
			list = append(list, path)
		}
	}
	return list
}

// settingsOf reads a kept configuration in which a word stands; one that can't be read says nothing.
func (t *trusted) settingsOf(ctx context.Context, path, word string) ([]setting, error) {
	k := t.files[path]
	if !bytes.Contains(bytes.ToLower(k.Data), []byte(word)) {
		return nil, nil
	}
	list, err := parseConfig(ctx, k.Data)
	if errors.Is(err, errNoConfig) {
		return nil, nil
	}
	return list, err
}

// findTreeHooks finds out which hooks of the operator's are the agent's to write: core.hooksPath in the work tree,
// and links from a git directory's hooks to there.
func (t *trusted) findTreeHooks(ctx context.Context, w *Workspace, o GuardOptions, mine func(string) bool) error {
	add := func(what, path string) {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		if _, guarded := t.files[path]; !guarded && mine(path) && !slices.Contains(t.Tree, what) {
			t.Tree = append(t.Tree, what)
		}
	}
	value, err := effectiveHooks(ctx, w.Path, o.Env)
	if err != nil {
		return err
	}
	if value != "" {
		add("core.hooksPath is "+value, absolute(w.Path, value))
	}
	for _, file := range t.configs() {
		list, err := t.settingsOf(ctx, file, "hookspath")
		if err != nil {
			return err
		}
		for _, s := range list {
			if s.section == "core" && s.name == "hookspath" {
				add("core.hooksPath is "+s.value, absolute(workTreeOf(file), s.value))
			}
		}
	}
	for path, k := range t.files {
		if k.Kind == isLink && slices.Contains(guardedTrees, filepath.Base(path)) || k.Kind == isLink && filepath.Base(filepath.Dir(path)) == "hooks" {
			add(filepath.Join("hooks", filepath.Base(path))+" leads to "+k.Target, path)
		}
	}
	slices.Sort(t.Tree)
	return nil
}

// workTreeOf is where the hooks of a git directory run, as far as its place tells.
func workTreeOf(config string) string {
	dir := filepath.Dir(config)
	if strings.EqualFold(filepath.Base(dir), ".git") {
		return filepath.Dir(dir)
	}
	return dir
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// effectiveHooks is core.hooksPath as the hooks' git sees it, the account's configuration included. Reading it runs
// nothing. Without git there is none.
func effectiveHooks(ctx context.Context, dir string, env []string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", "config", "--type=path", "--get", "core.hooksPath")
	cmd.Dir, cmd.Env = dir, env
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.As(err, &exit), errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return "", nil // not set, or no repository that git would read
	case err != nil:
		return "", err
	}
	return strings.TrimRight(string(out), "\n"), nil
}
