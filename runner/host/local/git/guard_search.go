package git

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// The limits of the search for git directories.
const (
	findEntries  = 1_000_000
	findDirs     = 2000
	includeDepth = 10 // as deep as git follows includes
)

// search finds everything that the agent can write and git could run: settings, hooks, and files that lead git to other
// directories or make it write through a link. It finds repositories without running git, because git could run a program in a
// repository that has not been found yet.
type search struct {
	ctx  context.Context
	tree string
	own  []string // the git directories of the workspace's repository
	dirs []string // all git directories, and directories that git would accept as one

	programs map[string]string // digests of what git could run, by names for messages
	partial  bool              // something was left out
}

func (g *Guard) search(ctx context.Context, s *snapshot) (*search, error) {
	f := &search{ctx: ctx, tree: g.Tree, own: s.Dirs, dirs: slices.Clone(s.Dirs), programs: map[string]string{}}
	roots := []string{g.Tree}
	for _, dir := range s.Dirs {
		roots = append(roots, filepath.Join(dir, "modules"))
	}
	timed, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	pointers, links := f.find(timed, roots)
	more, _ := f.find(timed, f.ledTo(links, g.Temp))
	for _, path := range append(pointers, more...) {
		f.pointer(path)
	}
	slices.Sort(f.dirs)
	f.dirs = slices.Compact(f.dirs)
	for _, dir := range f.dirs {
		if err := f.gitDir(dir); err != nil {
			return nil, err
		}
	}
	return f, ctx.Err()
}

// find adds the git directories below the directories in queue, breadth first, and follows no link. It returns the files and links
// that are named .git, and the other links. In a directory .git it searches only modules and worktrees: anything else is used as a
// repository only if something points to it, and the pointer is checked. It ignores case, as some file systems do.
func (f *search) find(ctx context.Context, queue []string) (pointers, links []string) {
	left := findEntries
	for ; len(queue) > 0; queue = queue[1:] {
		dir := queue[0]
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
			continue
		}
		entries, _ := os.ReadDir(dir) // what can't be read, git can't read either
		if left -= len(entries); left < 0 || len(f.dirs) > findDirs || ctx.Err() != nil {
			f.partial = true
			break
		}
		has := map[string]bool{}
		for _, e := range entries {
			path, name := filepath.Join(dir, e.Name()), strings.ToLower(e.Name())
			has[name] = true
			switch {
			case name == ".git" && e.IsDir():
				f.dirs = append(f.dirs, path)
				queue = append(queue, filepath.Join(path, "modules"), filepath.Join(path, "worktrees"))
			case name == ".git":
				pointers = append(pointers, path)
			case e.IsDir():
				queue = append(queue, path)
			case e.Type()&fs.ModeSymlink != 0:
				links = append(links, path)
			}
		}
		if has["head"] && (has["commondir"] || has["objects"] && has["refs"]) {
			f.dirs = append(f.dirs, dir)
		}
	}
	return pointers, links
}

// ledTo returns the places that a link leads to or into. Targets inside the workspace are searched anyway.
func (f *search) ledTo(links, places []string) (list []string) {
	for _, link := range links {
		real, err := filepath.EvalSymlinks(link)
		if err != nil || text.PathInside(f.tree, real) {
			continue
		}
		for _, place := range places {
			if text.PathInside(place, real) && !slices.Contains(list, place) {
				list = append(list, place)
			}
		}
	}
	return list
}

// add records something that git could run. In repositories other than the workspace's, its name begins with the directory.
func (f *search) add(dir, what, digest string) {
	if !slices.Contains(f.own, dir) {
		what = f.relative(dir) + ": " + what
	}
	f.programs[what] += digest
}

