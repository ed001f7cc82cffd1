package paths_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/test"
)

func TestFind(t *testing.T) {
	dir := test.Must(filepath.EvalSymlinks(t.TempDir()))
	test.OK(t, os.MkdirAll(dir+"/a/b", 0o700))
	test.OK(t, os.WriteFile(dir+"/file", nil, 0o600))
	for name, to := range map[string]string{
		"link": "a/b", "up": "link/../c", "late": "link/none/x", "away": "/none", "twice": "up",
	} {
		test.OK(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	for _, c := range []struct {
		path, want, links string
		exists            bool
	}{
		{"a/b", "DIR/a/b", "", true},
		{"link/x", "DIR/a/b/x", "DIR/link", false},
		{"link/../x", "DIR/a/x", "DIR/link", false},
		{"up", "DIR/a/c", "DIR/up DIR/link", false},
		{"twice", "DIR/a/c", "DIR/twice DIR/up DIR/link", false},
		{"late", "DIR/a/b/none/x", "DIR/late DIR/link", false},
		{"away/x", "/none/x", "DIR/away", false},
		{"none/y/../z", "DIR/none/z", "", false},
		{"file", "DIR/file", "", true},
		{"file/x", "DIR/file/x", "", false},
		{"../../..//../" + dir + "/a", "DIR/a", "", true},
	} {
		got := test.Must(paths.Find(dir + "/" + c.path))
		test.Equal(t, c.path, got.Path, strings.ReplaceAll(c.want, "DIR", dir))
		test.Equal(t, c.path+" exists", got.Exists, c.exists)
		links := strings.Join(test.Map(got.Links, func(p paths.Place) string { return p.Path }), " ")
		test.Equal(t, "the links of "+c.path, links, strings.ReplaceAll(c.links, "DIR", dir))
	}
	test.OK(t, os.Symlink("circle", dir+"/circle"))
	test.ErrorIs(t, "a circle", test.Err(paths.Find(dir+"/circle")), unix.ELOOP)
	test.Equal(t, "a relative path is an error", test.Err(paths.Find("a")) != nil, true)
}

// A path through the file system of processes is refused under each of its names.
func TestFindThroughProc(t *testing.T) {
	if _, err := os.Stat("/proc/self/root"); err != nil {
		t.Skip("there is no such file system")
	}
	dir := t.TempDir()
	test.OK(t, os.Symlink("/proc/self/cwd/x", dir+"/link"))
	for _, path := range []string{"/proc/self/root" + dir, "/dev/fd/../root", "/proc", dir + "/link/y"} {
		test.ErrorIs(t, path, test.Err(paths.Find(path)), paths.ErrProc)
	}
}

func TestPlaces(t *testing.T) {
	dir := test.Must(filepath.EvalSymlinks(t.TempDir()))
	test.OK(t, os.MkdirAll(dir+"/a/b", 0o700))
	test.OK(t, os.MkdirAll(dir+"/ab", 0o700))
	test.OK(t, os.WriteFile(dir+"/a/file", nil, 0o600))
	test.OK(t, os.Link(dir+"/a/file", dir+"/ab/same"))
	test.OK(t, os.Symlink("a", dir+"/link"))
	test.OK(t, os.Symlink("../ab", dir+"/a/out"))
	test.OK(t, os.Symlink("circle", dir+"/circle"))
	for _, c := range []struct{ path, in, want string }{
		{"a", "a", "."},
		{"a/b", "a", "b"},
		{"link/b", "a", "b"},
		{"a/b", "link", "b"},
		{"ab", "a", ""},
		{"a", "a/b", ""},
		{"a/none/x", "a", "none/x"},
		{"a/none/x", "link/none", "x"},
		{"a/none", "a/none/x", ""},
		{"a/none", "a/other", ""},
		{"a/none", "ab/none", ""},
		{"ab/same", "a/file", "."}, // two names of one file
	} {
		place := test.Must(paths.Find(dir + "/" + c.path))
		in := test.Must(paths.Find(dir + "/" + c.in))
		test.Equal(t, c.path+" below "+c.in, strings.Join(place.Below(in), " "), c.want)
		test.Equal(t, c.path+" is inside "+c.in, place.Inside(in), c.want != "")
		test.Equal(t, c.path+" is "+c.in, place.Same(in), c.want == ".")
		test.Equal(t, c.path+" meets "+c.in, paths.Meet(in, place), c.want != "" || in.Inside(place))
	}
	for path, want := range map[string]bool{
		"a":       true,
		"a/b":     true,
		"link/b":  true,
		"a/out/x": true,
		"ab":      false,
		"a/../ab": false,
		"circle":  true,
		"":        false,
	} {
		test.Equal(t, "a reaches "+path, paths.Reaches(dir+"/link", dir+"/"+path), want)
	}
	test.Equal(t, "nothing is inside", paths.Place{}.Inside(paths.Place{}), false)
	here := test.Must(paths.Find(dir + "/link"))
	test.Equal(t, "the link is ours", here.Links[0].Ours(), true)
	test.Equal(t, "a missing file is ours", paths.Place{Path: dir + "/none"}.Ours(), false)
}

func TestLimitReached(t *testing.T) {
	for err, want := range map[error]bool{
		fmt.Errorf("start bash: %w", &os.PathError{
			Op:   "fork/exec",
			Path: "/bin/bash",
			Err:  unix.EAGAIN,
		}): true,
		fmt.Errorf("open: %w", unix.EMFILE): true,
		fmt.Errorf("open: %w", unix.ENFILE): true,
		unix.ENOMEM:                         true,
		unix.ENOSPC:                         false,
		unix.EACCES:                         false,
	} {
		test.Equal(t, fmt.Sprint(err), paths.LimitReached(err), want)
	}
}
