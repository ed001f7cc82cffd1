package git

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

const (
	fingerprintFor = 10 * time.Second
	walkEntries    = 200_000 // that are looked at where git does not say what has changed
)

// Fingerprint changes with the progress of the work (design section 5): HEAD, the index, or the work tree as
// `git status` sees it, changed files by size and time; where there is no repository that git can read, with
// names, sizes and times of the first 200,000 files. What git ignores does not count. It takes at most 10 s,
// else its error wraps context.DeadlineExceeded.
func Fingerprint(ctx context.Context, dir string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, fingerprintFor)
	defer cancel()
	tree, err := filepath.EvalSymlinks(dir)
	var r *reader
	var ok bool
	if err == nil {
		r, ok, err = openReader(tree)
	}
	print := ""
	if ok && err == nil {
		print, err = gitFingerprint(ctx, r)
		err = errors.Join(err, r.close())
	}
	if err == nil && !ok || errors.Is(err, errUnread) {
		print, err = walkFingerprint(ctx, tree)
	}
	var known *reconcile.Error
	switch {
	case err == nil:
		return print, nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("fingerprint of %s: %w", dir, ctx.Err())
	case errors.As(err, &known):
		return "", err
	}
	return "", files.Failed(err, "fingerprint of %s", dir)
}

// gitFingerprint adds every entry of the status, and size and times of the files that have changed. An untracked repository
// is one entry with a slash at its end: there all that is in it counts.
func gitFingerprint(ctx context.Context, r *reader) (string, error) {
	w := walker{ctx: ctx, h: sha256.New(), left: walkEntries}
	fmt.Fprintf(w.h, "%s\x00%s\x00", r.head, r.commit)
	w.tables(r.repository)
	var failed error
	err := r.eachChange(ctx, func(entry, path string) {
		fmt.Fprintf(w.h, "%s\x00", entry)
		switch path := filepath.Join(r.tree, path); {
		case failed != nil:
		case strings.HasSuffix(entry, "/"):
			failed = w.walk(path, "")
		default:
			failed = w.file(path)
		}
	})
	return fmt.Sprintf("git:%x", w.h.Sum(nil)), errors.Join(err, failed)
}

// walkFingerprint is that of a tree that git can't read, or that is none of git's.
func walkFingerprint(ctx context.Context, tree string) (string, error) {
	w := walker{ctx: ctx, h: sha256.New(), left: walkEntries}
	repo, ok, err := openRepository(tree)
	skip := ""
	if ok {
		skip = filepath.Join(tree, ".git")
		w.tables(repo)
		for _, name := range []string{"HEAD", "index", "logs/HEAD"} {
			err = errors.Join(err, w.file(filepath.Join(repo.gitDir, name)))
		}
	}
	if err == nil {
		err = w.walk(tree, skip)
	}
	return fmt.Sprintf("walk:%x", w.h.Sum(nil)), err
}

// walker hashes files by names, sizes and times.
type walker struct {
	ctx  context.Context
	h    hash.Hash
	left int // entries
}

// tables adds what changes with every reference of a repository that keeps them in tables: there HEAD tells nothing.
func (w *walker) tables(repo repository) {
	for _, dir := range []string{repo.gitDir, repo.common} {
		list, _ := files.ReadRegular(filepath.Join(dir, "reftable", "tables.list"), maxGitFile) // most have none
		w.h.Write(list)
	}
}

// walk adds all below a directory but for what is below skip.
func (w *walker) walk(root, skip string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case w.ctx.Err() != nil:
			return w.ctx.Err()
		case files.Absent(err):
			return nil // an agent has removed it meanwhile
		case err != nil && path == root:
			return err
		case path == skip && d.IsDir():
			return fs.SkipDir
		case w.left == 0:
			return fs.SkipAll
		}
		w.left--
		fmt.Fprintf(w.h, "%s\x00", strings.TrimPrefix(path, root))
		if err != nil || d.IsDir() { // a directory that can't be read counts by its name
			fmt.Fprintf(w.h, "%o\x00", d.Type())
			return nil //nolint:nilerr // see above
		}
		return w.file(path)
	})
}

// file adds mode, size and time of a file, or that there is none.
func (w *walker) file(path string) error {
	info, err := os.Lstat(path)
	switch {
	case files.Absent(err):
		fmt.Fprint(w.h, "gone\x00")
		return nil
	case err != nil:
		return err
	}
	fmt.Fprintf(w.h, "%o %d %d\x00", info.Mode(), info.Size(), info.ModTime().UnixNano())
	return nil
}
