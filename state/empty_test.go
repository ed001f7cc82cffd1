package state

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// A database file that was cut to nothing is reported before SQLite sees it: it would take the WAL beside it,
// which may hold all that is left, for a leftover and throw it away.
func TestEmptyFileKeepsItsWAL(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	db, err := Create(t.Context(), dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.SetMeta(t.Context(), "fact", "kept in the WAL"); err != nil {
		t.Fatal(err)
	}
	// What a crash leaves: the files as they are now, with nobody who has them open.
	crashed := filepath.Join(t.TempDir(), "crashed")
	if err := os.Mkdir(crashed, 0o700); err != nil {
		t.Fatal(err)
	}
	wal, err := os.ReadFile(filepath.Join(dir, databaseName+"-wal"))
	if err != nil || !bytes.Contains(wal, []byte("kept in the WAL")) {
		t.Fatalf("the WAL does not hold the fact: %d bytes, %v", len(wal), err)
	}
	for name, data := range map[string][]byte{databaseName: nil, databaseName + "-wal": wal} {
		if err := os.WriteFile(filepath.Join(crashed, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, open := range map[string]func() (*DB, error){
		"pass":    func() (*DB, error) { return Create(t.Context(), crashed, time.Now()) },
		"worker":  func() (*DB, error) { return Open(t.Context(), crashed) },
		"command": func() (*DB, error) { return OpenReadOnly(t.Context(), crashed) },
	} {
		opened, err := open()
		var known *reconcile.Error
		if !errors.As(err, &known) || known.Code != "state_corrupt" {
			t.Errorf("%s: %v, not state_corrupt", name, err)
		}
		if opened != nil {
			opened.Close()
		}
		if now, err := os.ReadFile(filepath.Join(crashed, databaseName+"-wal")); err != nil || !bytes.Equal(now, wal) {
			t.Errorf("%s: the WAL has changed: %d bytes, %v", name, len(now), err)
		}
	}
}
