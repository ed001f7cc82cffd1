package feedback

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// A pass waits for git for a minute, whatever number of pull requests need it. The others wait
// for the next pass, and say so.
func TestGitTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := Watcher{
			Now:      time.Now,
			Feedback: reconcile.Feedback{State: "In Progress", Merge: reconcile.Merge{When: reconcile.MergeGreen}},
			Mirror: func(ctx context.Context, _ func(host.Merges) error) error {
				<-ctx.Done() // the remote does not answer
				return ctx.Err()
			},
		}
		watches := make([]reconcile.Watch, 3)
		for i := range watches {
			pull := reconcile.Pull{State: "open", Head: "c", BaseCommit: "b", Mergeable: "unknown"}
			pull.Checks = reconcile.Checks{Commit: "c", List: []reconcile.Check{{Name: "test", State: reconcile.CheckSuccess}}}
			watches[i].Delivered.Commit = "c"
			watches[i].Update(pull, d.Feedback, d.Now())
		}
		time.Sleep(time.Hour)
		pass := func() (failed []bool) {
			began := time.Now()
			d.git = &gitTime{left: gitTimeout}
			for i := range watches {
				failed = append(failed, d.tryMerge(t.Context(), &watches[i]) != nil)
			}
			test.Equal(t, "the time of a pass", time.Since(began), gitTimeout)
			return failed
		}
		test.Equal(t, "failed in the first pass", pass(), []bool{true, false, false})
		for i, want := range []string{"took longer than 1m", "the next pass, in which git tries"} {
			waits := watches[i].WaitsFor(d.Feedback, d.Now())
			if !strings.Contains(waits.Text, want) {
				t.Errorf("pull request %d waits for %s", i, waits.Text)
			}
		}
		test.Equal(t, "failed in the second", pass(), []bool{false, true, false})
		test.Equal(t, "failed in the third", pass(), []bool{false, false, true})
	})
}
