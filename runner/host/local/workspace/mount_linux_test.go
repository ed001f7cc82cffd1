package workspace

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// What can't be deleted (here: another file system in the workspace, which must not be emptied
// either) is reported by every purge, but tried only once and when an operator asks for it.
func TestUndeletableTrashIsReportedAndNotTriedForEver(t *testing.T) {
	r := newRoot(t)
	ready(t, r, owner("A", "r1"))
	at := filepath.Join(r.Path, "A", "mounted")
	test.OK(t, os.Mkdir(at, 0o700))
	if err := syscall.Mount("tmpfs", at, "tmpfs", 0, "size=64k,mode=0700"); err != nil {
		t.Skipf("no mounts here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(at, syscall.MNT_DETACH) }) // unless it was moved
	test.Write(t, filepath.Join(at, "precious"), "kept")
	removed := test.Must(r.Remove(t.Context(), owner("A", "r2"), day, true))
	removed.Trash += deletingSuffix
	for range 2 {
		purged, err := r.PurgeTrash(t.Context(), day.Add(time.Hour))
		test.Equal(
			t,
			"removed, error and undeletable",
			[]any{purged.Removed, err, purged.Undeletable},
			[]any{0, nil, []string{removed.Trash}},
		)
	}
	mounted := filepath.Join(removed.Trash, "mounted")
	// unless the test came to its end
	t.Cleanup(func() { _ = syscall.Unmount(mounted, syscall.MNT_DETACH) })
	test.Equal(t, "the mounted file stays", test.Exists(t, filepath.Join(mounted, "precious")), true)
	wantExist(t, false, filepath.Join(removed.Trash, "work"), filepath.Join(r.Path, "A"), r.record("A"))
	paths, err := r.ExpiredTrash(day.Add(time.Hour))
	test.Equal(
		t,
		"number of paths that would be tried again, and error",
		[]any{len(paths), err},
		[]any{0, nil},
	)
	test.OK(t, syscall.Unmount(mounted, 0))
	test.OK(t, r.DeleteTrash(t.Context(), removed.Trash))
	wantTrash(t, r, 0)
}

// A directory that is mounted into a workspace a second time (mount --bind) is on the same
// file system, and is not emptied either.
func TestRemoveTreeLeavesBindMounts(t *testing.T) {
	outside := t.TempDir()
	top := t.TempDir()
	at := filepath.Join(top, "tree", "bound")
	test.Write(t, filepath.Join(outside, "precious"), "kept")
	test.OK(t, os.MkdirAll(at, 0o700))
	if err := syscall.Mount(outside, at, "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("no mounts here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(at, syscall.MNT_DETACH) })
	err := files.RemoveTree(t.Context(), filepath.Join(top, "tree"))
	test.Equal(
		t,
		"error, file stays",
		[]bool{err != nil, test.Exists(t, filepath.Join(outside, "precious"))},
		[]bool{true, true},
	)
}
