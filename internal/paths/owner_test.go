package paths

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// What another account has left in a directory of ours is named from its top; nothing is said of
// our own files, and of directories of the system.
func TestRegain(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to another account")
	}
	const nobody = 65534
	dir := t.TempDir()
	foreign := filepath.Join(dir, "ws", "A 1")
	test.OK(t, os.MkdirAll(filepath.Join(foreign, ".git"), 0o700))
	test.OK(t, os.Chown(foreign, nobody, nobody))
	test.OK(t, os.Chown(filepath.Join(foreign, ".git"), nobody, nobody))
	want := `if symphony has run with sudo: sudo chown -R "$(id -un)" '` + foreign + `'`
	test.Equal(t, "of the directory", Regain(foreign), want)
	test.Equal(t, "of a file in it that does not exist", Regain(filepath.Join(foreign, ".git", "refs", "heads", "x")), want)
	test.Equal(t, "of our own", Regain(filepath.Join(dir, "ws", "new")), "")
	test.Equal(t, "of nothing", Regain("/"), "")
}
