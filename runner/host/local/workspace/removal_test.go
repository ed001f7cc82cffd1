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
	old := ready(t, r, owner("A", "r1"))
	test.Write(t, filepath.Join(old.TmpDir, "t"), "x")
	var seen Workspace
	removed := test.Must(remove(t.Context(), r, owner("A", "r2"), func(w *Workspace) {
		seen = *w
		test.OK(t, w.Verify())
		wantRecord(t, r, "A", Removing, "r2")
		wantHeld(t, r, "A", true)
		wantPrevious(t, w, "r1")
	}))
	trash := filepath.Join(r.trash(), "A-20260304T050607.000000089Z")
	test.Equal(t, "removed", removed, host.RemoveAnswer{Trash: trash})
	test.Equal(t, "path and id before", []any{seen.Path, seen.ID}, []any{old.Path, old.ID})
	wantExist(t, true, filepath.Join(trash, "work"), r.lock("A"))
	wantExist(t, false, old.Path, r.record("A"), r.work("A"))
	wantHeld(t, r, "A", false)
	// Nothing left: nothing to do, and no hook.
	test.Equal(
		t,
		"removed again",
		test.Must(remove(t.Context(), r, owner("A", "r3"), noHook(t))),
		host.RemoveAnswer{},
	)
	w := acquire(t, r, owner("A", "r4"))
	test.Equal(t, "it is new, with another id", []bool{w.Created, w.ID != old.ID}, []bool{true, true})
	wantPrevious(t, w)
}

// With keep_removed_ms: 0 the next purge deletes what is saved. What symphony has not made is
// not known to be saved.
func TestRemoveAtOnce(t *testing.T) {
	r := newRoot(t)
	r.Trash.Keep = 0
	ready(t, r, owner("A", "r1"))
	test.Write(t, filepath.Join(r.Path, "B", "unrecorded"), "x")
	for _, identifier := range []string{"A", "B"} {
		removed := test.Must(r.Remove(t.Context(), owner(identifier, "r2"), day, false))
		if recorded := identifier == "A"; recorded != (removed.Unsaved == "") ||
			recorded == test.Exists(t, filepath.Join(r.Path, identifier)) {
			t.Errorf("%+v", removed)
		}
	}
	wantPurged(t, r, day, 1)
	wantTrash(t, r, 0)
}

// before_remove does not run in a workspace whose after_create was interrupted, even if its
// removal is interrupted, too.
func TestRemoveOfAHalfMadeWorkspaceRunsNoHook(t *testing.T) {
	r := newRoot(t)
	test.OK(t, acquire(t, r, owner("A", "r1")).Release())
	test.ErrorIs(t, "error", test.Err(remove(ended(t), r, owner("A", "r2"), noHook(t))), context.Canceled)
	test.OK(t, test.Err(remove(t.Context(), r, owner("A", "r3"), noHook(t))))
	if list := test.Must(r.Removed(t.Context(), day, "")); len(list) != 1 || list[0].Restorable {
		t.Errorf("%+v: a run would work in it if it were restored", list)
	}
}

func TestRemoveGoesOnAfterACut(t *testing.T) {
	r := newRoot(t)
	w := ready(t, r, owner("A", "r1"))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := remove(ctx, r, owner("A", "r2"), func(*Workspace) { cancel() })
	test.Equal(t, "the interrupted removal", test.Exists(t, filepath.Join(w.Path, "work")), true)
	test.ErrorIs(t, "the interrupted removal", err, context.Canceled)
	calls := 0
	test.OK(t, test.Err(remove(t.Context(), r, owner("A", "r3"), func(w *Workspace) {
		calls++
		wantPrevious(t, w, "r1", "r2")
		test.OK(t, os.RemoveAll(w.Path)) // a hook may do it all by itself
	})))
	test.Equal(t, "calls", calls, 1)
	wantExist(t, false, r.record("A"))
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
		w := readyBy(t, r, owner("A", "r1"), func(*Workspace) {})
		fill(w.Path)
		fill(w.CacheDir)
		test.OK(t, test.Err(r.Remove(t.Context(), owner("A", "r2"), day, true)))
		wantPurged(t, r, day.Add(keep), 1)
		wantTrash(t, r, 0)
	}
	// Half made.
	r := newRoot(t)
	w := acquire(t, r, owner("A", "r1"))
	fill(w.Path)
	test.OK(t, w.Release())
	again := acquire(t, r, owner("A", "r2"))
	entries, err := os.ReadDir(again.Path)
	test.Equal(
		t,
		"error, number of entries, and whether it is new",
		[]any{err, len(entries), again.Created},
		[]any{nil, 0, true},
	)
}

