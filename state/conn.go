package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	// Registers the driver "sqlite".
	_ "modernc.org/sqlite"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
)

const (
	// busyTimeout bounds how long SQLite itself waits for another writer, retryTimeout the same after a wait in vain: a pass
	// has many writes, and must come to its end beside a frozen worker that holds the database.
	busyTimeout  = 5 * time.Second
	retryTimeout = 250 * time.Millisecond
	// turnTimeout bounds how long one write waits while other writers get their turns.
	turnTimeout = time.Minute
)

// durability is SQLite's synchronous level.
type durability int

const (
	full   durability = iota // on the disk when the transaction returns
	normal                   // survives the death of any process, but perhaps not a power failure
)

// conn is this process's only connection to one database. Its methods may be called concurrently; they take turns.
type conn struct {
	dir string
	sql *sql.DB

	// write serialises write transactions, because the synchronous level belongs to the connection.
	write sync.Mutex
	level durability
	// busy reports that the last write found the database held; the next one waits for retryTimeout only.
	busy bool

	files  openFiles
	schema int // the version found at opening, which may be newer than this program's
}

// openPool prepares the one connection to a file. It opens at level FULL.
func openPool(path, mode, options string) (*sql.DB, error) {
	name := (&url.URL{Path: path}).EscapedPath()
	pool, err := sql.Open("sqlite", fmt.Sprintf("file:%s?mode=%s%s&_txlock=immediate&_pragma=busy_timeout(%d)&_pragma=synchronous(full)",
		name, mode, options, busyTimeout.Milliseconds()))
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(1)
	return pool, nil
}

