package codex

import (
	"time"

	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/wire"
)

// check checks the clock of a turn, which is paused while an operator is asked or the agent
// can't be heard. It returns the error of a limit that was reached, or else when to check
// again.
func (th *thread) check(t *turn) (next time.Duration, err *agent.Error) {
	requests, asked := th.pending()
	th.mu.Lock()
	if asked > 0 || th.o.Unheard != nil && th.o.Unheard() {
		t.sawProgress()
	}
	works := requests+len(t.commands) > 0
	th.mu.Unlock()
	next, err = t.Check(func() bool { return works || th.o.Busy != nil && th.o.Busy() })
	if err == nil || err.Code != agent.CodeStalled {
		return next, err
	}
	th.mu.Lock()
	defer th.mu.Unlock()
	if t.retry != nil {
		err.Cause = t.retry.class()
		err.Message = wire.Short(err.Message+": "+t.retry.Message, wire.ErrorLength)
	}
	return next, err
}

// sawProgress resets both clocks. A retry that worked does not explain a later stall.
func (t *turn) sawProgress() {
	t.SawProgress()
	t.retry = nil
}
