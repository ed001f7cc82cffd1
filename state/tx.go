package state

import (
	"context"
	"database/sql"
	"errors"
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
	return fault(db.dir, doing, within(ctx, db.sql, nil, f))
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
	defer func() { err = rollback(tx, err) }()
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
