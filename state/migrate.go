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

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
)

//go:embed migration/*.sql
var migrations embed.FS

const (
	// schemaVersion is the number of the last migration.
	schemaVersion = 4
	// oldestWriter is the oldest schema whose programs may go on writing after our migrations.
	oldestWriter = 1
)

// createDatabase makes the database under a temporary name and renames it when it is complete and on the disk, so that no
// process ever opens half of one. What a crashed attempt left behind is removed first.
func createDatabase(ctx context.Context, dir string, now time.Time) error {
	const doing = "make the database"
	path := filepath.Join(dir, tempName)
	if err := removeAll(path, path+"-wal", path+"-shm", path+"-journal"); err != nil {
		return fileFault(dir, doing, err)
	}
	if err := fillDatabase(ctx, dir, path, now); err != nil {
		return err
	}
	if err := durable.SyncDir(path); err != nil {
		return fileFault(dir, doing, err)
	}
	// A WAL or shared memory of an earlier database must not be taken for the new one's.
	final := filepath.Join(dir, databaseName)
	if err := removeAll(final+"-wal", final+"-shm"); err != nil {
		return fileFault(dir, doing, err)
	}
	if err := os.Rename(path, final); err != nil {
		return fileFault(dir, doing, err)
	}
	crash.At("state.create.renamed")
	if err := durable.SyncDir(dir); err != nil {
		return fileFault(dir, doing, err)
	}
	return nil
}

func removeAll(paths ...string) error {
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// fillDatabase creates the file with our permissions (SQLite gives the WAL the same), migrates it and closes it with
// everything in the file itself.
func fillDatabase(ctx context.Context, dir, path string, now time.Time) (err error) {
	const doing = "make the database"
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, fileMode)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return fileFault(dir, doing, err)
	}
	pool, err := openPool(path, "rw", "")
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer func() {
		if closeErr := pool.Close(); err == nil && closeErr != nil {
			err = fault(dir, doing, closeErr)
		}
		// Closing merges the WAL, but does not report when it can't.
		if wal, statErr := os.Stat(path + "-wal"); err == nil && statErr == nil && wal.Size() > 0 {
			err = fault(dir, doing, errors.New("its log could not be merged"))
		}
	}()
	if err := useWAL(ctx, pool); err != nil {
		return fault(dir, doing, err)
	}
	if err := migrate(ctx, pool, migrations, 0, schemaVersion, now); err != nil {
		return fault(dir, doing, err)
	}
	var busy, frames, merged int
	if err := pool.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &frames, &merged); err != nil {
		return fault(dir, doing, err)
	}
	if busy != 0 {
		return fault(dir, doing, errors.New("another process uses the new file"))
	}
	return nil
}

// useWAL switches a database to WAL, which it then remembers. SQLite's busy timeout does not cover this switch, which is
// why only a pass under the lock makes it.
func useWAL(ctx context.Context, pool *sql.DB) error {
	var mode string
	if err := pool.QueryRowContext(ctx, `PRAGMA journal_mode = wal`).Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("journal mode is %s and can't be changed to wal", mode)
	}
	return nil
}

// migrate applies the migrations of files above version from, up to version to, each in its own transaction together
// with the number that says it was applied.
func migrate(ctx context.Context, pool *sql.DB, files fs.ReadDirFS, from, to int, now time.Time) error {
	for version := from + 1; version <= to; version++ {
		script, err := migrationScript(files, version)
		if err != nil {
			return err
		}
		if err := transact(ctx, pool, nil, func(t tx) error { return migrateTo(t, script, version, now) }); err != nil {
			return err
		}
		crash.At("state.migrate.step")
	}
	return nil
}

func migrateTo(t tx, script string, version int, now time.Time) error {
	if err := t.run(script); err != nil {
		return err
	}
	if err := t.run(`PRAGMA user_version = ` + strconv.Itoa(version)); err != nil {
		return err
	}
	if version == 1 {
		if err := setMeta(t, metaCreatedAt, strconv.FormatInt(now.UnixMilli(), 10)); err != nil {
			return err
		}
	}
	if err := setMeta(t, metaSchema, strconv.Itoa(version)); err != nil {
		return err
	}
	return setMeta(t, metaOldestWriter, strconv.Itoa(oldestWriter))
}

// migrationScript is the text of the migration whose file name begins with the version in four digits.
func migrationScript(files fs.ReadDirFS, version int) (string, error) {
	entries, err := files.ReadDir("migration")
	if err != nil {
		return "", err
	}
	prefix := fmt.Sprintf("%04d_", version)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			text, err := fs.ReadFile(files, "migration/"+e.Name())
			return string(text), err
		}
	}
	return "", fmt.Errorf("no migration %s*.sql", prefix)
}

// upgrade brings an existing database up to our schema and to WAL, which a restored backup may have lost.
func (c *conn) upgrade(ctx context.Context, now time.Time) error {
	if err := useWAL(ctx, c.sql); err != nil {
		return fault(c.dir, "open the state", err)
	}
	if c.schema >= schemaVersion {
		return nil
	}
	if err := migrate(ctx, c.sql, migrations, c.schema, schemaVersion, now); err != nil {
		return fault(c.dir, "migrate the state", err)
	}
	c.schema = schemaVersion
	return nil
}

// checkVersion refuses a file that is not a symphony database, and one that a newer program has closed to this one.
func (c *conn) checkVersion(ctx context.Context) error {
	const doing = "open the state"
	if err := c.row(ctx, `PRAGMA user_version`).Scan(&c.schema); err != nil {
		return fault(c.dir, doing, err)
	}
	if c.schema <= 0 {
		return corrupt(c.dir, doing, errors.New("schema version 0"))
	}
	oldest, err := scanOne[string](c.row(ctx, `SELECT coalesce(max(value), '') FROM meta WHERE key = ?`, metaOldestWriter))
	if err == nil {
		return refuseNewer(c.dir, oldest)
	}
	err = fault(c.dir, doing, err)
	var e *reconcile.Error
	if errors.As(err, &e) && e.Code == "state_error" { // it has no table meta
		return corrupt(c.dir, doing, err)
	}
	return err
}

func refuseNewer(dir, oldest string) error {
	n, err := strconv.Atoi(oldest)
	if err != nil {
		return corrupt(dir, "read which programs may write", err)
	}
	if schemaVersion >= n {
		return nil
	}
	return &reconcile.Error{
		Code: "state_newer",
		Message: fmt.Sprintf("%s was changed by a newer symphony; this one knows schema %d, it asks for %d",
			dir, schemaVersion, n),
		Hint: "upgrade symphony",
	}
}

// Newer returns an error where a newer program has migrated the state: this one may still settle what has ended, but
// starts nothing.
func (c *conn) Newer() error {
	if c.schema <= schemaVersion {
		return nil
	}
	return &reconcile.Error{
		Code: "state_newer",
		Message: fmt.Sprintf("%s was changed by a newer symphony, to schema %d; this one knows schema %d: it settles and stops, and starts nothing",
			c.dir, c.schema, schemaVersion),
		Hint: "upgrade symphony here, too",
	}
}

func outdated(dir string) error {
	return &reconcile.Error{
		Code:    "state_outdated",
		Message: dir + " was written by an older symphony", Hint: "run: symphony tick (it migrates)",
	}
}

func fileFault(dir, doing string, err error) error {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return diskFull(dir, doing, err)
	case errors.Is(err, unix.EROFS), errors.Is(err, fs.ErrPermission):
		return readonly(dir, doing, err)
	}
	return fault(dir, doing, err)
}
