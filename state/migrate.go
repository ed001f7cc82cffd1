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
	"time"

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
	path, final := filepath.Join(dir, tempName), filepath.Join(dir, databaseName)
	if err := removeAll(path, path+"-wal", path+"-shm", path+"-journal"); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, fileMode) // SQLite gives the WAL the same permissions
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
	_, err = pool.ExecContext(ctx, `PRAGMA synchronous = OFF`) // the whole file is synced below
	if err == nil {
		err = migrate(ctx, pool, migrations, 0, schemaVersion, now)
	}
	if err == nil {
		err = useWAL(ctx, pool) // the last step, so that the WAL stays empty
	}
	if err := errors.Join(err, pool.Close()); err != nil {
		return err
	}
	if err := durable.SyncDir(path); err != nil {
		return err
	}
	// A WAL or shared memory of an earlier database must not be taken for the new one's.
	if err := removeAll(final+"-wal", final+"-shm"); err != nil {
		return err
	}
	if err := os.Rename(path, final); err != nil {
		return err
	}
	crash.At("state.create.renamed")
	return durable.SyncDir(dir)
}

func removeAll(paths ...string) error {
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// useWAL switches a database to WAL, which it then remembers. SQLite's busy timeout does not cover this switch, which is
// why only a pass under the lock makes it.
func useWAL(ctx context.Context, pool *sql.DB) error {
	mode, err := row(tx{pool, ctx}, itself[string], `PRAGMA journal_mode = wal`)
	if err == nil && mode != "wal" {
		err = fmt.Errorf("journal mode is %s and can't be changed to wal", mode)
	}
	return err
}

// migrate applies the migrations of files above version from, up to version to, each in its own transaction together
// with the number that says it was applied.
func migrate(ctx context.Context, pool *sql.DB, files fs.FS, from, to int, now time.Time) error {
	for version := from + 1; version <= to; version++ {
		names, err := fs.Glob(files, fmt.Sprintf("migration/%04d_*.sql", version))
		if err != nil || len(names) != 1 {
			return fmt.Errorf("the migration to schema %d: %v, %w", version, names, err)
		}
		script, err := fs.ReadFile(files, names[0])
		if err != nil {
			return err
		}
		err = transact(ctx, pool, nil, func(t tx) error {
			if err := t.run(string(script)); err != nil {
				return err
			}
			if err := t.run(fmt.Sprintf(`PRAGMA user_version = %d; INSERT INTO meta (key, value)
				VALUES ('created_at', '%d') ON CONFLICT (key) DO NOTHING`, version, now.UnixMilli())); err != nil {
				return err
			}
			if err := setMeta(t, metaSchema, strconv.Itoa(version)); err != nil {
				return err
			}
			return setMeta(t, metaOldestWriter, strconv.Itoa(oldestWriter))
		})
		if err != nil {
			return err
		}
		crash.At("state.migrate.step")
	}
	return nil
}

// checkVersion refuses a file that is not a symphony database, and one that a newer program has closed to this one.
func (c *conn) checkVersion(ctx context.Context) (err error) {
	const doing = "open the state"
	if c.schema, err = row(c.reader(ctx), itself[int], `PRAGMA user_version`); err != nil {
		return fault(c.dir, doing, err)
	}
	if c.schema <= 0 {
		return corrupt(c.dir, doing, errors.New("schema version 0"))
	}
	oldest, _, err := c.Meta(ctx, metaOldestWriter)
	if err == nil {
		return refuseNewer(c.dir, oldest)
	}
	var e *reconcile.Error
	if errors.As(err, &e) && e.Code == "state_error" { // it has no table meta
		return corrupt(c.dir, doing, err)
	}
	return err
}

// refuseNewer returns an error where only programs of a newer schema may write.
func refuseNewer(dir, oldest string) error {
	n, err := strconv.Atoi(oldest)
	if err != nil {
		return corrupt(dir, "read which programs may write", err)
	}
	if n <= schemaVersion {
		return nil
	}
	return problem("state_newer", fmt.Sprintf("%s was changed by a newer symphony; this one knows schema %d, it asks for %d",
		dir, schemaVersion, n), "upgrade symphony", nil)
}
