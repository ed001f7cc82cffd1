package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// The limits of the search for git directories.
const (
	maxEntries   = 4_000_000
	includeDepth = 10 // as deep as git follows includes
)

// search finds everything that the agent can write and git could run: settings, hooks, and
// files that lead git to other directories or make it write through a link. It finds
// repositories without running git, because git could run a program in a repository that is
// not found yet. A file or directory that can't be read is an error.
type search struct {
	ctx   context.Context
	tree  string
	known map[string]string // programs before the agent; nil before the first agent
	own   []string          // the git directories of the workspace's repository
	dirs  []string          // all git directories, and directories that git would accept as such
	left  int               // entries that may still be read

	programs map[string]string // digests of programs that git could run, by names for messages
	// where other repositories than the workspace's have hooks outside their git directory, by
	// reasons
	hooks map[string]string
}

// search finds programs that git could run. After an agent, a new program is an error.
func (g *Guard) search(ctx context.Context, s *snapshot) (*search, error) {
	f := &search{
		ctx:   ctx,
		tree:  g.Tree,
		known: s.Known,
		own:   s.Dirs,
		dirs:  slices.Clone(s.Dirs),
		left:  cmp.Or(g.limit, maxEntries),

		programs: map[string]string{},
		hooks:    map[string]string{},
	}
	pointers, links, err := f.find(append([]string{g.Tree}, s.Dirs...))
	if err != nil {
		return nil, err
	}
	if leadInto(links, g.Temp) {
		more, _, err := f.find(slices.Clone(g.Temp))
		if err != nil {
			return nil, err
		}
		pointers = append(pointers, more...)
	}
	for _, path := range pointers {
		f.pointer(path)
	}
	slices.Sort(f.dirs)
	f.dirs = slices.Compact(f.dirs)
	for _, dir := range f.dirs {
		if err := f.gitDir(dir); err != nil {
			return nil, err
		}
	}
	if s.Known == nil {
		return f, ctx.Err()
	}
	isNew := func(name string) bool { return s.Known[name] != f.programs[name] }
	unsafe := text.Filter(slices.Sorted(maps.Keys(f.programs)), isNew)
	if len(unsafe) > 0 {
		return f, foundError(unsafe)
	}
	for _, dir := range f.dirs { // git may now read the configuration there
		if err := f.index(dir); err != nil {
			return f, err
		}
	}
	return f, ctx.Err()
}

// find adds the git directories below the directories in queue, breadth first, and follows no
// link. It returns the files and links that are named .git, and the other links. It ignores
// case, as some file systems do.
func (f *search) find(queue []string) (pointers, links []string, err error) {
	for ; len(queue) > 0; queue = queue[1:] {
		dir := queue[0]
		entries, err := readDir(dir)
		if err != nil {
			return nil, nil, err
		}
		f.left -= len(entries)
		if f.left < 0 {
			return nil, nil, errors.New("it holds more files than are examined")
		}
		if err := f.ctx.Err(); err != nil {
			return nil, nil, err
		}
		has := map[string]bool{}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			name := strings.ToLower(e.Name())
			has[name] = true
			switch {
			case e.IsDir():
				queue = append(queue, path)
				if name == ".git" {
					f.dirs = append(f.dirs, path)
				}
			case name == ".git":
				pointers = append(pointers, path)
			case e.Type()&fs.ModeSymlink != 0:
				links = append(links, path)
			}
		}
		switch {
		case has["head"] && has["commondir"] && !slices.Contains(f.own, dir):
			// a worktree of the repository that is two levels up
			f.dirs = append(f.dirs, dir, filepath.Dir(filepath.Dir(dir)))
		case has["head"] && has["objects"] && has["refs"]:
			f.dirs = append(f.dirs, dir)
		}
	}
	return pointers, links, nil
}

// readDir lists a directory, and nothing else. Another account's directory that this account
// can neither list nor change counts as empty, such as the data of a container: an agent can put
// nothing there.
func readDir(dir string) ([]fs.DirEntry, error) {
	if len(dir) >= unix.PathMax {
		return readDeepDir(dir)
	}
	info, err := os.Lstat(dir)
	if files.Absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, nil
	}
	list, err := os.ReadDir(dir)
	closed := errors.Is(err, fs.ErrPermission) && !paths.Ours(info) && unix.Access(dir, unix.W_OK|unix.X_OK) != nil
	if closed {
		return list, nil
	}
	return list, err
}

// readDeepDir lists a directory whose path is longer than system calls take.
func readDeepDir(dir string) ([]fs.DirEntry, error) {
	cut := strings.LastIndex(dir[:unix.PathMax], "/")
	f, err := os.OpenInRoot(dir[:cut], dir[cut+1:])
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}

