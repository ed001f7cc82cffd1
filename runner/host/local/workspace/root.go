package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/files"
	"github.com/symphony-cron/symphony/runner/proc"
)

// Root is a workspace root (specification 9.1), the directory that contains the workspaces. It
// belongs to this account, and no other account can write to it.
type Root struct {
	// Path is absolute and free of symbolic links.
	Path string
	// Trash configures how long removed workspaces are kept.
	Trash Trash

	// clock reads the monotonic clock, which ignores suspends and changes of the wall clock.
	// Readings of the same boot can be compared.
	clock     func() (boot string, mono time.Duration, err error)
	leaseWait time.Duration // how long to try for a lease or a lock before it counts as taken
}

// metaDir contains all of symphony's own files in a root. No key is equal to it, because a key
// with a leading dot ends in a hash.
const metaDir = ".symphony"

func (r *Root) meta() string              { return filepath.Join(r.Path, metaDir) }
func (r *Root) work(key string) string    { return filepath.Join(r.meta(), "work", key) }
func (r *Root) gitFile(key string) string { return filepath.Join(r.work(key), "git-trusted.json") }
func (r *Root) trash() string             { return filepath.Join(r.meta(), "trash") }
func (r *Root) record(key string) string  { return filepath.Join(r.meta(), key+".json") }
func (r *Root) lock(key string) string    { return filepath.Join(r.meta(), key+".lock") }

// OpenRoot opens the root at path, which must be absolute, and creates missing directories,
// private to the account. Its errors are workspace_root_unusable and disk_full.
func OpenRoot(path string) (*Root, error) {
	if err := CheckLinks(path); err != nil {
		return nil, err
	}
	if filepath.IsAbs(path) { // resolveRoot refuses others
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, rootFailed(path, err)
		}
	}
	r, err := resolveRoot(path)
	if err != nil {
		return nil, err
	}
	if err := files.OwnDir(r.meta()); err != nil {
		return nil, rootFailed(r.meta(), err)
	}
	// otherwise a read-only volume would be noticed only after the start of a run
	if err := writable(r.meta()); err != nil {
		return nil, rootFailed(r.meta(), err)
	}
	return r, nil
}

// FindRoot opens the root at path for reading and creates nothing. ok is false if there is no
// root, or if it never contained a workspace.
func FindRoot(path string) (root *Root, ok bool, err error) {
	if _, err := os.Stat(path); filepath.IsAbs(path) && errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	r, err := resolveRoot(path)
	if err != nil {
		return nil, false, err
	}
	err = files.CheckOwnDir(r.meta())
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err != nil {
		return nil, false, rootFailed(r.meta(), err)
	}
	return r, true, nil
}

// CheckRoot returns the errors that OpenRoot and Projects.Claim would return, as far as it can
// tell without creating anything.
func CheckRoot(path, endpointAndSlug, stateDir string, refuse RefuseClaim) error {
	root, ok, err := FindRoot(path)
	if err != nil {
		return err
	}
	made := path
	if ok {
		made = root.meta()
	}
	if err := writable(made); err != nil {
		return rootFailed(made, err)
	}
	if !ok {
		return nil
	}
	projects := root.Projects()
	return projects.unclaimed(projects.path(endpointAndSlug), projectClaim{endpointAndSlug, stateDir}, refuse)
}

// existing returns a path, or the nearest directory above it that exists.
func existing(path string) (at string, info fs.FileInfo, err error) {
	info, err = os.Stat(path)
	for errors.Is(err, fs.ErrNotExist) && path != filepath.Dir(path) {
		path = filepath.Dir(path)
		info, err = os.Stat(path)
	}
	return path, info, err
}

// writable returns an error if a directory can't be written or, if it does not exist, can't be
// created.
func writable(path string) error {
	path, info, err := existing(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return syscall.ENOTDIR
	}
	return unix.Access(path, unix.W_OK|unix.X_OK)
}

