package workspace

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
)

// removedOne removes a new workspace, and returns its entry in the trash.
func removedOne(t *testing.T, r *Root, identifier string) Removed {
	t.Helper()
	trashed(t, r, identifier, day)
	list, err := r.Removed(t.Context(), day, r.Trash.Project)
	test.OK(t, err)
	if len(list) != 1 || list[0].Record == nil {
		t.Fatalf("%+v", list)
	}
	return list[0]
}

// A restored workspace continues as if it had never been removed, except that no removal is due before a run has used it.
func TestRestore(t *testing.T) {
	r := newRoot(t)
	r.Trash.Keep = time.Hour
	w := ready(t, r, owner("A", "r1"))
	test.OK(t, os.WriteFile(w.GitFile(), []byte("trusted"), 0o600))
	_, err := r.Remove(t.Context(), owner("A", "r2"), day, false)
	test.OK(t, err)
	wantExist(t, false, w.GitFile())
	list, err := r.Removed(t.Context(), day, r.Trash.Project)
	test.OK(t, err)
	entry := list[0]
	if !entry.At.Equal(day) || !entry.Due.Equal(day.Add(time.Hour)) {
		t.Errorf("%+v", entry)
	}
	path, err := r.Restore(entry)
	test.OK(t, err)
	wantExist(t, true, filepath.Join(path, "work"))
	wantExist(t, true, w.GitFile())
	wantTrash(t, r, 0)
	rec := wantRecord(t, r, "A", Prepared, "r2")
	if !rec.Restored {
		t.Errorf("%+v", rec)
	}
	w = acquire(t, r, owner("A", "r3"))
	if w.Created || w.ID != rec.ID || wantRecord(t, r, "A", Prepared, "r3").Restored {
		t.Errorf("%+v, %+v", w, rec)
	}
}

// After an interruption a run makes a new workspace, or the restoration is repeated.
func TestRestoreInterrupted(t *testing.T) {
	for _, again := range []bool{false, true} {
		r := newRoot(t)
		r.Trash.Keep = time.Hour
		entry := removedOne(t, r, "A")
		rec := *entry.Record
		rec.State, rec.Restored = Prepared, true
		test.OK(t, r.writeRecord(rec))
		if !again {
			test.OK(t, acquire(t, r, owner("A", "r3")).Release())
		}
		_, err := r.Restore(entry)
		if again {
			test.OK(t, err)
			wantExist(t, true, filepath.Join(r.Path, "A", "work"))
		} else {
			wantCode(t, err, CodeExists)
			wantExist(t, true, filepath.Join(entry.Path, "work"))
		}
	}
}

// What can't be restored is refused, and stays.
func TestRestoreRefuses(t *testing.T) {
	r := newRoot(t)
	r.Trash.Keep = time.Hour
	entry := removedOne(t, r, "A")
	test.OK(t, os.Remove(entry.Path+noteSuffix))
	list, err := r.Removed(t.Context(), day, r.Trash.Project)
	test.OK(t, err)
	if len(list) != 1 || list[0].Key != "A" {
		t.Fatalf("%+v", list)
	}
	_, err = r.Restore(list[0])
	wantCode(t, err, CodeFailed)
	held := acquire(t, r, owner("A", "r3"))
	_, err = r.Restore(entry)
	wantCode(t, err, CodeBusy)
	test.OK(t, held.Release())
	wantExist(t, true, entry.Path)
	r.Trash.Project = "another"
	r.Trash.Keep = time.Minute
	trashed(t, r, "B", day)
	if list, err = r.Removed(t.Context(), day, r.Trash.Project); err != nil || len(list) != 2 { // an entry without a note may be this project's
		t.Errorf("%+v, %v", list, err)
	}
	r.Trash.Project = "third"
	if list, err = r.Removed(t.Context(), day, r.Trash.Project); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}
