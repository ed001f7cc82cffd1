package state

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
)

const (
	// busyTimeout is how long SQLite waits for another writer. After a wait that timed out,
	// the next wait takes only retryTimeout: a pass makes many writes and must end even if a
	// frozen worker keeps the database locked.
	busyTimeout  = 5 * time.Second
	retryTimeout = 250 * time.Millisecond
	// turnTimeout is how long a write waits while other writers make progress.
	turnTimeout = time.Minute
)

// durability is SQLite's synchronous level.
type durability string

const (
	full durability = "FULL" // on the disk when the transaction returns
	// survives the death of any process, but perhaps not a power failure
	normal durability = "NORMAL"
)

// conn is this process's only connection to a database. It is safe for concurrent use; its
// methods take turns.
type conn struct {
	dir     string
	sql     *sql.DB
	queries *preparing // of sql
	schema  int        // the version found when the database was opened; it may be newer than schemaVersion
	// opened are the database and its WAL as they were opened for writing; nil if there was
	// none. An operator may replace them with a backup while a worker keeps the old ones open
	// for hours. Without a check the writes of that worker would be lost silently, and merging
	// its WAL at the end would damage the new database.
	opened [2]fs.FileInfo

	write    sync.Mutex    // serialises write transactions together with the pragmas before them
	patience time.Duration // how long the next write waits for another writer
}

var fileSuffixes = [2]string{"", "-wal"}

// openPool prepares the single connection to the database at path.
func openPool(path, mode, options string) (*sql.DB, error) {
	name := (&url.URL{Path: path}).EscapedPath()
	pool, err := sql.Open(
		"sqlite",
		fmt.Sprintf("file:%s?mode=%s%s&_txlock=immediate&_pragma=busy_timeout(%d)&_pragma=synchronous(full)",
			name, mode, options, busyTimeout.Milliseconds()),
	)
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(1)
	return pool, nil
}

// uninterrupted returns a context that does not cancel a running statement. The driver closes
// an interrupted connection, and SQLite then deletes the WAL unless another process keeps the
// database open. checkFiles would take the next WAL for the work of another program.
// Statements are short, so a cancelled caller waits only briefly.
func uninterrupted(ctx context.Context) context.Context {
	if ctx.Err() != nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// tx is a transaction, or the database outside a transaction, with the context of its
// statements.
type tx struct {
	executor
	ctx context.Context
}

type executor interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// run executes a statement and ignores its result.
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

// must executes a statement and returns reconcile.ErrConflict if it changed no row. The
// argument "what" names the row in that error.
func (t tx) must(what, query string, args ...any) error {
	n, err := t.count(query, args...)
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("%s: %w", what, reconcile.ErrConflict)
	}
	return nil
}

// statement is a transaction of a single statement.
func statement(query string, args ...any) func(tx) error {
	return func(t tx) error { return t.run(query, args...) }
}

// change is a transaction of a single statement that must change a row.
func change(what, query string, args ...any) func(tx) error {
	return func(t tx) error { return t.must(what, query, args...) }
}

// reader executes queries outside a transaction.
func (c *conn) reader(ctx context.Context) tx { return tx{c.queries, uninterrupted(ctx)} }

// view runs f in a deferred transaction: f sees a single snapshot of the database and waits
// for no writer.
func (c *conn) view(ctx context.Context, doing string, f func(tx) error) error {
	return fault(c.dir, doing, readable(func() error {
		return transact(uninterrupted(ctx), c.sql, &sql.TxOptions{ReadOnly: true}, f)
	}))
}

const (
	recoverPatience = 2 * time.Second
	recoverStep     = 50 * time.Millisecond
)

// readable repeats a read until a process that may write repaired the index of the WAL. A
// process in a sandbox can't repair it.
func readable(read func() error) error {
	for end := time.Now().Add(recoverPatience); ; time.Sleep(recoverStep) {
		if err := read(); !needsRecovery(err) || time.Now().After(end) {
			return err
		}
	}
}

func transact(ctx context.Context, pool *sql.DB, opts *sql.TxOptions, f func(tx) error) error {
	begun, err := pool.BeginTx(ctx, opts)
	if err != nil {
		return err
	}
	if err := f(tx{newPreparing(begun), ctx}); err != nil {
		return errors.Join(err, begun.Rollback())
	}
	return begun.Commit()
}

// preparing prepares each statement of a transaction, or outside transactions, once: a pass may
// execute it for thousands of claims, and reads from the table meta a dozen times. database/sql
// closes the statements with the transaction or the database.
type preparing struct {
	of preparer

	mu         sync.Mutex
	statements map[string]*sql.Stmt
}

