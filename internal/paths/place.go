package paths

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrProc is the error of a path into the file system of processes. A link there may lead to
// any directory, and to a different directory later.
var ErrProc = errors.New("it leads into /proc, and from there perhaps to any directory")

const mostLinks = 255 // per path; more are a circle

// Place is where a path led when it was looked up: a file or directory, and every directory
// above it. Places are compared by device and inode, not by name: a directory stays the same
// through links, a bind mount, and letters of another case where the file system ignores case.
// If /home/me/app is also mounted at /srv/app, then a file in either is inside both.
//
// A missing file counts as a directory with the name that it would have.
type Place struct {
	Path   string  // the name by which it was found, without links
	Exists bool    // nothing of the path is missing
	Links  []Place // the links that were followed on the way, themselves, in that order
	names  [][]step
}

// step is a place or a directory above it, under a single name.
type step struct {
	path string
	file fileID // of the nearest directory that exists
	rest string // the missing part below it, such as "a/b"; empty if the step exists
}

type fileID struct{ device, inode uint64 }

func (s step) same(other step) bool {
	// File systems in user space may give a directory another inode each time. The path is
	// without links.
	return s.path == other.path || s.file == other.file && s.rest == other.rest
}

// Find looks an absolute path up, following links, also links that lead to nothing.
//
// It returns ErrProc, or an error for a relative path, a circle of links, and a table of
// mounts that can't be read.
func Find(path string) (Place, error) {
	if !filepath.IsAbs(path) {
		return Place{}, fmt.Errorf("%q is not an absolute path", path)
	}
	w, err := newWalk()
	if err != nil {
		return Place{}, err
	}
	defer w.close()
	var links []Place
	rest := strings.Split(path, "/")
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		target, err := w.enter(name)
		if err != nil {
			return Place{}, fmt.Errorf("%s: %w", path, err)
		}
		if target == "" {
			continue
		}
		if len(links) == mostLinks {
			return Place{}, &fs.PathError{Op: "follow", Path: path, Err: unix.ELOOP}
		}
		link, err := w.place()
		if err != nil {
			return Place{}, err
		}
		links = append(links, link)
		w.leave()
		if filepath.IsAbs(target) {
			w.toRoot()
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	place, err := w.place()
	place.Links = links
	return place, err
}

// Inside reports whether a place is a directory or inside it, under any of its names.
func (p Place) Inside(dir Place) bool { return len(p.Below(dir)) > 0 }

// Below returns the names of a place from a directory: "." for the directory itself, none if
// the place is elsewhere. There are several if the place is mounted twice below the directory.
func (p Place) Below(dir Place) []string {
	if len(dir.names) == 0 {
		return nil
	}
	top := dir.last()
	var below []string
	for _, name := range p.names {
		last := name[len(name)-1]
		for _, above := range name {
			if !above.same(top) {
				continue
			}
			rel, err := filepath.Rel(above.path, last.path)
			if err == nil && !slices.Contains(below, rel) {
				below = append(below, rel)
			}
		}
	}
	return below
}

// Same reports whether two places are the same file or directory.
func (p Place) Same(other Place) bool { return slices.Contains(p.Below(other), ".") }

// Ours reports whether the place is a file of this account, such as a link that its agents may
// have made.
func (p Place) Ours() bool {
	info, err := os.Lstat(p.Path)
	return err == nil && Ours(info)
}

// Names returns the paths of the place through all mounts, without links.
func (p Place) Names() []string {
	var list []string
	for _, name := range p.names {
		list = append(list, name[len(name)-1].path)
	}
	return list
}

func (p Place) last() step {
	first := p.names[0]
	return first[len(first)-1]
}

// Meet reports whether two places are the same or either is inside the other.
func Meet(a, b Place) bool { return a.Inside(b) || b.Inside(a) }

// Reaches reports whether someone who can write a directory can decide where a path leads: the
// path is the directory or inside it, or leads through a link there. It returns true for a
// path that can't be found.
func Reaches(dir, path string) bool {
	reaches, err := Reach(dir, path)
	return reaches || err != nil
}

// Reach is Reaches with the error of a path that can't be found, for callers to whom a full
// table of open files says nothing about the path.
func Reach(dir, path string) (bool, error) {
	from, err := Find(dir)
	if err != nil {
		return false, err
	}
	to, err := Find(path)
	if err != nil {
		return false, err
	}
	if to.Inside(from) {
		return true, nil
	}
	return slices.ContainsFunc(to.Links, func(link Place) bool { return link.Inside(from) }), nil
}

// LimitReached reports whether the system refused a further descriptor, process or memory.
// That says nothing about a path. It is the machine's fault, and an immediate retry would fail
// too. (fork returns EAGAIN. Locks and streams return it as well, but their callers wait.)
func LimitReached(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.EAGAIN) ||
		errors.Is(err, unix.ENOMEM)
}

