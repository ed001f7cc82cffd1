package git

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// The bounds of the search for git directories.
const (
	findEntries = 1_000_000
	findDirs    = 2000 // git directories
	findChunk   = 4096
)

// programs are what git could run in a workspace, by names for people, with digests of what it would run.
type programs struct {
	programs map[string]string
	links    map[string]string // paths of links in the run's own repository, by the same names
	shared   map[string]bool   // those that lie in what a main repository shares with its worktrees
	whole    bool              // the search left nothing out
}

// programSearch is one call of findPrograms.
type programSearch struct {
	ctx   context.Context
	g     *Guard
	own   []string // the git directories of the run's repository
	dirs  []string // all git directories
	found map[string]string
	links map[string]string
	// shared is set while the shared directories of a main repository are searched.
	shared      bool
	sharedLinks map[string]bool
}

// findPrograms looks for everything in the agent's reach that git could run: settings, hooks, and what leads git to other
// directories or has it write through a link. It needs no git for the search, because git could be made to run something
// in a repository that is still to be found.
func (g *Guard) findPrograms(ctx context.Context, s *gitSnapshot) (programs, error) {
	search, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	roots := []string{g.Tree}
	for _, dir := range s.Dirs {
		roots = append(roots, filepath.Join(dir, "modules"))
	}
	places := findGit(search, roots...)
	more := findGit(search, places.ledTo(g.Tree, g.Temp...)...)
	p := programSearch{ctx: ctx, g: g, own: s.Dirs, found: map[string]string{}, links: map[string]string{}, sharedLinks: map[string]bool{}}
	p.dirs = slices.Compact(slices.Sorted(slices.Values(slices.Concat(places.dirs, more.dirs, s.Dirs))))
	for _, path := range slices.Concat(places.pointers, more.pointers) {
		p.pointer(path)
	}
	for _, dir := range p.dirs {
		if err := p.gitDir(dir); err != nil {
			return programs{}, err
		}
	}
	if s.Shared != "" {
		p.shared = true
		if err := p.findLinks(s.Shared, sharedDirs, false); err != nil {
			return programs{}, err
		}
	}
	return programs{p.found, p.links, p.sharedLinks, places.whole && more.whole}, ctx.Err()
}

// add names something; what lies in another repository than the run's own begins with where that is.
func (p *programSearch) add(dir, what, digest string) {
	if !slices.Contains(p.own, dir) {
		what = p.g.relative(dir) + ": " + what
	}
	p.found[what] += digest
}

