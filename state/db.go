package state

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
)

// DB is a project's database, open in this process. Its methods are grouped by the process
// that calls them.
//
// Errors that users see are *reconcile.Error with the code disk_full, state_busy,
// state_corrupt, state_readonly, state_newer, state_outdated, state_io,
// state_replaced, state_dir, no_state or state_unusable.
type DB struct {
	*conn
	Store      Store
	Journal    Journal
	Operator   Operator
	Attentions Attentions
	Team       Team
	Views      Views
	Runs       Runs
	Clients    Clients
}

type (
	// Store is for a pass, which holds the project lock. It implements reconcile.Store.
	Store struct{ *conn }
	// Journal is for a worker: it writes the worker's own run and reads earlier runs of the
	// issue.
	Journal struct{ *conn }
	// Operator is for commands that write on behalf of an operator, while a pass may be
	// running.
	Operator struct{ *conn }
	// Attentions are the notifications for hooks.on_attention. Each is delivered once: a
	// process takes it before it runs the hook, and marks it done afterwards. The parameter
	// patience of its methods is the longest time that a hook may take.
	Attentions struct{ *conn }
	// Team is for the claims in the git remote. It implements team.Journal.
	Team struct{ *conn }
	// Views is for reading. It returns lists newest first unless documented otherwise.
	Views struct{ *conn }
	// Runs is for reading runs, of a pass's and of clients. It returns lists newest first
	// unless documented otherwise.
	Runs struct{ *conn }
	// Clients is for programs that use agents without an issue.
	Clients struct{ *conn }
)

// Create opens the database in dir for reading and writing, creates directory and database if
// they do not exist, and migrates an older schema. Only a pass that holds the project lock may
// call it.
//
// It never replaces an empty or damaged file (state_corrupt). If the database is gone although
// runs were recorded in it, Create makes no new database, which would forget those runs
// (state_corrupt).
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
			return nil, fault(dir, "create the database", err)
		}
	}
	db, err := connect(ctx, dir, "rw", "")
	if err != nil {
		return nil, err
	}
	if err := db.prepare(ctx, now); err != nil {
		return nil, errors.Join(fault(dir, "open the state", err), db.Close())
	}
	return db, nil
}

// prepare brings an existing database to the present schema and to WAL mode. A restored backup
// may be in another mode.
func (db *DB) prepare(ctx context.Context, now time.Time) error {
	if err := useWAL(ctx, db.sql); err != nil {
		return err
	}
	if db.schema >= schemaVersion {
		return nil
	}
	if err := migrate(ctx, db.sql, migrations, db.schema, schemaVersion, now); err != nil {
		return err
	}
	db.schema = schemaVersion
	return nil
}

// createDatabase creates the database under a temporary name and renames it when it is
// complete and on disk, so that no process ever opens an incomplete database. It first removes
// the leftovers of an earlier attempt.
func createDatabase(ctx context.Context, dir string, now time.Time) error {
	path := filepath.Join(dir, tempName)
	final := filepath.Join(dir, databaseName)
	if err := removeAll(path, path+"-wal", path+"-shm", path+"-journal"); err != nil {
		return err
	}
	if err := fillDatabase(ctx, path, now); err != nil {
		return err
	}
	if err := durable.SyncDir(path); err != nil {
		return err
	}
	// SQLite must not apply the WAL of an earlier database to the new database.
	if err := removeAll(final+"-wal", final+"-shm"); err != nil {
		return err
	}
	if err := os.Rename(path, final); err != nil {
		return err
	}
	crash.At("state.create.renamed")
	return durable.SyncDir(dir)
}

// fillDatabase creates a database with no rows, which is not on disk yet.
func fillDatabase(ctx context.Context, path string, now time.Time) (err error) {
	// SQLite gives the WAL the same permissions
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, fileMode)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	pool, err := openPool(path, "rw", "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	_, err = pool.ExecContext(ctx, `PRAGMA synchronous = OFF`) // createDatabase syncs the whole file
	if err != nil {
		return err
	}
	if err := migrate(ctx, pool, migrations, 0, schemaVersion, now); err != nil {
		return err
	}
	return useWAL(ctx, pool) // the last step, so that the WAL stays empty
}

