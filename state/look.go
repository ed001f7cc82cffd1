package state

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Look says what EnsureDir would say of dir, as far as that can be told without making or changing anything. exists is
// false where there is no directory yet.
func Look(dir string) (exists bool, err error) {
	if err := checkFilesystem(dir); err != nil {
		return false, err
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, dirError(dir, "cannot be read", "check its path and permissions", err)
	}
	if empty, err := isEmpty(dir); err == nil && empty && info.IsDir() {
		return true, nil // one that is open to others is closed by the first pass
	}
	if err := checkDir(dir, info); err != nil {
		return true, err
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return true, dirError(dir, "cannot be written", "make it writable, or mount the volume for writing", err)
	}
	return true, nil
}

// QuickCheck reads the whole database and says whether it is sound: state_corrupt if not.
func (db *DB) QuickCheck(ctx context.Context) error {
	const doing = "check the state"
	var verdict string
	if err := db.sql.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&verdict); err != nil {
		return fault(db.dir, doing, err)
	}
	if verdict != "ok" {
		return corrupt(db.dir, doing, errors.New(verdict))
	}
	return nil
}

// Schema is the version that the database was found with.
func (db *DB) Schema() int { return db.schema }
