package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// Call stores a call of an agent and wakes its worker. A call with an ID that is stored
// already is returned as it is, and not carried out again. Errors: CodeUnknown, CodeEnded,
// CodeConflict.
func (a *Agents) Call(
	ctx context.Context,
	agentID string,
	call reconcile.Call,
	params any,
) (stored reconcile.Call, err error) {
	known, found, err := a.DB.Clients.Call(ctx, call.ID)
	if err != nil {
		return known, err
	}
	if found {
		return known, conflict(known, agentID, call)
	}
	one, err := a.live(ctx, agentID)
	if err != nil {
		return stored, err
	}
	if err := a.DB.NewerNow(ctx); err != nil {
		return stored, err
	}
	call.Params, err = json.Marshal(params)
	if err != nil {
		return stored, fmt.Errorf("parameters of %s: %w", call.Verb, err)
	}
	call.RunID = one.ID
	call.Agent = agentID
	call.CreatedAt = a.p.Env.Now()
	stored, err = a.DB.Clients.AddCall(ctx, call)
	if errors.Is(err, reconcile.ErrConflict) { // it ended just now
		if _, ended := a.live(ctx, agentID); ended != nil {
			return stored, ended
		}
	}
	if err != nil {
		return stored, err
	}
	if err := conflict(stored, agentID, call); err != nil {
		return stored, err
	}
	wake(host.RunDir(a.runners.StateDir, one.ID))
	return stored, nil
}

// conflict returns an error if the stored call with the ID of a new call differs from it.
func conflict(stored reconcile.Call, agentID string, call reconcile.Call) error {
	if stored.Agent == agentID && stored.Verb == call.Verb && stored.Conversation == call.Conversation {
		return nil
	}
	return reconcile.NewError(
		CodeConflict,
		fmt.Sprintf("id %q belongs to another call", call.ID),
		"choose another id",
	)
}

// wake tells the worker of the run in dir that there is a call. A worker that is not woken
// finds the call a little later.
func wake(dir string) {
	// Not by package os, whose write would wait for room in the FIFO.
	const flags = unix.O_WRONLY | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Open(filepath.Join(dir, wakeFile), flags, 0)
	if err != nil { // nothing reads it
		return
	}
	_, _ = unix.Write(fd, []byte{1})
	_ = unix.Close(fd)
}

const (
	awaitStep  = 25 * time.Millisecond  // between two looks at a call
	settleStep = 500 * time.Millisecond // between two checks whether its agent died
)

// Await waits until a call or ctx ends, and returns the call as it is then. The end of ctx is
// no error.
func (a *Agents) Await(ctx context.Context, id string) (reconcile.Call, error) {
	// The end of ctx ends the wait without an error, so it must not interrupt a read.
	looking := context.WithoutCancel(ctx)
	settle := time.NewTicker(settleStep)
	defer settle.Stop()
	for {
		call, found, err := a.DB.Clients.Call(looking, id)
		if err != nil {
			return call, err
		}
		if !found {
			return call, reconcile.NewError(
				"not_found",
				fmt.Sprintf("there is no call %q", id),
				"use an id that a tool has returned",
			)
		}
		if call.Ended() {
			return call, nil
		}
		select {
		case <-ctx.Done():
			return call, nil
		case <-settle.C: // the calls of an agent end with it
			if err := a.Settle(looking); err != nil {
				return call, err
			}
		case <-time.After(awaitStep):
		}
	}
}

// Conversation returns the call that opened a conversation, by its ID or by the thread's.
// Error: not_found.
func (a *Agents) Conversation(ctx context.Context, id string) (reconcile.Call, error) {
	call, found, err := a.DB.Clients.Conversation(ctx, id)
	if err != nil {
		return call, err
	}
	if !found {
		return call, reconcile.NewError(
			"not_found",
			fmt.Sprintf("there is no conversation %q", id),
			"new_conversation opens one",
		)
	}
	return call, nil
}

// Failure is the error of a call that failed, nil for others.
func Failure(call reconcile.Call) error {
	if call.Status != reconcile.CallFailed {
		return nil
	}
	failed := reconcile.NewError(call.ErrorCode, call.ErrorText, "")
	if call.Verb == reconcile.CallConversation {
		failed.Hint = "new_conversation with another id, or without one, tries again"
	}
	return failed
}
