package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
)

// The ends of a workspace's runs do not grow for ever: from some size on they begin anew.
func TestEndsAreBounded(t *testing.T) {
	path := filepath.Join(test.Must(filepath.EvalSymlinks(t.TempDir())), "ABC-1")
	test.Run(t, exec.CommandContext(t.Context(), "git", "init", "-q", path))
	ends := workspace.EndsDir(path)
	test.OK(t, os.MkdirAll(filepath.Dir(ends), 0o700))
	keep := func() {
		end := test.Must(Machine{}.KeepEnd(t.Context(), path))
		test.Equal(t, "uncommitted files", end.Uncommitted, 0)
	}
	keep()
	old := test.Must(os.Create(filepath.Join(ends, "old")))
	defer old.Close()
	keep()
	test.Must(os.Stat(old.Name()))
	if err := unix.Fallocate(int(old.Fd()), 0, 0, mostKept+1); err != nil {
		t.Skip("no space: ", err)
	}
	keep()
	_, err := os.Stat(old.Name())
	test.Equal(t, "removed", os.IsNotExist(err), true)
}
