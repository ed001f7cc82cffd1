// Package paths compares and resolves paths.
package paths

import "path/filepath"

// Inside reports whether path is dir or inside dir, judged by the names alone: it does not resolve links.
func Inside(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// Overlap reports whether one of two paths is the other or inside it, judged like Inside.
func Overlap(a, b string) bool { return Inside(a, b) || Inside(b, a) }

// Real resolves the symlinks in the part of a path that exists.
func Real(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(Real(parent), filepath.Base(path))
}
