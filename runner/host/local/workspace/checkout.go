package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// The directories of checkouts are beside those of the workspace:
//
//	work/KEY/tmp, cache               the commands of the agent
//	work/KEY/verify/tree/KEY          the checkout, which has the same name as the workspace
//	work/KEY/verify/tmp, cache        the commands that run in it
//
// Commands of an agent can write only the first two. The checkout and its tmp are made anew
// each time, and the cache stays.

func (w *Workspace) verifyDir(name string) string { return filepath.Join(w.WorkDir(), "verify", name) }

// checkoutTree contains the checkout.
func (w *Workspace) checkoutTree() string { return w.verifyDir("tree") }

// MakeCheckout prepares the directories of a checkout. Path of the result does not exist.
func (w *Workspace) MakeCheckout(ctx context.Context) (space host.Workspace, err error) {
	space = w.Workspace
	space.Path = filepath.Join(w.checkoutTree(), w.Key)
	space.TmpDir = w.verifyDir("tmp")
	space.CacheDir = w.verifyDir("cache")
	if err := w.RemoveCheckout(ctx); err != nil {
		return space, err
	}
	if err := w.KeepCache(); err != nil { // it is kept already, unless the workspace is older than verify.command
		return space, err
	}
	for _, dir := range []string{w.checkoutTree(), space.TmpDir, space.CacheDir} {
		if err := files.OwnDir(dir); err != nil {
			return space, files.Failed(err, "create %s", dir)
		}
	}
	return space, nil
}

// RemoveCheckout removes the checkout and its temporary files, if there are any.
func (w *Workspace) RemoveCheckout(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	for _, dir := range []string{w.checkoutTree(), w.verifyDir("tmp")} {
		if err := files.RemoveTree(ctx, dir); err != nil {
			return files.Failed(err, "remove the checkout")
		}
	}
	return nil
}

// KeepCache makes the cache of checkouts, with a copy of what is in that of the agent's
// commands. It does so once for a workspace. In files of text and in links, the paths of the
// workspace and of its cache become those of the checkout and of its cache: an editable
// package of Python leads to the checkout then, and a script to the interpreter beside it.
func (w *Workspace) KeepCache() error {
	cache := w.verifyDir("cache")
	if _, err := os.Lstat(cache); !errors.Is(err, fs.ErrNotExist) {
		return files.Failed(err, "look at %s", cache)
	}
	if err := files.OwnDir(filepath.Dir(cache)); err != nil {
		return files.Failed(err, "create %s", filepath.Dir(cache))
	}
	unfinished := w.verifyDir("cache.new")
	if err := files.RemoveTree(context.Background(), unfinished); err != nil {
		return files.Failed(err, "remove %s", unfinished)
	}
	moved := newMoved(map[string]string{w.Path: filepath.Join(w.checkoutTree(), w.Key), w.CacheDir: cache})
	if err := copyDir(w.CacheDir, unfinished, moved); err != nil {
		return files.Failed(err, "copy the cache %s", w.CacheDir)
	}
	crash.At("workspace.cache.copied")
	return files.Failed(os.Rename(unfinished, cache), "keep the cache %s", w.CacheDir)
}

// moved are paths that texts name, and what replaces them.
type moved []movedPath

type movedPath struct {
	from *regexp.Regexp // the path, up to a character that does not continue its last name
	to   []byte
}

func newMoved(paths map[string]string) (list moved) {
	for from, to := range paths {
		pattern := regexp.MustCompile(regexp.QuoteMeta(from) + `([^A-Za-z0-9._-]|$)`)
		list = append(list, movedPath{pattern, []byte(strings.ReplaceAll(to, "$", "$$") + "${1}")})
	}
	return list
}

func (m moved) in(content []byte) []byte {
	for _, path := range m {
		content = path.from.ReplaceAll(content, path.to)
	}
	return content
}

// maxText is the size of the largest file in which paths are looked for, in bytes.
const maxText = 4 << 20

// copyDir copies a directory with the files, directories and links in it. It copies no pipes,
// sockets and devices.
func copyDir(from, to string, m moved) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		copied := filepath.Join(to, name)
		if d.IsDir() {
			return os.Mkdir(copied, 0o700)
		}
		if d.Type() == fs.ModeSymlink {
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(string(m.in([]byte(target))), copied)
		}
		if !d.Type().IsRegular() {
			return nil // a socket or a pipe of a program that has ended
		}
		return copyFile(path, copied, m)
	})
}

// copyFile copies a file with its permissions and its time, by which caches recognize what is
// stale.
func copyFile(from, to string, m moved) (err error) {
	in, err := os.OpenFile(from, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm()|0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if info.Size() > maxText {
		_, err = io.Copy(out, in)
	} else {
		err = copyText(out, in, m)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return os.Chtimes(to, time.Time{}, info.ModTime())
}

// copyText copies a small file, with other paths if it is one of text.
func copyText(to io.Writer, from io.Reader, m moved) error {
	content, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	if !bytes.Contains(content, []byte{0}) {
		content = m.in(content)
	}
	_, err = to.Write(content)
	return err
}
