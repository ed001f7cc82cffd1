package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/runner/host/local/files"
	"golang.org/x/sys/unix"
)

// Root is a workspace root (specification 9.1): a directory of this account that no other account can write, every
// workspace directly below it.
type Root struct {
	// Path is absolute and free of symbolic links.
	Path string
	// Trash says what becomes of removed workspaces.
	Trash Trash

	now       func() time.Time // names trash that no caller dates
	leaseWait time.Duration    // how long to try for a lease or a lock before it counts as taken
}

// metaDir holds all that is ours in a root. No key is equal to it: keys with a leading dot get a suffix.
const metaDir = ".symphony"

// OpenRoot opens the root at path, which must be absolute, and makes what is missing of it, private to the
// account. Its errors are workspace_root_unusable or disk_full.
func OpenRoot(path string) (*Root, error) {
	if !filepath.IsAbs(path) {
		return nil, unusable(path, "not an absolute path", "give workspace.root as an absolute path", nil)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, rootFailed(path, err)
	}
	r, err := resolveRoot(path)
	if err != nil {
		return nil, err
	}
	if err := files.OwnDir(r.meta()); err != nil {
		return nil, rootFailed(r.meta(), err)
	}
	// A volume that went read-only shows it nowhere else before a run has begun.
	if err := unix.Access(r.meta(), unix.W_OK|unix.X_OK); err != nil {
		return nil, rootFailed(r.meta(), err)
	}
	return r, nil
}

// FindRoot opens the root at path to look at it and creates nothing. ok is false where there is no root, or
// no workspace was ever made in it.
func FindRoot(path string) (root *Root, ok bool, err error) {
	if !filepath.IsAbs(path) {
		return nil, false, unusable(path, "not an absolute path", "give workspace.root as an absolute path", nil)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	r, err := resolveRoot(path)
	if err != nil {
		return nil, false, err
	}
	err = files.CheckOwnDir(r.meta())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, rootFailed(r.meta(), err)
	}
	return r, true, nil
}

// CheckRoot says what OpenRoot and ClaimProject would say, as far as that can be told without making anything.
func CheckRoot(path, endpointAndSlug, stateDir string) error {
	root, ok, err := FindRoot(path)
	if err != nil {
		return err
	}
	if !ok {
		return writable(path)
	}
	if err := unix.Access(root.meta(), unix.W_OK|unix.X_OK); err != nil {
		return rootFailed(root.meta(), err)
	}
	return unclaimed(root.project(endpointAndSlug), stateDir)
}

// writable reports whether what is missing of a path could be made.
func writable(path string) error {
	above := path
	info, err := os.Stat(above)
	for errors.Is(err, fs.ErrNotExist) && above != filepath.Dir(above) {
		above = filepath.Dir(above)
		info, err = os.Stat(above)
	}
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err == nil {
		err = unix.Access(above, unix.W_OK|unix.X_OK)
	}
	if err != nil {
		return rootFailed(path, err)
	}
	return nil
}

// resolveRoot resolves an existing root and checks whose it is.
func resolveRoot(path string) (*Root, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, rootFailed(path, err)
	}
	info, err := os.Stat(real)
	if err != nil {
		return nil, rootFailed(real, err)
	}
	switch {
	case !info.IsDir():
		return nil, unusable(real, "not a directory", "set workspace.root to a directory", nil)
	case real == "/":
		return nil, unusable(real, "the whole file system", "set workspace.root to a directory of its own", nil)
	case !files.Ours(info):
		return nil, unusable(real, "owned by another user",
			fmt.Sprintf("set workspace.root to a directory that uid %d owns", os.Geteuid()), nil)
	case info.Mode().Perm()&0o022 != 0:
		return nil, unusable(real, fmt.Sprintf("others can write to it (mode %04o)", info.Mode().Perm()),
			"chmod go-w "+real, nil)
	}
	return &Root{Path: real, now: time.Now, leaseWait: 2 * time.Second}, nil
}

func rootFailed(path string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return files.Failed(err, "open workspace root %s", path)
	}
	return unusable(path, err.Error(), "set workspace.root to a directory that this account can create and write", err)
}

func (r *Root) meta() string             { return filepath.Join(r.Path, metaDir) }
func (r *Root) work(key string) string   { return filepath.Join(r.meta(), "work", key) }
func (r *Root) trash() string            { return filepath.Join(r.meta(), "trash") }
func (r *Root) record(key string) string { return filepath.Join(r.meta(), key+".json") }
func (r *Root) lock(key string) string   { return filepath.Join(r.meta(), key+".lock") }

// path gives the workspace of a key: always a direct child of the root (specification 9.5, invariant 2).
func (r *Root) path(key string) (string, error) {
	path := filepath.Join(r.Path, key)
	if filepath.Dir(path) != r.Path || path == r.Path || filepath.Base(path) != key || key == metaDir {
		return "", invalidCwd(path, "not inside the workspace root "+r.Path)
	}
	return path, nil
}
