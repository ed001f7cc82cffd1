package wire

import (
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"
)

// Clock detects a turn that is silent for too long or makes no progress.
type Clock struct {
	Silence, Stall time.Duration // limits; zero or less: off
	lastLine       time.Time
	LastProgress   time.Time
	stallsAt       time.Time // LastProgress plus the limit, or later if the agent was busy
}

// SawLine resets the clock of silence.
func (c *Clock) SawLine() { c.lastLine = time.Now() }

// SawProgress resets both clocks.
func (c *Clock) SawProgress() {
	c.SawLine()
	c.LastProgress = c.lastLine
	c.stallsAt = c.lastLine.Add(c.Stall)
}

// SawWork extends the stall limit while the agent works without progress on the stream: the
// item of a command may come some time after the command's end. The limit of silence, counted
// from the last progress, bounds the extension.
func (c *Clock) SawWork() {
	c.stallsAt = time.Now().Add(c.Stall)
	if last := c.LastProgress.Add(max(c.Silence, c.Stall)); c.Silence > 0 && c.stallsAt.After(last) {
		c.stallsAt = last
	}
}

// UntilStall returns the time until the stall limit, an hour if there is none.
func (c *Clock) UntilStall() time.Duration {
	if c.Stall <= 0 {
		return time.Hour
	}
	return time.Until(c.stallsAt)
}

// Check returns the error of a limit that was reached, or else when to check again.
func (c *Clock) Check() (next time.Duration, err *agent.Error) {
	next = min(c.UntilStall(), time.Hour)
	if c.Silence > 0 {
		silent := time.Since(c.lastLine)
		if silent >= c.Silence {
			return 0, &agent.Error{
				Code:    agent.CodeTurnTimeout,
				Message: "nothing came from the agent for " + text.Took(silent.Milliseconds()),
			}
		}
		next = min(next, c.Silence-silent)
	}
	if next > 0 {
		return next, nil
	}
	return 0, &agent.Error{
		Code:    agent.CodeStalled,
		Message: "stalled for " + text.Took(time.Since(c.LastProgress).Milliseconds()),
	}
}
