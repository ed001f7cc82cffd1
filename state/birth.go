package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/reconcile/crash"
)

// birth makes the database under another name and renames it when it is complete and on the disk, so that nobody
// ever opens half of one. What a birth cut off by a crash left behind is removed first.
func birth(ctx context.Context, dir string, now time.Time) error {
	const doing = "make the database"
	path := filepath.Join(dir, newbornName)
	crash.At("state.birth.before")
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fileFault(dir, doing, err)
		}
	}
	if err := fill(ctx, dir, path, now); err != nil {
		return err
	}
	crash.At("state.birth.filled")
	if err := durable.SyncDir(path); err != nil {
		return fileFault(dir, doing, err)
	}
	crash.At("state.birth.synced")
	// A WAL or shared memory of a database that was here before must not be taken for the new one's.
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Remove(filepath.Join(dir, databaseName+suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fileFault(dir, doing, err)
		}
	}
	if err := os.Rename(path, filepath.Join(dir, databaseName)); err != nil {
		return fileFault(dir, doing, err)
	}
	crash.At("state.birth.renamed")
	if err := durable.SyncDir(dir); err != nil {
		return fileFault(dir, doing, err)
	}
	return nil
}

// fill creates the file with our permissions (SQLite gives the WAL the same), migrates it and closes it with
// everything in the file itself.
func fill(ctx context.Context, dir, path string, now time.Time) (err error) {
	const doing = "make the database"
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, fileMode)
	if err != nil {
		return fileFault(dir, doing, err)
	}
	if err := f.Close(); err != nil {
		return fileFault(dir, doing, err)
	}
	crash.At("state.birth.file")
	handle, err := handleOf(path, "rw", "")
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer func() {
		if closeErr := handle.Close(); err == nil && closeErr != nil {
			err = fault(dir, doing, closeErr)
		}
		if err == nil {
			err = walGone(dir, path)
		}
	}()
	if err := useWAL(ctx, handle); err != nil {
		return fault(dir, doing, err)
	}
	crash.At("state.birth.wal")
	if err := migrate(ctx, handle, migrations, 0, schemaVersion, now); err != nil {
		return fault(dir, doing, err)
	}
	crash.At("state.birth.migrated")
	var busy, frames, merged int
	if err := handle.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &frames, &merged); err != nil {
		return fault(dir, doing, err)
	}
	if busy != 0 {
		return fault(dir, doing, errors.New("somebody else uses the new file"))
	}
	return nil
}

// walGone makes sure that nothing was left outside the file: closing merges, but does not say when it can't.
func walGone(dir, path string) error {
	info, err := os.Stat(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	}
	return fault(dir, "make the database", errors.New("its log could not be merged"))
}

// useWAL switches a database to WAL, which it then remembers.
func useWAL(ctx context.Context, handle *sql.DB) error {
	var mode string
	if err := handle.QueryRowContext(ctx, `PRAGMA journal_mode = wal`).Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("journal mode is %s and can't be changed to wal", mode)
	}
	return nil
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
