package runner

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/codex"
)

// doubt is the suspicion that a command of the turn failed for its sandbox. A command's output is its own affair, so
// codex is asked before anything is made of it.
type doubt struct {
	raised chan struct{} // of one element: a turn asks once
	over   chan struct{} // the turn has ended
	done   chan struct{} // closed when no question is open any more
	err    error         // why the turn is of no use, nil where it is of use or nobody knows
	blind  bool          // this codex can't be asked
}

func newDoubt() *doubt {
	return &doubt{raised: make(chan struct{}, 1), over: make(chan struct{}), done: make(chan struct{})}
}

// raise may be called from the goroutine of the events, and never waits. Before the first turn there is nothing to doubt.
func (d *doubt) raise() {
	if d == nil {
		return
	}
	select {
	case d.raised <- struct{}{}:
	default:
	}
}

// waits reports whether the doubt is raised before the turn is over.
func (d *doubt) waits(ctx context.Context) bool {
	select {
	case <-d.raised:
		return true
	case <-d.over:
	case <-ctx.Done():
		return false
	}
	select { // both may have come true
	case <-d.raised:
		return true
	default:
		return false
	}
}

// doubting has the sandbox tried at the first command of the turn that looks as if it could not be sandboxed, and ends ctx
// where it does not work. The function that it returns waits for the answer, and gives why the turn is of no use.
func (a *attempt) doubting(ctx context.Context, policy json.RawMessage) (context.Context, func() error) {
	ctx, cancel := context.WithCancelCause(ctx)
	d := newDoubt()
	a.agent.beginTurn(d)
	go func() {
		defer close(d.done)
		if !d.waits(ctx) {
			return
		}
		if d.err, d.blind = a.settleDoubt(ctx, policy); d.err != nil {
			cancel(d.err)
		}
	}()
	return ctx, func() error {
		close(d.over)
		<-d.done
		cancel(nil)
		if !d.blind {
			return d.err
		}
		fault := a.agent.sandboxFault()
		a.tellWaysOut(ctx, fault)
		return fault
	}
}

// settleDoubt asks codex. Any answer but a fault of the sandbox's leaves the turn as it is; blind: codex can't be asked.
func (a *attempt) settleDoubt(ctx context.Context, policy json.RawMessage) (fault error, blind bool) {
	err := TrySandbox(ctx, a.agent.session, policy, a.space.Path, a.Dir)
	var known *reconcile.Error
	switch {
	case err == nil:
		return nil, false
	case errors.Is(err, codex.ErrNoProbe):
		return nil, true
	case !errors.As(err, &known):
		a.Log.LogAttrs(ctx, slog.LevelInfo, "sandbox not tried", slog.String("error", err.Error()))
		return nil, false // the session is over, and the turn with it
	}
	a.noteSandbox(ctx, policy, "")
	a.tellWaysOut(ctx, err)
	return err, false
}
