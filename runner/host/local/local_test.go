package local

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/tree"
)

// The heartbeat and the run itself may record processes at the same time; each is recorded once.
func TestObserveAtOnce(t *testing.T) {
	m := Machine{StateDir: t.TempDir()}
	dir := host.RunDir(m.StateDir, "r-1")
	test.OK(t, os.MkdirAll(dir, 0o700))
	run := m.Run("r-1")
	test.OK(t, run.Open(t.Context()))
	var children []host.Process
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			for range 100 {
				test.Must(run.Observe(t.Context(), host.ObserveRequest{}))
			}
		})
	}
	for range 20 {
		child, err := run.Start(t.Context(), host.StartRequest{Argv: []string{"sleep", "1000"}, Env: []string{"PATH=" + os.Getenv("PATH")}})
		test.OK(t, err)
		children = append(children, child)
	}
	both.Wait()
	test.Must(run.Observe(t.Context(), host.ObserveRequest{}))
	recorded := test.Must(tree.ReadProcs(filepath.Join(dir, procsFile))).Processes
	for _, child := range children {
		others := func(p reconcile.Process) bool { return p.PID != child.Process().PID }
		test.Equal(t, "process", len(slices.DeleteFunc(slices.Clone(recorded), others)), 1)
		test.Must(child.Close())
	}
	test.OK(t, run.Finish(t.Context()))
	test.Must(run.Observe(t.Context(), host.ObserveRequest{}))
}
