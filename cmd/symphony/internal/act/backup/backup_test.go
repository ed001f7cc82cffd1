package backup

import (
	"bytes"
	"database/sql"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/archive"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/state"
)

// machine is a machine with a project, whose state directory is not made.
func machine(t *testing.T) *wiring.Project {
	t.Helper()
	home := t.TempDir()
	path := filepath.Join(home, "WORKFLOW.md")
	test.OK(
		t,
		os.WriteFile(
			path,
			[]byte("---\ntracker: {kind: file, provider: {path: issues}}\n---\nDo it.\n"),
			0o600,
		),
	)
	env := &environ.Env{Environ: []string{"HOME=" + home}, Dir: home, Home: home, Now: time.Now}
	return wiring.NewProject(env, path, filepath.Join(home, "state"))
}

// files lists the files of a machine beside its workflow.
func files(t *testing.T, p *wiring.Project) (list []string) {
	t.Helper()
	test.OK(t, filepath.WalkDir(p.Env.Home, func(path string, d fs.DirEntry, err error) error {
		if name := d.Name(); err == nil && !d.IsDir() && name != "WORKFLOW.md" && name != "lock" {
			list = append(list, path)
		}
		return err
	}))
	return list
}

// Every file of a backup is examined before the first one is placed.
func TestRestoreExamines(t *testing.T) {
	from := machine(t)
	for _, dir := range []string{from.StateDir, wiring.AgentsDir(from.Env)} {
		db := test.Must(state.Create(t.Context(), dir, time.Now()))
		test.OK(t, db.Close())
	}
	account := filepath.Dir(placeOf(from, limits))
	test.OK(t, os.MkdirAll(account, 0o700))
	test.OK(
		t,
		os.WriteFile(filepath.Join(account, "limits.json"), []byte(`{"at":"2026-01-31T18:00:00Z"}`), 0o600),
	)
	path := filepath.Join(from.Env.Home, "backup.tar.gz")
	m := test.Must(Write(t.Context(), from, path, false))
	test.OK(t, os.RemoveAll(from.StateDir)) // as if the machine was lost
	test.OK(t, os.Remove(from.Path))

	newer := filepath.Join(t.TempDir(), "state.db")
	test.OK(t, os.WriteFile(newer, m.Files[1].Data, 0o600))
	db := test.Must(sql.Open("sqlite", newer))
	test.Must(db.Exec("PRAGMA user_version = 99"))
	test.OK(t, db.Close())
	torn := slices.Concat(m.Files[1].Data[:4096], bytes.Repeat([]byte{0xff}, len(m.Files[1].Data)-4096))
	for _, c := range []struct {
		name string
		data []byte
		code string
	}{
		{projectDB, torn, "archive_invalid"},
		{projectDB, nil, "archive_invalid"},
		{agentsDB, torn, "archive_invalid"},
		{agentsDB, test.Must(os.ReadFile(newer)), "state_newer"},
	} {
		to := machine(t)
		changed := m
		changed.Files = slices.Clone(m.Files)
		at := slices.IndexFunc(changed.Files, func(f archive.File) bool { return f.Name == c.name })
		changed.Files[at].Data = c.data
		bad := filepath.Join(t.TempDir(), "bad.tar.gz")
		test.OK(t, archive.Write(bad, changed))
		_, err := Restore(t.Context(), to, bad)
		if err == nil {
			t.Errorf("%s is restored", c.name)
			continue
		}
		test.Equal(t, "the code for "+c.name, exit.From(err).Code, c.code)
		test.Contains(t, "the message for "+c.name, err.Error(), filepath.Dir(c.name))
		test.Equal(t, "what is there after "+c.name, files(t, to), nil)
	}
	to := machine(t)
	out := test.Must(Restore(t.Context(), to, path))
	test.Equal(t, "what was made", out.Made, []string{placeOf(to, agentsDB), placeOf(to, limits)})
}

const (
	agentsDB = "agents/state.db"
	limits   = "account/limits.json"
)

func placeOf(p *wiring.Project, name string) string { return partCalled(partsOf(p), name).place }
