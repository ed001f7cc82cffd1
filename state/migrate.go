package state

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

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

	metaSchema       = "schema"
	metaOldestWriter = "oldest_writer"
	metaCreatedAt    = "created_at"
)

// migrate applies the migrations of files above the version from up to the version to, each in a transaction of
// its own together with the number that says it was applied.
func migrate(ctx context.Context, handle *sql.DB, files fs.ReadDirFS, from, to int, now time.Time) error {
	for version := from + 1; version <= to; version++ {
		script, err := script(files, version)
		if err != nil {
			return err
		}
		err = within(ctx, handle, nil, func(tx *sql.Tx) error { return migrateTo(ctx, tx, script, version, now) })
		if err != nil {
			return err
		}
	}
	return nil
}

func migrateTo(ctx context.Context, tx *sql.Tx, script string, version int, now time.Time) error {
	if _, err := tx.ExecContext(ctx, script); err != nil {
		return err
	}
	crash.At("state.migrate.tables")
	if _, err := tx.ExecContext(ctx, `PRAGMA user_version = `+strconv.Itoa(version)); err != nil {
		return err
	}
	if version == 1 {
		if err := setMeta(ctx, tx, metaCreatedAt, strconv.FormatInt(now.UnixMilli(), 10)); err != nil {
			return err
		}
	}
	if err := setMeta(ctx, tx, metaSchema, strconv.Itoa(version)); err != nil {
		return err
	}
	return setMeta(ctx, tx, metaOldestWriter, strconv.Itoa(oldestWriter))
}

// script is the text of the migration whose file name begins with the version in four digits.
func script(files fs.ReadDirFS, version int) (string, error) {
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

// checkVersion refuses what is no database of ours, and one that a newer program has closed to this one.
func (db *DB) checkVersion(ctx context.Context) error {
	const doing = "open the state"
	if err := db.sql.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&db.schema); err != nil {
		return fault(db.dir, doing, err)
	}
	if db.schema <= 0 {
		return corrupt(db.dir, doing, errors.New("schema version 0"))
	}
	meta, err := readAllMeta(ctx, db.sql)
	if err != nil {
		return notOurs(db.dir, doing, err)
	}
	db.kept.fill(meta)
	return refuseNewer(db.dir, meta[metaOldestWriter])
}

// notOurs treats a database without our tables as damaged: whatever it is, it is not what we wrote.
func notOurs(dir, doing string, err error) error {
	mapped := fault(dir, doing, err)
	var e *reconcile.Error
	if errors.As(mapped, &e) && e.Code == "state_error" {
		return corrupt(dir, doing, err)
	}
	return mapped
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

// Newer is an error for people where a newer program has migrated the state: this one may still settle what has ended,
// but starts nothing (design 3).
func (db *DB) Newer() error {
	if db.schema <= schemaVersion {
		return nil
	}
	return &reconcile.Error{
		Code: "state_newer",
		Message: fmt.Sprintf("%s was changed by a newer symphony, to schema %d; this one knows schema %d: it settles and stops, and starts nothing",
			db.dir, db.schema, schemaVersion),
		Hint: "upgrade symphony here, too",
	}
}

func outdated(dir string) error {
	return &reconcile.Error{
		Code:    "state_outdated",
		Message: dir + " was written by an older symphony", Hint: "run: symphony tick (it migrates)",
	}
}

func (db *DB) schemaBelow(version int) bool { return db.schema < version }

// upgrade brings an existing database up to our schema and to WAL, which a restored backup may have lost.
func (db *DB) upgrade(ctx context.Context, now time.Time) error {
	if err := useWAL(ctx, db.sql); err != nil {
		return fault(db.dir, "open the state", err)
	}
	if !db.schemaBelow(schemaVersion) {
		return nil
	}
	if err := migrate(ctx, db.sql, migrations, db.schema, schemaVersion, now); err != nil {
		return fault(db.dir, "migrate the state", err)
	}
	db.schema = schemaVersion
	db.kept.wrote()
	return nil
}
