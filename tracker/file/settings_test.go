package file_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/tracker/file"
)

// The first configuration of Backlog.md that can be read counts. A pipe in its place has no
// value, and is not waited for.
func TestSettingsFiles(t *testing.T) {
	top := t.TempDir()
	tasks := filepath.Join(top, "backlog", "tasks")
	near := filepath.Join(top, "backlog", "config.yml")
	above := filepath.Join(top, "backlog.config.yml")
	test.OK(t, os.MkdirAll(tasks, 0o700))
	test.OK(t, os.WriteFile(above, []byte("statuses: [Open, Shut]"), 0o600))
	test.OK(t, syscall.Mkfifo(near, 0o600))
	test.Equal(t, "states", len(file.States(tasks)), 2)

	test.OK(t, os.Remove(near))
	finished := []string{
		filepath.Join(top, "backlog", "completed"),
		filepath.Join(top, "backlog", "archive", "tasks"),
	}
	test.Equal(t, "what is read beside the folder", file.Beside(tasks),
		append([]string{near, filepath.Join(top, "backlog", "backlog.config.yml"), above}, finished...))
	test.Equal(t, "what is read beside another folder", file.Beside(top), nil)
}
