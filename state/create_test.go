package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

func TestCreateMakesPrivateCompleteDatabase(t *testing.T) {
	old := unix.Umask(0)
	defer unix.Umask(old)
	dir := newDir(t)
	test.OK(t, os.Mkdir(dir, 0o700))
	// left by an interrupted creation
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		test.OK(t, os.WriteFile(filepath.Join(dir, tempName+suffix), []byte("half"), 0o600))
	}
	db := createIn(t, dir)
	insertedRun(t, db, 1)
	for name, want := range map[string]fs.FileMode{
		"":             0o700,
		"state.db":     0o600,
		"state.db-wal": 0o600,
		"state.db-shm": 0o600,
	} {
		test.Equal(t, "mode", test.Must(os.Stat(filepath.Join(dir, name))).Mode().Perm(), want)
	}
	var mode, schema string
	test.OK(t, db.sql.QueryRow(`PRAGMA journal_mode`).Scan(&mode))
	test.OK(t, db.sql.QueryRow(`SELECT value FROM meta WHERE key = 'schema'`).Scan(&schema))
	test.Equal(t, "journal mode and schema", []any{mode, schema}, []any{"wal", strconv.Itoa(schemaVersion)})
	test.Equal(t, "left over", len(test.Must(filepath.Glob(filepath.Join(dir, tempName+"*")))), 0)
}

func TestMigrationsAreAppliedOnceAndWhole(t *testing.T) {
	dir := newDir(t)
	db := createIn(t, dir)
	want := claim(t, db, 1)
	const next = schemaVersion + 1
	files := fstest.MapFS{
		fmt.Sprintf("migration/%04d_more.sql", next): {
			Data: []byte(`ALTER TABLE claims ADD COLUMN more TEXT`),
		},
		fmt.Sprintf("migration/%04d_broken.sql", next+1): {
			Data: []byte(`CREATE TABLE three (x INTEGER) STRICT; CREATE TABLE claims (x INTEGER)`),
		},
	}
	test.OK(t, migrate(ctx, db.sql, files, schemaVersion, next, epoch))
	test.Equal(
		t,
		"a broken migration is refused",
		migrate(ctx, db.sql, files, next, next+1, epoch) != nil,
		true,
	)
	if err := migrate(ctx, db.sql, files, next+1, next+2, epoch); err == nil ||
		strings.Contains(err.Error(), "%!") {
		t.Fatalf("a missing migration gives: %v", err)
	}
	var version, tables int
	var schema string
	test.OK(t, db.sql.QueryRow(`SELECT (SELECT user_version FROM pragma_user_version),
		(SELECT value FROM meta WHERE key = 'schema'),
		(SELECT count(*) FROM sqlite_schema WHERE name = 'three')`).Scan(&version, &schema, &tables))

	test.Equal(
		t,
		"version, schema and tables of the broken migration",
		[]any{version, schema, tables},
		[]any{next, strconv.Itoa(next), 0},
	)
	older := test.Must(OpenReadOnly(ctx, dir)) // this program does not know the new schema
	defer older.Close()
	got, _, err := older.Views.ClaimByIssue(ctx, want.IssueID)
	test.OK(t, err)
	test.Equal(
		t,
		"version of the claim, and schema",
		[]any{got.Version, older.schema},
		[]any{want.Version, next},
	)
}

func TestPathsOfAnyName(t *testing.T) {
	for _, name := range []string{"a b", "q?mode=memory", "h#ash", "per%20cent", "ünï;&'\""} {
		dir := filepath.Join(t.TempDir(), name)
		db := createIn(t, dir)
		claim(t, db, 1)
		if _, err := os.Stat(filepath.Join(dir, databaseName)); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		test.Equal(
			t,
			"claims after reopening "+name,
			len(test.Must(openIn(t, dir).Store.State(ctx)).Claims),
			1,
		)
	}
}

func TestOpenNeverCreates(t *testing.T) {
	dir := newDir(t)
	for _, open := range []func(context.Context, string) (*DB, error){Open, OpenReadOnly} {
		test.ErrorIs(t, "the error", test.Err(open(ctx, dir)), ErrNoState)
		test.ErrorIs(t, "the directory, which is not made", test.Err(os.Stat(dir)), fs.ErrNotExist)
	}
	test.OK(t, os.Mkdir(dir, 0o700))
	test.ErrorIs(t, "the error", test.Err(Open(ctx, dir)), ErrNoState)
	empty, err := isEmpty(dir)
	test.Equal(t, "error, and whether the directory is empty", []any{err, empty}, []any{nil, true})
}

