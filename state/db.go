// Package state keeps symphony's claims, runs and totals in a SQLite database, and the lock that serialises passes.
//
// The WHERE clause of each statement decides who may write what: a statement that finds its row changed writes nothing and
// returns reconcile.ErrConflict.
//
//	claims                      Store (a pass, under the lock)     WHERE version = ?
//	runs: phase, counters       Journal (the run's worker)         WHERE outcome IS NULL, once it has taken the run
//	runs: stop_reason           Store                              WHERE outcome IS NULL
//	runs: outcome               Journal; or Store, while the pass  once: WHERE outcome IS NULL (AND phase = ? for a pass)
//	                            holds the run's alive file
//	runs: settled               Store, with claim and totals       once: WHERE settled = 0 AND outcome IS NOT NULL
//	commands                    Operator inserts, Store consumes with the change of the claim
//	requests                    Journal inserts and resolves, Operator decides
//	attentions                  added with the event that they report; taken and closed by Attentions
//	threads                     Journal, while the run has no outcome
//	passes, skips, meta         Store
//	releases, outages           Store, with the change of the claim or block; never deleted
//	model_totals                Journal, with its thread; never deleted
//
// What the projects of one codex home share lies beside their databases, in files of its own (Account): no project waits
// for another project's database.
//
// # Decisions
//
// There is one connection per process. Its synchronous level is FULL; a heartbeat lowers it to NORMAL for its own
// transaction. A power failure may lose the last heartbeats, but never an earlier write while a later one stays: the WAL is
// read up to its first gap.
//
// Every write transaction begins IMMEDIATE and waits for its turn: a transaction that reads first and then finds another
// writer would fail at once, whatever the timeout. Reading transactions begin DEFERRED and wait for no writer.
//
// A new database is made under a temporary name, by a pass that holds the lock, and renamed when it is complete. No other
// process ever creates one.
package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
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

// Create opens the database of dir, and makes directory and database where there are none. It brings an older schema up to
// date. Only a pass that holds the project lock may call it. An empty or damaged file is never replaced (state_corrupt), and
// where runs were recorded in a database that is gone no new one is made (state_missing): it would forget them.
func Create(ctx context.Context, dir string, now time.Time) (*DB, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open the state: %w", err)
	}
	if err := EnsureDir(dir); err != nil {
		return nil, err
	}
	exists, err := databaseExists(dir)
	if err == nil && !exists {
		err = fault(dir, "make the database", createDatabase(ctx, dir, now))
	}
	if err != nil {
		return nil, err
	}
	db, err := connect(ctx, dir, "rw", "")
	if err != nil {
		return nil, err
	}
	err = useWAL(ctx, db.sql) // which a restored backup may have lost
	if err == nil && db.schema < schemaVersion {
		err = migrate(ctx, db.sql, migrations, db.schema, schemaVersion, now)
		db.schema = schemaVersion
	}
	if err != nil {
		return nil, errors.Join(fault(dir, "open the state", err), db.Close())
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
		return nil, problem("no_state", "no pass has run for "+dir, "run: symphony tick", ErrNoState)
	}
	db, err := connect(ctx, dir, mode, options)
	if err != nil {
		return nil, err
	}
	if db.schema < schemaVersion {
		err := problem("state_outdated", dir+" was written by an older symphony", "run: symphony tick (it migrates)", nil)
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// databaseExists reports whether dir has a database. One that is gone although runs or a WAL are left of it is an error.
func databaseExists(dir string) (bool, error) {
	const doing = "open the state"
	unreadable := func(err error) error { return dirError(dir, "cannot be read", "check its path and permissions", err) }
	// The leftovers come first: they may belong to a database that another process is creating now.
	noRuns, err := isEmpty(filepath.Join(dir, runsName))
	if err != nil {
		return false, unreadable(err)
	}
	wal, walErr := os.Stat(filepath.Join(dir, databaseName+"-wal"))
	info, err := os.Stat(filepath.Join(dir, databaseName))
	switch {
	case errors.Is(err, fs.ErrNotExist) && (!noRuns || walErr == nil && wal.Size() > 0):
		return false, missing(dir, doing)
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, unreadable(err)
	case !info.Mode().IsRegular():
		return false, corrupt(dir, doing, errors.New("not a regular file"))
	case info.Size() == 0:
		// SQLite would make a new database of it and delete the WAL beside it, which may hold all that is left.
		return false, corrupt(dir, doing, errors.New("empty file"))
	}
	return true, nil
}

// connect opens an existing file and checks that it is a symphony database which this program may use.
func connect(ctx context.Context, dir, mode, options string) (*DB, error) {
	pool, err := openPool(filepath.Join(dir, databaseName), mode, options)
	if err != nil {
		return nil, fmt.Errorf("open the state: %w", err)
	}
	c := &conn{dir: dir, sql: pool}
	err = c.checkVersion(ctx)
	if err == nil && mode == "rw" {
		err = c.rememberFiles()
	}
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	return newDB(c), nil
}

func newDB(c *conn) *DB {
	c.patience = busyTimeout
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
	verdict, err := row(db.reader(ctx), itself[string], `PRAGMA quick_check(1)`)
	if err == nil && verdict != "ok" {
		return corrupt(db.dir, doing, errors.New(verdict))
	}
	return fault(db.dir, doing, err)
}

// Newer returns an error where a newer program has migrated the state: this one may still settle what has ended, but
// starts nothing.
func (db *DB) Newer() error {
	if db.schema <= schemaVersion {
		return nil
	}
	return problem("state_newer", fmt.Sprintf("%s was changed by a newer symphony, to schema %d; this one knows schema %d: it settles and stops, and starts nothing",
		db.dir, db.schema, schemaVersion), "upgrade symphony here, too", nil)
}

// Keys of meta that this package writes itself.
const (
	metaSchema       = "schema"
	metaOldestWriter = "oldest_writer"
	metaPaused       = "paused"
	metaAgentBlock   = "blocked_agent"
	metaTrackerBlock = "blocked_tracker"
	metaHostBlock    = "blocked_host"
	metaSweep        = "last_sweep"
	metaPruned       = "last_prune"
)

// Meta returns a value that SetMeta stored for the project, and whether there is one.
func (c *conn) Meta(ctx context.Context, key string) (string, bool, error) {
	return readOne(ctx, c, "read meta "+key, itself[string], `SELECT value FROM meta WHERE key = ?`, key)
}

// SetMeta stores a value for the project. A value that is already stored costs no write.
func (c *conn) SetMeta(ctx context.Context, key, value string) error {
	old, found, err := c.Meta(ctx, key)
	if err != nil || found && old == value {
		return err
	}
	return c.update(ctx, "set meta "+key, full, func(t tx) error { return setMeta(t, key, value) })
}

const storeMeta = `INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`

func setMeta(t tx, key, value string) error { return t.run(storeMeta, key, value) }

func clearMeta(t tx, key string) error { return t.run(`DELETE FROM meta WHERE key = ?`, key) }

// parseMillis reads a time that is stored as UTC milliseconds in a text; empty is the zero time.
func parseMillis(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: a time", errStored)
	}
	return time.UnixMilli(ms).UTC(), nil
}
