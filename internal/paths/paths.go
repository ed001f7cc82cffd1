// Package paths compares and resolves paths.
package paths

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Inside reports whether path is dir or inside dir, judged by the names alone: it does not
// resolve links.
func Inside(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// Overlap reports whether two paths are equal or either is inside the other, judged like
// Inside.
func Overlap(a, b string) bool { return Inside(a, b) || Inside(b, a) }

// literal quotes the characters that have a meaning in a pattern of filepath.Glob.
var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// Literal returns a path as the beginning of a pattern of filepath.Glob, in which it matches
// only itself: /srv/a\[b] for /srv/a[b].
func Literal(path string) string { return literal.Replace(path) }

// Real resolves the symlinks of a path, also links that lead to nothing yet. A missing part
// counts as a directory. Links in /proc stay, because they may lead to another mount
// namespace, where the same path is another file.
//
// It is for paths that are shown, recorded or passed on. To learn whether a directory is
// inside another, use Find.
func Real(path string) string {
	if !filepath.IsAbs(path) {
		return path
	}
	links := 0
	real := "/"
	rest := strings.Split(path, "/")
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			real = filepath.Dir(real)
			continue
		}
		next := filepath.Join(real, name)
		target, err := os.Readlink(next)
		if err != nil || links == mostLinks || Inside("/proc", next) {
			real = next
			continue
		}
		links++
		if filepath.IsAbs(target) {
			real = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return real
}

// Missing says how a path that leads to nothing does so, for messages: "does not exist", or "is a
// link to /mnt/a, which does not exist". remedy is what to do about such a link, of the path or
// of a directory above it; empty without one.
func Missing(path string) (what, remedy string) {
	what = "does not exist"
	for at := path; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil && at != filepath.Dir(at) {
			continue
		}
		target, readErr := os.Readlink(at)
		_, statErr := os.Stat(at)
		if err != nil || readErr != nil || info.Mode()&fs.ModeSymlink == 0 || !errors.Is(statErr, fs.ErrNotExist) {
			return what, ""
		}
		if at == path {
			return "is a link to " + target + ", which does not exist", "correct the link"
		}
		return what + ", because " + at + " is a link to " + target + ", which does not exist", "correct the link"
	}
}

// SameDir reports whether two paths lead to the same directory. Either may contain symlinks.
func SameDir(a, b string) bool {
	if a == b {
		return true
	}
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	if err != nil {
		return false
	}
	return os.SameFile(one, other)
}
