package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// Free is what the worker of an agent without an issue needs besides.
type Free struct {
	Calls Calls
	// Wake gets a value when a client may have stored a call.
	Wake <-chan struct{}
	// Idle is how long the agent stays without a call; 0: for ever.
	Idle time.Duration
	// Guarded returns the paths in the agent's directory that its commands may not write; they need not exist.
	Guarded func(ctx context.Context) ([]string, error)
	// Orphaned reports whether the program to whose life the agent is bound has exited.
	Orphaned func() bool
}

// Calls stores the calls of clients.
type Calls interface {
	QueuedCalls(ctx context.Context, runID string) ([]reconcile.Call, error)
	// BeginCall and EndCall return an error that wraps reconcile.ErrConflict if the call has ended already.
	BeginCall(ctx context.Context, id string, now time.Time) error
	EndCall(ctx context.Context, call reconcile.Call) error
}

// The parameters of calls, as JSON. A missing value is that of the conversation, or of a run.
type (
	// ConversationCall opens a conversation, or continues the thread of an earlier one.
	ConversationCall struct {
		ThreadID              string          `json:"threadId,omitempty"`
		Cwd                   string          `json:"cwd,omitempty"`
		Model                 string          `json:"model,omitempty"`
		ApprovalPolicy        json.RawMessage `json:"approvalPolicy,omitempty"`
		SandboxPolicy         json.RawMessage `json:"sandboxPolicy,omitempty"` // of turns
		Config                map[string]any  `json:"config,omitempty"`
		BaseInstructions      string          `json:"baseInstructions,omitempty"`
		DeveloperInstructions string          `json:"developerInstructions,omitempty"`
	}
	// TurnCall is a turn, or with the items alone what is added to the running one.
	TurnCall struct {
		Items          []agent.Input   `json:"items"`
		Cwd            string          `json:"cwd,omitempty"`
		Model          string          `json:"model,omitempty"`
		Effort         string          `json:"effort,omitempty"`
		ApprovalPolicy json.RawMessage `json:"approvalPolicy,omitempty"`
		SandboxPolicy  json.RawMessage `json:"sandboxPolicy,omitempty"`
	}
	// ExecCall is one command that is run in the sandbox.
	ExecCall struct {
		Command       []string        `json:"command"`
		Cwd           string          `json:"cwd,omitempty"`
		SandboxPolicy json.RawMessage `json:"sandboxPolicy,omitempty"`
		TimeoutMS     int64           `json:"timeoutMs,omitempty"`
	}
)

// The results of calls, as JSON. That of CallExec is an agent.ExecResult, of CallDiff an agent.Diff.
type (
	// ConversationResult is an open conversation.
	ConversationResult struct {
		ThreadID  string `json:"threadId"`
		Model     string `json:"model,omitempty"`
		UserAgent string `json:"userAgent,omitempty"`
		Resumed   bool   `json:"resumed,omitempty"`
	}
	// TurnResult is an ended turn.
	TurnResult struct {
		TurnID      string `json:"turnId,omitempty"`
		LastMessage string `json:"lastMessage,omitempty"`
	}
	// LoginResult is how codex reaches its model.
	LoginResult struct {
		agent.Login
		UserAgent string `json:"userAgent"`
	}
)

const (
	// missedWake is how often the worker looks for calls that it was not woken for.
	missedWake = 2 * time.Second
	// execTimeout limits a command that names no limit of its own.
	execTimeout = 30 * time.Second
)

// clientCalls carries out the calls of clients until the run is stopped, or has been idle for too long.
type clientCalls struct {
	*job
	free *Free

	mu            sync.Mutex
	conversations map[string]*conversation // by the call that opened it
	spare         *conversation            // for calls that need no thread; nil before the first
	begun         map[string]bool          // calls that were handed to a goroutine
	open          int                      // how many of these have not ended
	idle          time.Duration            // since when, on the monotonic clock, none is open
	all           []*conversation
	working       sync.WaitGroup
}

func newClientCalls(j *job) *clientCalls {
	return &clientCalls{job: j, free: j.Free, conversations: map[string]*conversation{}, begun: map[string]bool{}}
}

// serve is the work of a free run.
func (c *clientCalls) serve(ctx context.Context) error {
	defer c.end(ctx)
	if err := c.prepare(ctx); err != nil {
		return err
	}
	c.rec.phase(ctx, reconcile.StreamingTurn)
	c.idle = c.Mono()
	look := time.NewTicker(missedWake)
	defer look.Stop()
	for {
		calls, err := c.free.Calls.QueuedCalls(ctx, c.run.ID)
		c.warn("calls not read", err) // the next look tries again
		for _, call := range calls {
			c.begin(ctx, call)
		}
		if err == nil && c.idleFor() {
			return runEnd{reconcile.Succeeded, "idle", fmt.Sprintf("it had nothing to do for %v", c.free.Idle)}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.free.Wake:
		case <-look.C:
		}
		if c.free.Orphaned != nil && c.free.Orphaned() {
			c.cancel(runEnd{reconcile.Canceled, "host_gone", "the program that started the agent has exited"})
		}
	}
}

