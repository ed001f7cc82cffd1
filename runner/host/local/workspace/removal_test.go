package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
)

var day = time.Date(2026, 3, 4, 5, 6, 7, 89, time.UTC)

// remove removes the workspace of an issue; before is the hook.
func remove(ctx context.Context, r *Root, o Owner, before func(*Workspace)) (host.RemoveAnswer, error) {
	w, unsaved, err := r.BeginRemoval(ctx, o, day, false)
	if err != nil || w == nil {
		return host.RemoveAnswer{Unsaved: unsaved}, err
	}
	if w.HookDue() {
		before(w)
	}
	return w.EndRemoval(ctx)
}

// noHook is a before that must not be called.
func noHook(t *testing.T) func(*Workspace) {
	return func(*Workspace) { t.Helper(); t.Error("before_remove ran") }
}

func TestRemoveKeepsInTheTrash(t *testing.T) {
	r := newRoot(t)
	r.Trash.Keep = time.Hour
	old := ready(t, r, owner("A", "r1"))
	write(t, filepath.Join(old.TmpDir, "t"), "x")
	var seen Workspace
	removed, err := remove(t.Context(), r, owner("A", "r2"), func(w *Workspace) {
		seen = *w
		test.OK(t, w.Verify())
		wantRecord(t, r, "A", Removing, "r2")
		wantHeld(t, r, "A", true)
		wantPrevious(t, w, "r1")
	})
	test.OK(t, err)
	trash := filepath.Join(r.trash(), "A-20260304T050607.000000089Z")
	if removed != (host.RemoveAnswer{Trash: trash}) {
		t.Fatalf("%+v", removed)
	}
	if seen.Path != old.Path || seen.ID != old.ID {
		t.Errorf("before saw %+v", seen)
	}
	wantExist(t, true, filepath.Join(trash, "work"), r.lock("A"))
	wantExist(t, false, old.Path, r.record("A"), r.work("A"))
	wantHeld(t, r, "A", false)
	// Nothing left: nothing to do, and no hook.
	removed, err = remove(t.Context(), r, owner("A", "r3"), noHook(t))
	if err != nil || removed != (host.RemoveAnswer{}) {
		t.Fatalf("%+v, %v", removed, err)
	}
	w := acquire(t, r, owner("A", "r4"))
	if !w.Created || w.ID == old.ID {
		t.Fatalf("%+v", w)
	}
	wantPrevious(t, w)
}

// With keep_removed_ms: 0 the next purge deletes what is saved. What symphony has not made is not known to be saved.
func TestRemoveAtOnce(t *testing.T) {
	r := newRoot(t)
	ready(t, r, owner("A", "r1"))
	write(t, filepath.Join(r.Path, "B", "unrecorded"), "x")
	for _, identifier := range []string{"A", "B"} {
		removed, err := r.Remove(t.Context(), owner(identifier, "r2"), day, false)
		test.OK(t, err)
		if recorded := identifier == "A"; recorded != (removed.Unsaved == "") || recorded == there(t, filepath.Join(r.Path, identifier)) {
			t.Errorf("%+v", removed)
		}
	}
	wantPurged(t, r, day, 1)
	wantTrash(t, r, 0)
}

