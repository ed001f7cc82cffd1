package wiring

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/internal/test"
)

// The nearest workflow is used, none above the home directory, and above the working directory
// none of another account.
func TestFindWorkflow(t *testing.T) {
	root := t.TempDir()
	write := func(path string) string {
		path = filepath.Join(root, path)
		test.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
		test.OK(t, os.WriteFile(path, nil, 0o600))
		return path
	}
	outside := write("WORKFLOW.md")
	nested := write("home/shop/ws/WEB-1/WORKFLOW.md")
	shop := write("home/shop/WORKFLOW.md")
	write("home/other/src/main.go")
	write("srv/app/main.go")
	write("home/shop/ws/WEB-1/src/main.go")
	for _, c := range []struct{ dir, want string }{
		{"home/shop", shop},
		{"home/shop/ws", shop},
		{"home/shop/ws/WEB-1", nested},
		{"home/shop/ws/WEB-1/src", nested},
		{"home/other/src", ""},
		{"home", ""},
		{"srv/app", outside},
	} {
		w := &environ.Env{Dir: filepath.Join(root, c.dir), Home: filepath.Join(root, "home")}
		test.Equal(t, c.dir, FindWorkflow(w), c.want)
	}
	if os.Getuid() != 0 {
		return
	}
	test.OK(t, os.Chown(shop, 1, 1))
	for dir, want := range map[string]string{"home/shop": shop, "home/shop/ws": ""} {
		w := &environ.Env{Dir: filepath.Join(root, dir), Home: filepath.Join(root, "home")}
		test.Equal(t, "another account's workflow in "+dir, FindWorkflow(w), want)
	}
}

// The check of a workflow refuses a file in the place of the folder with the issues: every pass
// would fail.
func TestFolderOfIssuesThatIsAFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "WORKFLOW.md")
	text := "---\ntracker: {kind: file, provider: {path: issues.md}}\n---\nGo.\n"
	test.OK(t, os.WriteFile(path, []byte(text), 0o600))
	test.OK(t, os.WriteFile(filepath.Join(dir, "issues.md"), nil, 0o600))
	p := NewProject(&environ.Env{Dir: dir, Home: dir, Environ: os.Environ()}, path, filepath.Join(dir, "state"))
	out := CheckFile(t.Context(), p)
	test.Contains(t, "the errors", fmt.Sprint(out.Errors), "issues.md is not a folder")
}
