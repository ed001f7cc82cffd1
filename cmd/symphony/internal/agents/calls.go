package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
)

// Call stores a call of an agent and wakes its worker. A call with an ID that is stored already is returned as it is, and not
// carried out again. Errors: CodeUnknown, CodeEnded, CodeConflict.
func (a *Agents) Call(ctx context.Context, agentID string, call reconcile.Call, params any) (stored reconcile.Call, err error) {
	one, err := a.live(ctx, agentID)
	if err != nil {
		return stored, err
	}
	if call.Params, err = json.Marshal(params); err != nil {
		return stored, fmt.Errorf("parameters of %s: %w", call.Verb, err)
	}
	call.RunID, call.Agent, call.CreatedAt = one.Run.ID, agentID, a.p.Env.Now()
	stored, err = a.DB.Clients.AddCall(ctx, call)
	switch {
	case errors.Is(err, reconcile.ErrConflict):
		_, err = a.live(ctx, agentID) // it has just ended
		return stored, err
	case err == nil && (stored.Agent != agentID || stored.Verb != call.Verb || stored.Conversation != call.Conversation):
		return stored, exit.Fault(CodeConflict, fmt.Sprintf("id %q belongs to another call", call.ID), "choose another id")
	case err != nil:
		return stored, err
	}
	return stored, a.wake(one.Run)
}

// wake tells a worker that there is a call. A worker that is not woken finds it a little later.
func (a *Agents) wake(run reconcile.Run) error {
	path := filepath.Join(runner.RunDir(a.runners.StateDir, run.ID), wakeFile)
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENXIO) || errors.Is(err, os.ErrNotExist) {
		return nil // it has not begun to read, or has ended
	}
	if err != nil {
		return fmt.Errorf("wake the agent: %w", err)
	}
	_, err = f.Write([]byte{1})
	if errors.Is(err, unix.EAGAIN) { // there are bytes enough
		err = nil
	}
	return errors.Join(err, f.Close())
}

// Await waits until a call has ended or ctx ends, and returns it as it is then, without an error if ctx has ended.
func (a *Agents) Await(ctx context.Context, id string) (call reconcile.Call, err error) {
	for {
		call, found, err := a.DB.Views.Call(context.WithoutCancel(ctx), id)
		switch {
		case err != nil:
			return call, err
		case !found:
			return call, exit.Fault("unknown_call", fmt.Sprintf("there is no call %q", id), "use an id that a tool has returned")
		case call.Ended():
			return call, nil
		}
		if _, err := a.live(context.WithoutCancel(ctx), call.Agent); err != nil && exit.From(err).Code != CodeEnded {
			return call, err // an agent that has ended has no open calls
		}
		select {
		case <-ctx.Done():
			return call, nil
		case <-time.After(awaitStep):
		}
	}
}

// Conversation returns the call that opened a conversation, by its ID or by the thread's. Error: unknown_conversation.
func (a *Agents) Conversation(ctx context.Context, id string) (reconcile.Call, error) {
	call, found, err := a.DB.Views.Conversation(ctx, id)
	if err == nil && !found {
		err = exit.Fault("unknown_conversation", fmt.Sprintf("there is no conversation %q", id), "new_conversation opens one")
	}
	return call, err
}

// Failure is the error of a call that failed, nil for others.
func Failure(call reconcile.Call) error {
	if call.Status != reconcile.CallFailed {
		return nil
	}
	return exit.Fault(call.ErrorCode, call.ErrorText, "")
}