// CheckLinks returns an error if a symlink on the way to a root, which need not exist, belongs
// to neither this account nor root: in a directory that all accounts share, another account
// could lead the workspaces into any directory of this account.
func CheckLinks(path string) error {
	if !filepath.IsAbs(path) {
		return nil // resolveRoot refuses it
	}
	place, err := paths.Find(path)
	if err != nil {
		return rootFailed(path, err)
	}
	for _, link := range place.Links {
		info, err := os.Lstat(link.Path)
		if err != nil {
			return rootFailed(path, err)
		}
		owner := info.Sys().(*syscall.Stat_t).Uid
		if owner != 0 && int(owner) != os.Geteuid() {
			failed := rootFailed(path, fmt.Errorf("%s is a link of another account", link.Path))
			failed.Hint = "set workspace.root to a directory of your own, such as ~/symphony"
			return failed
		}
	}
	return nil
}

// resolveRoot resolves an existing root and checks its owner and mode.
func resolveRoot(path string) (*Root, error) {
	if !filepath.IsAbs(path) {
		return nil, rootFailed(path, errors.New("not an absolute path"))
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, rootFailed(path, err)
	}
	info, err := os.Stat(real)
	if err != nil {
		return nil, rootFailed(path, err)
	}
	switch {
	case !info.IsDir():
		return nil, rootFailed(path, errors.New("not a directory"))
	case real == "/":
		return nil, rootFailed(path, errors.New("it is the root of the file system"))
	case !paths.Ours(info):
		failed := rootFailed(path, errors.New("it belongs to another account"))
		failed.Hint = cmp.Or(
			paths.Regain(real),
			"run symphony as that account, or set workspace.root to a directory of your own",
		)
		return nil, failed
	case info.Mode().Perm()&0o022 != 0:
		failed := rootFailed(path, fmt.Errorf("others can write to it (mode %04o)", info.Mode().Perm()))
		failed.Hint = "chmod go-w " + real
		if info.Mode()&fs.ModeSticky != 0 { // such as /tmp, which all accounts share
			failed.Hint = "set workspace.root to a directory of your own, such as ~/symphony"
		}
		return nil, failed
	}
	clock := func() (string, time.Duration, error) {
		boot, err := proc.BootID()
		return boot, proc.Monotonic(), err
	}
	return &Root{Path: real, clock: clock, leaseWait: 2 * time.Second}, nil
}

func rootFailed(path string, err error) *reconcile.Error {
	failed := reconcile.NewError(
		CodeRootUnusable,
		fmt.Sprintf("workspace root %s: %v", path, err),
		"set workspace.root to the absolute path of a directory that only this account can write",
	).WithCause(err)
	if errors.Is(err, fs.ErrPermission) {
		failed.Hint = cmp.Or(paths.Regain(path), failed.Hint)
	}
	if paths.IsFull(err) || errors.Is(err, syscall.EROFS) {
		errors.As(files.Failed(err, "open workspace root %s", path), &failed)
	}
	return failed
}

// Dissolve removes symphony's own files from a root without workspaces and projects: the trash
// and the lock files, and then the root itself if it is empty. It changes nothing if the root
// is in use, or if its trash contains files of an operator or unsaved work.
func (r *Root) Dissolve(ctx context.Context) error {
	for _, pattern := range []string{"*.json", "projects/*.json"} {
		if used, err := fs.Glob(os.DirFS(r.meta()), pattern); err != nil || len(used) > 0 {
			return err
		}
	}
	list, err := r.listTrash()
	if err != nil {
		return err
	}
	notes, err := fs.Glob(os.DirFS(r.trash()), "*"+noteSuffix)
	if err != nil {
		return err
	}
	all, err := os.ReadDir(r.trash())
	if err == nil && len(all) > len(list)+len(notes) {
		return nil // an operator keeps something there
	}
	for _, t := range list {
		if work, _ := t.unsaved(ctx); work != "" {
			return nil
		}
	}
	if err := files.RemoveTree(ctx, r.meta()); err != nil {
		return files.Failed(err, "remove %s", r.meta())
	}
	_ = os.Remove(r.Path) // fails if something else is in it
	return nil
}
