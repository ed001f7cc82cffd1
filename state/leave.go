package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/symphony-cron/symphony/reconcile/crash"
)

// leftWAL is how large a WAL may be left, in bytes: some passes with nothing to do. The next program to open the
// database reads all of it first.
const leftWAL = 64 << 10

// Leave ends the use of the database in a process that ends right afterwards. Closing merges the WAL into the file
// and removes it, and the next pass makes it again: four syncs and two new files beside the one sync that a pass
// needs to be on the disk. So a small WAL stays, as after a crash: all that is committed is in it, and synced as far
// as its durability says. One that has grown is merged.
func (db *DB) Leave() error {
	wal, err := os.Stat(filepath.Join(db.dir, databaseName+"-wal"))
	crash.At("state.leave")
	if err == nil && wal.Size() <= leftWAL {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("leave the state: %w", err), db.Close())
	}
	return db.Close()
}

// openAsLeft opens a database whose shared memory can't be made, because the disk is full or the directory can't be
// written, for reading. Nobody can write either: with no WAL the file alone is all there is, and a WAL that was left
// is read into this process's own memory, which SQLite does where the shared memory may not be changed.
func openAsLeft(ctx context.Context, dir string) (*DB, error) {
	if wal, err := os.Stat(filepath.Join(dir, databaseName+"-wal")); err == nil && wal.Size() > 0 {
		return open(ctx, dir, "ro", "&readonly_shm=1")
	}
	return open(ctx, dir, "ro", "&immutable=1")
}