// leadInto reports whether a link leads into any of some directories. A link into /proc may
// lead another process anywhere.
func leadInto(links, dirs []string) bool {
	return slices.ContainsFunc(links, func(link string) bool {
		if len(link) >= unix.PathMax {
			return true
		}
		target, _ := os.Readlink(link) // git can't read it either
		target = absolute(filepath.Dir(link), target)
		if paths.Inside("/proc", target) || paths.Inside("/dev/fd", target) {
			return true
		}
		real, err := filepath.EvalSymlinks(link)
		if err != nil {
			return false
		}
		return slices.ContainsFunc(dirs, func(dir string) bool { return paths.Inside(dir, real) })
	})
}

// add records something that git could run. In repositories other than the workspace's, its
// name begins with the directory.
func (f *search) add(dir, what, digest string) {
	if !slices.Contains(f.own, dir) {
		what = f.relative(dir) + ": " + what
	}
	f.programs[what] += digest
}

// relative returns a path for messages, relative to the workspace if it is inside.
func (f *search) relative(path string) string {
	rel, err := filepath.Rel(f.tree, path)
	if err != nil || !filepath.IsLocal(rel) {
		return path
	}
	return rel
}

// pointer checks a file or link named .git: it must lead to a git directory that is searched,
// and not through a link, which may lead elsewhere later.
func (f *search) pointer(path string) {
	e, _, err := readEntry(path)
	leads := string(e.Data)
	if err == nil && e.Mode.IsRegular() {
		var ok bool
		leads, ok = strings.CutPrefix(strings.TrimRight(leads, "\r\n"), "gitdir:")
		if !ok {
			return
		}
		leads = strings.TrimPrefix(leads, " ")
	}
	leads = absolute(filepath.Dir(path), leads)
	real, err := filepath.EvalSymlinks(leads)
	// git interprets other paths differently
	if err == nil && real == leads && !strings.ContainsAny(leads, "\r\n\x00") {
		if slices.Contains(f.dirs, real) {
			return
		}
		above := filepath.Dir(real)
		if filepath.Base(above) == "worktrees" && slices.Contains(f.own, filepath.Dir(above)) {
			f.dirs = append(f.dirs, real) // a worktree that was added to the repository
			return
		}
	}
	f.programs[f.relative(path)+": leads elsewhere"] = digest(string(e.Data), real)
}

// gitDir checks a git directory. The workspace's own is restored already, except for files
// that its configuration includes.
func (f *search) gitDir(dir string) error {
	for _, name := range []string{"config", "config.worktree"} {
		if err := f.config(dir, filepath.Join(dir, name), 0); err != nil {
			return err
		}
	}
	list := map[string]entry{}
	if !slices.Contains(f.own, dir) {
		if err := readGitDir(f.ctx, list, dir); err != nil {
			return err
		}
		if err := unreadable(list); err != nil {
			return err
		}
	}
	head, _ := files.ReadRegular(filepath.Join(dir, "HEAD"), maxGitFile)
	// a hook may pass the branch to git, which takes it for an option
	if strings.Contains(string(head), "refs/heads/-") {
		f.add(dir, "HEAD", digest(string(head)))
	}
	for path, e := range list {
		if e.isLink() && strings.HasPrefix(path, filepath.Join(dir, "hooks")) {
			f.hooks[f.relative(path)+" leads to "+string(e.Data)] = path
		}
		name := strings.TrimPrefix(path, dir+"/")
		isConfig := slices.Contains([]string{"config", "config.worktree", "gitdir"}, name)
		// in a worktree that was added to a repository here
		leadsUp := name == "commondir" && e.Mode.IsRegular() &&
			strings.TrimSpace(string(e.Data)) == "../.." &&
			filepath.Base(filepath.Dir(dir)) == "worktrees"
		if !isConfig && !leadsUp {
			f.add(dir, name, e.digest())
		}
	}
	return f.ctx.Err()
}

// index checks the paths in a git directory's index, in which git trusts: for a path outside
// the work tree, git checkout writes there and git status runs programs of a repository there.
func (f *search) index(dir string) error {
	if !exists(filepath.Join(dir, "index")) {
		return nil
	}
	// with several, git reads a large index in another way
	for _, threads := range []string{"1", "2"} {
		cmd := plainGit(f.ctx, dir, "-c", "index.threads="+threads, "ls-files", "-z")
		cmd.Env = append(cmd.Env, "GIT_DIR="+dir, "GIT_WORK_TREE="+dir)
		bad := ""
		cmd.Stdout = &splitWriter{each: func(path string) {
			if !filepath.IsLocal(path) || strings.Contains("/"+strings.ToLower(path)+"/", "/.git/") {
				bad = path
			}
		}}
		if err := gitcmd.Run(cmd, maxMemory); err != nil {
			return fmt.Errorf("git can't read the index in %s: %w", dir, err)
		}
		if bad != "" {
			return foundError([]string{f.relative(dir) + "/index: " + bad})
		}
	}
	return nil
}

