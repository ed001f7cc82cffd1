package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// missedWake is how often the worker looks for calls that it was not woken for.
const missedWake = 2 * time.Second

// clientCalls carries out the calls of clients until the run is stopped, or is idle for too
// long.
type clientCalls struct {
	*parts

	mu            sync.Mutex
	made          []*conversation          // also those that could not be opened
	conversations map[string]*conversation // by the call that opened it
	begun         map[string]bool          // calls that were handed to a goroutine
	open          int                      // how many of these have not ended
	idle          time.Duration            // since when, on the monotonic clock, none is open
	working       sync.WaitGroup
}

func (j *job) newClientCalls() *clientCalls {
	return &clientCalls{
		parts:         j.parts,
		conversations: map[string]*conversation{},
		begun:         map[string]bool{},
	}
}

// serve carries out calls as they come.
func (cc *clientCalls) serve(ctx context.Context) error {
	cc.idle = cc.Mono()
	look := time.NewTicker(missedWake)
	defer look.Stop()
	for {
		calls, err := cc.Free.Calls.QueuedCalls(ctx, cc.run.ID)
		warn(cc.Log, "calls not read", err) // the next look tries again
		for _, call := range calls {
			cc.begin(ctx, call)
		}
		if err == nil && cc.idleFor() {
			return runEnd{
				reconcile.Succeeded,
				"idle",
				fmt.Sprintf("it had nothing to do for %v", cc.Free.Idle),
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-cc.Free.Wake:
		case <-look.C:
		}
	}
}

// idleFor reports whether the agent is without a call for too long.
func (cc *clientCalls) idleFor() bool {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	return cc.Free.Idle > 0 && cc.open == 0 && cc.Mono()-cc.idle >= cc.Free.Idle
}

// maxConversations limits the conversations of an agent, because slots count agents and not
// their processes.
const maxConversations = 16

// begin hands a call to a goroutine, once.
func (cc *clientCalls) begin(ctx context.Context, call reconcile.Call) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	if cc.begun[call.ID] {
		return
	}
	cc.begun[call.ID] = true
	cc.open++
	if refusal := cc.refuse(call); refusal != nil {
		cc.working.Go(func() { cc.finish(ctx, call, nil, refusal) })
		return
	}
	c := cc.conversations[call.Conversation]
	if call.Verb == reconcile.CallTurn {
		c.turns = append(c.turns, call)
		if !c.runsTurns {
			c.runsTurns = true
			cc.working.Go(func() { cc.runTurns(ctx, c) })
		}
		return
	}
	if call.Verb == reconcile.CallConversation {
		c = cc.add()
		c.opened = make(chan struct{})
		cc.conversations[call.ID] = c
	}
	cc.working.Go(func() { cc.carryOut(ctx, c, call) })
}

// refuse returns why a call can't be carried out, nil if it may. cc.mu is held.
func (cc *clientCalls) refuse(call reconcile.Call) error {
	if call.Verb == reconcile.CallConversation {
		if len(cc.conversations) < maxConversations {
			return nil
		}
		return reconcile.NewError(
			"not_possible",
			fmt.Sprintf("the agent has %d conversations, each with a process of its own", maxConversations),
			"spawn another agent",
		)
	}
	ofConversation := []reconcile.CallVerb{reconcile.CallTurn, reconcile.CallSteer, reconcile.CallInterrupt}
	needsOne := call.Conversation != "" || slices.Contains(ofConversation, call.Verb)
	if needsOne && cc.conversations[call.Conversation] == nil {
		message := fmt.Sprintf("the agent has no conversation %q", call.Conversation)
		return reconcile.NewError("not_found", message, "")
	}
	return nil
}

// carryOut carries out a call that is not a turn.
func (cc *clientCalls) carryOut(ctx context.Context, c *conversation, call reconcile.Call) {
	result, err := cc.resultOf(ctx, c, &call)
	if call.Verb == reconcile.CallConversation {
		c.failed = err
		close(c.opened)
		if err != nil {
			cc.forget(call.ID, c)
		}
	}
	cc.finish(ctx, call, result, err)
}

// resultOf carries out a call and returns its result. The thread of a new conversation is
// written into call.
func (cc *clientCalls) resultOf(ctx context.Context, c *conversation, call *reconcile.Call) (any, error) {
	if err := cc.Free.Calls.BeginCall(ctx, call.ID, cc.Now()); err != nil {
		return nil, err
	}
	if call.Verb == reconcile.CallConversation {
		return decoded(*call, func(p ConversationCall) (any, error) { return c.converse(ctx, call, p) })
	}
	if call.Verb == reconcile.CallInterrupt {
		cc.interrupt(ctx, c)
		return struct{}{}, nil
	}
	if err := c.awaitOpened(ctx); err != nil {
		return nil, err
	}
	if call.Verb == reconcile.CallSteer {
		return decoded(*call, func(p TurnCall) (any, error) {
			return struct{}{}, cc.steer(ctx, c, p.Items)
		})
	}
	return nil, fmt.Errorf("unknown call %q", call.Verb)
}

// forget lets a conversation that could not be opened count no more.
func (cc *clientCalls) forget(id string, c *conversation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cc.mu.Lock()
	defer cc.mu.Unlock()
	if c.live == nil {
		delete(cc.conversations, id)
	}
}