// relative returns a path for messages, relative to the workspace if it is inside.
func (f *search) relative(path string) string {
	if rel, err := filepath.Rel(f.tree, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// pointer checks a file or link named .git: it must lead to a git directory that is searched, or nowhere.
func (f *search) pointer(path string) {
	leads := path
	e, _, err := readEntry(path)
	if err == nil && e.Mode.IsRegular() {
		to, ok := strings.CutPrefix(strings.TrimRight(string(e.Data), "\r\n"), "gitdir:")
		if !ok {
			return
		}
		leads = absolute(filepath.Dir(path), strings.TrimPrefix(to, " "))
	}
	real, err := filepath.EvalSymlinks(leads)
	switch above := filepath.Dir(real); {
	case strings.ContainsAny(leads, "\r\n\x00"): // git interprets these differently
	case files.Absent(err), err == nil && slices.Contains(f.dirs, real):
		return
	case err == nil && filepath.Base(above) == "worktrees" && slices.Contains(f.own, filepath.Dir(above)):
		f.dirs = append(f.dirs, real) // a worktree that was added to the repository
		return
	}
	f.programs[f.relative(path)+": leads elsewhere"] = digest(string(e.Data), real)
}

// gitDir checks a git directory. The workspace's own is restored already, except for files that its configuration includes.
func (f *search) gitDir(dir string) error {
	for _, name := range []string{"config", "config.worktree"} {
		if err := f.config(dir, filepath.Join(dir, name), 0); err != nil {
			return err
		}
	}
	list := map[string]entry{}
	if !slices.Contains(f.own, dir) {
		if err := readGitDir(f.ctx, list, dir); len(list) > maxControlFiles { // files that can't be read are in the list, too
			return err
		}
	}
	for path, e := range list {
		// In a worktree that was added to a repository here, commondir leads two directories up.
		worktree := filepath.Base(filepath.Dir(dir)) == "worktrees" && strings.TrimSpace(string(e.Data)) == "../.."
		switch name := strings.TrimPrefix(path, dir+"/"); {
		case slices.Contains([]string{"config", "config.worktree", "gitdir"}, name):
		case name == "commondir" && worktree && e.Mode.IsRegular():
		default:
			f.add(dir, name, e.digest())
		}
	}
	return f.ctx.Err()
}

// config checks the settings of a configuration file and of the files that it includes, conditionally or not.
func (f *search) config(dir, path string, depth int) error {
	e, there, err := readEntry(path)
	if !there || depth > includeDepth {
		return nil
	}
	if e.isLink() {
		f.add(dir, filepath.Base(path), digest("link", string(e.Data)))
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return nil //nolint:nilerr // git can't follow it either
		}
		e, _, err = readEntry(path)
	}
	var list []setting
	if err == nil && e.Mode.IsRegular() {
		list, err = parseConfig(f.ctx, e.Data)
	}
	switch {
	case f.ctx.Err() != nil:
		return f.ctx.Err()
	case err != nil || !e.Mode.IsRegular():
		f.add(dir, filepath.Base(path), e.digest())
		return nil //nolint:nilerr // it is reported
	}
	rules := configRules{tree: f.tree, remotes: remotesOf(nil, list)}
	if slices.Contains(f.own, dir) { // it has been restored: its addresses are trusted
		rules.remotes = remotesOf(list, nil)
	}
	if strings.Contains(dir, "/modules/") {
		rules.module = dir
	}
	for _, s := range rules.risky(list) {
		f.add(dir, s.String(), digest(s.value))
		if !strings.HasPrefix(s.section, "include") || s.name != "path" || strings.HasPrefix(s.value, "~") {
			continue
		}
		file := absolute(filepath.Dir(path), s.value)
		real, err := filepath.EvalSymlinks(filepath.Dir(file))
		if err != nil {
			continue // it does not exist
		}
		if real != filepath.Dir(file) {
			f.add(file, "leads elsewhere", digest(real))
		}
		if err := f.config(file, filepath.Join(real, filepath.Base(file)), depth+1); err != nil {
			return err
		}
	}
	return nil
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// treeHooks finds the operator's git hooks that are in places where the agent can write: by core.hooksPath, or by links in the hooks
// directory of a git directory.
func (g *Guard) treeHooks(ctx context.Context, s *snapshot, reaches func(string) bool, env []string) (reasons []string, err error) {
	writable := func(path string) bool {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		under := func(dir string) bool { return text.PathInside(dir, path) }
		guarded := slices.ContainsFunc(s.Dirs, func(dir string) bool { return under(filepath.Join(dir, "hooks")) })
		return !guarded && (under(g.Tree) || slices.ContainsFunc(g.Temp, under) || reaches(path))
	}
	// The setting as git sees it in hooks, with the account's configuration. Reading it runs no program.
	cmd := exec.CommandContext(ctx, "git", "config", "--type=path", "--get", "core.hooksPath")
	cmd.Dir, cmd.Env, cmd.WaitDelay = g.Tree, env, time.Second
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if value := strings.TrimRight(string(out), "\n"); value != "" && writable(absolute(g.Tree, value)) {
		reasons = append(reasons, "core.hooksPath is "+value)
	}
	for dir, list := range s.Files {
		for path, e := range list {
			if name := strings.TrimPrefix(path, dir+"/"); e.isLink() && strings.HasPrefix(name, "hooks") && writable(path) {
				reasons = append(reasons, name+" leads to "+string(e.Data))
			}
		}
	}
	slices.Sort(reasons)
	return reasons, ctx.Err()
}