// preparer is a transaction or a database.
type preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

func newPreparing(of preparer) *preparing {
	return &preparing{of: of, statements: map[string]*sql.Stmt{}}
}

func (p *preparing) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, found := p.statements[query]
	if found {
		return known, nil
	}
	s, err := p.of.PrepareContext(ctx, query) //nolint:sqlclosecheck // database/sql closes it
	if err != nil {
		return nil, err
	}
	p.statements[query] = s
	return s, nil
}

func (p *preparing) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s, err := p.prepare(ctx, query) //nolint:sqlclosecheck // as above
	if err != nil {
		return nil, err
	}
	return s.ExecContext(ctx, args...)
}

func (p *preparing) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := p.prepare(ctx, query) //nolint:sqlclosecheck // as above
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// update runs f in an immediate transaction of the given durability. An error from f rolls
// everything back. If the database is busy, f may run several times.
func (c *conn) update(ctx context.Context, doing string, level durability, f func(tx) error) error {
	c.write.Lock()
	defer c.write.Unlock()
	crash.Method("before")
	err := c.writeInTurn(uninterrupted(ctx), doing, level, f)
	crash.Method("after")
	c.patience = busyTimeout
	if isBusy(err) {
		c.patience = retryTimeout
	}
	return fault(c.dir, doing, err)
}

// writeInTurn repeats the transaction of update while the database is busy, as long as other
// writers make progress, up to turnTimeout. SQLite has no queue: under load a writer can be
// unlucky for longer than the busy timeout. If nothing was written during the timeout, a
// single process keeps the database locked, which is an error.
func (c *conn) writeInTurn(ctx context.Context, doing string, level durability, f func(tx) error) error {
	pragmas := fmt.Sprintf(`PRAGMA synchronous = %s; PRAGMA busy_timeout = %d`, level, c.patience.Milliseconds())
	_, err := c.sql.ExecContext(ctx, pragmas)
	if err != nil {
		return err
	}
	for start := time.Now(); ; {
		before := c.lastWrite()
		err := transact(ctx, c.sql, nil, func(t tx) error {
			if err := c.checkFiles(doing); err != nil {
				return err
			}
			if err := f(t); err != nil {
				return err
			}
			crash.At("state.transaction")
			return nil
		})
		othersWrite := c.lastWrite() != before
		if !isBusy(err) || !othersWrite || time.Since(start) > turnTimeout {
			return err
		}
	}
}

// lastWrite returns the modification time and size of the WAL, which change with every write
// of any process.
func (c *conn) lastWrite() [2]int64 {
	info, err := os.Stat(filepath.Join(c.dir, databaseName+"-wal"))
	if err != nil {
		return [2]int64{} // nothing was written yet, or the transaction reports the error
	}
	return [2]int64{info.ModTime().UnixNano(), info.Size()}
}

// rememberFiles records the files that were opened for writing. A restored backup may have no
// WAL yet.
func (c *conn) rememberFiles() (err error) {
	for i, suffix := range fileSuffixes {
		c.opened[i], err = os.Stat(filepath.Join(c.dir, databaseName+suffix))
		if err != nil && (i == 0 || !errors.Is(err, fs.ErrNotExist)) {
			return fault(c.dir, "open the state", err)
		}
	}
	return nil
}

// checkFiles returns an error if the files changed since rememberFiles recorded them. While a
// process keeps the database open its WAL stays the same file, so a missing or different WAL
// is as bad as a different database.
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
			return problem(
				"state_replaced",
				fmt.Sprintf("%s: %s was removed or replaced while it was in use", doing, path),
				"the workers that use the old file end by themselves; "+
					"what they did not store is lost, and their runs are retried",
				nil,
			)
		case i == 0 && now.Size() == 0:
			return corrupt(c.dir, doing, errors.New("empty file"))
		}
	}
	return nil
}

