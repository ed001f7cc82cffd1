package state

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

func lookCode(err error) string {
	var e *reconcile.Error
	if !errors.As(err, &e) {
		return ""
	}
	return e.Code
}

// Look says what a pass would meet, and makes and changes nothing.
func TestLook(t *testing.T) {
	base := t.TempDir()
	for _, c := range []struct {
		name   string
		mode   os.FileMode // 0: there is nothing
		inside bool
		exists bool
		code   string
	}{
		{name: "none"},
		{name: "private", mode: 0o700, inside: true, exists: true},
		{name: "open", mode: 0o755, inside: true, exists: true, code: "state_dir"},
		{name: "open but empty", mode: 0o755, exists: true},
	} {
		dir := filepath.Join(base, c.name, "state")
		if c.mode != 0 {
			check(t, os.MkdirAll(dir, 0o700))
			if c.inside {
				check(t, os.WriteFile(filepath.Join(dir, "lock"), nil, 0o600))
			}
			check(t, os.Chmod(dir, c.mode))
		}
		exists, err := CheckDir(dir)
		if exists != c.exists || lookCode(err) != c.code {
			t.Errorf("%s: %v, %v", c.name, exists, err)
		}
		info, err := os.Stat(dir)
		if (err == nil) != (c.mode != 0) || err == nil && info.Mode().Perm() != c.mode {
			t.Errorf("%s: afterwards %v, %v", c.name, info, err)
		}
	}
	file := filepath.Join(base, "file")
	check(t, os.WriteFile(file, nil, 0o600))
	if _, err := CheckDir(file); lookCode(err) != "state_dir" {
		t.Error(err)
	}
}

func TestQuickCheck(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	db, err := Create(t.Context(), dir, time.UnixMilli(1))
	check(t, err)
	check(t, db.QuickCheck(t.Context()))
	if db.Schema() != schemaVersion {
		t.Errorf("schema %d", db.Schema())
	}
	var page int64
	check(t, db.sql.QueryRow(`SELECT rootpage FROM sqlite_master WHERE name = 'passes_scheduled'`).Scan(&page))
	check(t, db.Close())
	// An index is gone: all rows can still be read, and nothing else notices.
	const pageSize = 4096
	f, err := os.OpenFile(filepath.Join(dir, databaseName), os.O_WRONLY, 0)
	check(t, err)
	_, err = f.WriteAt(make([]byte, pageSize), (page-1)*pageSize)
	check(t, errors.Join(err, f.Close()))
	db, err = OpenReadOnly(t.Context(), dir)
	check(t, err)
	defer db.Close()
	wantCode(t, db.QuickCheck(t.Context()), "state_corrupt")
}