// freeDir is where programs of a free run have their temporary files and caches.
func (j *job) freeDir() string { return filepath.Join(j.Dir, "work") }

// prepare makes the directories that programs of the run get.
func (c *clientCalls) prepare(ctx context.Context) error {
	dir := c.freeDir()
	c.space = &host.Workspace{
		Path: c.run.WorkspacePath, TmpDir: filepath.Join(dir, "tmp"), CacheDir: filepath.Join(dir, "cache"),
		Codex: host.Dirs{Tmp: filepath.Join(dir, "codex-tmp"), Cache: filepath.Join(dir, "codex-cache")},
	}
	c.space.Hooks = c.space.Codex
	for _, d := range []string{c.space.TmpDir, c.space.CacheDir, c.space.Codex.Tmp, c.space.Codex.Cache} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return fmt.Errorf("directories of the agent: %w", err)
		}
	}
	return c.host.Open(ctx)
}

// idleFor reports whether the agent has been without a call for too long.
func (c *clientCalls) idleFor() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.free.Idle > 0 && c.open == 0 && c.Mono()-c.idle >= c.free.Idle
}

// maxConversations is how many conversations one agent may have, because slots count agents and not their processes.
const maxConversations = 16

// begin hands a call to a goroutine, once.
func (c *clientCalls) begin(ctx context.Context, call reconcile.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun[call.ID] {
		return
	}
	c.begun[call.ID] = true
	c.open++
	t := c.conversations[call.Conversation]
	refuse := func(code, message, hint string) {
		c.working.Go(func() { c.finish(ctx, call, nil, reconcile.NewError(code, message, hint)) })
	}
	switch {
	case call.Verb == reconcile.CallConversation && len(c.conversations) >= maxConversations:
		refuse("too_many_conversations", fmt.Sprintf("the agent has %d conversations, each with a process of codex", maxConversations),
			"spawn another agent")
		return
	case call.Verb == reconcile.CallConversation:
		t = c.newConversation()
		t.opened = make(chan struct{})
		c.conversations[call.ID] = t
	case t == nil && (call.Conversation != "" ||
		call.Verb == reconcile.CallTurn || call.Verb == reconcile.CallSteer || call.Verb == reconcile.CallInterrupt):
		refuse("unknown_conversation", fmt.Sprintf("the agent has no conversation %q", call.Conversation), "")
		return
	case call.Verb == reconcile.CallTurn:
		t.turns = append(t.turns, call)
		if !t.runsTurns {
			t.runsTurns = true
			c.working.Go(func() { c.runTurns(ctx, t) })
		}
		return
	}
	c.working.Go(func() { c.carryOut(ctx, t, call) })
}

// carryOut carries out a call that is not a turn.
func (c *clientCalls) carryOut(ctx context.Context, t *conversation, call reconcile.Call) {
	var result any
	err := c.free.Calls.BeginCall(ctx, call.ID, c.Now())
	if err == nil && call.Verb != reconcile.CallConversation && call.Verb != reconcile.CallInterrupt {
		err = t.awaitOpened(ctx)
	}
	switch {
	case err != nil:
	case call.Verb == reconcile.CallConversation:
		result, err = decoded(call, func(p ConversationCall) (any, error) { return t.converse(ctx, &call, p) })
	case call.Verb == reconcile.CallSteer:
		result, err = decoded(call, func(p TurnCall) (any, error) { return struct{}{}, c.steer(ctx, t, p.Items) })
	case call.Verb == reconcile.CallInterrupt:
		c.interrupt(ctx, t)
		result = struct{}{}
	default:
		result, err = c.conversationFor(t).ask(ctx, call)
	}
	if call.Verb == reconcile.CallConversation {
		t.failed = err
		close(t.opened)
		if err != nil {
			c.forget(call.ID, t)
		}
	}
	c.finish(ctx, call, result, err)
}

// forget lets a conversation that could not be opened count no more.
func (c *clientCalls) forget(id string, t *conversation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.live == nil {
		delete(c.conversations, id)
	}
}

// decoded calls do with the parameters of a call.
func decoded[P any](call reconcile.Call, do func(P) (any, error)) (any, error) {
	var p P
	if err := json.Unmarshal(call.Params, &p); err != nil {
		return nil, fmt.Errorf("parameters of %s: %w", call.Verb, err)
	}
	return do(p)
}

