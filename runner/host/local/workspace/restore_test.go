package workspace

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
)

// removedOne removes a new workspace, and returns its entry in the trash.
func removedOne(t *testing.T, r *Root, identifier string) host.Removed {
	t.Helper()
	trashed(t, r, identifier, day)
	list := test.Must(r.Removed(t.Context(), day, r.Trash.Project))
	if len(list) != 1 || !list[0].Restorable {
		t.Fatalf("%+v", list)
	}
	return list[0]
}

// A restored workspace continues as if it had never been removed, except that no removal is
// due before a run has used it.
func TestRestore(t *testing.T) {
	r := newRoot(t)
	w := ready(t, r, owner("A", "r1"))
	test.OK(t, os.WriteFile(w.GitFile(), []byte("trusted"), 0o600))
	removeAs(t, r, "r2")
	wantExist(t, false, w.GitFile())
	entry := test.Must(r.Removed(t.Context(), day, r.Trash.Project))[0]
	test.Equal(t, "time and due time", []any{entry.At, entry.Due}, []any{day, day.Add(time.Hour)})
	wantExist(t, true, filepath.Join(test.Must(r.Restore(entry.Path)), "work"), w.GitFile())
	wantTrash(t, r, 0)
	rec := wantRecord(t, r, "A", Prepared, "r2")
	test.Equal(t, "restored", rec.Restored, true)
	w = acquire(t, r, owner("A", "r3"))
	if w.Created || w.ID != rec.ID || wantRecord(t, r, "A", Prepared, "r3").Restored {
		t.Errorf("%+v, %+v", w, rec)
	}
}

// After an interruption a run makes a new workspace, or the restoration is repeated.
func TestRestoreInterrupted(t *testing.T) {
	for _, again := range []bool{false, true} {
		r := newRoot(t)
		entry := removedOne(t, r, "A")
		rec := *r.Trash.readNote(entry.Path).Workspace
		rec.State = Prepared
		rec.Restored = true
		test.OK(t, r.writeRecord(rec))
		if !again {
			test.OK(t, acquire(t, r, owner("A", "r3")).Release())
		}
		_, err := r.Restore(entry.Path)
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
	entry := removedOne(t, r, "A")
	held := acquire(t, r, owner("A", "r3"))
	wantCode(t, test.Err(r.Restore(entry.Path)), CodeBusy)
	test.OK(t, held.Release())
	test.OK(t, os.Remove(entry.Path+noteSuffix))
	list := test.Must(r.Removed(t.Context(), day, r.Trash.Project))
	if len(list) != 1 || list[0].Identifier != "A" {
		t.Fatalf("%+v", list)
	}
	wantCode(t, test.Err(r.Restore(list[0].Path)), CodeFailed)
	wantExist(t, true, entry.Path)
	r.Trash.Project = "another"
	r.Trash.Keep = time.Minute
	trashed(t, r, "B", day)
	// an entry without a note may be this project's
	for project, want := range map[string]int{"another": 2, "third": 1} {
		r.Trash.Project = project
		test.Equal(t, project, len(test.Must(r.Removed(t.Context(), day, project))), want)
	}
}
