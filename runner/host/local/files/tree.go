package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile/crash"
)

// RemoveTree deletes path and all below it, following no link and crossing into no other file system, and
// makes directories writable on the way. It deletes what it can and returns the first thing that it could
// not, or the context's error. What is gone already is no error.
func RemoveTree(ctx context.Context, path string) error {
	parent, err := os.Open(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	t := treeRemover{ctx: ctx}
	t.remove(int(parent.Fd()), filepath.Base(path), path)
	return t.err
}

type treeRemover struct {
	ctx context.Context
	dev uint64 // of the first directory, valid once known
	had bool
	err error // the first
}

func (t *treeRemover) note(err error, path string) {
	if err != nil && t.err == nil && !errors.Is(err, unix.ENOENT) {
		t.err = fmt.Errorf("remove %s: %w", path, err)
	}
}

// remove deletes the entry name of the directory dir; path is for messages only.
func (t *treeRemover) remove(dir int, name, path string) {
	if err := t.ctx.Err(); err != nil {
		t.note(err, path)
		return
	}
	var st unix.Stat_t
	err := Retry(func() error { return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	if err != nil {
		t.note(err, path)
		return
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		t.note(Retry(func() error { return unix.Unlinkat(dir, name, 0) }), path)
		return
	}
	if dev := uint64(st.Dev); !t.had {
		t.dev, t.had = dev, true
	} else if dev != t.dev {
		t.note(errors.New("another file system is mounted there"), path)
		return
	}
	if st.Mode&0o700 != 0o700 {
		t.note(makeWritable(dir, name, uint32(st.Mode)&0o7777|0o700), path)
	}
	crash.At("workspace.tree.opened")
	t.empty(dir, name, path)
	t.note(Retry(func() error { return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) }), path)
}

// empty removes what is in the directory name of dir.
func (t *treeRemover) empty(dir int, name, path string) {
	var fd int
	err := Retry(func() (err error) {
		fd, err = unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		t.note(err, path)
		return
	}
	d := os.NewFile(uintptr(fd), path)
	defer d.Close()
	names, err := d.Readdirnames(-1)
	t.note(err, path)
	for _, n := range names {
		t.remove(fd, n, filepath.Join(path, n))
	}
}

// makeWritable changes the mode of a directory but not of what a link put in its place meanwhile leads to,
// where the kernel can do that.
func makeWritable(dir int, name string, mode uint32) error {
	err := Retry(func() error { return unix.Fchmodat(dir, name, mode, unix.AT_SYMLINK_NOFOLLOW) })
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		err = Retry(func() error { return unix.Fchmodat(dir, name, mode, 0) })
	}
	return err
}

// Retry calls f again where a signal interrupted it.
func Retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