// useWAL switches a database to WAL mode, which persists in its file. SQLite's busy timeout
// does not cover this switch, so only a pass that holds the lock may call it.
func useWAL(ctx context.Context, pool *sql.DB) error {
	mode, err := row(tx{pool, ctx}, itself[string], `PRAGMA journal_mode = wal`)
	if err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("the journal mode is %s and can't be changed to wal", mode)
	}
	return nil
}

//go:embed migration/*.sql
var migrations embed.FS

// schemaVersion is the number of the last migration.
const schemaVersion = 4

// migrate applies the migrations in files with numbers above from, up to and including to.
// Each transaction applies a migration and stores its number.
func migrate(ctx context.Context, pool *sql.DB, files fs.FS, from, to int, now time.Time) error {
	for version := from + 1; version <= to; version++ {
		script, err := migrationTo(files, version)
		if err != nil {
			return err
		}
		err = transact(ctx, pool, nil, func(t tx) error {
			if err := t.run(script); err != nil {
				return err
			}
			err := t.run(fmt.Sprintf(`PRAGMA user_version = %d; INSERT INTO meta (key, value)
				VALUES ('created_at', '%d') ON CONFLICT (key) DO NOTHING`, version, now.UnixMilli()))
			if err != nil {
				return err
			}
			return setMeta(t, metaSchema, strconv.Itoa(version))
		})
		if err != nil {
			return err
		}
		crash.At("state.migrate.step")
	}
	return nil
}

// migrationTo returns the script that migrates the schema before a version to it.
func migrationTo(files fs.FS, version int) (string, error) {
	names, err := fs.Glob(files, fmt.Sprintf("migration/%04d_*.sql", version))
	if err != nil {
		return "", fmt.Errorf("look for the migration to schema %d: %w", version, err)
	}
	if len(names) != 1 {
		return "", fmt.Errorf("want one migration to schema %d, found %q", version, names)
	}
	script, err := fs.ReadFile(files, names[0])
	return string(script), err
}

// Open opens the database in dir for reading and writing. It never creates a database: if no
// pass ran yet, the error wraps ErrNoState. It refuses the database of a newer program.
func Open(ctx context.Context, dir string) (*DB, error) { return open(ctx, dir, "rw", "") }

// OpenReadOnly opens the database in dir for reading, also if a newer program wrote it. In a
// directory without write permission or on a full disk, SQLite can't create the shared memory
// of the WAL. OpenReadOnly then reads the files without locks, because no other process can
// write to them either.
func OpenReadOnly(ctx context.Context, dir string) (*DB, error) {
	db, err := open(ctx, dir, "ro", "")
	if !hasCode(err, "state_readonly", "disk_full") {
		return db, err
	}
	options := "&immutable=1"
	wal, statErr := os.Stat(filepath.Join(dir, databaseName+"-wal"))
	if statErr == nil && wal.Size() > 0 {
		options = "&readonly_shm=1" // SQLite indexes the WAL in this process's own memory
	}
	unlocked, unlockedErr := open(ctx, dir, "ro", options)
	if unlockedErr != nil {
		return nil, err // the first error is the cause
	}
	return unlocked, nil
}

func open(ctx context.Context, dir, mode, options string) (*DB, error) {
	db, err := openAny(ctx, dir, mode, options)
	if err != nil {
		return nil, err
	}
	if db.schema < schemaVersion {
		outdated := problem("state_outdated", db.dir+" was written by an older symphony",
			"run: symphony tick (it migrates)", nil)
		return nil, errors.Join(outdated, db.Close())
	}
	return db, nil
}

// openAny opens an existing database of any schema that this program may read.
func openAny(ctx context.Context, dir, mode, options string) (*DB, error) {
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
	return connect(ctx, dir, mode, options)
}

