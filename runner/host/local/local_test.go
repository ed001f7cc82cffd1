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
	h := &Host{}
	run := host.Run{ID: "r-1", Dir: t.TempDir()}
	test.Must(h.open(run))
	var children []host.Process
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			for range 100 {
				test.Must(h.Observe(t.Context(), host.ObserveRequest{Run: run}))
			}
		})
	}
	for range 20 {
		child, err := h.Start(t.Context(), host.StartRequest{Run: run, Argv: []string{"sleep", "1000"}, Env: []string{"PATH=" + os.Getenv("PATH")}})
		test.OK(t, err)
		children = append(children, child)
	}
	both.Wait()
	test.Must(h.Observe(t.Context(), host.ObserveRequest{Run: run}))
	recorded, _, err := tree.ReadProcs(filepath.Join(run.Dir, host.ProcsFile))
	test.OK(t, err)
	for _, child := range children {
		others := func(p reconcile.Process) bool { return p.PID != child.Process().PID }
		test.Equal(t, "process", len(slices.DeleteFunc(slices.Clone(recorded), others)), 1)
		test.Must(child.Close())
	}
	test.OK(t, h.Finish(t.Context(), run))
	test.Must(h.Observe(t.Context(), host.ObserveRequest{Run: run}))
}