// walk follows a path, with an open descriptor of each directory that it passed.
type walk struct {
	steps []step
	fds   []int // of the steps that exist; -1 for a file that was not opened
}

func newWalk() (*walk, error) {
	root, err := unix.Open("/", openDir, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: "/", Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(root, &st); err != nil {
		unix.Close(root)
		return nil, &fs.PathError{Op: "stat", Path: "/", Err: err}
	}
	return &walk{steps: []step{{path: "/", file: idOf(&st)}}, fds: []int{root}}, nil
}

func (w *walk) close() {
	for _, fd := range w.fds {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// leave goes to the directory above.
func (w *walk) leave() {
	if len(w.steps) == 1 {
		return
	}
	if len(w.fds) == len(w.steps) {
		last := len(w.fds) - 1
		if w.fds[last] >= 0 {
			unix.Close(w.fds[last])
		}
		w.fds = w.fds[:last]
	}
	w.steps = w.steps[:len(w.steps)-1]
}

func (w *walk) toRoot() {
	for len(w.steps) > 1 {
		w.leave()
	}
}

// enter goes to an entry of the current directory, without following a link. If it is a link,
// enter returns its target.
func (w *walk) enter(name string) (target string, err error) {
	switch name {
	case "", ".":
		return "", nil
	case "..":
		w.leave()
		return "", nil
	}
	here := w.steps[len(w.steps)-1]
	next := step{
		path: filepath.Join(here.path, name),
		file: here.file,
		rest: filepath.Join(here.rest, name),
	}
	dir := w.fds[len(w.fds)-1]
	var st unix.Stat_t
	if here.rest != "" || dir < 0 || unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		w.steps = append(w.steps, next)
		return "", nil //nolint:nilerr // it counts as missing
	}
	kind := st.Mode & unix.S_IFMT
	fd, err := openNoFollow(dir, name, kind == unix.S_IFDIR)
	if err != nil { // it was removed just now, or this account can't come here
		w.steps = append(w.steps, next)
		return "", nil //nolint:nilerr // it counts as missing
	}
	next = step{path: next.path, file: idOf(&st)}
	w.steps = append(w.steps, next)
	w.fds = append(w.fds, fd)
	if next.file.device != here.file.device && isProc(fd) {
		return "", ErrProc
	}
	if kind != unix.S_IFLNK {
		return "", nil
	}
	target, err = readLink(dir, name)
	if err == nil && target == "" {
		err = fs.ErrInvalid
	}
	return target, err
}

// place returns the place that the walk reached, with all its names.
func (w *walk) place() (Place, error) {
	own := slices.Clone(w.steps)
	last := own[len(own)-1]
	p := Place{Path: last.path, Exists: last.rest == "", names: [][]step{own}}
	exists := own[len(w.fds)-1]
	others, err := otherNames(w.fds[len(w.fds)-1], exists.path)
	if err != nil {
		return p, err
	}
	for _, path := range others {
		steps := stepsTo(path)
		if len(steps) == 0 || steps[len(steps)-1].file != exists.file {
			continue // another mount covers this name
		}
		for _, missing := range own[len(w.fds):] {
			missing.path = filepath.Join(path, missing.rest)
			steps = append(steps, missing)
		}
		p.names = append(p.names, steps)
	}
	return p, nil
}

// stepsTo walks along a path without links; it returns nil if that is not possible any more.
func stepsTo(path string) []step {
	w, err := newWalk()
	if err != nil {
		return nil
	}
	defer w.close()
	for name := range strings.SplitSeq(path, "/") {
		target, err := w.enter(name)
		if err != nil || target != "" {
			return nil
		}
	}
	if len(w.fds) < len(w.steps) {
		return nil
	}
	return w.steps
}

func readLink(dir int, name string) (string, error) {
	buffer := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, buffer)
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(buffer[:n]), nil
}
