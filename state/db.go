package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	// Registers the driver "sqlite".
	_ "modernc.org/sqlite"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
)

// busyTimeout bounds every wait for another writer. A context does not cut it short.
const busyTimeout = 5 * time.Second

// DB is one project's database, open in this process over one connection. It implements reconcile.Store for a
// pass, the journal of a worker, and what operator and reading commands need. Its methods may be called at the
// same time; they take turns.
//
// Errors that a person sees are *reconcile.Error with one of the codes disk_full, state_busy, state_corrupt,
// state_readonly, state_missing, state_newer, state_io, state_error.
type DB struct {
	dir string
	sql *sql.DB

	// write serialises write transactions, because the synchronous level is the connection's and not theirs.
	write sync.Mutex
	level durability

	place place
	// hasty is set once somebody else has kept the database for as long as busyTimeout: the next one is waited for a
	// little only, so that a pass with much to write comes to its end.
	hasty bool
	// queued is how long this program has waited for others' turns.
	queued time.Duration

	// schema is the version found at opening, which may be newer than ours.
	schema int
	// kept is only filled in a pass.
	kept keptMeta
}

// Create opens the database of dir, and makes directory and database where there are none. Only a pass that
// holds the project lock may call it. An empty or damaged file is never replaced (state_corrupt), and no new
// database is made where runs were recorded in one that is gone (state_missing) (design 3).
func Create(ctx context.Context, dir string, now time.Time) (*DB, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open the state: %w", err)
	}
	if err := EnsureDir(dir); err != nil {
		return nil, err
	}
	exists, err := present(dir)
	if err != nil {
		return nil, err
	}
	if !exists {
		if err := birth(ctx, dir, now); err != nil {
			return nil, err
		}
	}
	db, err := connect(ctx, dir, "rw", "")
	if err != nil {
		return nil, err
	}
	if err := db.upgrade(ctx, now); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// Open opens the database of dir for reading and writing and never creates anything. Where no pass has run yet
// the error wraps ErrNoState.
func Open(ctx context.Context, dir string) (*DB, error) {
	return open(ctx, dir, "rw", "")
}

// OpenReadOnly opens the database of dir for reading, while others write to it or not. In a directory that
// can't be written, or on a full disk, it reads the file as it lies there.
func OpenReadOnly(ctx context.Context, dir string) (*DB, error) {
	db, err := open(ctx, dir, "ro", "")
	var e *reconcile.Error
	if !errors.As(err, &e) || e.Code != "state_readonly" && e.Code != "disk_full" {
		return db, err
	}
	left, leftErr := openAsLeft(ctx, dir)
	if leftErr != nil {
		return nil, err // the first error says what is wrong
	}
	return left, nil
}

func open(ctx context.Context, dir, mode, options string) (*DB, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open the state: %w", err)
	}
	exists, err := present(dir)
	if err != nil {
		return nil, err
	}
	if !exists {
		return nil, &reconcile.Error{
			Code: "no_state", Message: "no pass has run for " + dir,
			Hint: "run: symphony tick", Err: ErrNoState,
		}
	}
	db, err := connect(ctx, dir, mode, options)
	if err != nil {
		return nil, err
	}
	if db.schemaBelow(schemaVersion) {
		return nil, errors.Join(outdated(dir), db.Close())
	}
	db.kept.fill(nil) // what others write meanwhile is to be seen
	return db, nil
}

// present reports whether dir has a database. One that is gone although runs or an unfinished WAL are left of it
// is an error: a new one would forget them.
func present(dir string) (bool, error) {
	there, err := databaseThere(dir)
	if there || err != nil {
		return there, err
	}
	left, err := remnants(dir)
	if err != nil || !left {
		return false, err
	}
	// What is left may belong to a database that was born since the first look.
	if there, err = databaseThere(dir); there || err != nil {
		return there, err
	}
	return false, missing(dir, "open the state")
}

func databaseThere(dir string) (bool, error) {
	info, err := os.Stat(filepath.Join(dir, databaseName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, dirError(dir, "cannot be read", "check its path and permissions", err)
	case !info.Mode().IsRegular():
		return false, corrupt(dir, "open the state", errors.New("not a regular file"))
	case info.Size() == 0:
		// SQLite would make a new database of it and delete the WAL beside it, which may hold all that is left.
		return false, corrupt(dir, "open the state", errors.New("empty file"))
	}
	return true, nil
}

func remnants(dir string) (bool, error) {
	empty, err := isEmpty(filepath.Join(dir, runsName))
	if err != nil {
		return false, dirError(dir, "cannot be read", "check its path and permissions", err)
	}
	wal, err := os.Stat(filepath.Join(dir, databaseName+"-wal"))
	return !empty || err == nil && wal.Size() > 0, nil
}

// connect opens an existing file and checks that it is a database of ours which this program may use.
func connect(ctx context.Context, dir, mode, options string) (*DB, error) {
	handle, err := handleOf(filepath.Join(dir, databaseName), mode, options)
	if err != nil {
		return nil, fmt.Errorf("open the state: %w", err)
	}
	db := &DB{dir: dir, sql: handle, level: full}
	err = db.checkVersion(ctx)
	if err == nil && mode == "rw" {
		db.place, err = placeOf(dir, handle)
	}
	if err != nil {
		return nil, errors.Join(err, handle.Close())
	}
	return db, nil
}

// handleOf prepares the one connection to a file. FULL is the connection's level: should database/sql ever have
// to open a second one, it begins with the stronger.
func handleOf(path, mode, options string) (*sql.DB, error) {
	name := (&url.URL{Path: path}).EscapedPath()
	dsn := fmt.Sprintf("file:%s?mode=%s%s&_txlock=immediate&_pragma=busy_timeout(%d)&_pragma=synchronous(full)",
		name, mode, options, busyTimeout.Milliseconds())
	registered, err := sql.Open("sqlite", dsn) // opens nothing yet
	if err != nil {
		return nil, err
	}
	handle := sql.OpenDB(connector{dsn, &counted{Driver: registered.Driver()}})
	if err := registered.Close(); err != nil {
		return nil, err
	}
	handle.SetMaxOpenConns(1)
	return handle, nil
}

// EnterPass makes a database that Open gave that of a pass, which holds the project lock: what Create would read at opening
// is read, for passes may have written since. LeavePass is its end.
func (db *DB) EnterPass(ctx context.Context) error {
	if err := db.inPlace("open the state"); err != nil {
		return err
	}
	return db.checkVersion(ctx)
}

// LeavePass goes back to what Open gave: what others write from now on is to be seen.
func (db *DB) LeavePass() { db.kept.fill(nil) }

// Close ends the connection. The last one to close merges the WAL into the database, unless that is no longer the file
// which was opened: then it is left as it is, open until the process ends.
func (db *DB) Close() error {
	crash.At("state.close")
	if db.inPlace("close the state") != nil {
		return nil //nolint:nilerr // whoever writes or opens next is told
	}
	if err := db.sql.Close(); err != nil {
		return fault(db.dir, "close the state", err)
	}
	return nil
}

// Dir is the state directory, absolute.
func (db *DB) Dir() string { return db.dir }
