package operate

import (
	"context"
	"fmt"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// The exit code of several results is that of all failures, or 1 if they differ.
func TestExitCodeOfSeveral(t *testing.T) {
	done := TargetResult{Name: "A", Outcome: OutcomeDone}
	other := TargetResult{Name: "B"}
	other.fail(fmt.Errorf("no disk"))
	test.Equal(t, "the error", other.Error.Message, "B: no disk")
	locked := TargetResult{Name: "C"}
	locked.fail(&reconcile.Error{Code: "locked", Message: "C waits", Class: reconcile.ClassLock})
	test.Equal(t, "the error", locked.Error.Message, "C waits")
	test.Equal(t, "of success", ExitCode([]TargetResult{done, done}), nil)
	test.Equal(t, "of a lock", ExitCode([]TargetResult{locked, done, locked}), error(exit.Only(exit.Lock)))
	test.Equal(t, "of both", ExitCode([]TargetResult{other, locked}), error(exit.Only(exit.Failed)))
}

// After a signal no further command begins, and each target has its result. An empty name is
// an error.
func TestSignalEndsSeveral(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := wiring.NewProject(&environ.Env{Dir: t.TempDir(), Home: t.TempDir()}, "WORKFLOW.md", t.TempDir())
	results := Each(
		ctx,
		[]Target{{Project: p, Name: "A"}, {Project: p, Name: "B"}},
		Stop{AfterRun: true},
		func(TargetResult) {},
	)
	for i, name := range []string{"A", "B"} {
		test.Equal(
			t,
			"the result of "+name,
			fmt.Sprint(results[i].Outcome, " ", results[i].Error.Code, " ", results[i].Name),
			"failed canceled "+name,
		)
	}
	unnamed := Each(t.Context(), []Target{{Project: p}}, Stop{}, func(TargetResult) {})
	test.Equal(
		t,
		"a stop of an issue without a name, which is none of all issues",
		unnamed[0].Error.Message,
		"stop: an empty name names no issue",
	)
}
