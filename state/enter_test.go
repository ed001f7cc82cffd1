package state

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// A database that was open before the lock was got gives a pass what other passes have written meanwhile, keeps it as
// one that Create opened does, and lets it go at the pass's end.
func TestEnterPass(t *testing.T) {
	ctx, dir := context.Background(), newDir(t)
	other := createIn(t, dir)
	check(t, other.SetMeta(ctx, "key", "first"))
	db := openIn(t, dir)
	wantMeta := func(when, want string) {
		t.Helper()
		got, _, err := db.Meta(ctx, "key")
		check(t, err)
		if got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	wantMeta("before", "first")
	check(t, other.SetMeta(ctx, "key", "second"))
	check(t, db.EnterPass(ctx))
	wantMeta("in the pass", "second")
	check(t, db.SetMeta(ctx, "key", "third"))
	wantMeta("written by the pass", "third")
	db.LeavePass()
	check(t, createIn(t, dir).SetMeta(ctx, "key", "fourth"))
	wantMeta("after", "fourth")
}

// Whoever waited for the lock may find another database than the one it opened, or one that a newer program has closed
// to this one.
func TestEnterPassRefused(t *testing.T) {
	ctx := context.Background()
	for code, spoil := range map[string]func(*testing.T, *DB){
		"state_replaced": func(t *testing.T, db *DB) {
			path := filepath.Join(db.Dir(), databaseName)
			check(t, os.Rename(path, path+".old"))
			copyFile(t, path+".old", path)
		},
		"state_newer": func(t *testing.T, db *DB) {
			_, err := db.sql.ExecContext(ctx, `UPDATE meta SET value = '99' WHERE key = ?`, metaOldestWriter)
			check(t, err)
		},
	} {
		t.Run(code, func(t *testing.T) {
			db := newDB(t)
			claim(t, db, 1)
			spoil(t, db)
			wantCode(t, db.EnterPass(ctx), code)
		})
	}
}
