package durable_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/test"
)

func TestWriteFileReplaces(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	other := filepath.Join(dir, "b")
	test.OK(t, os.WriteFile(path, []byte("old"), 0o644))
	test.OK(t, os.Link(path, other))
	test.OK(t, durable.WriteFile(path, []byte("new"), 0o600))
	for name, want := range map[string]string{path: "new", other: "old"} {
		test.Equal(t, name, string(test.Must(os.ReadFile(name))), want)
	}
	test.Equal(t, "mode", test.Must(os.Stat(path)).Mode(), 0o600)
}

func TestWriteFileFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	test.OK(t, os.Mkdir(path, 0o755))
	test.Equal(t, "a directory is refused", durable.WriteFile(path, []byte("new"), 0o600) != nil, true)
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("a temporary file stays: %v", entries)
	}
	test.ErrorIs(
		t,
		"without a directory",
		durable.WriteFile(filepath.Join(dir, "none", "a"), nil, 0o600),
		fs.ErrNotExist,
	)
}
