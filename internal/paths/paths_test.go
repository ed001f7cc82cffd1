package paths_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/test"
)

func TestInside(t *testing.T) {
	for path, want := range map[string]bool{
		"/a/b":     true,
		"/a/b/c":   true,
		"/a/bc":    false,
		"/a":       false,
		"/a/b/..c": true,
	} {
		test.Equal(t, path+" is inside /a/b", paths.Inside("/a/b", path), want)
	}
}

func TestReal(t *testing.T) {
	dir := test.Must(filepath.EvalSymlinks(t.TempDir()))
	test.OK(t, os.MkdirAll(dir+"/a/b", 0o700))
	for name, to := range map[string]string{
		"link":   "a/b",
		"up":     "link/../c",
		"late":   "link/none/x",
		"away":   "/none",
		"circle": "circle",
		"other":  "/proc/self/cwd/x",
	} {
		test.OK(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	for path, want := range map[string]string{
		"a/b":       "DIR/a/b",
		"link/x":    "DIR/a/b/x",
		"link/../x": "DIR/a/x",
		"up":        "DIR/a/c",
		"late":      "DIR/a/b/none/x",
		"away/x":    "/none/x",
		"circle":    "DIR/circle",
		"other/y":   "/proc/self/cwd/x/y",
		"none/y":    "DIR/none/y",
	} {
		test.Equal(t, path, paths.Real(dir+"/"+path), strings.Replace(want, "DIR", dir, 1))
	}
	test.Equal(t, "a relative path", paths.Real("a"), "a")
}

func TestLiteral(t *testing.T) {
	dir := filepath.Join(t.TempDir(), `a[b]*?\c`)
	test.OK(t, os.MkdirAll(dir, 0o700))
	file := filepath.Join(dir, "file")
	test.OK(t, os.WriteFile(file, nil, 0o600))
	test.Equal(t, "found", test.Must(filepath.Glob(filepath.Join(paths.Literal(dir), "*"))), []string{file})
}