// config checks the settings of a configuration file and of the files that it includes,
// conditionally or not.
func (f *search) config(dir, path string, depth int) error {
	e, there, err := readEntry(path)
	if !there || depth > includeDepth {
		return nil
	}
	if e.isLink() {
		f.add(dir, filepath.Base(path), digest("link", string(e.Data)))
		path, err = filepath.EvalSymlinks(path)
		if err != nil {
			return nil //nolint:nilerr // git can't follow it either
		}
		e, _, err = readEntry(path)
	}
	var list []setting
	if err == nil && e.Mode.IsRegular() {
		list, err = parseConfig(f.ctx, e.Data)
	}
	if f.ctx.Err() != nil {
		return f.ctx.Err()
	}
	if err != nil || !e.Mode.IsRegular() {
		f.add(dir, filepath.Base(path), e.digest())
		return nil //nolint:nilerr // it is reported
	}
	isOwn := slices.Contains(f.own, dir)
	for _, s := range f.rulesFor(dir, list).risky(list) {
		f.add(dir, s.String(), digest(s.key(), s.value))
		if s.section == "core" && s.name == "hookspath" && !isOwn {
			f.hooks[f.relative(dir)+": core.hooksPath is "+s.value] = absolute(filepath.Dir(dir), s.value)
		}
		if strings.HasPrefix(s.section, "include") && s.name == "path" && !strings.HasPrefix(s.value, "~") {
			if err := f.included(absolute(filepath.Dir(path), s.value), depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// rulesFor returns the rules for the settings in a git directory. The workspace's own was
// restored, so that all of its remotes are allowed.
func (f *search) rulesFor(dir string, list []setting) configRules {
	rules := configRules{}
	if f.known != nil { // settings from before the agent are known in any case
		rules.tree = f.tree
		if strings.Contains(dir, "/modules/") {
			rules.module = dir
		}
	}
	if slices.Contains(f.own, dir) {
		rules.remotes = remotesOf(list, nil)
	} else {
		rules.remotes = remotesOf(list, rules.allowsAddress)
	}
	return rules
}

// included checks a configuration file that is included by another file.
func (f *search) included(file string, depth int) error {
	real, err := filepath.EvalSymlinks(filepath.Dir(file))
	if via := linksIn(filepath.Dir(file)); via != "" {
		f.add(file, "leads elsewhere", digest(via, real))
	}
	if err != nil {
		return nil //nolint:nilerr // it does not exist
	}
	return f.config(file, filepath.Join(real, filepath.Base(file)), depth)
}

// linksIn returns the targets of the links in a path.
func linksIn(path string) (targets string) {
	for ; path != filepath.Dir(path); path = filepath.Dir(path) {
		target, err := os.Readlink(path)
		if err != nil {
			continue // it is no link
		}
		targets += target + "\x00"
	}
	return targets
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// treeHooks finds the operator's git hooks that are in places where the agent can write: by
// core.hooksPath, which is setting, or by links in the hooks directory of a git directory. It
// adds the hooks of other repositories.
func (g *Guard) treeHooks(
	ctx context.Context, s *snapshot, others map[string]string, reaches func(string) bool, setting string,
) (reasons []string, err error) {
	isOpen := func(path string) bool { return g.isOpen(path, s.Dirs, reaches) }
	if setting != "" && isOpen(absolute(g.Tree, setting)) {
		reasons = append(reasons, "core.hooksPath is "+setting)
	}
	for reason, path := range others {
		if isOpen(path) {
			reasons = append(reasons, reason)
		}
	}
	for dir, list := range s.Files {
		for path, e := range list {
			name := strings.TrimPrefix(path, dir+"/")
			if e.isLink() && strings.HasPrefix(name, "hooks") && isOpen(path) {
				reasons = append(reasons, name+" leads to "+string(e.Data))
			}
		}
	}
	slices.Sort(reasons)
	return reasons, ctx.Err()
}

// isOpen reports whether an agent can write a file or directory and Undo does not restore it:
// hooks in the git directories dirs are restored.
func (g *Guard) isOpen(path string, dirs []string, reaches func(string) bool) bool {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		real = path
	}
	isGuarded := func(dir string) bool { return paths.Inside(filepath.Join(dir, "hooks"), real) }
	if slices.ContainsFunc(dirs, isGuarded) {
		return false
	}
	isUnder := func(dir string) bool { return paths.Reaches(dir, real) }
	return isUnder(g.Tree) || slices.ContainsFunc(g.Temp, isUnder) || reaches(real)
}