// relative is a path for people.
func (g *Guard) relative(path string) string {
	if rel, err := filepath.Rel(g.Tree, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// pointer judges a file or link named .git: it may lead to a git directory that is searched, or nowhere.
func (p *programSearch) pointer(path string) {
	leads := path
	k, err := lookAtKept(path)
	if k.There && k.Mode.IsRegular() && err == nil {
		// To git a line's end or a zero byte in it means something else than here.
		to, ok := strings.CutPrefix(strings.TrimRight(string(k.Data), "\r\n"), "gitdir:")
		if !ok {
			return
		}
		if strings.ContainsAny(to, "\r\n\x00") {
			p.found[p.g.relative(path)+": leads elsewhere"] = digest(to)
			return
		}
		leads = absolute(filepath.Dir(path), strings.TrimPrefix(to, " "))
	}
	real, err := filepath.EvalSymlinks(leads)
	if files.Absent(err) || err == nil && slices.Contains(p.dirs, real) {
		return
	}
	// A worktree that was added to a repository elsewhere is searched, too.
	if above := filepath.Dir(real); err == nil && filepath.Base(above) == "worktrees" && slices.Contains(p.own, filepath.Dir(above)) {
		p.dirs = append(p.dirs, real)
		return
	}
	p.found[p.g.relative(path)+": leads elsewhere"] = digest(string(k.Data), real)
}

// gitDir judges what stands in a git directory.
func (p *programSearch) gitDir(dir string) error {
	openForUs(dir)
	if _, err := os.Lstat(dir); files.Absent(err) {
		return nil
	}
	for _, name := range configFiles {
		if err := p.config(dir, filepath.Join(dir, name), 0); err != nil {
			return err
		}
	}
	if k, err := lookAtKept(filepath.Join(dir, "commondir")); err != nil || k.There {
		// That of a worktree which was added to a repository here leads two directories up.
		ordinary := k.Mode.IsRegular() && strings.TrimRight(string(k.Data), "\r\n") == "../.." && filepath.Base(filepath.Dir(dir)) == "worktrees"
		if !ordinary {
			p.add(dir, "commondir", digest(string(k.Data)))
		}
	}
	for _, name := range []string{"hooks", "remotes", "branches"} { // the last two are an old way to write remotes down
		if err := p.tree(dir, name); err != nil {
			return err
		}
	}
	p.underWay(dir)
	inDotGit := isDotGit(dir)
	_, noHead := os.Lstat(filepath.Join(dir, "HEAD"))
	_, noWorktrees := os.Lstat(filepath.Join(dir, "worktrees"))
	switch {
	case inDotGit || slices.Contains(p.own, dir):
		return p.findLinks(dir, nil, true)
	case noHead == nil || noWorktrees == nil: // a bare repository; work trees may lie in it
		return p.findLinks(dir, writtenDirs, true)
	}
	return nil
}

// includeDepth is how deep git follows includes.
const includeDepth = 10

// config judges the settings of a configuration file and of those that it includes, whatever the condition.
func (p *programSearch) config(dir, path string, depth int) error {
	k, err := lookAtKept(path)
	if err == nil && (!k.There || depth > includeDepth) {
		return nil
	}
	if err == nil && k.Mode&fs.ModeSymlink != 0 {
		p.add(dir, filepath.Base(path), digest("link", string(k.Data)))
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return nil //nolint:nilerr // git can't follow it either
		}
		k, err = lookAtKept(path)
	}
	if err != nil || !k.Mode.IsRegular() {
		p.add(dir, filepath.Base(path), digest("unreadable", k.Mode.String()))
		return nil //nolint:nilerr // it is reported
	}
	list, err := parseConfig(p.ctx, k.Data)
	if errors.Is(err, errNoConfig) {
		p.add(dir, filepath.Base(path), digest(string(k.Data)))
		return nil
	}
	if err != nil {
		return err
	}
	rules := configRules{tree: p.g.Tree, remotes: remotesOf(nil, list)}
	if slices.Contains(p.own, dir) { // it has been put back: the addresses in it are trusted
		rules.remotes = remotesOf(list, nil)
	}
	if strings.Contains(dir, "/modules/") {
		rules.module = dir
	}
	for _, s := range rules.risky(list) {
		p.add(dir, s.spelled(), digest(s.value))
		if (s.section == "include" || s.section == "includeif") && s.name == "path" && !strings.HasPrefix(s.value, "~") {
			file := absolute(filepath.Dir(path), s.value)
			real, err := filepath.EvalSymlinks(filepath.Dir(file))
			if err != nil {
				continue // there is nothing
			}
			if real != filepath.Dir(file) {
				p.add(file, "leads elsewhere", digest(real))
			}
			if err := p.config(file, filepath.Join(real, filepath.Base(file)), depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// tree judges a directory whose files git runs or reads addresses from.
func (p *programSearch) tree(dir, name string) error {
	root := filepath.Join(dir, name)
	openForUs(root)
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(path, dir+"/")
		switch {
		case files.Absent(err):
			return nil
		case p.ctx.Err() != nil:
			return p.ctx.Err()
		case err != nil:
			p.add(dir, rel, digest("unreadable"))
			return nil //nolint:nilerr // it is reported
		case d.IsDir(), filepath.Ext(path) == ".sample" && d.Type().IsRegular() && filepath.Dir(path) == root:
			return nil
		}
		k, _ := lookAtKept(path) // a large one counts by its mode
		p.add(dir, rel, digest(k.Mode.String(), string(k.Data)))
		return nil
	})
}

// strategies of merging are git's own. Of any other git runs git-merge-NAME, by a path if there is a slash in it.
var strategies = []string{"ort", "recursive", "resolve", "octopus", "ours", "subtree"}

// underWay judges what a rebase or a series of picks would run for a hook that continues it.
func (p *programSearch) underWay(dir string) {
	todo, _ := lookAtKept(filepath.Join(dir, "rebase-merge", "git-rebase-todo"))
	for line := range strings.Lines(string(todo.Data)) {
		// Older versions of git ask for no space after the word.
		if words := strings.Fields(line); len(words) > 0 && (words[0] == "x" || strings.HasPrefix(words[0], "exec")) || todo.Mode&fs.ModeSymlink != 0 {
			p.add(dir, "rebase-merge/git-rebase-todo", digest(line))
		}
	}
	if k, _ := lookAtKept(filepath.Join(dir, "rebase-merge", "strategy")); k.There && !slices.Contains(strategies, strings.TrimSpace(string(k.Data))) {
		p.add(dir, "rebase-merge/strategy", digest(string(k.Data)))
	}
	if k, _ := lookAtKept(filepath.Join(dir, "sequencer", "opts")); bytes.Contains(bytes.ToLower(k.Data), []byte("strategy")) || k.Mode&fs.ModeSymlink != 0 {
		p.add(dir, "sequencer/opts", digest(string(k.Data)))
	}
}

// Git follows links in its own directories when it writes: a link in the place of a reflog or of COMMIT_EDITMSG has a hook's
// git write into any file of the account, in words of the agent's. Git makes no links itself.

// sharedDirs are the directories of a main repository that an agent in a linked worktree can write (Writable).
var sharedDirs = []string{"objects", "refs", "logs", "reftable", "rr-cache"}

// writtenDirs are the directories of a repository that git writes in.
var writtenDirs = append(slices.Clone(sharedDirs),
	"info", "rebase-merge", "rebase-apply", "sequencer", "worktrees", "modules", "hooks", "remotes", "branches", "lfs", "svn")

// findLinks judges the links in a git directory: in some of its directories, nil for all, and those right in it.
func (p *programSearch) findLinks(dir string, in []string, top bool) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case p.ctx.Err() != nil:
			return p.ctx.Err()
		case files.Absent(err), errors.Is(err, fs.ErrPermission):
			return nil
		case err != nil || path == dir:
			return err
		}
		rel := strings.TrimPrefix(path, dir+"/")
		first, below, _ := strings.Cut(rel, "/")
		if d.IsDir() {
			// objects has 256 directories with files that git only reads once they are there.
			object := first == "objects" && len(below) == 2 && strings.Trim(below, "0123456789abcdef") == ""
			if object || in != nil && !slices.Contains(in, first) || slices.Contains(p.dirs, path) {
				return fs.SkipDir
			}
			openForUs(path)
			return nil
		}
		if d.Type()&fs.ModeSymlink == 0 || rel == first && !top {
			return nil
		}
		target, err := os.Readlink(path)
		if rel == "HEAD" && strings.HasPrefix(target, "refs/") && filepath.IsLocal(target) {
			return nil // its old form, which git does not follow
		}
		p.add(dir, rel, digest("link", target))
		switch {
		case p.shared:
			name := p.g.relative(dir) + ": " + rel
			p.links[name], p.sharedLinks[name] = path, true
		case slices.Contains(p.own, dir):
			p.links[rel] = path
		}
		return err
	})
}

