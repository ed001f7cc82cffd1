package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
)

// Some things change without a change of the database: a worker dies, or this process itself
// writes. So a poll reads in any case after pollAnyway.
const (
	pollStep   = 100 * time.Millisecond
	pollAnyway = time.Second
	// waitMargin is the time between the answer of a tool that waits and the timeout of calls.
	waitMargin = time.Second
)

// poll tells when the state of the agents may have changed.
type poll struct {
	agents  *agents.Agents
	version int64
	last    time.Time // when the state was read; zero: the next look reads in any case
}

// look calls read if something may have changed since read last succeeded.
func (p *poll) look(ctx context.Context, read func() error) error {
	// Before reading, so that no change goes unnoticed.
	version, err := p.agents.DB.Clients.Version(ctx)
	if err != nil {
		return fmt.Errorf("read whether the agents have changed: %w", err)
	}
	if version == p.version && time.Since(p.last) <= pollAnyway {
		return nil
	}
	if err := read(); err != nil {
		return err
	}
	p.version = version
	p.last = time.Now()
	return nil
}

// repeat calls do at every pollStep, until ctx ends or do returns errHostGone. A failure that
// lasts is logged once, and again if do succeeded in between.
func repeat(ctx context.Context, log *slog.Logger, message string, do func() error) {
	logged := ""
	for {
		err := do()
		if ctx.Err() != nil || errors.Is(err, errHostGone) {
			return
		}
		failure := ""
		if err != nil {
			failure = err.Error()
		}
		if failure != "" && failure != logged {
			log.WarnContext(ctx, message, "error", failure)
		}
		logged = failure
		if !wiring.Sleep(ctx, pollStep) {
			return
		}
	}
}