// finish stores how a call ended.
func (cc *clientCalls) finish(ctx context.Context, call reconcile.Call, result any, err error) {
	if err != nil {
		call = cc.failed(ctx, call, err)
	} else {
		call = cc.completed(ctx, call, result)
	}
	cc.store(ctx, call)
	details := map[string]string{
		"call":         call.ID,
		"conversation": call.Conversation,
		"error":        call.ErrorText,
	}
	cc.events.note("call_"+string(call.Status), string(call.Verb), details)
	cc.mu.Lock()
	defer cc.mu.Unlock()
	cc.open--
	if cc.open == 0 {
		cc.idle = cc.Mono()
	}
}

// completed returns a call that ended with a result.
func (cc *clientCalls) completed(ctx context.Context, call reconcile.Call, result any) reconcile.Call {
	data, err := json.Marshal(result)
	if err != nil {
		return cc.failed(ctx, call, err)
	}
	call.Result = cc.Redactor.Bytes(data)
	call.Status = reconcile.CallCompleted
	return call
}

// failed returns a call that failed, or was interrupted, and shares a fault of the account.
func (cc *clientCalls) failed(ctx context.Context, call reconcile.Call, err error) reconcile.Call {
	call.Result = nil
	call.Status = reconcile.CallFailed
	call.ErrorCode, call.ErrorText = codeOf(err)
	if end, ok := errors.AsType[runEnd](context.Cause(ctx)); ok {
		call.Status = reconcile.CallInterrupted
		call.ErrorCode = end.code
		call.ErrorText = end.message
	} else if errors.Is(err, errInterrupted) {
		call.Status = reconcile.CallInterrupted
	}
	call.ErrorText = cc.Redactor.Text(call.ErrorText)
	cc.accountFailed(ctx, call.ErrorCode, call.ErrorText)
	return call
}

// storeRetry is how long store waits before it tries again.
const storeRetry = 2 * time.Second

// store stores an ended call. It tries again until the run ends, because a client waits for
// the call; the end of the run also ends its calls in the database. ErrConflict means that the
// call has ended there already.
func (cc *clientCalls) store(ctx context.Context, call reconcile.Call) {
	for {
		call.EndedAt = cc.Now()
		err := cc.Free.Calls.EndCall(context.WithoutCancel(ctx), call)
		if err == nil || errors.Is(err, reconcile.ErrConflict) {
			return
		}
		warn(cc.Log, "end of a call not stored", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(storeRetry):
		}
	}
}

// errInterrupted means that a client interrupted the turn.
var errInterrupted = &reconcile.Error{
	Code:    "interrupted",
	Message: "a client has interrupted the turn",
}

// runTurns carries out the turns of a conversation, in order, until none waits.
func (cc *clientCalls) runTurns(ctx context.Context, c *conversation) {
	for {
		cc.mu.Lock()
		if len(c.turns) == 0 {
			c.running = nil
			c.runsTurns = false
			cc.mu.Unlock()
			return
		}
		call := c.turns[0]
		c.turns = c.turns[1:]
		turn, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		c.running = &runningTurn{cancel: cancel, done: done}
		cc.mu.Unlock()
		result, err := cc.runTurn(ctx, turn, c, call)
		if err != nil && turn.Err() != nil {
			err = errInterrupted
		}
		cancel()
		cc.finish(ctx, call, result, err)
		close(done)
	}
}

// runTurn carries out a turn, which ends with its own context.
func (cc *clientCalls) runTurn(
	ctx, turn context.Context,
	c *conversation,
	call reconcile.Call,
) (any, error) {
	if err := cc.Free.Calls.BeginCall(ctx, call.ID, cc.Now()); err != nil {
		return nil, err
	}
	if err := c.awaitOpened(turn); err != nil {
		return nil, err
	}
	return decoded(call, func(p TurnCall) (any, error) { return c.turn(turn, p) })
}

// interrupt ends the running turn of a conversation, and drops the waiting turns.
func (cc *clientCalls) interrupt(ctx context.Context, c *conversation) {
	cc.mu.Lock()
	waiting := c.turns
	running := c.running
	c.turns = nil
	cc.mu.Unlock()
	for _, call := range waiting {
		cc.finish(ctx, call, nil, errInterrupted)
	}
	if running != nil {
		running.cancel()
		<-running.done
	}
}

// steerStep is how often a steer checks whether the agent began the turn.
const steerStep = 10 * time.Millisecond

// steer adds input to the running turn of a conversation. If the turn is about to begin, it
// waits for that.
func (cc *clientCalls) steer(ctx context.Context, c *conversation, items []agent.Input) error {
	cc.mu.Lock()
	running := c.running
	cc.mu.Unlock()
	if running == nil {
		return errNoTurn
	}
	for {
		if err := c.steer(ctx, items); !errors.Is(err, agent.ErrNoTurn) {
			return err
		}
		select {
		case <-running.done:
			return errNoTurn
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(steerStep):
		}
	}
}

var errNoTurn = reconcile.NewError(
	"no_turn",
	"no turn is running in the conversation",
	"send the input as a turn",
)

// end waits for the calls and ends the processes of all conversations.
func (cc *clientCalls) end(ctx context.Context) {
	cc.working.Wait()
	var ending sync.WaitGroup
	for _, c := range cc.made {
		ending.Go(func() { c.stop(context.WithoutCancel(ctx)) })
	}
	ending.Wait()
}
