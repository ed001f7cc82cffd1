package runner

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/tree"
)

// washed returns a shell command that starts a process with an empty environment, in a new
// session, with a name that the test can find.
func washed(name string) string {
	return "env -i setsid bash -c 'exec -a " + name + " sleep 1000'"
}

// named returns the names that are the first argument of one of the processes.
func named(procs []reconcile.Process, names ...string) (found []string) {
	for _, p := range procs {
		data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "cmdline"))
		first, _, _ := strings.Cut(string(data), "\x00")
		if err == nil && slices.Contains(names, first) {
			found = append(found, first)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// Processes of hooks and agents inherit the run's tree file, and are found by it even if none
// was recorded.
func TestProcessesInheritTheTreeFile(t *testing.T) {
	hooks := "hooks-" + strconv.Itoa(os.Getpid())
	agents := "agents-" + strconv.Itoa(os.Getpid())
	r := newRig(t, "background "+washed(agents)+"\nsay under way\nhang")
	r.Here.Config.Hooks.BeforeRun = washed(hooks) + " >/dev/null 2>&1 &"
	go func() {
		defer close(r.terminate)
		r.awaitEvent(streaming)
		test.Until(t, "processes of both", func() bool {
			found, err := tree.Find(tree.Owner{Tree: filepath.Join(r.Dir, host.TreeFile)})
			return err == nil && len(named(found, hooks, agents)) == 2
		})
	}()
	r.ends(reconcile.InterruptedRun, reconcile.CodeTerminated)
	found, err := tree.Find(tree.Owner{Tree: filepath.Join(r.Dir, host.TreeFile)})
	test.Equal(t, "error, and number of processes after the run", []any{err, len(found)}, []any{nil, 0})
}
