// Package paths compares and resolves paths.
package paths

import (
	"os"
	"path/filepath"
	"strings"
)

// Inside reports whether path is dir or inside dir, judged by the names alone: it does not resolve links.
func Inside(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// Overlap reports whether one of two paths is the other or inside it, judged like Inside.
func Overlap(a, b string) bool { return Inside(a, b) || Inside(b, a) }

// Real resolves the symlinks of a path, also those that lead to nothing yet. What does not exist counts as a directory. Links in /proc
// stay, because they may lead to another mount namespace, where the same path is another file.
func Real(path string) string {
	real, _ := resolve(path)
	return real
}

// resolve is Real. kept is set if it met a link in /proc.
func resolve(path string) (real string, kept bool) {
	const most = 255 // links; more are a circle
	if !filepath.IsAbs(path) {
		return path, false
	}
	links := 0
	real = "/"
	for rest := strings.Split(path, "/"); len(rest) > 0; {
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
		if err != nil || links == most || Inside("/proc", next) {
			kept = kept || err == nil
			real = next
			continue
		}
		if links++; filepath.IsAbs(target) {
			real = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return real, kept
}

// InProc reports whether a path is in /proc, or leads through a link there. Real does not follow such a link, so the path may be that of
// any directory.
func InProc(path string) bool {
	real, kept := resolve(path)
	return kept || Inside("/proc", real)
}

// SameDir reports whether two paths lead to the same directory. Either may contain symlinks.
func SameDir(a, b string) bool {
	one, err := os.Stat(a)
	other, otherErr := os.Stat(b)
	return a == b || err == nil && otherErr == nil && os.SameFile(one, other)
}
