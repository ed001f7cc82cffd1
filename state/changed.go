package state

import "context"

// DataVersion is another number whenever somebody else has written to the database since it was last asked, which costs
// no reading. Where the file is read as it was left (OpenReadOnly) it stays what it is.
func (db *DB) DataVersion(ctx context.Context) (int64, error) {
	var n int64
	err := db.sql.QueryRowContext(ctx, `PRAGMA data_version`).Scan(&n)
	return n, fault(db.dir, "look for changes", err)
}