// before_remove does not run in a workspace whose after_create was interrupted, even if its removal is interrupted, too.
func TestRemoveOfAHalfMadeWorkspaceRunsNoHook(t *testing.T) {
	r := newRoot(t)
	test.OK(t, acquire(t, r, owner("A", "r1")).Release())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := remove(ctx, r, owner("A", "r2"), noHook(t)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	_, err := remove(t.Context(), r, owner("A", "r3"), noHook(t))
	test.OK(t, err)
	list, err := r.Removed(t.Context(), day, "")
	if err != nil || len(list) != 1 || list[0].Record != nil {
		t.Errorf("%+v, %v: a run would work in it if it were restored", list, err)
	}
}

func TestRemoveGoesOnAfterACut(t *testing.T) {
	r := newRoot(t)
	w := ready(t, r, owner("A", "r1"))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := remove(ctx, r, owner("A", "r2"), func(*Workspace) { cancel() })
	if !errors.Is(err, context.Canceled) || !there(t, filepath.Join(w.Path, "work")) {
		t.Fatalf("%v", err)
	}
	calls := 0
	_, err = remove(t.Context(), r, owner("A", "r3"), func(w *Workspace) {
		calls++
		wantPrevious(t, w, "r1", "r2")
		test.OK(t, os.RemoveAll(w.Path)) // a hook may do it all by itself
	})
	test.OK(t, err)
	if calls != 1 || there(t, r.record("A")) {
		t.Fatalf("%d calls", calls)
	}
}

// For example a module cache: its directories are read-only, and one is not even readable.
func TestTreesThatAreReadOnlyAreRemoved(t *testing.T) {
	if !test.Unprivileged(t) {
		return
	}
	fill := func(dir string) {
		sh(t, dir, "mkdir -p a/b closed; touch a/b/file closed/file; chmod 0 closed; chmod 555 a/b a .")
	}
	for _, keep := range []time.Duration{0, time.Hour} {
		r := newRoot(t)
		r.Trash.Keep = keep
		w := acquire(t, r, owner("A", "r1"))
		test.OK(t, w.Ready())
		fill(w.Path)
		fill(w.CacheDir)
		test.OK(t, w.Release())
		_, err := r.Remove(t.Context(), owner("A", "r2"), day, true)
		test.OK(t, err)
		wantPurged(t, r, day.Add(keep), 1)
		wantTrash(t, r, 0)
	}
	// Half made.
	r := newRoot(t)
	w := acquire(t, r, owner("A", "r1"))
	fill(w.Path)
	test.OK(t, w.Release())
	again := acquire(t, r, owner("A", "r2"))
	if entries, err := os.ReadDir(again.Path); err != nil || len(entries) != 0 || !again.Created {
		t.Fatalf("%v, %v", entries, err)
	}
}

func TestRemoveFollowsNoLinks(t *testing.T) {
	outside := t.TempDir()
	r := newRoot(t)
	w := acquire(t, r, owner("A", "r1"))
	sh(t, w.Path, `mkdir `+outside+`/dir; echo kept > `+outside+`/dir/precious; chmod 500 `+outside+`/dir
		ln -s `+outside+` link; ln -s `+outside+`/dir link2; ln `+outside+`/dir/precious hard; mkfifo pipe; ln -s / `+w.TmpDir+`/all`)
	test.OK(t, w.Ready())
	test.OK(t, w.Release())
	removed, err := r.Remove(t.Context(), owner("A", "r2"), day, false)
	test.OK(t, err)
	test.OK(t, r.DeleteTrash(t.Context(), removed.Trash))
	if info, err := os.Stat(filepath.Join(outside, "dir")); err != nil || info.Mode().Perm() != 0o500 {
		t.Errorf("what a link led to was touched: %v, %v", info, err)
	}
	wantExist(t, true, filepath.Join(outside, "dir", "precious"))
}

// Neither a removal nor a purge of the trash deletes work that exists nowhere else, unless an operator has accepted the loss.
func TestRemoveLeavesUnsavedWork(t *testing.T) {
	r := newRoot(t)
	repository := func(identifier string) *Workspace { // with a commit that exists nowhere else
		w := acquire(t, r, owner(identifier, "r1"))
		sh(t, w.Path, "git init -q -b main; git -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m one")
		test.OK(t, w.Ready())
		test.OK(t, w.Release())
		return w
	}
	w := repository("A")
	hooks := 0
	for range 2 {
		removed, err := remove(t.Context(), r, owner("A", "r2"), func(*Workspace) { hooks++ })
		test.OK(t, err)
		if removed.Unsaved != "1 commit not on any remote" || !there(t, w.Path) {
			t.Fatalf("%+v", removed)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Remove(ended, owner("A", "r2"), day, false); !errors.Is(err, context.Canceled) { // it does not know why
		t.Errorf("%v", err)
	}
	rec, _, err := r.readRecord("A")
	test.OK(t, err)
	if hooks != 1 || rec.State != Prepared || rec.Unsaved != "1 commit not on any remote" || !rec.UnsavedAt.Equal(day) {
		t.Errorf("%d hooks, %+v", hooks, rec)
	}

	// An entry that was moved to the trash without being examined stays there, even if free space is low.
	trashed, err := r.moveToTrash(w.Path, "A", day, note{})
	test.OK(t, err)
	r.Trash.Short = true
	_, err = r.PurgeTrash(ended, day.Add(1000*time.Hour)) // nor if the examination is interrupted
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	purged, err := r.PurgeTrash(t.Context(), day.Add(1000*time.Hour))
	test.OK(t, err)
	if purged.Unsaved[trashed] == "" || !there(t, trashed) {
		t.Errorf("%+v", purged)
	}
	test.OK(t, os.Remove(r.record("A")))
	test.OK(t, r.Dissolve(t.Context()))
	if !there(t, trashed) {
		t.Error("dissolved")
	}
	test.OK(t, r.DeleteTrash(t.Context(), trashed))

	// The trash remembers that an operator has accepted the loss.
	r.Trash = Trash{Keep: time.Hour}
	repository("B")
	removed, err := r.Remove(t.Context(), owner("B", "r2"), day, true)
	test.OK(t, err)
	if removed.Trash == "" {
		t.Fatalf("%+v", removed)
	}
	wantPurged(t, r, day.Add(time.Hour), 1)
}

// A hook may keep the main repository of a worktree in the workspace's cache, which is deleted with the workspace.
func TestRemoveLeavesWorktreeOfTheCache(t *testing.T) {
	r := newRoot(t)
	w := acquire(t, r, owner("A", "r1"))
	sh(t, w.CacheDir, `git init -q main; cd main; git -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m one
		git worktree add -q -b topic `+w.Path)
	test.OK(t, w.Ready())
	test.OK(t, w.Release())
	removed, err := r.Remove(t.Context(), owner("A", "r2"), day, false)
	test.OK(t, err)
	if removed.Unsaved == "" || !there(t, filepath.Join(w.CacheDir, "main")) {
		t.Errorf("%+v", removed)
	}
}

// trashed removes a new workspace at a given time, and returns its path in the trash.
func trashed(t *testing.T, r *Root, identifier string, at time.Time) (path string) {
	t.Helper()
	ready(t, r, owner(identifier, "r1"))
	removed, err := r.Remove(t.Context(), owner(identifier, "r2"), at, false)
	test.OK(t, err)
	return removed.Trash
}

// wantTrash checks how many entries and notes are in the trash.
func wantTrash(t *testing.T, r *Root, want int) {
	t.Helper()
	if left, err := os.ReadDir(r.trash()); err != nil || len(left) != want {
		t.Errorf("%d in the trash, want %d: %v, %v", len(left), want, left, err)
	}
}

// wantPurged purges the trash, and checks the number of deleted entries and that ExpiredTrash has predicted it.
func wantPurged(t *testing.T, r *Root, now time.Time, want int) {
	t.Helper()
	due, err := r.ExpiredTrash(now)
	test.OK(t, err)
	purged, err := r.PurgeTrash(t.Context(), now)
	test.OK(t, err)
	if len(due) != want || purged.Removed != want || len(purged.Undeletable)+len(purged.Unsaved) > 0 {
		t.Errorf("due %v, purged %+v, want %d", due, purged, want)
	}
}

// The age of a removed workspace is measured by the monotonic clock, so changes of the wall clock do not matter. After a reboot
// only the wall clock is left.
func TestTrashAgesWithoutTheWallClock(t *testing.T) {
	const keep, year = 24 * time.Hour, 365 * 24 * time.Hour
	for name, c := range map[string]struct {
		boot       string
		wall, mono time.Duration // since the removal
		due        int
	}{
		"an hour later":                    {"b1", time.Hour, time.Hour, 0},
		"a day later":                      {"b1", keep, keep, 1},
		"the clock was set a year on":      {"b1", year, time.Hour, 0},
		"and a day has passed":             {"b1", year + keep, keep, 1},
		"suspended for two days":           {"b1", 2 * keep, time.Hour, 0},
		"set back an hour, a day later":    {"b1", keep - time.Hour, keep, 1},
		"set back a year, an hour later":   {"b1", -year, time.Hour, 0},
		"set back a year, a day later":     {"b1", -year, keep, 1},
		"rebooted, an hour later":          {"b2", time.Hour, time.Minute - 50*time.Hour, 0},
		"rebooted, a day later":            {"b2", keep, time.Minute - 50*time.Hour, 1},
		"rebooted, the clock a minute off": {"b2", -time.Minute, time.Minute - 50*time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoot(t)
			r.Trash.Keep = keep
			boot, mono := "b1", 50*time.Hour
			r.clock = func() (string, time.Duration, error) { return boot, mono, nil }
			trashed(t, r, "A", day)
			boot, mono = c.boot, mono+c.mono
			wantPurged(t, r, day.Add(c.wall), c.due)
			wantTrash(t, r, 2-2*c.due)
		})
	}
}

// A removed workspace that an operator moves back leaves nothing in the trash.
func TestTrashTakenBack(t *testing.T) {
	r := newRoot(t)
	r.Trash.Keep = time.Hour
	entry := trashed(t, r, "A", day)
	test.OK(t, os.Rename(entry, filepath.Join(r.Path, "A")))
	wantPurged(t, r, day, 0)
	wantTrash(t, r, 1) // a removal may be about to move its workspace here
	test.OK(t, os.Chtimes(entry+noteSuffix, time.Time{}, time.Now().Add(-2*time.Hour)))
	wantPurged(t, r, day, 0)
	wantTrash(t, r, 0)
}

// Two projects share a root. Neither deletes the other's trash before its time, unless free space is low.
func TestTrashOfAnotherProject(t *testing.T) {
	r := newRoot(t)
	r.Trash = Trash{Project: "one", Keep: 24 * time.Hour}
	trashed(t, r, "A", day)
	trashed(t, r, "B", day.Add(time.Hour))
	other := *r
	for _, keep := range []time.Duration{0, time.Minute} {
		other.Trash = Trash{Project: "two", Keep: keep}
		wantPurged(t, &other, day.Add(24*time.Hour-1), 0)
	}
	wantPurged(t, &other, day.Add(24*time.Hour), 1)
	other.Trash.Short = true
	wantPurged(t, &other, day.Add(time.Hour), 1)
}

func TestTrashIsPurgedByAge(t *testing.T) {
	r := newRoot(t)
	r.Trash.Keep = time.Hour
	for i, identifier := range []string{"old", "old", "new"} { // names in the trash do not collide
		trashed(t, r, identifier, day.Add(time.Duration(i/2)*2*time.Hour))
	}
	write(t, filepath.Join(r.trash(), "no name of ours", "x"), "kept")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if purged, err := r.PurgeTrash(ctx, day.Add(2*time.Hour)); purged.Removed != 0 || !errors.Is(err, context.Canceled) {
		t.Fatalf("%+v, %v", purged, err)
	}
	wantPurged(t, r, day.Add(2*time.Hour), 2)
	wantTrash(t, r, 3)
}

// An entry that was saved when it was removed is deleted in its time, even if the main repository has pruned the worktree since;
// but not if a file in it has changed since.
func TestTrashOfAPrunedWorktree(t *testing.T) {
	for change, want := range map[string]int{"true": 1, "echo work > sub/new": 0} {
		r := newRoot(t)
		r.Trash.Keep = time.Hour
		main := t.TempDir()
		sh(t, main, "git init -q -b main; git -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m one")
		w := acquire(t, r, owner("A", "r1"))
		sh(t, w.Path, "git -C "+main+" worktree add -q -b topic "+w.Path+"; mkdir sub")
		test.OK(t, w.Ready())
		test.OK(t, w.Release())
		removed, err := r.Remove(t.Context(), owner("A", "r2"), day, false)
		test.OK(t, err)
		sh(t, removed.Trash, "git -C "+main+" worktree prune; "+change)
		purged, err := r.PurgeTrash(t.Context(), day.Add(2*time.Hour))
		test.OK(t, err)
		if purged.Removed != want {
			t.Errorf("after %s: %+v", change, purged)
		}
	}
}

// An interrupted deletion continues, although half a repository can't be read.
func TestTrashHalfDeleted(t *testing.T) {
	r := newRoot(t)
	r.Trash.Keep = time.Hour
	entry := trashed(t, r, "A", day)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.DeleteTrash(ctx, entry); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	write(t, filepath.Join(entry+deletingSuffix, ".git", "config"), "")
	test.OK(t, os.Remove(entry+deletingSuffix+noteSuffix)) // as on a full disk
	wantPurged(t, r, day, 1)
}

// Work in no repository is kept: what changed after after_create, whatever is moved or restored since.
func TestRemoveLeavesFilesInNoRepository(t *testing.T) {
	r := newRoot(t)
	r.Trash.Keep = time.Hour
	remove := func(run string) host.RemoveAnswer {
		removed, err := r.Remove(t.Context(), owner("A", run), day, false)
		test.OK(t, err)
		return removed
	}
	w := ready(t, r, owner("A", "r1"))
	test.OK(t, acquire(t, r, owner("A", "r2")).Release()) // a run that changes nothing
	if removed := remove("r3"); removed.Trash == "" {
		t.Fatalf("%+v", removed)
	}
	list, err := r.Removed(t.Context(), day, "")
	test.OK(t, err)
	_, err = r.Restore(list[0])
	test.OK(t, err)
	write(t, filepath.Join(w.Path, "report"), "x")
	if removed := remove("r4"); removed.Unsaved != "2 files in no repository" {
		t.Fatalf("%+v", removed)
	}
	test.OK(t, os.Remove(filepath.Join(w.Path, "report")))
	removed := remove("r5")
	if removed.Trash == "" {
		t.Fatalf("%+v", removed)
	}
	write(t, filepath.Join(removed.Trash, "report"), "x") // an operator works in the trash
	purged, err := r.PurgeTrash(t.Context(), day.Add(time.Hour))
	test.OK(t, err)
	if purged.Unsaved[removed.Trash] != "2 files in no repository" {
		t.Errorf("%+v", purged)
	}
}

// A workspace that is restored while the trash is emptied is either deleted or complete.
func TestTrashDeletedWhileRestored(t *testing.T) {
	r := newRoot(t)
	r.Trash.Keep = time.Hour
	entry := removedOne(t, r, "A")
	path, err := r.Restore(entry)
	test.OK(t, err)
	test.OK(t, r.DeleteTrash(t.Context(), entry.Path)) // the purge has listed it before
	wantExist(t, true, filepath.Join(path, "work"))
	wantTrash(t, r, 0)

	entry = removedOne(t, r, "B")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.DeleteTrash(ctx, entry.Path); !errors.Is(err, context.Canceled) { // it has begun
		t.Fatal(err)
	}
	if _, err = r.Restore(entry); err == nil {
		t.Error("restored what is being deleted")
	}
	wantExist(t, false, filepath.Join(r.Path, "B"))
	wantPurged(t, r, day, 1)
}

// Dissolve keeps what an operator has put into the trash.
func TestDissolveLeavesWhatIsNotSymphonys(t *testing.T) {
	r := newRoot(t)
	r.Trash.Keep = time.Hour
	kept := filepath.Join(r.trash(), "A-kept")
	test.OK(t, os.Rename(trashed(t, r, "A", day), kept))
	test.OK(t, r.Dissolve(t.Context()))
	wantExist(t, true, kept)
}
