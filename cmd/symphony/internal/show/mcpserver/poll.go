package mcpserver

import (
	"context"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
)

// Some things change without a change of the database: a worker dies, or this process itself
// writes. So a poll reads in any case after pollAnyway.
const (
	pollStep   = 100 * time.Millisecond
	pollAnyway = time.Second
)

// poll tells when the state of the agents may have changed.
type poll struct {
	agents  *agents.Agents
	version int64
	read    time.Time // zero: the next look reads in any case
}

// look calls read if something may have changed since read has last succeeded.
func (w *poll) look(ctx context.Context, read func() error) error {
	// Before reading, so that no change goes unnoticed.
	version, err := w.agents.DB.Clients.Version(ctx)
	if err != nil || version == w.version && time.Since(w.read) <= pollAnyway {
		return err
	}
	if err = read(); err == nil {
		w.version = version
		w.read = time.Now()
	}
	return err
}

// repeat calls do at every pollStep until ctx ends.
func repeat(ctx context.Context, do func()) {
	for goesOn := true; goesOn; goesOn = wiring.Sleep(ctx, pollStep) {
		do()
	}
}
