package workspace

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

func owner(identifier, run string) Owner {
	return Owner{
		IssueID:    "id of " + identifier,
		Identifier: identifier,
		Project:    "https://tracker.example shop",
		StateDir:   "/state/one",
		RunID:      run,
	}
}

func isCode(err error, code string) bool {
	known, is := errors.AsType[*reconcile.Error](err)
	return is && known.Code == code
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if !isCode(err, code) {
		t.Fatalf("error %v, want code %s", err, code)
	}
}

func newRoot(t *testing.T) *Root {
	t.Helper()
	r := test.Must(OpenRoot(filepath.Join(t.TempDir(), "root")))
	r.Trash.Keep = time.Hour
	r.leaseWait = 100 * time.Millisecond
	r.clock = func() (string, time.Duration, error) { return "", 0, errors.New("only the wall clock") }
	return r
}

// removable lets an ordinary account remove the folders below a temporary directory at the end
// of the test.
func removable(t *testing.T, dir string) {
	t.Cleanup(func() {
		test.OK(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				err = os.Chmod(path, 0o700)
			}
			return err
		}))
	})
}

func acquire(t *testing.T, r *Root, o Owner) *Workspace {
	t.Helper()
	w := test.Must(r.Acquire(t.Context(), o))
	t.Cleanup(func() { test.OK(t, w.Release()) })
	return w
}

// ready creates a workspace with a file in it, and releases it.
func ready(t *testing.T, r *Root, o Owner) *Workspace {
	t.Helper()
	return readyBy(t, r, o, func(w *Workspace) { test.Write(t, filepath.Join(w.Path, "work"), "done") })
}

// readyBy does so with what after_create would do.
func readyBy(t *testing.T, r *Root, o Owner, create func(*Workspace)) *Workspace {
	t.Helper()
	w := acquire(t, r, o)
	create(w)
	test.OK(t, w.Ready())
	test.OK(t, w.Release())
	return w
}

// removeAs removes the workspace of issue A for a run.
func removeAs(t *testing.T, r *Root, run string) host.RemoveAnswer {
	t.Helper()
	return test.Must(r.Remove(t.Context(), owner("A", run), day, false))
}

// sh runs a script, which must succeed.
func sh(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a",
		"GIT_COMMITTER_EMAIL=a@example.org",
	}
	test.Run(t, cmd)
}

// wantPrevious checks the runs whose processes the holder of a workspace must end.
func wantPrevious(t *testing.T, w *Workspace, runs ...string) {
	t.Helper()
	var want []RunRef
	for _, run := range runs {
		want = append(want, RunRef{run, "/state/one"})
	}
	test.Equal(t, "previous", w.Previous, want)
}

// wantExist checks that paths exist, or that they do not.
func wantExist(t *testing.T, want bool, paths ...string) {
	t.Helper()
	for _, path := range paths {
		test.Equal(t, path+" is there", test.Exists(t, path), want)
	}
}

func wantHeld(t *testing.T, r *Root, key string, want bool) {
	t.Helper()
	held, err := r.Held(key)
	test.Equal(t, "lease held, and error", []any{held, err}, []any{want, nil})
}

// wantRecord checks the state of a recorded workspace and its last holder.
func wantRecord(t *testing.T, r *Root, key string, state State, run string) Record {
	t.Helper()
	rec, ok, err := r.Record(key)
	test.Equal(
		t,
		"found, error, state and run",
		[]any{ok, err, rec.State, rec.RunID},
		[]any{true, nil, state, run},
	)
	return rec
}

// ended returns a context that has ended.
func ended(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