// gitPlaces is where git could take configuration and hooks from in a tree that an agent had.
type gitPlaces struct {
	dirs     []string // git directories, and what git would take for one
	pointers []string // files and links named .git
	links    []string // all others, but for those in a .git
	whole    bool     // nothing was left out
}

// findGit looks through the trees, what is near their roots first, and follows no link. In a directory .git only
// modules and worktrees are looked into: nothing else there is a repository unless something points to it, and
// then that is judged.
func findGit(ctx context.Context, roots ...string) gitPlaces {
	found := gitPlaces{whole: true}
	left := findEntries
	for queue := roots; len(queue) > 0; queue = queue[1:] {
		s := dirSight{path: queue[0]}
		switch err := s.read(ctx, &left); {
		case errors.Is(err, errEnough):
			found.whole = false
			return found
		case err != nil:
			continue // it is gone, or can't be read, by git either
		}
		if s.looksLikeGit() {
			found.dirs = append(found.dirs, s.path)
		}
		for _, name := range s.dotGit {
			path := filepath.Join(s.path, name)
			found.dirs = append(found.dirs, path)
			queue = append(queue, filepath.Join(path, "modules"), filepath.Join(path, "worktrees"))
		}
		if len(found.dirs) > findDirs {
			found.whole = false
			return found
		}
		found.pointers = append(found.pointers, s.pointers...)
		found.links = append(found.links, s.links...)
		queue = append(queue, s.below...)
	}
	return found
}