// databaseExists reports whether dir contains a database. A missing database whose runs or WAL
// are still there is an error.
func databaseExists(dir string) (bool, error) {
	const doing = "open the state"
	// Look for leftovers before the database itself: otherwise another process could create a
	// database in between, and its files would look like the leftovers of a lost database.
	noRuns, err := isEmpty(filepath.Join(dir, runsName))
	if err != nil {
		return false, unreadable(dir, err)
	}
	wal, walErr := os.Stat(filepath.Join(dir, databaseName+"-wal"))
	info, err := os.Stat(filepath.Join(dir, databaseName))
	switch {
	case errors.Is(err, fs.ErrNotExist) && (!noRuns || walErr == nil && wal.Size() > 0):
		return false, missing(dir, doing)
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, unreadable(dir, err)
	case !info.Mode().IsRegular():
		return false, corrupt(dir, doing, errors.New("not a regular file"))
	case info.Size() == 0:
		// SQLite would initialise it and delete the WAL beside it, which may contain all that
		// is left of the data.
		return false, corrupt(dir, doing, errors.New("empty file"))
	}
	return true, nil
}

// connect opens an existing file and checks that it is a symphony database and, if it opens it
// for writing, that this program may write it.
func connect(ctx context.Context, dir, mode, options string) (*DB, error) {
	pool, err := openPool(filepath.Join(dir, databaseName), mode, options)
	if err != nil {
		return nil, fmt.Errorf("open the state: %w", err)
	}
	c := &conn{dir: dir, sql: pool, queries: newPreparing(pool)}
	if err := c.check(ctx, mode); err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	return newDB(c), nil
}

// check checks the file that was opened.
func (c *conn) check(ctx context.Context, mode string) error {
	if err := c.readVersion(ctx); err != nil {
		return err
	}
	if mode != "rw" {
		return nil
	}
	if err := c.Newer(); err != nil {
		return err
	}
	return c.rememberFiles()
}

// readVersion reads the schema, and refuses a file that is not a symphony database.
func (c *conn) readVersion(ctx context.Context) error {
	const doing = "open the state"
	schema, err := row(c.reader(ctx), itself[int], `PRAGMA user_version`)
	if err != nil {
		return fault(c.dir, doing, err)
	}
	if schema <= 0 {
		return corrupt(c.dir, doing, errors.New("schema version 0"))
	}
	c.schema = schema
	_, _, err = c.Meta(ctx, metaSchema)
	if isWrongQuery(err) { // there is no table meta
		return corrupt(c.dir, doing, err)
	}
	return err
}

// Newer returns an error if the database had the schema of a newer program when it was opened.
func (c *conn) Newer() error { return refuseNewer(c.dir, c.schema) }

// NewerNow returns an error if a newer program migrated the database meanwhile, for a process
// that keeps it open.
func (c *conn) NewerNow(ctx context.Context) error {
	schema, err := row(c.reader(ctx), itself[int], `PRAGMA user_version`)
	if err != nil {
		return fault(c.dir, "read the schema", err)
	}
	return refuseNewer(c.dir, schema)
}

// refuseNewer returns an error for a schema that this program does not know.
func refuseNewer(dir string, schema int) error {
	if schema <= schemaVersion {
		return nil
	}
	return problem(
		"state_newer",
		fmt.Sprintf("%s was changed by a newer symphony, to schema %d; this one knows schema %d", dir, schema,
			schemaVersion),
		"upgrade symphony here, too",
		nil,
	)
}

func newDB(c *conn) *DB {
	c.patience = busyTimeout
	return &DB{c, Store{c}, Journal{c}, Operator{c}, Attentions{c}, Team{c}, Views{c}, Runs{c}, Clients{c}}
}

// Close closes the connection. The last process to close merges the WAL into the database. If
// the files have been replaced since they were opened, Close leaves the connection open,
// because merging the WAL would damage the new database.
func (db *DB) Close() error {
	if db.checkFiles("close the state") != nil {
		return nil //nolint:nilerr // the next process that opens the database reports it
	}
	return fault(db.dir, "close the state", db.sql.Close())
}

// Current reports whether the directory still contains the database that was opened, with the
// same schema. If not, a process that keeps a database open between passes closes it, and
// opens it again.
func (db *DB) Current(ctx context.Context) bool {
	schema, err := row(db.reader(ctx), itself[int], `PRAGMA user_version`)
	return err == nil && schema == db.schema && db.checkFiles("check the state") == nil
}

// Dir is the state directory, absolute.
func (db *DB) Dir() string { return db.dir }

// Schema is the schema version of the database at the time it was opened.
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

