package codex

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/runner/agent"
)

// clock finds a turn that is silent for too long, or makes no progress.
type clock struct {
	silence, stall time.Duration // zero or less: off
	// busy reports work that shows no progress on the stream. It may take a while.
	busy func() bool
	wake chan struct{} // the clock was started again

	mu           sync.Mutex
	lastLine     time.Time
	lastProgress time.Time
	lastBusy     time.Time
	retry        *turnError // the latest error since the last progress: why a turn stalls
	stops        int        // callers that have stopped the clock
	stoppedAt    time.Time
}

func newClock(o *agent.Options, busy func() bool) *clock {
	now := time.Now()
	return &clock{silence: o.TurnTimeout, stall: o.StallTimeout, busy: busy, wake: make(chan struct{}, 1), lastLine: now, lastProgress: now}
}

// sawLine notes a line of the agent's.
func (c *clock) sawLine(progress bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastLine = time.Now()
	if progress {
		c.lastProgress, c.retry = c.lastLine, nil // a retry that worked explains no later stall
	}
}

func (c *clock) sawError(e *turnError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retry = e
}

func (c *clock) lastError() *turnError {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.retry
}

// stop stops the clock, which goes on from where it was when start is called or ctx ends.
func (c *clock) stop(ctx context.Context) (start func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stops == 0 {
		c.stoppedAt = time.Now()
	}
	c.stops++
	start = sync.OnceFunc(c.start)
	context.AfterFunc(ctx, start)
	return start
}

func (c *clock) start() {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stops--; c.stops > 0 {
		return
	}
	for _, mark := range []*time.Time{&c.lastLine, &c.lastProgress, &c.lastBusy} {
		// A line that came meanwhile set its mark to a time at which the clock stood.
		*mark = now.Add(-max(0, c.stoppedAt.Sub(*mark)))
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// noLimit is how long a caller of check sleeps where no limit is set.
const noLimit = time.Hour

// check returns the error of a limit that is reached, or when to check again.
//
// The item of a command may come only when the command has ended, so that open items alone do not show work: busy is asked
// too. Between the end of a process and the item that tells of it neither would show anything; so each check that sees
// work starts the stall limit anew, within the limit of silence after the last progress.
func (c *clock) check() (next time.Duration, err *agent.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stops > 0 {
		return noLimit, nil // until wake
	}
	next = noLimit
	now := time.Now()
	if c.silence > 0 {
		left := c.silence - now.Sub(c.lastLine)
		if left <= 0 {
			return 0, &agent.Error{Code: agent.CodeTurnTimeout, Message: fmt.Sprintf("nothing came from the agent for %v", round(now.Sub(c.lastLine)))}
		}
		next = min(next, left)
	}
	if c.stall <= 0 {
		return next, nil
	}
	if now.Sub(later(c.lastProgress, c.lastBusy)) >= c.stall {
		c.mu.Unlock()
		busy := c.busy()
		c.mu.Lock()
		now = time.Now()
		if busy {
			c.lastBusy = now
		}
	}
	left := c.stall - now.Sub(later(c.lastProgress, c.lastBusy))
	if c.lastBusy.After(c.lastProgress) && c.silence > 0 {
		left = min(left, max(c.silence, c.stall)-now.Sub(c.lastProgress))
	}
	if left <= 0 {
		return 0, c.stalled(now.Sub(c.lastProgress))
	}
	return min(next, left), nil
}

// stalled is the error of a turn without progress. mu is held.
func (c *clock) stalled(since time.Duration) *agent.Error {
	e := &agent.Error{Code: agent.CodeStalled, Message: fmt.Sprintf("stalled for %v", round(since))}
	if c.retry != nil {
		e.Info, e.Cause = c.retry.Info, c.retry.class()
		e.Message = oneLine(e.Message+": "+c.retry.Message, errorLength)
	}
	return e
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// round makes a duration readable.
func round(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}