func TestRemoveFollowsNoLinks(t *testing.T) {
	outside := t.TempDir()
	removable(t, outside)
	r := newRoot(t)
	w := acquire(t, r, owner("A", "r1"))
	sh(t, w.Path, `mkdir `+outside+`/dir; echo kept > `+outside+`/dir/precious; chmod 500 `+outside+`/dir
		ln -s `+outside+` link; ln -s `+outside+`/dir link2; ln `+outside+`/dir/precious hard
		mkfifo pipe; ln -s / `+w.TmpDir+`/all`)
	test.OK(t, w.Ready())
	test.OK(t, w.Release())
	test.OK(t, r.DeleteTrash(t.Context(), removeAs(t, r, "r2").Trash))
	test.Equal(
		t,
		"mode of what a link led to",
		test.Must(os.Stat(filepath.Join(outside, "dir"))).Mode().Perm(),
		0o500,
	)
	wantExist(t, true, filepath.Join(outside, "dir", "precious"))
}

// Neither a removal nor a purge of the trash deletes work that exists nowhere else, unless an
// operator has accepted the loss.
func TestRemoveLeavesUnsavedWork(t *testing.T) {
	r := newRoot(t)
	repository := func(identifier string) *Workspace { // with a commit that exists nowhere else
		commit := func(w *Workspace) { sh(t, w.Path, "git init -q -b main; git commit -q --allow-empty -m one") }
		return readyBy(t, r, owner(identifier, "r1"), commit)
	}
	w := repository("A")
	hooks := 0
	for range 2 {
		removed := test.Must(remove(t.Context(), r, owner("A", "r2"), func(*Workspace) { hooks++ }))
		test.Equal(t, "removed", removed, host.RemoveAnswer{Unsaved: "1 commit not on any remote"})
		wantExist(t, true, w.Path)
	}
	test.ErrorIs(
		t,
		"without knowing why",
		test.Err(r.Remove(ended(t), owner("A", "r2"), day, false)),
		context.Canceled,
	)
	rec, _, err := r.Record("A")
	test.OK(t, err)
	if hooks != 1 || rec.State != Prepared || rec.Unsaved != "1 commit not on any remote" ||
		!rec.UnsavedAt.Equal(day) {
		t.Errorf("%d hooks, %+v", hooks, rec)
	}

	// An entry that was moved to the trash without being examined stays there, even if free
	// space is low.
	trashed := test.Must(r.moveToTrash(w.Path, "A", day, note{}))
	r.Trash.Short = true
	test.ErrorIs(
		t,
		"an examination that is interrupted",
		test.Err(r.PurgeTrash(ended(t), day.Add(1000*time.Hour))),
		context.Canceled,
	)
	purged := test.Must(r.PurgeTrash(t.Context(), day.Add(1000*time.Hour)))
	test.Equal(t, "unsaved", purged.Unsaved[trashed], "1 commit not on any remote")
	test.OK(t, os.Remove(r.record("A")))
	test.OK(t, r.Dissolve(t.Context()))
	wantExist(t, true, trashed)
	test.OK(t, r.DeleteTrash(t.Context(), trashed))

	// The trash remembers that an operator has accepted the loss.
	r.Trash = Trash{Keep: time.Hour}
	repository("B")
	test.Equal(t, "unsaved", test.Must(r.Remove(t.Context(), owner("B", "r2"), day, true)).Unsaved, "")
	wantPurged(t, r, day.Add(time.Hour), 1)
}

// A hook may keep the main repository of a worktree in the workspace's cache, which is deleted
// with the workspace.
func TestRemoveLeavesWorktreeOfTheCache(t *testing.T) {
	r := newRoot(t)
	w := readyBy(t, r, owner("A", "r1"), func(w *Workspace) {
		sh(
			t,
			w.CacheDir,
			"git init -q main; cd main; git commit -q --allow-empty -m one; git worktree add -q -b topic "+w.Path,
		)
	})
	test.Equal(t, "in the trash", removeAs(t, r, "r2").Trash, "")
	wantExist(t, true, filepath.Join(w.CacheDir, "main"))
}