// finish stores how a call ended.
func (c *clientCalls) finish(ctx context.Context, call reconcile.Call, result any, err error) {
	if err == nil {
		call.Result, err = json.Marshal(result)
		call.Result = c.Redactor.Bytes(call.Result)
	}
	call.Status = reconcile.CallCompleted
	if err != nil {
		var end runEnd
		call.Status, call.Result = reconcile.CallFailed, nil
		call.ErrorCode, call.ErrorText = codeOf(err)
		if errors.As(context.Cause(ctx), &end) {
			call.Status, call.ErrorCode, call.ErrorText = reconcile.CallInterrupted, end.code, end.message
		} else if errors.Is(err, errInterrupted) {
			call.Status = reconcile.CallInterrupted
		}
		call.ErrorText = c.Redactor.Text(call.ErrorText)
		c.shareFault(ctx, call.ErrorCode, call.ErrorText)
	}
	c.store(ctx, call)
	details := map[string]string{"call": call.ID, "conversation": call.Conversation, "error": call.ErrorText}
	c.note("call_"+string(call.Status), string(call.Verb), details)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open--; c.open == 0 {
		c.idle = c.Mono()
	}
}

// store stores an ended call. It tries again until the run ends, because a client waits for the call. Then the call ends with the run.
func (c *clientCalls) store(ctx context.Context, call reconcile.Call) {
	for {
		call.EndedAt = c.Now()
		err := c.free.Calls.EndCall(context.WithoutCancel(ctx), call)
		if err == nil || errors.Is(err, reconcile.ErrConflict) {
			return
		}
		c.warn("end of a call not stored", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(missedWake):
		}
	}
}

// errInterrupted means that a client has interrupted the turn.
var errInterrupted = &reconcile.Error{Code: "interrupted", Message: "a client has interrupted the turn"}

// runTurns carries out the turns of a conversation, one after the other, until none waits.
func (c *clientCalls) runTurns(ctx context.Context, t *conversation) {
	for {
		c.mu.Lock()
		if len(t.turns) == 0 {
			t.running, t.runsTurns = nil, false
			c.mu.Unlock()
			return
		}
		call := t.turns[0]
		t.turns = t.turns[1:]
		turn, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		t.running = &runningTurn{cancel: cancel, done: done}
		c.mu.Unlock()
		var result any
		err := c.free.Calls.BeginCall(ctx, call.ID, c.Now())
		if err == nil {
			err = t.awaitOpened(turn)
		}
		if err == nil {
			result, err = decoded(call, func(p TurnCall) (any, error) { return t.turn(turn, p) })
		}
		if err != nil && turn.Err() != nil {
			err = errInterrupted
		}
		cancel()
		c.finish(ctx, call, result, err)
		close(done)
	}
}

// interrupt ends the running turn of a conversation, and drops those that wait.
func (c *clientCalls) interrupt(ctx context.Context, t *conversation) {
	c.mu.Lock()
	waiting, running := t.turns, t.running
	t.turns = nil
	c.mu.Unlock()
	for _, call := range waiting {
		c.finish(ctx, call, nil, errInterrupted)
	}
	if running != nil {
		running.cancel()
		<-running.done
	}
}

// steerStep is how often a steer looks whether codex has begun the turn.
const steerStep = 10 * time.Millisecond

// steer adds input to the running turn of a conversation. If the turn is about to begin, it waits for that.
func (c *clientCalls) steer(ctx context.Context, t *conversation, items []agent.Input) error {
	c.mu.Lock()
	running := t.running
	c.mu.Unlock()
	if running == nil {
		return errNoTurn
	}
	for {
		if err := t.steer(ctx, items); !errors.Is(err, agent.ErrNoTurn) {
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

var errNoTurn = reconcile.NewError("no_turn", "no turn is running in the conversation", "send the input as a turn")

// conversationFor returns the conversation of a call that needs no thread: t, or one whose codex is only started for such calls.
func (c *clientCalls) conversationFor(t *conversation) *conversation {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t == nil && c.spare == nil {
		c.spare = c.newConversation()
	}
	return cmp.Or(t, c.spare)
}

// newConversation returns a conversation without a process. c.mu is held.
func (c *clientCalls) newConversation() *conversation {
	j := &job{
		Worker: c.Worker, host: c.host, run: c.run, cancel: c.cancel, rec: c.rec, events: c.events, space: c.space,
		agentRedactor: c.agentRedactor, stderr: stderrFile,
	}
	if n := len(c.all) + 1; n > 1 {
		j.stderr = fmt.Sprintf("agent-%d.stderr", n)
	}
	t := &conversation{job: j}
	c.all = append(c.all, t)
	return t
}

// end waits for the calls and ends all processes of codex.
func (c *clientCalls) end(ctx context.Context) {
	c.working.Wait()
	var ending sync.WaitGroup
	for _, t := range c.all {
		ending.Go(func() { t.stop(context.WithoutCancel(ctx)) })
	}
	ending.Wait()
}
