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
	isStalled := t.UntilStall() <= 0
	isBusy := requests+len(t.commands) > 0
	th.mu.Unlock()
	if isStalled && !isBusy && th.o.Busy != nil {
		isBusy = th.o.Busy() // it may take a while
	}
	th.mu.Lock()
	defer th.mu.Unlock()
	if isStalled && isBusy {
		t.SawWork()
	}
	return t.late()
}

// sawProgress resets both clocks. A retry that worked does not explain a later stall.
func (t *turn) sawProgress() {
	t.SawProgress()
	t.retry = nil
}

// late returns the error of a limit that was reached, or else when to check again.
func (t *turn) late() (next time.Duration, err *agent.Error) {
	next, err = t.Check()
	if err != nil && err.Code == agent.CodeStalled && t.retry != nil {
		err.Cause = t.retry.class()
		err.Message = wire.Short(err.Message+": "+t.retry.Message, wire.ErrorLength)
	}
	return next, err
}