// uninterrupted returns a context that cannot cancel a statement which has begun. The driver gives up an interrupted
// connection, and the WAL with it when no other process has the database open; a replaced WAL would then look like the
// work of another program (see openFiles). Statements are short, so a caller that is cancelled loses little time.
func uninterrupted(ctx context.Context) context.Context {
	if ctx.Err() != nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// tx is a transaction with its context.
type tx struct {
	*sql.Tx
	ctx context.Context
}

func (t tx) row(query string, args ...any) *sql.Row { return t.QueryRowContext(t.ctx, query, args...) }

func (t tx) query(query string, args ...any) (*sql.Rows, error) {
	return t.QueryContext(t.ctx, query, args...)
}

// run executes a statement whose result does not matter.
func (t tx) run(query string, args ...any) error {
	_, err := t.ExecContext(t.ctx, query, args...)
	return err
}

// count executes a statement and returns how many rows it changed.
func (t tx) count(query string, args ...any) (int64, error) {
	res, err := t.ExecContext(t.ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// changed executes a statement and reports whether it found a row.
func (t tx) changed(query string, args ...any) (bool, error) {
	n, err := t.count(query, args...)
	return n > 0, err
}

// row reads one row outside of a transaction.
func (c *conn) row(ctx context.Context, query string, args ...any) *sql.Row {
	return c.sql.QueryRowContext(uninterrupted(ctx), query, args...)
}

// query reads rows outside of a transaction.
func (c *conn) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return c.sql.QueryContext(uninterrupted(ctx), query, args...)
}

// update runs f in one immediate transaction of the given durability. An error of f rolls everything back.
func (c *conn) update(ctx context.Context, doing string, level durability, f func(tx) error) error {
	c.write.Lock()
	defer c.write.Unlock()
	ctx = uninterrupted(ctx)
	crash.Method("before")
	err := c.setDurability(ctx, level)
	if err == nil {
		err = c.inTurn(func() error {
			return transact(ctx, c.sql, nil, func(t tx) error {
				if err := c.checkFiles(doing); err != nil {
					return err
				}
				if err := f(t); err != nil {
					return err
				}
				crash.At("state.transaction")
				return nil
			})
		})
		err = errors.Join(err, c.setPatience(ctx, isBusy(err)))
	}
	crash.Method("after")
	return fault(c.dir, doing, err)
}

// setPatience sets how long the next write waits for another writer.
func (c *conn) setPatience(ctx context.Context, busy bool) error {
	if c.busy == busy {
		return nil
	}
	c.busy = busy
	wait := busyTimeout
	if busy {
		wait = retryTimeout
	}
	_, err := c.sql.ExecContext(ctx, fmt.Sprintf(`PRAGMA busy_timeout = %d`, wait.Milliseconds()))
	return err
}

// view runs f in one deferred transaction: it sees a single state of the database and waits for no writer.
func (c *conn) view(ctx context.Context, doing string, f func(tx) error) error {
	return fault(c.dir, doing, transact(uninterrupted(ctx), c.sql, &sql.TxOptions{ReadOnly: true}, f))
}

func transact(ctx context.Context, pool *sql.DB, opts *sql.TxOptions, f func(tx) error) (err error) {
	begun, err := pool.BeginTx(ctx, opts)
	if err != nil {
		return err
	}
	if err := f(tx{begun, ctx}); err != nil {
		return errors.Join(err, begun.Rollback())
	}
	return begun.Commit()
}

// inTurn repeats a transaction that found the database busy for as long as other writers make progress. SQLite has no
// queue: under load one writer can be unlucky for longer than the timeout. A database in which nothing was written in
// that time is held by one process, and that is an error to report.
func (c *conn) inTurn(try func() error) error {
	for start := time.Now(); ; {
		before := c.lastWrite()
		err := try()
		if !isBusy(err) || c.lastWrite() == before || time.Since(start) > turnTimeout {
			return err
		}
	}
}

// walStamp changes whenever a process has written.
type walStamp struct {
	modified time.Time
	size     int64
}

func (c *conn) lastWrite() walStamp {
	info, err := os.Stat(filepath.Join(c.dir, databaseName+"-wal"))
	if err != nil {
		return walStamp{} // nothing written yet, or the transaction reports what is wrong
	}
	return walStamp{info.ModTime(), info.Size()}
}

// setDurability sets the synchronous level, which SQLite allows only outside of transactions.
func (c *conn) setDurability(ctx context.Context, level durability) error {
	if c.level == level {
		return nil
	}
	pragma := `PRAGMA synchronous = FULL`
	if level == normal {
		pragma = `PRAGMA synchronous = NORMAL`
	}
	if _, err := c.sql.ExecContext(ctx, pragma); err != nil {
		return err
	}
	c.level = level
	return nil
}

// openFiles are the files that were opened. An operator may put a backup in their place while a worker has the old ones
// open for hours. What that worker wrote would be lost silently, and merging its WAL at the end would damage the new
// database.
type openFiles struct{ db, wal fs.FileInfo }

func openFilesOf(dir string) (f openFiles, err error) {
	path := filepath.Join(dir, databaseName)
	if f.db, err = os.Stat(path); err != nil {
		return f, fileFault(dir, "open the state", err)
	}
	f.wal, err = os.Stat(path + "-wal")
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a restored backup may have none yet
		return f, fileFault(dir, "open the state", err)
	}
	return f, nil
}

// checkFiles fails where the files are no longer those that were opened. As long as a process has a database open its WAL
// stays the same file, so a missing or different WAL is as bad as a different database.
func (c *conn) checkFiles(doing string) error {
	if c.files.db == nil {
		return nil // opened for reading
	}
	path := filepath.Join(c.dir, databaseName)
	switch now, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return missing(c.dir, doing)
	case err != nil:
		return fileFault(c.dir, doing, err)
	case !os.SameFile(now, c.files.db):
		return replaced(c.dir, doing, databaseName)
	case now.Size() == 0:
		return corrupt(c.dir, doing, errors.New("empty file"))
	}
	if c.files.wal == nil {
		return nil
	}
	now, err := os.Stat(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(now, c.files.wal) {
		return replaced(c.dir, doing, databaseName+"-wal")
	}
	if err != nil {
		return fileFault(c.dir, doing, err)
	}
	return nil
}

func replaced(dir, doing, name string) error {
	return &reconcile.Error{
		Code:    "state_replaced",
		Message: fmt.Sprintf("%s: %s was removed or replaced while it was in use", doing, filepath.Join(dir, name)),
		Hint:    "processes that use the old file end by themselves; what they have not yet stored is lost, and their runs are tried again",
	}
}
