package workspace

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

var day = time.Date(2026, 3, 4, 5, 6, 7, 89, time.UTC)

func TestRemoveKeepsInTheTrash(t *testing.T) {
	r := newRoot(t)
	old := ready(t, r, owner("A", "r1"))
	write(t, filepath.Join(old.TmpDir, "t"), "x")
	var seen Workspace
	hookErr := errors.New("hook failed")
	report, err := r.Remove(t.Context(), owner("A", "r2"), RemoveOptions{Keep: time.Hour, Now: day, Before: func(w *Workspace) error {
		seen = *w
		check(t, w.Verify())
		if rec, _, err := r.readRecord("A"); err != nil || rec.State != Removing || rec.RunID != "r2" {
			t.Errorf("%+v, %v", rec, err)
		}
		if held, err := r.Held("A"); !held || err != nil {
			t.Errorf("no lease: %v, %v", held, err)
		}
		return hookErr
	}})
	check(t, err)
	trash := filepath.Join(r.trash(), "A-20260304T050607.000000089Z")
	if !report.Removed || report.HookErr != hookErr || report.Trash != trash || report.Undeletable != nil {
		t.Fatalf("%+v", report)
	}
	if seen.Path != old.Path || seen.ID != old.ID || !slices.Equal(seen.Previous, []RunRef{{"r1", "/state/one"}}) {
		t.Errorf("before saw %+v", seen)
	}
	if !there(t, filepath.Join(trash, "work")) || there(t, old.Path) || there(t, r.record("A")) || there(t, r.work("A")) {
		t.Error("not moved as a whole")
	}
	if held, err := r.Held("A"); held || err != nil || !there(t, r.lock("A")) {
		t.Errorf("lease %v, %v", held, err)
	}
	// Nothing left: nothing to do, and no hook.
	report, err = r.Remove(t.Context(), owner("A", "r3"), RemoveOptions{Now: day, Before: func(*Workspace) error { t.Error("called"); return nil }})
	if err != nil || report != (Removal{}) {
		t.Fatalf("%+v, %v", report, err)
	}
	w := acquire(t, r, owner("A", "r4"))
	if !w.CreatedNow || w.ID == old.ID || len(w.Previous) != 0 {
		t.Fatalf("%+v", w)
	}
}

func TestRemoveAtOnce(t *testing.T) {
	r := newRoot(t)
	ready(t, r, owner("A", "r1"))
	write(t, filepath.Join(r.Path, "B", "unrecorded"), "x")
	for _, identifier := range []string{"A", "B"} {
		report, err := r.Remove(t.Context(), owner(identifier, "r2"), RemoveOptions{Now: day})
		check(t, err)
		if report != (Removal{Removed: true}) {
			t.Errorf("%+v", report)
		}
	}
	entries, err := os.ReadDir(r.trash())
	check(t, err)
	if len(entries) != 0 || there(t, filepath.Join(r.Path, "A")) || there(t, filepath.Join(r.Path, "B")) {
		t.Fatalf("left: %v", entries)
	}
}

