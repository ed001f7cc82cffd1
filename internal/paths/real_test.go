package paths

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// TestOpenReal: neither the last name nor one above it may be a link.
func TestOpenReal(t *testing.T) {
	dir := test.Must(filepath.EvalSymlinks(t.TempDir()))
	test.OK(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700))
	test.OK(t, os.WriteFile(filepath.Join(dir, "a", "b", "file"), []byte("content"), 0o600))
	test.OK(t, os.Symlink("a", filepath.Join(dir, "link")))
	test.OK(t, os.Symlink("file", filepath.Join(dir, "a", "b", "other")))
	f := test.Must(OpenReal(filepath.Join(dir, "a", "b", "file"), os.O_RDONLY))
	defer f.Close()
	test.Equal(t, "content", string(test.Must(io.ReadAll(f))), "content")
	for _, path := range []string{"link/b/file", "a/b/other", "link", "a/none/file"} {
		f, err := OpenReal(filepath.Join(dir, path), os.O_RDONLY)
		if err == nil {
			f.Close()
			t.Errorf("%s was opened", path)
		}
		isMissing := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
		test.Equal(t, path+" counts as missing", isMissing, path == "a/none/file")
	}
}
