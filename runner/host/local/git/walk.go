package git

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// walkEntries bounds what is looked at where git does not say what has changed.
const walkEntries = 200_000

// walkFingerprint is that of a tree that git can't read, or that is none of git's.
func walkFingerprint(ctx context.Context, tree string, repo repository) (string, error) {
	h := sha256.New()
	w := walker{ctx: ctx, h: h, left: walkEntries}
	if repo.gitDir != "" {
		if err := repo.hashTables(h); err != nil {
			return "", err
		}
		for _, name := range []string{"HEAD", "index", "logs/HEAD"} {
			if err := hashFile(h, filepath.Join(repo.gitDir, name)); err != nil {
				return "", err
			}
		}
		w.skip = filepath.Join(tree, ".git")
	}
	if err := w.walk(tree); err != nil {
		return "", err
	}
	return "walk:" + hex.EncodeToString(h.Sum(nil)), nil
}

// walker hashes trees by names, sizes and times, in the order of their names.
type walker struct {
	ctx  context.Context
	h    hash.Hash
	skip string
	left int // entries
}

// errEnough ends a walk.
var errEnough = errors.New("enough")

func (w *walker) walk(root string) error {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case w.ctx.Err() != nil:
			return w.ctx.Err()
		case files.Absent(err):
			return nil // an agent has removed it meanwhile
		case err != nil && path == root:
			return err
		case path == w.skip && d.IsDir():
			return fs.SkipDir
		case w.left == 0:
			return errEnough
		}
		w.left--
		rel, relErr := filepath.Rel(root, path)
		if relErr != nil {
			return relErr
		}
		put(w.h, "%s\x00", rel)
		if err != nil || d.IsDir() { // a directory that can't be read counts by its name
			put(w.h, "%o\x00", d.Type())
			return nil //nolint:nilerr // see above
		}
		return hashFile(w.h, path)
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// hashFile adds mode, size and time of a file, or that there is none.
func hashFile(h hash.Hash, path string) error {
	info, err := os.Lstat(path)
	switch {
	case files.Absent(err):
		put(h, "gone\x00")
		return nil
	case err != nil:
		return err
	}
	put(h, "%o %d %d\x00", info.Mode(), info.Size(), info.ModTime().UnixNano())
	return nil
}

func put(h hash.Hash, format string, args ...any) { h.Write(fmt.Appendf(nil, format, args...)) }
