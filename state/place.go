package state

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/symphony-cron/symphony/reconcile"
)

// counted is SQLite's driver, and counts the connections that it opened: one that a cancelled context interrupted is
// given up for a new one, with a WAL of its own if nobody else had the old one open.
type counted struct {
	driver.Driver
	opened atomic.Int64
}

type connector struct {
	dsn string
	d   *counted
}

func (c connector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.d.Open(c.dsn)
	if err == nil {
		c.d.opened.Add(1)
	}
	return conn, err
}

func (c connector) Driver() driver.Driver { return c.d }

func connections(handle *sql.DB) int64 {
	if d, ok := handle.Driver().(*counted); ok {
		return d.opened.Load()
	}
	return 0
}

// place is where an open database lies: the files that its names stood for when it was opened. Somebody may put
// others in their place, a backup for instance, while a worker has the old ones open for hours. What such a worker
// wrote would be seen by nobody; and merged at its end, into a file that others have begun a new WAL beside, it would
// damage that.
type place struct {
	db, wal fs.FileInfo
	opened  int64 // the connection that they were seen under
}

func placeOf(dir string, handle *sql.DB) (p place, err error) {
	p.opened = connections(handle)
	path := filepath.Join(dir, databaseName)
	if p.db, err = os.Stat(path); err != nil {
		return p, fileFault(dir, "open the state", err)
	}
	if p.wal, err = os.Stat(path + "-wal"); errors.Is(err, fs.ErrNotExist) {
		err = nil // of one that is opened for reading there may be none
	}
	if err != nil {
		return p, fileFault(dir, "open the state", err)
	}
	return p, nil
}

// inPlace fails where the files are no longer those that were opened. As long as somebody has a database open its WAL
// stays the same file, so that another one, or none, is as bad. It is asked within a transaction, when there is a
// connection.
func (db *DB) inPlace(doing string) error {
	if db.place.db == nil {
		return nil // opened for reading
	}
	path := filepath.Join(db.dir, databaseName)
	switch now, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return missing(db.dir, doing)
	case err != nil:
		return fileFault(db.dir, doing, err)
	case !os.SameFile(now, db.place.db):
		return replaced(db.dir, doing, databaseName)
	case now.Size() == 0:
		return corrupt(db.dir, doing, errors.New("empty file"))
	}
	if n := connections(db.sql); n != db.place.opened {
		var err error
		db.place, err = placeOf(db.dir, db.sql)
		return err
	}
	if db.place.wal == nil {
		return nil
	}
	now, err := os.Stat(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(now, db.place.wal) {
		return replaced(db.dir, doing, databaseName+"-wal")
	}
	if err != nil {
		return fileFault(db.dir, doing, err)
	}
	return nil
}

func replaced(dir, doing, name string) error {
	return &reconcile.Error{
		Code:    "state_replaced",
		Message: fmt.Sprintf("%s: %s was removed or replaced while it was in use", doing, filepath.Join(dir, name)),
		Hint:    "what uses the old one ends by itself; what it has not yet stored is lost, and its run is tried again",
	}
}
