package main

import (
	"context"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/state/statetest"
)

// largeStateCmd makes the state that the budgets of the commands speak of: 500 claims, 5,000 finished runs, a month of
// passes. large-state
func largeStateCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: large-state")
	}
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	ts.Check(statetest.Large(ctx, ts.Getenv("STATE"), time.Now(), statetest.Large500))
}
