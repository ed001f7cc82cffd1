package paths_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/test"
)

// A directory that is mounted twice is the same under both names, and so is what is below and
// above it.
func TestPlacesInBindMounts(t *testing.T) {
	if !test.OwnMounts(t) {
		return
	}
	dir := test.Must(filepath.EvalSymlinks(t.TempDir()))
	test.OK(t, unix.Mount("tmpfs", dir, "tmpfs", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	test.OK(t, os.MkdirAll(dir+"/home/app/sub/deep", 0o700))
	test.OK(t, os.WriteFile(dir+"/home/app/WORKFLOW.md", nil, 0o600))
	test.Bind(t, dir+"/home/app", dir+"/srv/second name")
	test.Bind(t, dir+"/home/app/sub", dir+"/mnt/sub")
	test.Bind(t, dir+"/home/app", dir+"/work/inner/app")
	test.OK(t, os.MkdirAll(dir+"/covered", 0o700))
	test.Bind(t, dir+"/home/app", dir+"/covered/app")
	test.Bind(t, dir+"/mnt", dir+"/covered")
	for _, c := range []struct{ path, in, want string }{
		{"home/app/WORKFLOW.md", "srv/second name", "WORKFLOW.md"},
		{"srv/second name/WORKFLOW.md", "home/app", "WORKFLOW.md"},
		{"srv/second name/none/x", "home/app", "none/x"},
		{"srv/second name", "home/app", "."},
		{"srv/second name", "home", "app"},
		{"mnt/sub", "home/app", "sub"}, // although its parent directory is mnt
		{"mnt/sub/deep", "srv/second name", "sub/deep"},
		{"mnt/sub/none", "home", "app/sub/none"},
		{"home/app/WORKFLOW.md", "work", "inner/app/WORKFLOW.md"}, // which has it mounted below
		{"home/app/none", "work", "inner/app/none"},
		{"home", "mnt/sub", ""},
		{"srv", "home", ""},
		{"home/app", "covered", ""},
	} {
		place := test.Must(paths.Find(dir + "/" + c.path))
		in := test.Must(paths.Find(dir + "/" + c.in))
		test.Equal(t, c.path+" below "+c.in, strings.Join(place.Below(in), " "), c.want)
	}
	names := test.Must(paths.Find(dir + "/mnt/sub")).Names()
	test.Equal(t, "the names", strings.Join(names, "\n"), strings.ReplaceAll(`DIR/mnt/sub
DIR/home/app/sub
DIR/srv/second name/sub
DIR/work/inner/app/sub`, "DIR", dir))
}
