package workspace

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
)

// mountTmpfs mounts a small file system at a directory and skips the test where that can't be. It is gone
// again with the test, wherever below dir it was moved to.
func mountTmpfs(t *testing.T, dir, at string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", at, "tmpfs", 0, "size=64k,mode=0700"); err != nil {
		t.Skipf("no mounts here: %v", err)
	}
	t.Cleanup(func() {
		mounts, err := os.ReadFile("/proc/self/mounts")
		check(t, err)
		for line := range strings.Lines(string(mounts)) {
			if path := strings.Fields(line)[1]; text.PathInside(dir, path) {
				check(t, syscall.Unmount(path, syscall.MNT_DETACH))
			}
		}
	})
}

// What can't be deleted (here: another file system in the workspace, which must not be emptied either) is
// reported by every purge, but tried only once and when a person asks for it.
func TestUndeletableTrashIsReportedAndNotTriedForEver(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	r := newRoot(t)
	ready(t, r, owner("A", "r1"))
	at := filepath.Join(r.Path, "A", "mounted")
	check(t, os.Mkdir(at, 0o700))
	mountTmpfs(t, r.Path, at)
	write(t, filepath.Join(at, "precious"), "kept")
	removed, err := r.Remove(t.Context(), owner("A", "r2"), day, false)
	check(t, err)
	mounted := filepath.Join(removed.Trash, "mounted")
	if removed.Undeletable == nil || !there(t, filepath.Join(mounted, "precious")) {
		t.Fatalf("%+v", removed)
	}
	if there(t, filepath.Join(removed.Trash, "work")) || there(t, filepath.Join(r.Path, "A")) || there(t, r.record("A")) {
		t.Error("what can be deleted was not")
	}
	if paths, err := r.ExpiredTrash(day.Add(time.Hour)); len(paths) != 0 || err != nil {
		t.Fatalf("would be tried again: %v, %v", paths, err)
	}
	for _, r.Trash.Retry = range []bool{false, true} {
		purged, err := r.PurgeTrash(t.Context(), day.Add(time.Hour), false)
		if purged.Removed != 0 || err != nil || !slices.Equal(purged.Undeletable, []string{removed.Trash}) {
			t.Fatalf("%+v, %v", purged, err)
		}
	}
	check(t, syscall.Unmount(mounted, 0))
	wantPurged(t, r, day, 1)
}
