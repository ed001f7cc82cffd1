package main

import (
	"context"
	"time"

	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// tracker is the Linear, with what measurements want of it.
type tracker struct{ *stage.Tracker }

// slow makes every answer take so long.
func (t tracker) slow(ctx context.Context, delay time.Duration) error {
	return t.Fail(ctx, lineartest.Failure{Kind: lineartest.FailSlow, Times: -1, DelayMS: delay.Milliseconds()})
}

// requests returns what was asked since the last call.
func (t tracker) requests(ctx context.Context) ([]lineartest.Entry, error) {
	var log []lineartest.Entry
	err := t.Control(ctx, "log", nil, &log)
	if err != nil {
		return nil, err
	}
	return log, t.Control(ctx, "log/clear", struct{}{}, nil)
}
