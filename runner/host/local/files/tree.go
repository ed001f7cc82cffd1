package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/symphony-cron/symphony/reconcile/crash"
)

// RemoveTree deletes path and everything below it. It follows no link, does not enter other
// mounts, and makes directories writable where necessary. It deletes what it can and returns
// the first error, or the error of ctx. A path that does not exist is no error.
func RemoveTree(ctx context.Context, path string) error {
	parent, err := os.OpenRoot(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	t := treeRemover{ctx: ctx}
	t.remove(parent, filepath.Base(path), path)
	return t.err
}

var errMounted = errors.New("another file system is mounted there")

type treeRemover struct {
	ctx    context.Context
	volume fs.FileInfo // the top directory, nil until it is known
	mount  uint64      // of the top directory
	err    error       // the first error
}

func (t *treeRemover) note(err error, path string) {
	if err != nil && t.err == nil && !errors.Is(err, fs.ErrNotExist) {
		t.err = fmt.Errorf("remove %s: %w", path, err)
	}
}

// remove deletes the entry name of the directory parent; path is for messages only.
func (t *treeRemover) remove(parent *os.Root, name, path string) {
	if err := t.ctx.Err(); err != nil {
		t.note(err, path)
		return
	}
	info, err := parent.Lstat(name)
	if err != nil {
		t.note(err, path)
		return
	}
	if !info.IsDir() {
		t.note(parent.Remove(name), path)
		return
	}
	first := t.volume == nil
	if first {
		t.volume = info
	}
	if info.Sys().(*syscall.Stat_t).Dev != t.volume.Sys().(*syscall.Stat_t).Dev {
		t.note(errMounted, path)
		return
	}
	if info.Mode().Perm()&0o700 != 0o700 {
		t.note(parent.Chmod(name, info.Mode().Perm()|0o700), path)
	}
	crash.At("workspace.tree.opened")
	dir, err := parent.OpenRoot(name)
	if err != nil {
		t.note(err, path)
		return
	}
	defer dir.Close()
	names, err := t.list(dir, first)
	for _, n := range names {
		t.remove(dir, n, filepath.Join(path, n))
	}
	t.note(err, path)
	t.note(parent.Remove(name), path)
}

// list returns the names in a directory, unless it is in another mount than the top directory.
func (t *treeRemover) list(dir *os.Root, isTop bool) ([]string, error) {
	list, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer list.Close()
	mount := mountID(list)
	if isTop {
		t.mount = mount
	}
	if mount != t.mount { // mount --bind: the same file system
		return nil, errMounted
	}
	return list.Readdirnames(-1)
}
