package wire

import (
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"
)

// TurnClock detects a turn that is silent for too long or makes no progress. Its methods may be
// called from several goroutines, also with a lock of the session.
type TurnClock struct {
	silence, stall time.Duration // limits; zero or less: off

	mu           sync.Mutex
	lastLine     time.Time
	lastProgress time.Time
	stallsAt     time.Time // lastProgress plus the limit, or later if the agent was busy
}

// NewTurnClock returns a clock that starts now, with the limits of the options.
func NewTurnClock(o *agent.Options) *TurnClock {
	c := &TurnClock{silence: o.TurnTimeout, stall: o.StallTimeout}
	c.SawProgress()
	return c
}

// SawLine resets the clock of silence.
func (c *TurnClock) SawLine() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastLine = time.Now()
}

// SawProgress resets both clocks.
func (c *TurnClock) SawProgress() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastLine = time.Now()
	c.lastProgress = c.lastLine
	c.stallsAt = c.lastLine.Add(c.stall)
}

// SinceProgress is how long ago the last progress was.
func (c *TurnClock) SinceProgress() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.lastProgress)
}

// Check returns the error of a limit that was reached, or else when to check again. isBusy
// reports whether the agent works without progress on the stream, as while a command runs. It is
// called only if there was no progress for too long, and may take a while.
func (c *TurnClock) Check(isBusy func() bool) (next time.Duration, err *agent.Error) {
	if c.untilStall() <= 0 && isBusy() {
		c.sawWork()
	}
	next = min(c.untilStall(), time.Hour)
	if c.silence > 0 {
		silent := c.silentFor()
		if silent >= c.silence {
			return 0, &agent.Error{
				Code:    agent.CodeTurnTimeout,
				Message: "nothing came from the agent for " + text.Took(silent.Milliseconds()),
			}
		}
		next = min(next, c.silence-silent)
	}
	if next > 0 {
		return next, nil
	}
	return 0, &agent.Error{
		Code:    agent.CodeStalled,
		Message: "stalled for " + text.Took(c.SinceProgress().Milliseconds()),
	}
}

// sawWork extends the stall limit while the agent works without progress on the stream: the
// item of a command may come some time after the command's end. The limit of silence, counted
// from the last progress, bounds the extension.
func (c *TurnClock) sawWork() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stallsAt = time.Now().Add(c.stall)
	if last := c.lastProgress.Add(max(c.silence, c.stall)); c.silence > 0 && c.stallsAt.After(last) {
		c.stallsAt = last
	}
}

// untilStall returns the time until the stall limit, an hour if there is none.
func (c *TurnClock) untilStall() time.Duration {
	if c.stall <= 0 {
		return time.Hour
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Until(c.stallsAt)
}

// silentFor is how long ago the last line was.
func (c *TurnClock) silentFor() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.lastLine)
}