// rows executes a query and returns its rows. Without an error the result is never nil.
func rows[T any](t tx, fields func(*T) []any, query string, args ...any) ([]T, error) {
	found, err := t.QueryContext(t.ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	all := []T{}
	for found.Next() {
		var v T
		if err := found.Scan(fields(&v)...); err != nil {
			return nil, fmt.Errorf("%w: %w", errStored, err)
		}
		all = append(all, v)
	}
	return all, found.Err()
}

// row executes a query and returns its first row; sql.ErrNoRows if there is none.
func row[T any](t tx, fields func(*T) []any, query string, args ...any) (v T, err error) {
	all, err := rows(t, fields, query, args...)
	if err != nil {
		return v, err
	}
	if len(all) == 0 {
		return v, sql.ErrNoRows
	}
	return all[0], nil
}

// readAll is rows outside a transaction. doing describes the query in errors.
func readAll[T any](
	ctx context.Context,
	c *conn,
	doing string,
	fields func(*T) []any,
	query string,
	args ...any,
) (all []T, err error) {
	err = readable(func() error {
		all, err = rows(c.reader(ctx), fields, query, args...)
		return err
	})
	return all, fault(c.dir, doing, err)
}

// readOne is row outside a transaction; false if there is no row.
func readOne[T any](
	ctx context.Context,
	c *conn,
	doing string,
	fields func(*T) []any,
	query string,
	args ...any,
) (v T, _ bool, err error) {
	err = readable(func() error {
		v, err = row(c.reader(ctx), fields, query, args...)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return v, false, nil
	}
	return v, err == nil, fault(c.dir, doing, err)
}

// Each stored type comes with a list of columns and a function that returns pointers to its
// fields in the order of these columns. The pointers serve both as destinations of Scan and as
// arguments of a statement that writes the row. A field wraps such a pointer if SQLite lacks a
// type for it.
type field struct {
	scan  func(v any) error
	value func() (driver.Value, error)
}

func (f field) Scan(v any) error { return f.scan(v) }

func (f field) Value() (driver.Value, error) { return f.value() }

// fieldOf stores the value that write returns, an S or nil. NULL is read as the zero value of
// S.
func fieldOf[S int64 | string](read func(S), write func() any) field {
	return field{
		func(v any) error {
			stored, ok := v.(S)
			if !ok && v != nil {
				return fmt.Errorf("%w: of type %T", errStored, v)
			}
			read(stored)
			return nil
		},
		func() (driver.Value, error) { return write(), nil },
	}
}

// stampOf stores a time as milliseconds since 1970, and the zero time as NULL.
func stampOf(t *time.Time) field {
	return fieldOf(func(ms int64) {
		if ms == 0 {
			*t = time.Time{}
			return
		}
		*t = time.UnixMilli(ms).UTC()
	}, func() any { return stamp(*t) })
}

// stamp is the stored form of a time.
func stamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}

// millisOf stores a duration in milliseconds.
func millisOf(d *time.Duration) field {
	return fieldOf(
		func(ms int64) { *d = time.Duration(ms) * time.Millisecond },
		func() any { return d.Milliseconds() },
	)
}

// bitsOf stores an unsigned number as the signed number with the same 64 bits.
func bitsOf(n *uint64) field {
	return fieldOf(func(bits int64) { *n = uint64(bits) }, func() any { return int64(*n) })
}

// textOf stores bytes as text, and an empty slice as NULL.
func textOf(b *[]byte) field {
	return fieldOf(func(text string) { *b = []byte(text) }, func() any {
		if len(*b) == 0 {
			return nil
		}
		return string(*b)
	})
}

// orNull stores the zero value as NULL.
func orNull[T comparable](v *T) field {
	return field{
		func(stored any) error {
			var value sql.Null[T]
			err := value.Scan(stored)
			*v = value.V
			return err
		},
		func() (driver.Value, error) {
			if *v == *new(T) {
				return nil, nil
			}
			return driver.DefaultParameterConverter.ConvertValue(*v)
		},
	}
}

// nilOf stores a text, and nil as the empty text.
func nilOf(s **string) field {
	return fieldOf(func(text string) {
		if text == "" {
			*s = nil
			return
		}
		*s = &text
	}, func() any {
		if *s == nil {
			return ""
		}
		return **s
	})
}

// jsonOf stores any value as JSON. v is a pointer if it is read. An empty text leaves the
// value as it is.
func jsonOf(v any) field {
	return field{
		func(stored any) error {
			text, _ := stored.(string)
			if text == "" {
				return nil
			}
			if err := json.Unmarshal([]byte(text), v); err != nil {
				return fmt.Errorf("%w: %w", errStored, err)
			}
			return nil
		},
		func() (driver.Value, error) {
			text, err := json.Marshal(v)
			return string(text), err
		},
	}
}

// tokenColumns are the columns for tokens in every table but runs, where their names begin with
// tokens_.
const tokenColumns = `input, cached, output, reasoning, total, paid`

func tokenFields(t *reconcile.Tokens) []any {
	return []any{&t.Input, &t.Cached, &t.Output, &t.Reasoning, &t.Total, &t.Paid}
}

// itself returns the field of a row with a single column.
func itself[T any](v *T) []any { return []any{v} }

func setOf(list []string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, v := range list {
		set[v] = true
	}
	return set
}

// marks returns a placeholder for each of the columns.
func marks(columns string) string { return "?" + strings.Repeat(", ?", strings.Count(columns, ",")) }
