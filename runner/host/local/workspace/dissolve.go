package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// UnclaimProjects takes back what ClaimProject has written for a state directory, and returns the files.
func (r *Root) UnclaimProjects(stateDir string) (removed []string, err error) {
	dir := filepath.Join(r.meta(), "projects")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, files.Failed(err, "read the projects of %s", r.Path)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		c, ok, err := readClaim(path)
		if err != nil || !ok || !sameDir(c.StateDir, stateDir) {
			continue // another's, or one that a pass will complain about
		}
		if err := errors.Join(os.Remove(path), ignoreAbsent(os.Remove(path+".lock"))); err != nil {
			return removed, files.Failed(err, "let go of the project %s", c.Project)
		}
		removed = append(removed, path)
	}
	return removed, nil
}

// Dissolve removes symphony's own files from a root without a workspace or project: the trash and the lock files, and the
// root itself if it is empty then. gone is false where the root is still in use, or its trash holds unsaved work and
// discard is not set: then nothing is removed.
func (r *Root) Dissolve(ctx context.Context, discard bool) (gone bool, err error) {
	if used, err := r.used(); err != nil || used {
		return false, err
	}
	list, err := r.listTrash()
	if err != nil {
		return false, err
	}
	for _, t := range list {
		if r.unsavedEntry(ctx, t, discard) != "" {
			return false, nil
		}
	}
	if err := files.RemoveTree(ctx, r.meta()); err != nil {
		return false, files.Failed(err, "remove %s", r.meta())
	}
	// Who made the root may keep something else in it.
	if err := os.Remove(r.Path); err != nil {
		return true, nil //nolint:nilerr // see above
	}
	return true, nil
}

// used reports whether a workspace or a project is left in the root.
func (r *Root) used() (bool, error) {
	for _, pattern := range []string{"*.json", "projects/*.json"} {
		found, err := filepath.Glob(filepath.Join(globQuote(r.meta()), pattern))
		if err != nil {
			return false, files.Failed(err, "look what is left in %s", r.meta())
		}
		if len(found) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// globQuote makes a path mean itself in a pattern.
func globQuote(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
