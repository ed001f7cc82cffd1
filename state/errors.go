package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/symphony-cron/symphony/reconcile"
)

// ErrNoState says that no pass has run yet, so there is nothing to read.
var ErrNoState = errors.New("no pass has run here yet")

// ErrNotFound says that the database has no such row.
var ErrNotFound = errors.New("not found")

// problem is an error that users can act on.
func problem(code, message, hint string, cause error) error {
	return &reconcile.Error{Code: code, Message: message, Hint: hint, Err: cause}
}

// fault turns an error of the database or of its files into one that users can act on. Its message says what was being
// done and where, and never repeats the driver's text, which may quote stored values. The cause stays in the chain.
func fault(dir, doing string, err error) error {
	var known *reconcile.Error
	var sq *sqlite.Error
	path := filepath.Join(dir, databaseName)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known), errors.Is(err, reconcile.ErrConflict), errors.Is(err, ErrNotFound),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w", doing, err)
	case errors.Is(err, errStored), strings.HasPrefix(err.Error(), "sql: Scan error"):
		// database/sql has no type for a Scan error, and its text quotes the value.
		return corrupt(dir, doing, err)
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return diskFull(dir, doing, err)
	case errors.Is(err, unix.EROFS), errors.Is(err, fs.ErrPermission):
		return readonly(dir, doing, err)
	case !errors.As(err, &sq):
		return problem("state_error", fmt.Sprintf("%s in %s: %v", doing, dir, err), "", err)
	}
	switch sq.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		return diskFull(dir, doing, err)
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return problem("state_busy", fmt.Sprintf("%s: another process holds %s for more than %s", doing, path, busyTimeout),
			"see who has it open: fuser -v "+path+"; nothing is lost; symphony continues when that process releases it", err)
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return corrupt(dir, doing, err)
	case sqlite3.SQLITE_READONLY:
		return readonly(dir, doing, err)
	case sqlite3.SQLITE_IOERR:
		// Where the shared memory of the WAL can't grow on a full disk, SQLite reports an I/O error.
		var st unix.Statfs_t
		switch statErr := unix.Statfs(dir, &st); {
		case statErr == nil && (st.Bavail == 0 || st.Files > 0 && st.Ffree == 0):
			return diskFull(dir, doing, err)
		case sq.Code() == sqlite3.SQLITE_IOERR_SHORT_READ:
			return problem("state_io", fmt.Sprintf("%s: %s or its -wal is shorter than it was", doing, path),
				"another program truncated or removed it; if workers still have the old file open, wait until they have ended", err)
		}
		return problem("state_io", fmt.Sprintf("%s: I/O error %d on %s", doing, sq.Code(), path),
			"look in the system's log for errors of that disk", err)
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH:
		if _, statErr := os.Stat(path); errors.Is(statErr, fs.ErrNotExist) {
			return missing(dir, doing)
		}
		if unix.Access(path, unix.R_OK) == nil && unix.Access(dir, unix.W_OK) != nil {
			return readonly(dir, doing, err)
		}
		return problem("state_error", fmt.Sprintf("%s: %s cannot be opened", doing, path),
			"check the permissions of "+path+" and of the files beside it", err)
	}
	return problem("state_error", fmt.Sprintf("%s in %s: SQLite error %d", doing, path, sq.Code()), "", err)
}

func diskFull(dir, doing string, err error) error {
	return problem("disk_full", fmt.Sprintf("%s: no space left for %s", doing, dir),
		"free space on that volume; nothing is lost, the next pass continues from here", err)
}

func readonly(dir, doing string, err error) error {
	return problem("state_readonly", fmt.Sprintf("%s: %s cannot be written", doing, filepath.Join(dir, databaseName)),
		"make the directory (0700) and its files (0600) writable, or mount the volume for writing", err)
}

func corrupt(dir, doing string, err error) error {
	return problem("state_corrupt", fmt.Sprintf("%s: %s is damaged", doing, filepath.Join(dir, databaseName)), restoreHint(dir), err)
}

func missing(dir, doing string) error {
	return problem("state_missing", fmt.Sprintf("%s: %s is gone, but runs were recorded in it", doing, filepath.Join(dir, databaseName)),
		restoreHint(dir), nil)
}

// restoreHint tells how to restore a database. A WAL that was left belongs to the file that is gone and would damage another.
func restoreHint(dir string) string {
	return "end the workers (symphony stop --all) and remove state.db-wal and state.db-shm; then put a backup of state.db in place, " +
		"or move " + dir + " aside to begin again"
}

// NeedsRepair reports whether an operator must restore the database before it can be used again.
func NeedsRepair(err error) bool {
	var known *reconcile.Error
	return errors.As(err, &known) && slices.Contains([]string{"state_missing", "state_corrupt", "state_io"}, known.Code)
}

// isBusy reports whether SQLite waited for another writer in vain.
func isBusy(err error) bool {
	var sq *sqlite.Error
	return errors.As(err, &sq) && (sq.Code()&0xff == sqlite3.SQLITE_BUSY || sq.Code()&0xff == sqlite3.SQLITE_LOCKED)
}

// isDuplicate reports whether a row exists already.
func isDuplicate(err error) bool {
	var sq *sqlite.Error
	return errors.As(err, &sq) &&
		(sq.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || sq.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
}
