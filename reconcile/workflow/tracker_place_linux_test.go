package workflow

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
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

// A full table of open files is the machine's fault, and not that of a setting.
func TestTrackerWithoutDescriptors(t *testing.T) {
	dir := test.Must(filepath.EvalSymlinks(t.TempDir()))
	text := "---\ntracker: {kind: file, provider: {path: issues}}\n---\nGo.\n"
	src := test.Must(NewSource("WORKFLOW.md", filepath.Join(dir, "WORKFLOW.md"), []byte(text)))
	var before unix.Rlimit
	test.OK(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	test.OK(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: before.Max}))
	_, err := Parse(src, testEnv())
	test.OK(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &before))
	faults := Faults(err)
	if len(faults) == 0 {
		t.Fatal("no error")
	}
	for _, fault := range faults {
		test.Equal(t, fault.Message, fault.Code, reconcile.CodeResourceLimit)
	}
}

// A root in /proc is the fault of workspace.root, and of no key that is compared with it.
func TestRootInProc(t *testing.T) {
	dir := test.Must(filepath.EvalSymlinks(t.TempDir()))
	text := "---\ntracker: {kind: file, provider: {path: issues}}\nworkspace: {root: /proc/x}\n---\nGo.\n"
	src := test.Must(NewSource("WORKFLOW.md", filepath.Join(dir, "WORKFLOW.md"), []byte(text)))
	_, err := Parse(src, testEnv())
	faults := Faults(err)
	test.Equal(t, "the number of faults", len(faults), 1)
	test.Equal(t, "the fault", faults[0].Message,
		"WORKFLOW.md:3: workspace.root: /proc/x is in /proc, where nothing can be stored")
}