// Backup returns the content of a file with the whole database in dir, as of a single moment,
// and its schema, which may be older than the program's. Other processes may use the database
// meanwhile.
func Backup(ctx context.Context, dir string) (data []byte, schema int, err error) {
	db, err := openAny(ctx, dir, "ro", "")
	if err != nil {
		return nil, 0, err
	}
	defer db.Close()
	if err := db.QuickCheck(ctx); err != nil { // serialize fills unreadable pages with zeros
		return nil, 0, err
	}
	data, err = serialize(ctx, db.sql)
	return data, db.schema, fault(dir, "back up the state", err)
}

// serialize returns the content of a database file.
func serialize(ctx context.Context, pool *sql.DB) (data []byte, err error) {
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	err = conn.Raw(func(driver any) error {
		data, err = driver.(interface{ Serialize() ([]byte, error) }).Serialize()
		if err != nil {
			return err
		}
		if len(data) == 0 {
			return errors.New("not enough memory")
		}
		return nil
	})
	return data, err
}

// Keys of meta that this package writes itself.
const (
	metaSchema       = "schema"
	metaPaused       = "paused"
	metaAgentBlock   = "blocked_agent"
	metaTrackerBlock = "blocked_tracker"
	metaHostBlock    = "blocked_host"
	metaSweep        = "last_sweep"
	metaReviews      = "last_reviews" // when the issues in review were last refreshed
	metaUnblocked    = "unblocked"
	metaPruned       = "last_prune"
)

// Meta returns the value that SetMeta stored under key, and whether there is a value.
func (c *conn) Meta(ctx context.Context, key string) (string, bool, error) {
	return readOne(ctx, c, "read meta "+key, itself[string], `SELECT value FROM meta WHERE key = ?`, key)
}

// SetMeta stores a value of the project under key. It writes nothing if that value is already
// stored.
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

// parseMillis parses milliseconds since 1970; an empty text is the zero time.
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

// readSettings reads the values that apply to the project as a whole.
func readSettings(t tx, dir string, all *reconcile.State) error {
	meta, err := readMeta(t)
	if err != nil {
		return err
	}
	schema, err := strconv.Atoi(meta[metaSchema])
	if err != nil {
		return fmt.Errorf("%w: the schema version", errStored)
	}
	if err := refuseNewer(dir, schema); err != nil {
		return err
	}
	for key, block := range map[string]**reconcile.Block{
		metaAgentBlock:   &all.AgentBlock,
		metaTrackerBlock: &all.TrackerBlock,
		metaHostBlock:    &all.MachineBlock,
	} {
		text, blocked := meta[key]
		if !blocked {
			continue
		}
		*block = new(reconcile.Block)
		if err := jsonOf(*block).Scan(text); err != nil {
			return err
		}
	}
	all.RemoteBlocks, err = remoteBlocks(meta)
	if err != nil {
		return err
	}
	_, all.Paused = meta[metaPaused]
	all.LastReviews, err = parseMillis(meta[metaReviews])
	if err != nil {
		return err
	}
	all.LastSweep, err = parseMillis(meta[metaSweep])
	if err != nil {
		return err
	}
	all.Unblocked, err = parseMillis(meta[metaUnblocked])
	return err
}

// readMeta returns all values of meta by their keys.
func readMeta(t tx) (map[string]string, error) {
	list, err := rows(t, func(pair *[2]string) []any { return []any{&pair[0], &pair[1]} },
		`SELECT key, value FROM meta`)
	if err != nil {
		return nil, err
	}
	meta := map[string]string{}
	for _, pair := range list {
		meta[pair[0]] = pair[1]
	}
	return meta, nil
}

// remoteBlocks returns the blocks of hosts among the values of meta.
func remoteBlocks(meta map[string]string) (map[string]reconcile.Block, error) {
	var all map[string]reconcile.Block
	for key, text := range meta {
		host, isBlock := strings.CutPrefix(key, metaRemoteBlock)
		if !isBlock {
			continue
		}
		var b reconcile.Block
		if err := jsonOf(&b).Scan(text); err != nil {
			return nil, err
		}
		if all == nil {
			all = map[string]reconcile.Block{}
		}
		all[host] = b
	}
	return all, nil
}
