package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The bounds of the search for git directories: whoever wants it to end before it is there has to make a tree
// larger than any that is worked in, and is found out.
const (
	findEntries = 1_000_000
	findDirs    = 2000 // git directories
	findChunk   = 4096
)

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
			continue // gone, or nobody can read it, git included
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
	case e.Type()&fs.ModeSymlink != 0 && !inDotGit(s.path):
		s.links = append(s.links, path)
	}
}

// inDotGit reports what is in a directory called .git, or is one.
func inDotGit(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "/"), func(name string) bool { return strings.EqualFold(name, ".git") })
}

// and joins two searches.
func (g gitPlaces) and(o gitPlaces) gitPlaces {
	return gitPlaces{
		slices.Concat(g.dirs, o.dirs), slices.Concat(g.pointers, o.pointers), slices.Concat(g.links, o.links), g.whole && o.whole,
	}
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
