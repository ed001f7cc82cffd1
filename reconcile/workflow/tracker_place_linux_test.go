package workflow

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// What agents could change is refused under every name: the program of the tracker, a file
// that it reads, and the folder of the issues.
func TestTrackerUnderOtherNames(t *testing.T) {
	if !test.OwnMounts(t) {
		return
	}
	dir := test.Must(filepath.EvalSymlinks(t.TempDir()))
	shared := filepath.Join(dir, "shared")
	test.Write(t, filepath.Join(shared, "tracker"), "")
	test.Write(t, filepath.Join(shared, "issues", "1.md"), "")
	test.Write(t, filepath.Join(dir, "own", "tracker"), "")
	test.OK(t, os.Symlink("../own/tracker", filepath.Join(shared, "link")))
	test.OK(t, os.Symlink(shared, filepath.Join(dir, "named")))
	test.Bind(t, shared, filepath.Join(dir, "mounted"))
	for tracker, refused := range map[string]bool{
		"kind: command, provider: {command: [named/tracker]}":   true,
		"kind: command, provider: {command: [mounted/tracker]}": true,
		// the link can be replaced
		"kind: command, provider: {command: [shared/link]}":                true,
		"kind: command, provider: {command: [sh, --data=mounted/tracker]}": true,
		"kind: command, provider: {command: [sh, /proc/self/root/x]}":      true,
		"kind: command, provider: {command: [own/tracker]}":                false,
		"kind: file, provider: {path: named/issues}":                       true,
		"kind: file, provider: {path: mounted/issues}":                     true,
		"kind: file, provider: {path: own}":                                false,
	} {
		text := fmt.Sprintf("---\ntracker: {%s}\nagent: {writable_roots: [%s]}\n---\nGo.\n", tracker, shared)
		src := test.Must(NewSource("WORKFLOW.md", filepath.Join(dir, "WORKFLOW.md"), []byte(text)))
		_, err := Parse(src, testEnv())
		if (err != nil) != refused {
			t.Errorf("%s: error %v", tracker, err)
		}
	}
}