// TestMissingDatabaseIsNotReplaced checks that no new database is created where runs or a WAL
// are left of an earlier one.
func TestMissingDatabaseIsNotReplaced(t *testing.T) {
	for name, leave := range map[string]func(dir string) error{
		"a run": func(dir string) error { return os.MkdirAll(filepath.Join(dir, "runs", "r1"), 0o700) },
		"a wal": func(dir string) error { return os.WriteFile(filepath.Join(dir, "state.db-wal"), []byte("x"), 0o600) },
	} {
		dir := newDir(t)
		test.OK(t, os.Mkdir(dir, 0o700))
		test.OK(t, leave(dir))
		wantCode(t, test.Err(Create(ctx, dir, epoch)), "state_corrupt")
		wantCode(t, test.Err(Open(ctx, dir)), "state_corrupt")
		wantCode(t, test.Err(OpenReadOnly(ctx, dir)), "state_corrupt")
		test.ErrorIs(
			t,
			name+": the database, which is not made",
			test.Err(os.Stat(filepath.Join(dir, databaseName))),
			fs.ErrNotExist,
		)
	}
	dir := newDir(t)
	test.OK(t, os.MkdirAll(filepath.Join(dir, "runs"), 0o700))
	createIn(t, dir) // an empty runs folder is no loss
}

// TestDamageIsReportedAndLeft checks that a damaged database and the WAL beside it are not
// changed. SQLite would delete the WAL of an empty file as a leftover, although it may contain
// all that is left of the data.
func TestDamageIsReportedAndLeft(t *testing.T) {
	sound := newDir(t)
	db := test.Must(Create(ctx, sound, epoch))
	for i := range 50 {
		claim(t, db, i)
	}
	wal, err := os.ReadFile(filepath.Join(sound, databaseName+"-wal")) // as after a crash
	test.OK(t, errors.Join(err, db.Close()))
	whole := test.Must(os.ReadFile(filepath.Join(sound, databaseName)))
	for name, files := range map[string][2][]byte{
		"empty beside its WAL": {{}, wal},
		"short garbage":        {[]byte("not a database")},
		"truncated":            {whole[:len(whole)/2]},
		"bare header":          {whole[:100]},
		"scrambled":            {append(append([]byte{}, whole[:100]...), strings.Repeat("x", len(whole)-100)...)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newDir(t)
			test.OK(t, os.Mkdir(dir, 0o700))
			for i, suffix := range []string{"", "-wal"} {
				if files[i] != nil {
					test.OK(t, os.WriteFile(filepath.Join(dir, databaseName+suffix), files[i], 0o600))
				}
			}
			for _, open := range []func() (*DB, error){
				func() (*DB, error) { return Create(ctx, dir, epoch) },
				func() (*DB, error) { return Open(ctx, dir) },
				func() (*DB, error) { return OpenReadOnly(ctx, dir) },
			} {
				db, err := open()
				if err == nil {
					_, err = db.Store.State(ctx)
					err = errors.Join(err, db.Close())
				}
				wantCode(t, err, "state_corrupt")
				for i, suffix := range []string{"", "-wal"} {
					after, _ := os.ReadFile(filepath.Join(dir, databaseName+suffix))
					if files[i] != nil && !bytes.Equal(after, files[i]) {
						t.Errorf("state.db%s was changed", suffix)
					}
				}
			}
		})
	}
}

func TestForeignDatabaseIsNotOurs(t *testing.T) {
	dir := newDir(t)
	test.OK(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, databaseName)
	test.OK(t, os.WriteFile(path, nil, 0o600))
	handle := test.Must(openPool(path, "rw", ""))
	test.Must(handle.Exec(`CREATE TABLE theirs (x); PRAGMA user_version = 7`))
	test.OK(t, handle.Close())
	wantCode(t, test.Err(Create(ctx, dir, epoch)), "state_corrupt")
}

// A process that has opened the database makes no pass on it after a newer program has
// migrated it. One that opens it later can read it.
func TestNewerSchema(t *testing.T) {
	db := newState(t)
	before := openIn(t, db.Dir())
	test.Must(
		db.sql.Exec(
			`UPDATE meta SET value = ?1 WHERE key = 'schema'; PRAGMA user_version = `+strconv.Itoa(
				schemaVersion+1,
			),
			schemaVersion+1,
		),
	)
	wantCode(t, test.Err(before.Store.State(ctx)), "state_newer")
	wantCode(t, test.Err(Open(ctx, db.Dir())), "state_newer")
	wantCode(t, test.Err(Create(ctx, db.Dir(), epoch)), "state_newer")
	reader := test.Must(OpenReadOnly(ctx, db.Dir()))
	defer reader.Close()
	wantCode(t, reader.Newer(), "state_newer")
	test.OK(t, test.Err(reader.Views.Claims(ctx)))
}

