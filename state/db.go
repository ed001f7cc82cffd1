package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// DB is one project's database, open in this process. What can be done with it is divided by the process that does it:
// Store for a pass, Journal for a worker, Operator for commands, Attentions for notifications, Views for reading.
//
// Errors that users see are *reconcile.Error with one of the codes disk_full, state_busy, state_corrupt, state_readonly,
// state_missing, state_newer, state_io, state_replaced, state_error.
type DB struct {
	*conn
	Store      Store
	Journal    Journal
	Operator   Operator
	Attentions Attentions
	Views      Views
}

// Create opens the database of dir, and makes directory and database where there are none. Only a pass that holds the
// project lock may call it. An empty or damaged file is never replaced (state_corrupt), and where runs were recorded in a
// database that is gone no new one is made (state_missing): it would forget them.
func Create(ctx context.Context, dir string, now time.Time) (*DB, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open the state: %w", err)
	}
	if err := EnsureDir(dir); err != nil {
		return nil, err
	}
	exists, err := databaseExists(dir)
	if err != nil {
		return nil, err
	}
	if !exists {
		if err := createDatabase(ctx, dir, now); err != nil {
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

// Open opens the database of dir for reading and writing and never creates anything. Where no pass has run yet the error
// wraps ErrNoState.
func Open(ctx context.Context, dir string) (*DB, error) { return open(ctx, dir, "rw", "") }

// OpenReadOnly opens the database of dir for reading. Where the shared memory of the WAL can't be made, in a directory
// that can't be written or on a full disk, it reads the files as they are: no process can write then either.
func OpenReadOnly(ctx context.Context, dir string) (*DB, error) {
	db, err := open(ctx, dir, "ro", "")
	var e *reconcile.Error
	if !errors.As(err, &e) || e.Code != "state_readonly" && e.Code != "disk_full" {
		return db, err
	}
	options := "&immutable=1"
	if wal, statErr := os.Stat(filepath.Join(dir, databaseName+"-wal")); statErr == nil && wal.Size() > 0 {
		options = "&readonly_shm=1" // SQLite reads the WAL into this process's own memory
	}
	unlocked, unlockedErr := open(ctx, dir, "ro", options)
	if unlockedErr != nil {
		return nil, err // the first error says what is wrong
	}
	return unlocked, nil
}

func open(ctx context.Context, dir, mode, options string) (*DB, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open the state: %w", err)
	}
	exists, err := databaseExists(dir)
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
	if db.schema < schemaVersion {
		return nil, errors.Join(outdated(dir), db.Close())
	}
	return db, nil
}

// databaseExists reports whether dir has a database. One that is gone although runs or a WAL are left of it is an error.
func databaseExists(dir string) (bool, error) {
	found, err := checkDatabaseFile(dir)
	if found || err != nil {
		return found, err
	}
	left, err := leftovers(dir)
	if err != nil || !left {
		return false, err
	}
	// The leftovers may belong to a database that another process has created since the first look.
	if found, err = checkDatabaseFile(dir); found || err != nil {
		return found, err
	}
	return false, missing(dir, "open the state")
}

func checkDatabaseFile(dir string) (found bool, err error) {
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

// leftovers reports whether dir has runs or a WAL, which only a database leaves.
func leftovers(dir string) (bool, error) {
	empty, err := isEmpty(filepath.Join(dir, runsName))
	if err != nil {
		return false, dirError(dir, "cannot be read", "check its path and permissions", err)
	}
	wal, err := os.Stat(filepath.Join(dir, databaseName+"-wal"))
	return !empty || err == nil && wal.Size() > 0, nil
}

// connect opens an existing file and checks that it is a symphony database which this program may use.
func connect(ctx context.Context, dir, mode, options string) (*DB, error) {
	pool, err := openPool(filepath.Join(dir, databaseName), mode, options)
	if err != nil {
		return nil, fmt.Errorf("open the state: %w", err)
	}
	c := &conn{dir: dir, sql: pool, level: full}
	err = c.checkVersion(ctx)
	if err == nil && mode == "rw" {
		c.files, err = openFilesOf(dir)
	}
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	return newDB(c), nil
}

func newDB(c *conn) *DB {
	return &DB{conn: c, Store: Store{c}, Journal: Journal{c}, Operator: Operator{c}, Attentions: Attentions{c}, Views: Views{c}}
}

// Close ends the connection. The last process to close merges the WAL into the database. Where the files are no longer
// those that were opened the connection is left open until the process ends, because merging would damage the new ones.
func (db *DB) Close() error {
	if db.checkFiles("close the state") != nil {
		return nil //nolint:nilerr // the next process that opens or writes reports it
	}
	if err := db.sql.Close(); err != nil {
		return fault(db.dir, "close the state", err)
	}
	return nil
}

// Dir is the state directory, absolute.
func (db *DB) Dir() string { return db.dir }

// Schema is the version that the database had when it was opened.
func (db *DB) Schema() int { return db.schema }

// QuickCheck reads the whole database and returns state_corrupt if it is damaged.
func (db *DB) QuickCheck(ctx context.Context) error {
	const doing = "check the state"
	var verdict string
	if err := db.row(ctx, `PRAGMA quick_check(1)`).Scan(&verdict); err != nil {
		return fault(db.dir, doing, err)
	}
	if verdict != "ok" {
		return corrupt(db.dir, doing, errors.New(verdict))
	}
	return nil
}
