package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// The cache of checkouts begins with what after_create has left. What an agent has left never
// comes into it.
func TestCacheOfCheckouts(t *testing.T) {
	r := newRoot(t)
	readyBy(t, r, owner("new", "r1"), func(w *Workspace) {
		test.Write(t, filepath.Join(w.CacheDir, "venv", "paths"), w.Path+"/src")
		test.OK(t, w.KeepCache(t.Context()))
	})
	w := acquire(t, r, owner("new", "r2"))
	test.Write(t, filepath.Join(w.CacheDir, "agent"), "")
	checkout := test.Must(w.MakeCheckout(t.Context()))
	test.Equal(
		t,
		"paths",
		test.Read(t, filepath.Join(checkout.CacheDir, "venv", "paths")),
		checkout.Path+"/src",
	)
	wantExist(t, false, filepath.Join(checkout.CacheDir, "agent"))
	wantCode(t, w.KeepCache(t.Context()), CodeFailed)

	// Its workflow had no verify.command when it was made.
	ready(t, r, owner("old", "r1"))
	w = acquire(t, r, owner("old", "r2"))
	test.Write(t, filepath.Join(w.CacheDir, "agent"), "")
	checkout = test.Must(w.MakeCheckout(t.Context()))
	test.Equal(t, "entries", len(test.Must(os.ReadDir(checkout.CacheDir))), 0)
	test.Write(t, filepath.Join(checkout.CacheDir, "left"), "")
	checkout = test.Must(w.MakeCheckout(t.Context()))
	wantExist(t, true, filepath.Join(checkout.CacheDir, "left"))
}

// A large file is copied as it is, and the copy ends with its context.
func TestCacheOfCheckoutsWithALargeFile(t *testing.T) {
	r := newRoot(t)
	w := acquire(t, r, owner("A", "r1"))
	test.Write(t, filepath.Join(w.CacheDir, "one"), "12345")
	test.Write(t, filepath.Join(w.CacheDir, "two"), strings.Repeat("x", maxText+1))
	if err := w.KeepCache(ended(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
	test.OK(t, os.RemoveAll(w.verifyDir("cache")))
	test.OK(t, w.KeepCache(t.Context()))
	copied := test.Must(os.Stat(filepath.Join(w.verifyDir("cache"), "two")))
	test.Equal(t, "bytes", copied.Size(), int64(maxText+1))
}
