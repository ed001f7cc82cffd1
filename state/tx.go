package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// durability is SQLite's synchronous level.
type durability int

const (
	full   durability = iota // on the disk when the transaction returns
	normal                   // may be lost by a power failure, never by a crash of a program
)

// update runs f in one immediate transaction of the given durability. An error of f takes everything back.
func (db *DB) update(ctx context.Context, doing string, level durability, f func(*sql.Tx) error) error {
	db.write.Lock()
	defer db.write.Unlock()
	if err := db.synchronous(ctx, level); err != nil {
		return fault(db.dir, doing, err)
	}
	db.kept.wrote()
	err := db.inTurn(func() error {
		return within(ctx, db.sql, nil, func(tx *sql.Tx) error {
			if err := db.inPlace(doing); err != nil {
				return err
			}
			return f(tx)
		})
	})
	if busy := busyError(err) || db.queued > queueBound; busy != db.hasty && (busy || err == nil) {
		if pragmaErr := db.patience(context.WithoutCancel(ctx), busy); pragmaErr != nil {
			return fault(db.dir, doing, errors.Join(err, pragmaErr))
		}
	}
	return fault(db.dir, doing, err)
}

// queueBound is how long a writer goes on trying while others get their turns, in all its writes together: a pass may
// have many, and must come to its end. One that gets its turn at once starts the count anew.
const queueBound = time.Minute

// inTurn tries again where another writer was waited for in vain although writers came and went meanwhile. SQLite
// does not queue them: each looks again now and then, and one that is unlucky may find the database taken for longer
// than the timeout. Where nobody has written anything in that time, somebody holds it, and a person is to be told.
func (db *DB) inTurn(try func() error) error {
	start := time.Now()
	defer func() {
		took := time.Since(start)
		if took < hastyTimeout {
			db.queued = 0
		} else {
			db.queued += took
		}
	}()
	for {
		before := db.lastWrite()
		err := try()
		if !busyError(err) || db.lastWrite() == before || db.queued+time.Since(start) > queueBound {
			return err
		}
	}
}

// written is what the WAL looks like after somebody has written.
type written struct {
	at   time.Time
	size int64
}

// lastWrite is the same as before where nobody has written.
func (db *DB) lastWrite() written {
	info, err := os.Stat(filepath.Join(db.dir, databaseName+"-wal"))
	if err != nil {
		return written{} // there is none yet, so nobody has written, or the try will say what is wrong
	}
	return written{info.ModTime(), info.Size()}
}

// hastyTimeout is busyTimeout after that was waited for in vain.
const hastyTimeout = 250 * time.Millisecond

// patience sets how long another writer is waited for.
func (db *DB) patience(ctx context.Context, hasty bool) error {
	wait := busyTimeout
	if hasty {
		wait = hastyTimeout
	}
	if _, err := db.sql.ExecContext(ctx, fmt.Sprintf(`PRAGMA busy_timeout = %d`, wait.Milliseconds())); err != nil {
		return err
	}
	db.hasty = hasty
	return nil
}

// view runs f in one deferred transaction: a single state of the database, whoever writes meanwhile.
func (db *DB) view(ctx context.Context, doing string, f func(*sql.Tx) error) error {
	return fault(db.dir, doing, within(ctx, db.sql, &sql.TxOptions{ReadOnly: true}, f))
}

func within(ctx context.Context, handle *sql.DB, opts *sql.TxOptions, f func(*sql.Tx) error) (err error) {
	tx, err := handle.BeginTx(ctx, opts)
	if err != nil {
		return err
	}
	defer func() { err = rollback(tx, ended(ctx, err)) }()
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// synchronous sets the level, outside of any transaction as SQLite wants it. The remembered level errs towards
// FULL only: a connection that had to be opened anew begins there.
func (db *DB) synchronous(ctx context.Context, level durability) error {
	if db.level == level {
		return nil
	}
	pragma := `PRAGMA synchronous = FULL`
	if level == normal {
		pragma = `PRAGMA synchronous = NORMAL`
	}
	if _, err := db.sql.ExecContext(ctx, pragma); err != nil {
		return err
	}
	db.level = level
	return nil
}

// ended says that the context ended a transaction where it was found to be over already.
func ended(ctx context.Context, err error) error {
	if errors.Is(err, sql.ErrTxDone) && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// rollback takes back what an error left open. After a commit, or where the cancelled context has already
// rolled back, there is nothing left to do.
func rollback(tx *sql.Tx, err error) error {
	if err == nil {
		return nil
	}
	if back := tx.Rollback(); back != nil && !errors.Is(back, sql.ErrTxDone) {
		return errors.Join(err, back)
	}
	return err
}

// affected says whether a statement found its row.
func affected(res sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}
