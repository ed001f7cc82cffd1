//go:build linux

package main

import (
	"context"

	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// tracker is the Linear, with what destruction wants of it.
type tracker struct{ *stage.Tracker }

func (t tracker) issues(ctx context.Context) (list []lineartest.Issue, err error) {
	return list, t.Control(ctx, "issues", nil, &list)
}

func (t tracker) move(ctx context.Context, identifier, state string) error {
	return t.Control(ctx, "move", map[string]string{"identifier": identifier, "state": state}, nil)
}
