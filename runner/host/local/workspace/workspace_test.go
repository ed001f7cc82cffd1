package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/lock"
	"github.com/symphony-cron/symphony/internal/test"
)

func TestAcquireMakesThenReuses(t *testing.T) {
	r := newRoot(t)
	w := acquire(t, r, owner("ABC-1", "r1"))
	test.Equal(
		t,
		"created, path, and length of the id",
		[]any{w.Created, w.Path, len(w.ID)},
		[]any{true, filepath.Join(r.Path, "ABC-1"), 26},
	)
	wantPrevious(t, w)
	for _, dir := range []string{w.Path, w.TmpDir, w.CacheDir} {
		test.Equal(t, "mode of "+dir, test.Must(os.Lstat(dir)).Mode(), os.ModeDir|0o700)
	}
	wantRecord(t, r, "ABC-1", Creating, "r1")
	test.OK(t, w.Ready())
	test.OK(t, w.Verify())
	test.Write(t, filepath.Join(w.Path, "work"), "done")
	test.OK(t, w.Release())
	test.OK(t, w.Release())

	o := owner("ABC-1", "r2")
	o.StateDir = "/state/two"
	again := acquire(t, r, o)
	test.Equal(t, "created and id", []any{again.Created, again.ID}, []any{false, w.ID})
	wantExist(t, true, filepath.Join(again.Path, "work"))
	wantPrevious(t, again, "r1")
	test.Equal(t, "state directory", wantRecord(t, r, "ABC-1", Prepared, "r2").StateDir, "/state/two")
}

// An agent takes all rights from its own workspace, which keeps neither the next run nor a removal.
func TestClosedWorkspace(t *testing.T) {
	r := newRoot(t)
	w := acquire(t, r, owner("ABC-1", "r1"))
	test.OK(t, w.Ready())
	test.OK(t, os.Chmod(w.Path, 0))
	test.OK(t, w.Release())
	again := acquire(t, r, owner("ABC-1", "r2"))
	test.Equal(t, "created", again.Created, false)
	test.Equal(t, "mode", test.Must(os.Lstat(w.Path)).Mode(), os.ModeDir|0o700)
}

// A holder that died before it had ended the processes of its predecessors must not hide these
// from its successor.
func TestPreviousIsKeptUntilReady(t *testing.T) {
	r := newRoot(t)
	ready(t, r, owner("A", "r0"))
	for _, run := range []string{"r1", "r2", "r2"} {
		test.OK(t, acquire(t, r, owner("A", run)).Release())
	}
	w := acquire(t, r, owner("A", "r3"))
	wantPrevious(t, w, "r0", "r1", "r2")
	test.OK(t, w.Ready())
	test.OK(t, w.Release())
	w = acquire(t, r, owner("A", "r4"))
	wantPrevious(t, w, "r3")
	for i := range 20 {
		test.OK(t, w.Release())
		w = acquire(t, r, owner("A", "again"+string(rune('a'+i))))
	}
	if len(w.Previous) != maxPrevious || w.Previous[maxPrevious-1].RunID != "agains" {
		t.Fatalf("previous %v", w.Previous)
	}
}

func TestForeignWorkspaceIsLeftAlone(t *testing.T) {
	r := newRoot(t)
	w := ready(t, r, owner("A", "r1"))
	before := wantRecord(t, r, "A", Prepared, "r1")
	issue := owner("A", "r2")
	project := owner("A", "r2")
	issue.IssueID = "other"
	project.Project = "https://tracker.example other"
	for code, o := range map[string]Owner{CodeTaken: issue, CodeForeign: project} {
		wantCode(t, test.Err(r.Acquire(t.Context(), o)), code)
		wantCode(t, test.Err(remove(t.Context(), r, o, noHook(t))), code)
	}
	test.Equal(t, "id", wantRecord(t, r, "A", Prepared, "r1").ID, before.ID)
	wantExist(t, true, filepath.Join(w.Path, "work"))
	wantHeld(t, r, "A", false)
}

