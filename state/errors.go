package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// ErrNoState means that no pass ran yet, so that there is no database.
var ErrNoState = errors.New("no pass has run here yet")

// ErrNotFound means that there is no such row in the database.
var ErrNotFound = errors.New("not found")

// errStored means that a stored value can't have been written by this package.
var errStored = errors.New("unreadable value")

const seeDoctor = "symphony doctor finds out more"

// problem returns an error that users can act on: hint is the next step.
func problem(code, message, hint string, cause error) error {
	return &reconcile.Error{Code: code, Message: message, Hint: hint, Err: cause}
}

// fault turns an error from the database or its files into an error on which users can act;
// nil stays nil. The message says which step failed (doing) and where (dir). It never repeats
// the driver's text, which may quote stored values; the cause is wrapped.
func fault(dir, doing string, err error) error {
	var known *reconcile.Error
	var sq *sqlite.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known), errors.Is(err, reconcile.ErrConflict), errors.Is(err, ErrNotFound),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w", doing, err)
	case errors.Is(err, errStored):
		return corrupt(dir, doing, err)
	case paths.IsFull(err):
		return diskFull(dir, doing, err)
	case errors.Is(err, unix.EROFS), errors.Is(err, fs.ErrPermission):
		return readonly(dir, doing, err)
	case errors.As(err, &sq):
		return sqliteFault(dir, doing, sq.Code(), err)
	}
	return problem("state_unusable", fmt.Sprintf("%s in %s: %v", doing, dir, err), seeDoctor, err)
}

// sqliteFault is fault for an error with a code of SQLite.
func sqliteFault(dir, doing string, code int, err error) error {
	path := filepath.Join(dir, databaseName)
	switch code & 0xff {
	case sqlite3.SQLITE_FULL:
		return diskFull(dir, doing, err)
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return problem(
			"state_busy",
			fmt.Sprintf("%s: another process keeps %s locked", doing, path),
			"find that process: fuser -v "+path+"; nothing is lost, symphony continues when it releases the file",
			err,
		)
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return corrupt(dir, doing, err)
	case sqlite3.SQLITE_READONLY:
		return readonly(dir, doing, err)
	case sqlite3.SQLITE_IOERR:
		return ioFault(dir, doing, code, err)
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH:
		if _, statErr := os.Stat(path); errors.Is(statErr, fs.ErrNotExist) {
			return missing(dir, doing)
		}
		if isFull(dir) { // a file beside the database could not be made
			return diskFull(dir, doing, err)
		}
		if unix.Access(path, unix.R_OK) == nil && unix.Access(dir, unix.W_OK) != nil {
			return readonly(dir, doing, err)
		}
		return problem("state_unusable", fmt.Sprintf("%s: %s cannot be opened", doing, path),
			cmp.Or(paths.Regain(path), "check the permissions of "+path+" and of the files next to it"), err)
	}
	return problem("state_unusable", fmt.Sprintf("%s in %s: SQLite error %d", doing, path, code), seeDoctor, err)
}

// ioFault is fault for an I/O error with a code of SQLite. SQLite reports one, too, if the shared
// memory of the WAL can't grow on a full disk.
func ioFault(dir, doing string, code int, err error) error {
	if isFull(dir) {
		return diskFull(dir, doing, err)
	}
	return problem(
		"state_io",
		fmt.Sprintf("%s: I/O error %d on %s", doing, code, filepath.Join(dir, databaseName)),
		"check that the account may store more there (quota -s, ulimit -f), then look for disk errors in the system log",
		err,
	)
}

// CheckSpace returns the error with which the next pass would fail if the file system of the
// state directory is full. Reading the state needs no space.
func CheckSpace(dir string) error {
	if isFull(dir) {
		return diskFull(dir, "write the state", nil)
	}
	return nil
}

// isFull reports whether the file system of dir is out of space or inodes.
func isFull(dir string) bool {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return false
	}
	free := uint64(st.Bavail)
	if os.Geteuid() == 0 { // the blocks that are reserved are for root
		free = uint64(st.Bfree)
	}
	return free*uint64(st.Bsize) < growth || st.Files > 0 && st.Ffree == 0
}

// growth is the most by which SQLite makes one of its files larger at once, in bytes: the index
// of the WAL grows by 32 KiB.
const growth = 64 << 10

func diskFull(dir, doing string, err error) error {
	return problem("disk_full", fmt.Sprintf("%s: no space left for %s", doing, dir),
		paths.MakeRoom(dir)+": the next pass continues", err)
}

func readonly(dir, doing string, err error) error {
	return problem(
		"state_readonly",
		fmt.Sprintf("%s: %s cannot be written", doing, filepath.Join(dir, databaseName)),
		cmp.Or(
			paths.Regain(filepath.Join(dir, databaseName)),
			"make the directory (0700) and its files (0600) writable, or mount the volume read-write",
		),
		err,
	)
}

func corrupt(dir, doing string, err error) error {
	return problem(
		"state_corrupt",
		fmt.Sprintf("%s: %s is damaged", doing, filepath.Join(dir, databaseName)),
		restoreHint(dir),
		err,
	)
}

func missing(dir, doing string) error {
	return problem(
		"state_corrupt",
		fmt.Sprintf("%s: %s is gone, but runs were recorded in it", doing, filepath.Join(dir, databaseName)),
		restoreHint(dir),
		nil,
	)
}

// Aside is the command that moves a state directory away, under a name that is none of a project's.
func Aside(dir string) string {
	return "mv " + text.ShellQuote(dir) + " " + text.ShellQuote(dir+".old")
}

// restoreHint explains how to restore a database. A WAL that is left belongs to the file that
// is gone and would damage another.
func restoreHint(dir string) string {
	return "stop the workers (symphony stop --all) and remove state.db-wal and state.db-shm; " +
		"then restore a backup of state.db, or start over: " + Aside(dir)
}

// NeedsRepair reports whether err means that an operator must restore the database before it
// can be used again.
func NeedsRepair(err error) bool { return hasCode(err, "state_corrupt", "state_io") }

// IsNewer reports whether err means that a newer program wrote the database.
func IsNewer(err error) bool { return hasCode(err, "state_newer") }

// isWrongQuery reports whether SQLite could not compile a query, for instance because there is no such
// table.
func isWrongQuery(err error) bool {
	failed, is := errors.AsType[*sqlite.Error](err)
	return is && failed.Code() == sqlite3.SQLITE_ERROR
}

func hasCode(err error, codes ...string) bool {
	known, is := errors.AsType[*reconcile.Error](err)
	return is && slices.Contains(codes, known.Code)
}

// isBusy reports whether SQLite timed out while it waited for another writer.
func isBusy(err error) bool {
	sq, is := errors.AsType[*sqlite.Error](err)
	return is &&
		(sq.Code()&0xff == sqlite3.SQLITE_BUSY || sq.Code()&0xff == sqlite3.SQLITE_LOCKED)
}

// needsRecovery reports whether a reader that can't write found an index of the WAL that is to
// be repaired first.
func needsRecovery(err error) bool {
	sq, is := errors.AsType[*sqlite.Error](err)
	return is && slices.Contains([]int{
		sqlite3.SQLITE_READONLY_RECOVERY, sqlite3.SQLITE_READONLY_CANTLOCK, sqlite3.SQLITE_READONLY_CANTINIT,
	}, sq.Code())
}

// isDuplicate reports whether a row with the same key already exists.
func isDuplicate(err error) bool {
	sq, is := errors.AsType[*sqlite.Error](err)
	return is &&
		(sq.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || sq.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
}
