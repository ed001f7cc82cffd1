package paths_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/test"
)

// Whatever an agent has left in its home, a file is written there and nowhere else.
func TestWriteBeneath(t *testing.T) {
	for name, prepare := range map[string]func(home, outside string) error{
		"nothing":   func(string, string) error { return nil },
		"file":      func(home, _ string) error { return os.WriteFile(filepath.Join(home, "a"), nil, 0o600) },
		"directory": func(home, _ string) error { return os.MkdirAll(filepath.Join(home, "a", "b", "c"), 0o700) },
		"link out":  func(home, outside string) error { return os.Symlink(outside, filepath.Join(home, "a")) },
		"link": func(home, outside string) error {
			if err := os.Mkdir(filepath.Join(home, "a"), 0o700); err != nil {
				return err
			}
			return os.Symlink(filepath.Join(outside, "b"), filepath.Join(home, "a", "b"))
		},
		"directory without rights": func(home, _ string) error {
			if err := os.MkdirAll(filepath.Join(home, "a", "b", "c", "d"), 0o700); err != nil {
				return err
			}
			return errors.Join(
				os.Chmod(filepath.Join(home, "a", "b", "c"), 0),
				os.Chmod(filepath.Join(home, "a"), 0),
				os.Chmod(home, 0),
			)
		},
	} {
		home := t.TempDir()
		outside := t.TempDir()
		test.OK(t, prepare(home, outside))
		dir := test.Must(paths.OpenHome(home))
		test.OK(t, paths.WriteBeneath(dir, "a/b", []byte(name)))
		test.OK(t, dir.Close())
		written := test.Must(os.ReadFile(filepath.Join(home, "a", "b")))
		test.Equal(t, "written over "+name, string(written), name)
		test.Equal(t, "files outside", len(test.Must(os.ReadDir(outside))), 0)
		left := test.Must(filepath.Glob(filepath.Join(home, "a", "*.unreadable.*")))
		test.Equal(t, "files in a", len(test.Must(os.ReadDir(filepath.Join(home, "a")))), 1+len(left))
		for _, path := range left { // for the end of the test
			test.OK(t, os.Chmod(filepath.Join(path, "c"), 0o700))
		}
	}
}

// TestWriteBeneathOfUser is TestWriteBeneath for an account that has to respect rights.
func TestWriteBeneathOfUser(t *testing.T) {
	if test.Unprivileged(t) {
		TestWriteBeneath(t)
	}
}

// A file that can't be written leaves the older one as it was, and nothing beside it. The
// temporary name of this file is too long.
func TestWriteBeneathFails(t *testing.T) {
	home := t.TempDir()
	name := strings.Repeat("n", 240)
	test.Write(t, filepath.Join(home, name), "older")
	dir := test.Must(os.OpenRoot(home))
	defer dir.Close()
	test.ErrorIs(t, "the error", paths.WriteBeneath(dir, name, []byte("newer")), syscall.ENAMETOOLONG)
	test.Equal(t, "the file", test.Read(t, filepath.Join(home, name)), "older")
	test.Equal(t, "files", len(test.Must(os.ReadDir(home))), 1)
}