// A directory without a record is adopted, a missing one is created again, and a moved one
// gets a new id.
func TestDirectoryAndRecordApart(t *testing.T) {
	r := newRoot(t)
	test.Write(t, filepath.Join(r.Path, "A", "work"), "theirs")
	taken := acquire(t, r, owner("A", "r1"))
	test.Equal(t, "created, and length of the id", []any{taken.Created, len(taken.ID)}, []any{false, 26})
	wantRecord(t, r, "A", Prepared, "r1")
	test.OK(t, taken.Release())

	old := ready(t, r, owner("B", "r1"))
	test.OK(t, os.RemoveAll(old.Path))
	made := acquire(t, r, owner("B", "r2"))
	test.Equal(t, "it is new, with another id", []bool{made.Created, made.ID != old.ID}, []bool{true, true})
	wantPrevious(t, made, "r1")

	test.OK(t, os.Rename(r.Path, r.Path+"2"))
	r = test.Must(OpenRoot(r.Path + "2"))
	moved := acquire(t, r, owner("A", "r2"))
	test.Equal(
		t,
		"it is new, with another id",
		[]bool{moved.Created, moved.ID != taken.ID},
		[]bool{false, true},
	)
	wantExist(t, true, filepath.Join(moved.Path, "work"))
}

// The state on the disk for every point at which a run can be interrupted.
func TestAcquireAfterACrash(t *testing.T) {
	for name, c := range map[string]struct {
		state     State
		dir, work bool
		trash     int // with the notes
	}{
		"recorded, no directory":     {Creating, false, false, 0},
		"directory made":             {Creating, true, false, 0},
		"half an after_create":       {Creating, true, true, 0},
		"removal recorded":           {Removing, true, true, 2},
		"directory in the trash":     {Removing, false, true, 0},
		"only the record left to go": {Removing, false, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoot(t)
			removable(t, r.Path)
			test.OK(t, os.Mkdir(r.trash(), 0o700))
			rec := recordOf(r, owner("A", "r1"), c.state)
			test.OK(t, r.writeRecord(rec))
			test.Write(t, r.record("A")+".new", `{"torn`)
			if c.dir {
				test.Write(t, filepath.Join(r.Path, "A", "sub", "half"), "x")
				test.OK(t, os.Chmod(filepath.Join(r.Path, "A", "sub"), 0o500))
			}
			if c.work {
				test.Write(t, filepath.Join(r.work("A"), "tmp", "old"), "x")
			}
			w := acquire(t, r, owner("A", "r2"))
			test.Equal(t, "it is new, with another id", []bool{w.Created, w.ID != rec.ID}, []bool{true, true})
			wantPrevious(t, w, "r1")
			for _, dir := range []string{w.Path, w.TmpDir, w.CacheDir} {
				entries, err := os.ReadDir(dir)
				test.Equal(t, dir+": error, and number of entries", []any{err, len(entries)}, []any{nil, 0})
			}
			test.OK(t, w.Ready())
			wantTrash(t, r, c.trash)
			r.Trash.Keep = 0
			// the test's own clean-up can't
			test.OK(t, test.Err(r.PurgeTrash(t.Context(), time.Now())))
		})
	}
}

func TestDiscard(t *testing.T) {
	r := newRoot(t)
	w := acquire(t, r, owner("A", "r1"))
	test.Write(t, filepath.Join(w.Path, "ro", "half"), "x")
	test.Write(t, filepath.Join(w.TmpDir, "t"), "x")
	test.OK(t, os.Chmod(filepath.Join(w.Path, "ro"), 0o500))
	test.OK(t, w.Discard())
	wantExist(t, false, w.Path, r.record("A"), r.work("A"))
	wantHeld(t, r, "A", true)
	test.OK(t, w.Release())
	kept := ready(t, r, owner("A", "r2"))
	wantCode(t, acquire(t, r, owner("A", "r3")).Discard(), CodeFailed)
	wantExist(t, true, filepath.Join(kept.Path, "work"))
}

