package main

import (
	"context"
	"runtime/debug"
	"slices"
	"testing"
)

// A pass over many issues collects garbage more often, and the next pass of a loop does as it was.
func TestManyIssues(t *testing.T) {
	usual := debug.SetGCPercent(100)
	defer debug.SetGCPercent(usual)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	now := func() int {
		percent := debug.SetGCPercent(100)
		debug.SetGCPercent(percent)
		return percent
	}
	for _, c := range []struct{ ids, during int }{{manyIssues - 1, 100}, {manyIssues, manyGC}} {
		v := &verified{err: ctx.Err()}
		v.once.Do(func() {}) // nothing is asked
		if _, err := v.ByIDs(ctx, slices.Repeat([]string{"id"}, c.ids)); err == nil {
			t.Fatal("it was asked")
		}
		if got := now(); got != c.during {
			t.Errorf("%d issues: %d%%, not %d%%", c.ids, got, c.during)
		}
		if v.over(); now() != 100 {
			t.Errorf("%d issues: %d%% after the pass", c.ids, now())
		}
	}
}