// trashed removes a new workspace at a given time, and returns its path in the trash.
func trashed(t *testing.T, r *Root, identifier string, at time.Time) (path string) {
	t.Helper()
	ready(t, r, owner(identifier, "r1"))
	return test.Must(r.Remove(t.Context(), owner(identifier, "r2"), at, false)).Trash
}

// wantTrash checks how many entries and notes are in the trash.
func wantTrash(t *testing.T, r *Root, want int) {
	t.Helper()
	left, err := os.ReadDir(r.trash())
	test.Equal(t, "error, and number of entries in the trash", []any{err, len(left)}, []any{nil, want})
}

// wantPurged purges the trash, and checks the number of deleted entries and that ExpiredTrash
// has predicted it.
func wantPurged(t *testing.T, r *Root, now time.Time, want int) {
	t.Helper()
	due := test.Must(r.ExpiredTrash(now))
	purged := test.Must(r.PurgeTrash(t.Context(), now))
	if len(due) != want || purged.Removed != want || len(purged.Undeletable)+len(purged.Unsaved) > 0 {
		t.Errorf("due %v, purged %+v, want %d", due, purged, want)
	}
}

// The age of a removed workspace is measured by the monotonic clock, so changes of the wall
// clock do not matter. After a reboot only the wall clock is left.
func TestTrashAgesWithoutTheWallClock(t *testing.T) {
	const keep, year = 24 * time.Hour, 365 * 24 * time.Hour
	for name, c := range map[string]struct {
		boot       string
		wall, mono time.Duration // since the removal
		due        int
	}{
		"an hour later":                  {"b1", time.Hour, time.Hour, 0},
		"a day later":                    {"b1", keep, keep, 1},
		"the clock was set a year on":    {"b1", year, time.Hour, 0},
		"and a day has passed":           {"b1", year + keep, keep, 1},
		"suspended for two days":         {"b1", 2 * keep, time.Hour, 0},
		"set back an hour, a day later":  {"b1", keep - time.Hour, keep, 1},
		"set back a year, an hour later": {"b1", -year, time.Hour, 0},
		"set back a year, a day later":   {"b1", -year, keep, 1},
		"rebooted, an hour later":        {"b2", time.Hour, time.Minute - 50*time.Hour, 0},
		"rebooted, a day later":          {"b2", keep, time.Minute - 50*time.Hour, 1},
		// up for longer than at the removal
		"rebooted, a year later":           {"b2", year, time.Hour, 1},
		"rebooted, the clock a minute off": {"b2", -time.Minute, time.Minute - 50*time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoot(t)
			r.Trash.Keep = keep
			boot := "b1"
			mono := 50 * time.Hour
			r.clock = func() (string, time.Duration, error) { return boot, mono, nil }
			trashed(t, r, "A", day)
			boot = c.boot
			mono = mono + c.mono
			wantPurged(t, r, day.Add(c.wall), c.due)
			wantTrash(t, r, 2-2*c.due)
		})
	}
}

// A removed workspace that an operator moves back leaves nothing in the trash.
func TestTrashTakenBack(t *testing.T) {
	r := newRoot(t)
	entry := trashed(t, r, "A", day)
	test.OK(t, os.Rename(entry, filepath.Join(r.Path, "A")))
	wantPurged(t, r, day, 0)
	wantTrash(t, r, 1) // a removal may be about to move its workspace here
	test.OK(t, os.Chtimes(entry+noteSuffix, time.Time{}, time.Now().Add(-2*time.Hour)))
	wantPurged(t, r, day, 0)
	wantTrash(t, r, 0)
}