func TestVerify(t *testing.T) {
	outside := t.TempDir()
	for name, change := range map[string]func(path string) error{
		"gone":     os.Remove,
		"replaced": func(p string) error { return errors.Join(os.Rename(p, p+"-old"), os.Mkdir(p, 0o700)) },
		"a link":   func(p string) error { return errors.Join(os.Rename(p, p+"-old"), os.Symlink(p+"-old", p)) },
		"link out": func(p string) error { return errors.Join(os.Remove(p), os.Symlink(outside, p)) },
		"a file":   func(p string) error { return errors.Join(os.Remove(p), os.WriteFile(p, nil, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := acquire(t, newRoot(t), owner("A", "r1"))
			test.OK(t, w.Verify())
			test.OK(t, change(w.Path))
			want := CodeInvalidCwd
			if name == "gone" { // there is nothing to move away
				want = CodeGone
			}
			wantCode(t, w.Verify(), want)
		})
	}
	t.Run("root became a link", func(t *testing.T) {
		w := acquire(t, newRoot(t), owner("A", "r1"))
		test.OK(t, os.Rename(w.Root, w.Root+"-real"))
		test.OK(t, os.Symlink(w.Root+"-real", w.Root))
		wantCode(t, w.Verify(), CodeInvalidCwd)
	})
	t.Run("replaced by after_create", func(t *testing.T) {
		w := acquire(t, newRoot(t), owner("A", "r1"))
		test.OK(t, os.Rename(w.Path, w.Path+"-old"))
		test.OK(t, os.Mkdir(w.Path, 0o700))
		test.OK(t, w.Ready())
		test.OK(t, w.Verify())
	})
}

func TestRecordThatCannotBeReadStopsEverything(t *testing.T) {
	r := newRoot(t)
	test.Write(t, filepath.Join(r.Path, "A", "work"), "x")
	test.Write(t, r.record("A"), "{")
	wantCode(t, test.Err(r.Acquire(t.Context(), owner("A", "r1"))), CodeFailed)
	wantCode(t, test.Err(r.Remove(t.Context(), owner("A", "r1"), day, false)), CodeFailed)
	wantExist(t, true, filepath.Join(r.Path, "A", "work"))
}

func TestLeaseExcludesOthers(t *testing.T) {
	r := newRoot(t)
	held := acquire(t, r, owner("ABC-1", "run-1"))
	test.Write(t, filepath.Join(held.Path, "half"), "")
	o := owner("ABC-1", "run-2")
	o.StateDir = "/state/two"
	_, err := r.Acquire(t.Context(), o)
	wantCode(t, err, CodeBusy)
	test.Contains(t, "the error", err.Error(), "run-1 of /state/one")
	wantCode(t, test.Err(r.Remove(t.Context(), o, day, false)), CodeBusy)
	wantHeld(t, r, "ABC-1", true)
	r.leaseWait = test.Patience()
	acquire(t, r, owner("ABC-2", "run-3")) // another issue's is free
	// A waiting run gets the lease. The workspace was incomplete, so its content is deleted.
	time.AfterFunc(10*time.Millisecond, func() { _ = held.Release() })
	w := acquire(t, r, o)
	test.Equal(t, "created", w.Created, true)
	wantExist(t, false, filepath.Join(w.Path, "half"))
	wantPrevious(t, w, "run-1")
}

// A child that inherited the lease keeps the workspace after its holder has let go.
func TestLeaseIsInherited(t *testing.T) {
	r := newRoot(t)
	w := acquire(t, r, owner("A", "r1"))
	test.OK(t, test.Err(runHook(t.Context(), t, w, "sleep 1000 & echo $! >child")))
	test.OK(t, w.Release())
	wantCode(t, test.Err(r.Acquire(t.Context(), owner("A", "r2"))), CodeBusy)
	test.OK(t, syscall.Kill(readPID(t, filepath.Join(w.Path, "child")), syscall.SIGKILL))
	waitGone(t, filepath.Join(w.Path, "child"))
	acquire(t, r, owner("A", "r2"))
}

// Deleting lock files (rm -r .symphony) makes no two holders: each of these deletes the file
// that the others are waiting for.
func TestLockExcludesAlthoughItsFileIsDeleted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var (
		holders atomic.Int32
		all     sync.WaitGroup
	)
	for range 4 {
		all.Go(func() {
			for held := 0; held < 15; {
				f, err := lockFile(path, 0)
				if errors.Is(err, lock.ErrHeld) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				held++
				for range 10 { // long enough for the others to come in
					test.Equal(t, "holders", holders.Add(1), 1)
					_, _ = f.Stat()
					runtime.Gosched()
					holders.Add(-1)
				}
				if err := errors.Join(os.Remove(path), f.Close()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

func TestLockFileThatWasDeletedIsNoLease(t *testing.T) {
	r := newRoot(t)
	w := acquire(t, r, owner("A", "r1"))
	test.OK(t, os.Remove(r.lock("A")))
	test.Write(t, r.lock("A"), "")
	// Ours is on a file without a name now; a new one decides.
	test.Equal(t, "created again", acquire(t, r, owner("A", "r2")).Created, w.Created)
	wantHeld(t, r, "none", false)
	wantExist(t, false, r.lock("none"))
	test.OK(t, os.Symlink(t.TempDir(), r.lock("B")))
	wantCode(t, test.Err(r.Acquire(t.Context(), owner("B", "r1"))), CodeFailed)
}
