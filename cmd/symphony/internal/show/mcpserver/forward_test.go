package mcpserver

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// A failure that lasts is logged once, and again after a success. A host that is gone ends the
// repetition.
func TestRepeatedFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locked := errors.New("the database is locked")
		results := []error{locked, locked, errors.New("the disk is full"), nil, locked, locked, errHostGone}
		var out strings.Builder
		calls := 0
		repeat(t.Context(), slog.New(slog.NewTextHandler(&out, nil)), "events not read", func() error {
			calls++
			return results[calls-1]
		})
		test.Equal(t, "calls", calls, len(results))
		for failure, want := range map[string]int{"is locked": 2, "is full": 1, "is gone": 0} {
			test.Equal(t, failure, strings.Count(out.String(), failure), want)
		}
	})
}

// The logs of several agents that can't be read are the same failure at every look.
func TestForwardFailsInOrder(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	f := &forwarder{agents: m.state, known: map[string]*forwarded{}}
	for i := range 5 {
		run := reconcile.Run{ID: fmt.Sprint("ended-", i)}
		log := eventlog.Follower{Path: t.TempDir()} // a directory can't be read
		f.known[run.ID] = &forwarded{run: run, log: log}
	}
	changes := poll{agents: m.state}
	first := fmt.Sprint(f.forward(t.Context(), &changes))
	for range 5 {
		test.Equal(t, "the failures", fmt.Sprint(f.forward(t.Context(), &changes)), first)
	}
	test.Equal(t, "the agent that has appeared is known", f.known[m.run.ID] != nil, true)
}
