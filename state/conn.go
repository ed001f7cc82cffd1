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
type durability string

const (
	full   durability = "FULL"   // on the disk when the transaction returns
	normal durability = "NORMAL" // survives the death of any process, but perhaps not a power failure
)

// conn is this process's only connection to one database. Its methods may be called concurrently; they take turns.
type conn struct {
	dir    string
	sql    *sql.DB
	schema int // the version found at opening, which may be newer than this program's
	// opened are the database and its WAL as they were opened for writing, nil for none. An operator may put a backup in
	// their place while a worker has the old ones open for hours. What that worker wrote would be lost silently, and merging
	// its WAL at the end would damage the new database.
	opened [2]fs.FileInfo

	write    sync.Mutex    // serialises write transactions, because the pragmas before them belong to the connection
	patience time.Duration // how long the next write waits for another writer
}

var fileSuffixes = [2]string{"", "-wal"}

// openPool prepares the one connection to a file.
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
// work of another program (see checkFiles). Statements are short, so a caller that is cancelled loses little time.
func uninterrupted(ctx context.Context) context.Context {
	if ctx.Err() != nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// tx is a transaction, or the database itself, with its context.
type tx struct {
	executor
	ctx context.Context
}

type executor interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
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

// must executes a statement that gives reconcile.ErrConflict where it finds no row; what names the row.
func (t tx) must(what, query string, args ...any) error {
	n, err := t.count(query, args...)
	if err == nil && n == 0 {
		err = fmt.Errorf("%s: %w", what, reconcile.ErrConflict)
	}
	return err
}

// reader reads outside of a transaction.
func (c *conn) reader(ctx context.Context) tx { return tx{c.sql, uninterrupted(ctx)} }

// view runs f in one deferred transaction: it sees a single state of the database and waits for no writer.
func (c *conn) view(ctx context.Context, doing string, f func(tx) error) error {
	return fault(c.dir, doing, transact(uninterrupted(ctx), c.sql, &sql.TxOptions{ReadOnly: true}, f))
}

func transact(ctx context.Context, pool *sql.DB, opts *sql.TxOptions, f func(tx) error) error {
	begun, err := pool.BeginTx(ctx, opts)
	if err != nil {
		return err
	}
	if err := f(tx{preparing{begun, map[string]*sql.Stmt{}}, ctx}); err != nil {
		return errors.Join(err, begun.Rollback())
	}
	return begun.Commit()
}

// preparing is a transaction that prepares each statement once: a pass may execute one for thousands of claims. database/sql
// closes them with the transaction.
type preparing struct {
	*sql.Tx
	statements map[string]*sql.Stmt
}

func (p preparing) prepare(ctx context.Context, query string) (s *sql.Stmt, err error) {
	s, found := p.statements[query]
	if found {
		return s, nil
	}
	if s, err = p.PrepareContext(ctx, query); err == nil {
		p.statements[query] = s
	}
	return s, err
}

// ExecContext implements executor.
func (p preparing) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s, err := p.prepare(ctx, query) //nolint:sqlclosecheck // the transaction closes it
	if err != nil {
		return nil, err
	}
	return s.ExecContext(ctx, args...)
}

// QueryContext implements executor.
func (p preparing) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := p.prepare(ctx, query) //nolint:sqlclosecheck // the transaction closes it
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// update runs f in one immediate transaction of the given durability. An error of f rolls everything back.
//
// A transaction that found the database busy is repeated for as long as other writers make progress. SQLite has no queue:
// under load one writer can be unlucky for longer than the timeout. A database in which nothing was written in that time is
// held by one process, and that is an error to report.
func (c *conn) update(ctx context.Context, doing string, level durability, f func(tx) error) error {
	c.write.Lock()
	defer c.write.Unlock()
	ctx = uninterrupted(ctx)
	crash.Method("before")
	_, err := c.sql.ExecContext(ctx, fmt.Sprintf(`PRAGMA synchronous = %s; PRAGMA busy_timeout = %d`, level, c.patience.Milliseconds()))
	start, again := time.Now(), err == nil
	for again {
		before := c.lastWrite()
		err = transact(ctx, c.sql, nil, func(t tx) error {
			if err := c.checkFiles(doing); err != nil {
				return err
			}
			if err := f(t); err != nil {
				return err
			}
			crash.At("state.transaction")
			return nil
		})
		again = isBusy(err) && c.lastWrite() != before && time.Since(start) <= turnTimeout
	}
	c.patience = busyTimeout
	if isBusy(err) {
		c.patience = retryTimeout
	}
	crash.Method("after")
	return fault(c.dir, doing, err)
}

// lastWrite changes whenever a process has written: it is the time and size of the WAL.
func (c *conn) lastWrite() [2]int64 {
	info, err := os.Stat(filepath.Join(c.dir, databaseName+"-wal"))
	if err != nil {
		return [2]int64{} // nothing written yet, or the transaction reports what is wrong
	}
	return [2]int64{info.ModTime().UnixNano(), info.Size()}
}

// rememberFiles notes which files are open for writing. A restored backup may have no WAL yet.
func (c *conn) rememberFiles() (err error) {
	for i, suffix := range fileSuffixes {
		c.opened[i], err = os.Stat(filepath.Join(c.dir, databaseName+suffix))
		if err != nil && (i == 0 || !errors.Is(err, fs.ErrNotExist)) {
			return fault(c.dir, "open the state", err)
		}
	}
	return nil
}

// checkFiles fails where the files are no longer those that were opened. As long as a process has a database open its WAL
// stays the same file, so a missing or different WAL is as bad as a different database.
func (c *conn) checkFiles(doing string) error {
	for i, suffix := range fileSuffixes {
		if c.opened[i] == nil {
			continue
		}
		path := filepath.Join(c.dir, databaseName+suffix)
		now, err := os.Stat(path)
		gone := errors.Is(err, fs.ErrNotExist)
		switch {
		case gone && i == 0:
			return missing(c.dir, doing)
		case err != nil && !gone:
			return fault(c.dir, doing, err)
		case gone || !os.SameFile(now, c.opened[i]):
			return problem("state_replaced", fmt.Sprintf("%s: %s was removed or replaced while it was in use", doing, path),
				"processes that use the old file end by themselves; what they have not yet stored is lost, and their runs are tried again", nil)
		case i == 0 && now.Size() == 0:
			return corrupt(c.dir, doing, errors.New("empty file"))
		}
	}
	return nil
}