func TestDefaultDir(t *testing.T) {
	root := test.Must(filepath.EvalSymlinks(t.TempDir()))
	folder := filepath.Join(root, "my repo")
	test.OK(t, os.Mkdir(folder, 0o755))
	path := filepath.Join(folder, "WORKFLOW.md")
	test.OK(t, os.WriteFile(path, nil, 0o600))
	link := filepath.Join(root, "link.md")
	test.OK(t, os.Symlink(path, link))

	dir := DefaultDir("/xdg", "/home/me", path)
	if !strings.HasPrefix(dir, "/xdg/symphony/my_repo-") || len(filepath.Base(dir)) != len("my_repo-")+12 {
		t.Errorf("directory is %s", dir)
	}
	test.Equal(t, "through a symlink", DefaultDir("/xdg", "/home/me", link), dir)
	if got := DefaultDir("/xdg", "/home/me", filepath.Join(folder, "OTHER.md")); got == dir {
		t.Error("two workflows of one folder share a directory")
	}
	test.OK(t, os.Remove(path))
	test.Equal(t, "without the file", DefaultDir("/xdg", "/home/me", path), dir)
	for _, xdg := range []string{"", "relative"} {
		test.Equal(
			t,
			"with XDG "+xdg,
			filepath.Dir(DefaultDir(xdg, "/home/me", path)),
			"/home/me/.local/state/symphony",
		)
	}
	for folder, want := range map[string]string{
		"/": "root", ".hidden": "hidden", "...": "root", "ä/": "__",
		strings.Repeat("x", 100): strings.Repeat("x", longestTag),
	} {
		test.Equal(t, "tag of "+folder, tag(folder), want)
	}
}

// TestDirectoryMustBePrivate checks which directories EnsureDir accepts, and that CheckDir
// returns the same error without changing anything.
func TestDirectoryMustBePrivate(t *testing.T) {
	for _, c := range []struct {
		name   string
		mode   os.FileMode // 0: it does not exist
		inside bool
		code   string
		after  os.FileMode // of a directory that a pass accepts
	}{
		{name: "none", after: 0o700},
		{name: "private", mode: 0o700, inside: true, after: 0o700},
		{name: "open", mode: 0o755, inside: true, code: "state_dir", after: 0o755},
		{name: "open but empty", mode: 0o755, after: 0o700},
	} {
		dir := newDir(t)
		if c.mode != 0 {
			test.OK(t, os.MkdirAll(dir, 0o700))
			if c.inside {
				test.OK(t, os.WriteFile(filepath.Join(dir, "lock"), nil, 0o600))
			}
			test.OK(t, os.Chmod(dir, c.mode))
		}
		exists, err := CheckDir(dir)
		test.Equal(
			t,
			c.name+": exists, and its code",
			[]any{exists, errorCode(err)},
			[]any{c.mode != 0, c.code},
		)
		if info, err := os.Stat(dir); (err == nil) != (c.mode != 0) ||
			err == nil && info.Mode().Perm() != c.mode {
			t.Errorf("%s: CheckDir made it %v, %v", c.name, info, err)
		}
		test.Equal(t, c.name+": code of a pass", errorCode(EnsureDir(dir)), c.code)
		test.Equal(t, c.name+": mode after a pass", test.Must(os.Stat(dir)).Mode().Perm(), c.after)
	}
	if os.Geteuid() == 0 {
		theirs := newDir(t)
		test.OK(t, os.Mkdir(theirs, 0o700))
		test.OK(t, os.Chown(theirs, 65534, 65534))
		wantCode(t, EnsureDir(theirs), "state_dir")
	}
}

func errorCode(err error) string {
	e, is := errors.AsType[*reconcile.Error](err)
	if !is {
		return ""
	}
	return e.Code
}

func TestQuickCheck(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	db := test.Must(Create(t.Context(), dir, time.UnixMilli(1)))
	test.OK(t, db.QuickCheck(t.Context()))
	test.Equal(t, "schema", db.Schema(), schemaVersion)
	var page int64
	test.OK(
		t,
		db.sql.QueryRow(`SELECT rootpage FROM sqlite_master WHERE name = 'passes_scheduled'`).Scan(&page),
	)
	test.OK(t, db.Close())
	// An index is damaged: all rows can still be read, so nothing else detects it.
	const pageSize = 4096
	f := test.Must(os.OpenFile(filepath.Join(dir, databaseName), os.O_WRONLY, 0))
	_, err := f.WriteAt(make([]byte, pageSize), (page-1)*pageSize)
	test.OK(t, errors.Join(err, f.Close()))
	db = test.Must(OpenReadOnly(t.Context(), dir))
	defer db.Close()
	wantCode(t, db.QuickCheck(t.Context()), "state_corrupt")
}