// dirSight is what the search sees of one directory.
type dirSight struct {
	path                           string
	objects, refs, head, commondir bool
	dotGit                         []string // directories
	pointers, links, below         []string // paths
}

// looksLikeGit reports what git would take for a git directory, or for what a commondir file may lead to. It asks
// of objects and refs only that they are there.
func (s *dirSight) looksLikeGit() bool { return s.objects && s.refs || s.head && s.commondir }

func (s *dirSight) read(ctx context.Context, left *int) error {
	info, err := os.Lstat(s.path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fs.ErrInvalid
	}
	dir, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		if ctx.Err() != nil || *left <= 0 {
			return errEnough
		}
		entries, err := dir.ReadDir(findChunk)
		*left -= len(entries)
		for _, e := range entries {
			s.add(e)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// add minds no case: some file systems don't either.
func (s *dirSight) add(e fs.DirEntry) {
	path := filepath.Join(s.path, e.Name())
	switch name := strings.ToLower(e.Name()); {
	case name == ".git" && e.IsDir():
		s.dotGit = append(s.dotGit, e.Name())
		return
	case name == ".git":
		s.pointers = append(s.pointers, path)
		return
	case name == "objects":
		s.objects = true
	case name == "refs":
		s.refs = true
	case name == "head":
		s.head = true
	case name == "commondir":
		s.commondir = true
	}
	switch {
	case e.IsDir():
		s.below = append(s.below, path)
	case e.Type()&fs.ModeSymlink != 0 && !isDotGit(s.path):
		s.links = append(s.links, path)
	}
}

// inDotGit reports what is in a directory called .git, or is one.
func isDotGit(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "/"), func(name string) bool { return strings.EqualFold(name, ".git") })
}

// ledTo gives those of the places that a link leads to or into. Where a link leads within its own tree, whatever
// that is is found by itself.
func (g gitPlaces) ledTo(tree string, places ...string) (list []string) {
	for _, link := range g.links {
		target, err := os.Readlink(link)
		if target = absolute(filepath.Dir(link), target); err != nil || within(tree, target) {
			continue
		}
		real, err := filepath.EvalSymlinks(link)
		for _, place := range places {
			if err == nil && (real == place || within(place, real)) && !slices.Contains(list, place) {
				list = append(list, place)
			}
		}
	}
	return list
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// findTreeHooks notes which hooks of the operator lie where the agent can write: core.hooksPath in the work tree, and links
// from a git directory's hooks to there.
func (s *gitSnapshot) findTreeHooks(ctx context.Context, g *Guard, o AgentReach) error {
	mine := func(path string) bool {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		guarded := slices.ContainsFunc(s.Dirs, func(dir string) bool {
			return within(filepath.Join(dir, "hooks"), path) || path == filepath.Join(dir, "hooks")
		})
		inReach := slices.ContainsFunc(append([]string{g.Tree}, g.Temp...), func(dir string) bool { return path == dir || within(dir, path) })
		return !guarded && (inReach || o.Reaches(path))
	}
	value, err := effectiveHooks(ctx, g.Tree, o.Env)
	if err != nil {
		return err
	}
	if value != "" && mine(absolute(g.Tree, value)) {
		s.TreeHooks = append(s.TreeHooks, "core.hooksPath is "+value)
	}
	for _, k := range s.Files {
		path := string(k.Path)
		if name := filepath.Base(path); k.Mode&fs.ModeSymlink != 0 && (name == "hooks" || filepath.Base(filepath.Dir(path)) == "hooks") && mine(path) {
			s.TreeHooks = append(s.TreeHooks, filepath.Join("hooks", name)+" leads to "+string(k.Data))
		}
	}
	return nil
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
