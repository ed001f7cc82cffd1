package runner

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// washed is a shell command that starts a process with nothing of the run in its environment, in a session of its own.
// Its name is the test's.
func washed(name string) string {
	return "env -i setsid bash -c 'exec -a " + name + " sleep 1000'"
}

// named are those of the processes whose first argument is one of the names.
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

// What hooks and agents start is known by the run's tree file, even if nothing was ever written down of it.
func TestHooksAndAgentsHandTheTreeOn(t *testing.T) {
	hooks, agents := "hooks-"+strconv.Itoa(os.Getpid()), "agents-"+strconv.Itoa(os.Getpid())
	r := newRig(t, "background "+washed(agents)+"\nsay under way\nhang")
	r.Config.Hooks.BeforeRun = washed(hooks) + " >/dev/null 2>&1 &"
	go func() {
		defer close(r.terminate)
		r.streaming()
		eventually(t, "both to be found", func() bool {
			found, err := proc.Find(proc.Owner{Tree: filepath.Join(r.Dir, host.TreeFile)})
			return err == nil && len(named(found, hooks, agents)) == 2
		})
	}()
	r.ends(reconcile.InterruptedRun, reconcile.CodeTerminated)
	if found, err := proc.Find(proc.Owner{Tree: filepath.Join(r.Dir, host.TreeFile)}); err != nil || len(found) > 0 {
		t.Errorf("after the run: %v, %v", found, err)
	}
}
