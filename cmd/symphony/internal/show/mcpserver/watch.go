package mcpserver

import (
	"context"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
)

// Some things change without a change of the database: a worker dies, or this process itself writes. So a watch reads in any case after
// watchAnyway.
const (
	watchStep   = 100 * time.Millisecond
	watchAnyway = time.Second
)

// watch tells when the state of the agents may have changed.
type watch struct {
	agents  *agents.Agents
	version int64
	read    time.Time // zero: the next look reads in any case
}

// look calls read if something may have changed since read has last succeeded.
func (w *watch) look(ctx context.Context, read func() error) error {
	// Before reading, so that no change goes unnoticed.
	version, err := w.agents.DB.Clients.Version(ctx)
	if err != nil || version == w.version && time.Since(w.read) <= watchAnyway {
		return err
	}
	if err = read(); err == nil {
		w.version, w.read = version, time.Now()
	}
	return err
}

// repeat calls do at every watchStep until ctx ends.
func repeat(ctx context.Context, do func()) {
	for goesOn := true; goesOn; goesOn = project.Sleep(ctx, watchStep) {
		do()
	}
}