// A workspace whose after_create never came to an end is not shown to before_remove, however often removal
// is cut off.
func TestRemoveOfAHalfMadeWorkspaceRunsNoHook(t *testing.T) {
	r := newRoot(t)
	check(t, acquire(t, r, owner("A", "r1")).Release())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	hook := func(*Workspace) error { t.Error("called"); return nil }
	if _, err := r.Remove(ctx, owner("A", "r2"), RemoveOptions{Now: day, Before: hook}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, err := r.Remove(t.Context(), owner("A", "r3"), RemoveOptions{Now: day, Before: hook}); err != nil {
		t.Fatal(err)
	}
}

func TestRemoveGoesOnAfterACut(t *testing.T) {
	r := newRoot(t)
	w := ready(t, r, owner("A", "r1"))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := r.Remove(ctx, owner("A", "r2"), RemoveOptions{Now: day, Before: func(*Workspace) error { cancel(); return nil }})
	if !errors.Is(err, context.Canceled) || !there(t, filepath.Join(w.Path, "work")) {
		t.Fatalf("%v", err)
	}
	calls := 0
	report, err := r.Remove(t.Context(), owner("A", "r3"), RemoveOptions{Now: day, Before: func(w *Workspace) error {
		calls++
		if want := []RunRef{{"r1", "/state/one"}, {"r2", "/state/one"}}; !slices.Equal(w.Previous, want) {
			t.Errorf("previous %v", w.Previous)
		}
		return os.RemoveAll(w.Path) // a hook may do it all by itself
	}})
	check(t, err)
	if !report.Removed || calls != 1 || there(t, r.record("A")) {
		t.Fatalf("%+v after %d calls", report, calls)
	}
}

func TestTreesThatAreReadOnlyAreRemoved(t *testing.T) {
	if !unprivileged(t) {
		return
	}
	for name, keep := range map[string]time.Duration{"at once": 0, "later": time.Hour} {
		t.Run(name, func(t *testing.T) {
			r := newRoot(t)
			w := acquire(t, r, owner("A", "r1"))
			check(t, w.Ready())
			readOnly(t, w.Path)
			readOnly(t, filepath.Join(w.CacheDir, "mod"))
			check(t, w.Release())
			report, err := r.Remove(t.Context(), owner("A", "r2"), RemoveOptions{Keep: keep, Now: day, Discard: true})
			check(t, err)
			if report.Undeletable != nil {
				t.Fatal(report.Undeletable)
			}
			n, stuck, err := purge(t.Context(), r, Purge{Now: day.Add(keep), Keep: keep})
			if err != nil || len(stuck) != 0 || keep > 0 && n != 1 {
				t.Fatalf("%d, %v, %v", n, stuck, err)
			}
			if entries, err := os.ReadDir(r.trash()); err != nil || len(entries) != 0 {
				t.Fatalf("%v, %v", entries, err)
			}
		})
	}
	t.Run("half made", func(t *testing.T) {
		r := newRoot(t)
		w := acquire(t, r, owner("A", "r1"))
		readOnly(t, w.Path)
		check(t, w.Release())
		again := acquire(t, r, owner("A", "r2"))
		if entries, err := os.ReadDir(again.Path); err != nil || len(entries) != 0 || !again.CreatedNow {
			t.Fatalf("%v, %v", entries, err)
		}
	})
}

// readOnly fills a directory as a module cache is: no directory of it may be written, one not even be read.
func readOnly(t *testing.T, dir string) {
	t.Helper()
	write(t, filepath.Join(dir, "a", "b", "file"), "x")
	write(t, filepath.Join(dir, "closed", "file"), "x")
	check(t, os.Chmod(filepath.Join(dir, "closed"), 0))
	for _, d := range []string{"a/b", "a", "."} {
		check(t, os.Chmod(filepath.Join(dir, d), 0o555))
	}
}

func TestRemoveFollowsNoLinks(t *testing.T) {
	outside := t.TempDir()
	write(t, filepath.Join(outside, "dir", "precious"), "kept")
	check(t, os.Chmod(filepath.Join(outside, "dir"), 0o500))
	t.Cleanup(func() { check(t, os.Chmod(filepath.Join(outside, "dir"), 0o700)) })
	r := newRoot(t)
	w := acquire(t, r, owner("A", "r1"))
	check(t, w.Ready())
	check(t, os.Symlink(outside, filepath.Join(w.Path, "link")))
	check(t, os.Symlink(filepath.Join(outside, "dir"), filepath.Join(w.Path, "link2")))
	check(t, os.Symlink("/", filepath.Join(w.TmpDir, "all")))
	check(t, os.Link(filepath.Join(outside, "dir", "precious"), filepath.Join(w.Path, "hard")))
	check(t, syscall.Mkfifo(filepath.Join(w.Path, "pipe"), 0o600))
	check(t, w.Release())
	report, err := r.Remove(t.Context(), owner("A", "r2"), RemoveOptions{Now: day})
	check(t, err)
	if report != (Removal{Removed: true}) {
		t.Fatalf("%+v", report)
	}
	info, err := os.Stat(filepath.Join(outside, "dir"))
	check(t, err)
	if !there(t, filepath.Join(outside, "dir", "precious")) || info.Mode().Perm() != 0o500 {
		t.Fatal("what a link led to was touched")
	}
}

func TestTrashIsPurgedByAge(t *testing.T) {
	r := newRoot(t)
	for i, identifier := range []string{"old", "due", "new"} {
		ready(t, r, owner(identifier, "r1"))
		_, err := r.Remove(t.Context(), owner(identifier, "r2"), RemoveOptions{Keep: time.Hour, Now: day.Add(time.Duration(i) * time.Hour)})
		check(t, err)
	}
	write(t, filepath.Join(r.trash(), "no name of ours", "x"), "kept")
	now := day.Add(2 * time.Hour)
	paths, err := r.ExpiredTrash(now, time.Hour)
	check(t, err)
	if len(paths) != 2 || !strings.HasPrefix(filepath.Base(paths[0]), "due-") || !strings.HasPrefix(filepath.Base(paths[1]), "old-") {
		t.Fatalf("%v", paths)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, _, err := purge(ctx, r, Purge{Now: now, Keep: time.Hour}); n != 0 || !errors.Is(err, context.Canceled) {
		t.Fatalf("%d, %v", n, err)
	}
	n, stuck, err := purge(t.Context(), r, Purge{Now: now, Keep: time.Hour})
	if n != 2 || len(stuck) != 0 || err != nil {
		t.Fatalf("%d, %v, %v", n, stuck, err)
	}
	n, stuck, err = purge(t.Context(), r, Purge{Now: now, Keep: time.Hour, All: true})
	if n != 1 || len(stuck) != 0 || err != nil {
		t.Fatalf("%d, %v, %v", n, stuck, err)
	}
	if !there(t, filepath.Join(r.trash(), "no name of ours", "x")) {
		t.Error("the file of another owner is gone")
	}
}

func TestTrashNamesNeverCollide(t *testing.T) {
	r := newRoot(t)
	for range 3 {
		ready(t, r, owner("A", "r1"))
		_, err := r.Remove(t.Context(), owner("A", "r2"), RemoveOptions{Keep: time.Hour, Now: day})
		check(t, err)
	}
	if paths, err := r.ExpiredTrash(day.Add(2*time.Hour), time.Hour); len(paths) != 3 || err != nil {
		t.Fatalf("%v, %v", paths, err)
	}
}

// Neither a removal nor a purge of the trash takes what exists nowhere else, unless an operator has said so.
func TestRemoveLeavesUnsavedWork(t *testing.T) {
	r := newRoot(t)
	w := acquire(t, r, owner("A", "r1"))
	repository(t, w.Path)
	check(t, w.Ready())
	check(t, w.Release())
	hooks := 0
	opt := RemoveOptions{Now: day, Before: func(*Workspace) error { hooks++; return nil }}
	for range 2 {
		removal, err := r.Remove(t.Context(), owner("A", "r2"), opt)
		check(t, err)
		if removal.Removed || removal.Unsaved != "1 commit not on any remote" || !there(t, w.Path) {
			t.Fatalf("%+v", removal)
		}
	}
	rec, _, err := r.readRecord("A")
	check(t, err)
	if hooks != 1 || rec.State != Prepared || rec.Unsaved == "" || !rec.UnsavedAt.Equal(day) {
		t.Errorf("%d hooks, %+v", hooks, rec)
	}

	// What an earlier version has moved there stays in the trash, however short space is.
	trashed, err := r.moveToTrash(w.Path, "A", day)
	check(t, err)
	purged, err := r.PurgeTrash(t.Context(), Purge{Now: day.Add(1000 * time.Hour)})
	check(t, err)
	if len(purged.Unsaved) != 1 || purged.Unsaved[0].Path != trashed || !there(t, trashed) {
		t.Errorf("%+v", purged)
	}
	if gone, err := r.Dissolve(t.Context(), false); gone || err != nil {
		t.Errorf("dissolved: %v, %v", gone, err)
	}
	purged, err = r.PurgeTrash(t.Context(), Purge{Now: day.Add(1000 * time.Hour), Discard: true})
	check(t, err)
	if purged.Removed != 1 || there(t, trashed) {
		t.Errorf("%+v", purged)
	}

	// An operator's consent goes with the workspace into the trash.
	w = acquire(t, r, owner("B", "r1"))
	repository(t, w.Path)
	check(t, w.Ready())
	check(t, w.Release())
	removal, err := r.Remove(t.Context(), owner("B", "r2"), RemoveOptions{Now: day, Keep: time.Hour, Discard: true})
	check(t, err)
	if !removal.Removed || removal.Trash == "" {
		t.Fatalf("%+v", removal)
	}
	if n, _, err := purge(t.Context(), r, Purge{Now: day.Add(time.Hour), Keep: time.Hour}); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// repository makes a repository with a commit that exists nowhere else.
func repository(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "git init -q -b main && git -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m one")
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
