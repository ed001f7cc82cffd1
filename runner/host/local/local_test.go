package local

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The settings of the guard come after those that the environment has for git already.
func TestWithGitConfig(t *testing.T) {
	two := [][2]string{{"core.hooksPath", "/dev/null"}, {"safe.bareRepository", "explicit"}}
	for _, c := range []struct {
		env      []string
		settings [][2]string
		want     []string
	}{
		{[]string{"A=1", "GIT_CONFIG_COUNT=3"}, nil, []string{"A=1", "GIT_CONFIG_COUNT=3"}},
		{[]string{"A=1"}, two[:1], []string{"A=1", "GIT_CONFIG_KEY_0=core.hooksPath", "GIT_CONFIG_VALUE_0=/dev/null", "GIT_CONFIG_COUNT=1"}},
		{[]string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=a.b", "GIT_CONFIG_VALUE_0=c"}, two, []string{
			"GIT_CONFIG_KEY_0=a.b", "GIT_CONFIG_VALUE_0=c", "GIT_CONFIG_KEY_1=core.hooksPath", "GIT_CONFIG_VALUE_1=/dev/null",
			"GIT_CONFIG_KEY_2=safe.bareRepository", "GIT_CONFIG_VALUE_2=explicit", "GIT_CONFIG_COUNT=3",
		}},
		{[]string{"GIT_CONFIG_COUNT=many"}, two[:1], []string{"GIT_CONFIG_KEY_0=core.hooksPath", "GIT_CONFIG_VALUE_0=/dev/null", "GIT_CONFIG_COUNT=1"}},
	} {
		if got := withGitConfig(c.env, c.settings); !slices.Equal(got, c.want) {
			t.Errorf("%q with %q:\n%q\nwant\n%q", c.env, c.settings, got, c.want)
		}
	}
}

// The heartbeat and the run itself may record processes at the same time; each is recorded once.
func TestObserveAtOnce(t *testing.T) {
	h := &Host{}
	run := host.Run{ID: "r-1", Dir: t.TempDir()}
	_, err := h.open(run)
	must(t, err)
	var children []host.Process
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			for range 100 {
				if _, err := h.Observe(t.Context(), host.ObserveRequest{Run: run}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		child, err := h.Start(t.Context(), host.StartRequest{Run: run, Argv: []string{"sleep", "1000"}, Env: []string{"PATH=" + os.Getenv("PATH")}})
		must(t, err)
		children = append(children, child)
	}
	both.Wait()
	_, err = h.Observe(t.Context(), host.ObserveRequest{Run: run})
	must(t, err)
	recorded, _, err := proc.ReadProcs(filepath.Join(run.Dir, host.ProcsFile))
	must(t, err)
	for _, child := range children {
		others := func(p reconcile.Process) bool { return p.PID != child.Process().PID }
		if n := len(slices.DeleteFunc(slices.Clone(recorded), others)); n != 1 {
			t.Errorf("process %d is recorded %d times", child.Process().PID, n)
		}
		if _, err := child.Close(); err != nil {
			t.Error(err)
		}
	}
	must(t, h.Finish(t.Context(), run))
	if _, err := h.Observe(t.Context(), host.ObserveRequest{Run: run}); err != nil {
		t.Errorf("after the run: %v", err)
	}
}