// Two projects share a root. Neither deletes the other's trash before its time, unless free
// space is low.
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
	for i, identifier := range []string{"old", "old", "new"} { // names in the trash do not collide
		trashed(t, r, identifier, day.Add(time.Duration(i/2)*2*time.Hour))
	}
	test.Write(t, filepath.Join(r.trash(), "no name of ours", "x"), "kept")
	if purged, err := r.PurgeTrash(ended(t), day.Add(2*time.Hour)); purged.Removed != 0 ||
		!errors.Is(err, context.Canceled) {
		t.Fatalf("%+v, %v", purged, err)
	}
	wantPurged(t, r, day.Add(2*time.Hour), 2)
	wantTrash(t, r, 3)
}

// An entry that was saved when it was removed is deleted in its time, even if the main
// repository has pruned the worktree since; but not if a file in it has changed since.
func TestTrashOfAPrunedWorktree(t *testing.T) {
	for change, want := range map[string]int{"true": 1, "echo work > sub/new": 0} {
		r := newRoot(t)
		main := t.TempDir()
		sh(t, main, "git init -q -b main; git commit -q --allow-empty -m one")
		readyBy(t, r, owner("A", "r1"), func(w *Workspace) {
			sh(t, w.Path, "git -C "+main+" worktree add -q -b topic "+w.Path+"; mkdir sub")
		})
		sh(t, removeAs(t, r, "r2").Trash, "git -C "+main+" worktree prune; "+change)
		test.Equal(t, change, test.Must(r.PurgeTrash(t.Context(), day.Add(2*time.Hour))).Removed, want)
	}
}

// An interrupted deletion continues, although half a repository can't be read.
func TestTrashHalfDeleted(t *testing.T) {
	r := newRoot(t)
	entry := trashed(t, r, "A", day)
	test.ErrorIs(t, "error", r.DeleteTrash(ended(t), entry), context.Canceled)
	test.Write(t, filepath.Join(entry+deletingSuffix, ".git", "config"), "")
	test.OK(t, os.Remove(entry+deletingSuffix+noteSuffix)) // as on a full disk
	wantPurged(t, r, day, 1)
}

// Work in no repository is kept: what changed after after_create, whatever is moved or
// restored since.
func TestRemoveLeavesFilesInNoRepository(t *testing.T) {
	r := newRoot(t)
	w := ready(t, r, owner("A", "r1"))
	test.OK(t, acquire(t, r, owner("A", "r2")).Release()) // a run that changes nothing
	test.Equal(t, "without a change", removeAs(t, r, "r3").Unsaved, "")
	test.OK(t, test.Err(r.Restore(test.Must(r.Removed(t.Context(), day, ""))[0].Path)))
	test.Write(t, filepath.Join(w.Path, "report"), "x")
	test.Equal(t, "changed", removeAs(t, r, "r4"), host.RemoveAnswer{Unsaved: "2 files in no repository"})
	test.OK(t, os.Remove(filepath.Join(w.Path, "report")))
	trash := removeAs(t, r, "r5").Trash
	test.Write(t, filepath.Join(trash, "report"), "x") // an operator works in the trash
	purged := test.Must(r.PurgeTrash(t.Context(), day.Add(time.Hour)))
	test.Equal(t, "purged", purged.Unsaved, map[string]string{trash: "2 files in no repository"})
}

// A workspace that is restored while the trash is emptied is either deleted or complete.
func TestTrashDeletedWhileRestored(t *testing.T) {
	r := newRoot(t)
	entry := removedOne(t, r, "A")
	path := test.Must(r.Restore(entry.Path))
	test.OK(t, r.DeleteTrash(t.Context(), entry.Path)) // the purge has listed it before
	wantExist(t, true, filepath.Join(path, "work"))
	wantTrash(t, r, 0)

	entry = removedOne(t, r, "B")
	test.ErrorIs(t, "a deletion that has begun", r.DeleteTrash(ended(t), entry.Path), context.Canceled)
	test.Equal(t, "restored what is being deleted", test.Err(r.Restore(entry.Path)) == nil, false)
	wantExist(t, false, filepath.Join(r.Path, "B"))
	wantPurged(t, r, day, 1)
}

// Dissolve keeps what an operator has put into the trash.
func TestDissolveLeavesWhatIsNotSymphonys(t *testing.T) {
	r := newRoot(t)
	kept := filepath.Join(r.trash(), "A-kept")
	test.OK(t, os.Rename(trashed(t, r, "A", day), kept))
	test.OK(t, r.Dissolve(t.Context()))
	wantExist(t, true, kept)
}
