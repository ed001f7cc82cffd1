package codex

import (
	"fmt"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/runner/agent"
)

// clock finds a turn that is silent for too long, or makes no progress.
type clock struct {
	silence, stall time.Duration // zero or less: off
	busy           func() bool   // reports work that shows no progress on the stream; it may take a while
	asking         func() bool   // reports that a person is asked, which stops the clock

	mu           sync.Mutex
	lastLine     time.Time
	lastProgress time.Time
	lastBusy     time.Time
	retry        *turnError // the latest error since the last progress: why a turn stalls
}

func newClock(o *agent.Options, busy, asking func() bool) *clock {
	now := time.Now()
	return &clock{silence: o.TurnTimeout, stall: o.StallTimeout, busy: busy, asking: asking, lastLine: now, lastProgress: now}
}

// sawLine notes a line of the agent's, or a person's decision.
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

// check returns the error of a limit that is reached, or when to check again.
//
// The item of a command may come only when the command has ended, so that open items alone do not show work: busy is asked
// too. Between the end of a process and the item that tells of it neither would show anything; so each check that sees
// work starts the stall limit anew, within the limit of silence after the last progress.
func (c *clock) check() (next time.Duration, err *agent.Error) {
	if c.asking() {
		c.sawLine(true)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	next = time.Hour
	if c.silence > 0 {
		silent := time.Since(c.lastLine)
		if silent >= c.silence {
			return 0, &agent.Error{Code: agent.CodeTurnTimeout, Message: fmt.Sprintf("nothing came from the agent for %v", round(silent))}
		}
		next = min(next, c.silence-silent)
	}
	if c.stall <= 0 {
		return next, nil
	}
	if c.idle() >= c.stall {
		c.mu.Unlock()
		busy := c.busy()
		c.mu.Lock()
		if busy {
			c.lastBusy = time.Now()
		}
	}
	left := c.stall - c.idle()
	since := time.Since(c.lastProgress)
	if c.lastBusy.After(c.lastProgress) && c.silence > 0 {
		left = min(left, max(c.silence, c.stall)-since)
	}
	if left > 0 {
		return min(next, left), nil
	}
	e := &agent.Error{Code: agent.CodeStalled, Message: fmt.Sprintf("stalled for %v", round(since))}
	if c.retry != nil {
		e.Info, e.Cause = c.retry.Info, c.retry.class()
		e.Message = oneLine(e.Message+": "+c.retry.Message, errorLength)
	}
	return 0, e
}

// idle is the time since the last progress or the last check that saw work. mu is held.
func (c *clock) idle() time.Duration {
	return min(time.Since(c.lastProgress), time.Since(c.lastBusy))
}

// round makes a duration readable.
func round(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}
