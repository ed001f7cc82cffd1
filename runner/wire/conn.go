// Package wire is a connection to an agent: JSON messages of JSON-RPC, each on a line, over two
// pipes. It knows no method. It starts no process.
//
//	stdout ─► Read ─► the session's handler
//	                  └─► Emit: event queue ─► Options.OnEvent
//	                  └─► Send: write queue ─► stdin
//
// Both sides number their requests independently, so the ids overlap. The reader handles each
// line before it reads the next. It never waits for stdin: what is sent is queued, so that a
// full pipe in one direction can't block the other.
package wire

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symphony-cron/symphony/runner/agent"
)

// Conn is the connection to an agent. It sends requests, matches their answers, and delivers
// events.
type Conn struct {
	// Version is the version of JSON-RPC that each line names, such as "2.0"; "" names none.
	Version string
	// Refuse returns the error of a method that the agent does not get; nil refuses none.
	Refuse func(method string) error
	// Ended is closed when stdout ends, or stdin broke and the turn did not end; Failure is the
	// reason.
	Ended chan struct{}
	// Drained is closed when stdout ended and all its events are delivered.
	Drained chan struct{}

	o       *agent.Options
	streams agent.Streams
	lines   *queue // writes to stdin
	events  *queue

	closing atomic.Bool // the session was closed
	end     func()      // closes Ended

	noise noise

	mu      sync.Mutex
	err     *agent.Error
	lastID  int
	aside   int // the number of requests aside
	pending map[int]*Call
}

// asideIDs is added to the ids of requests aside, so that an agent's initialize, thread/start and
// first turn/start have the ids 1, 2 and 3 of the specification's examples.
const asideIDs = 1000

// Call is a request to the agent.
type Call struct {
	Method   string
	Params   any
	Aside    bool           // numbered apart from the others: see asideIDs
	Timeout  time.Duration  // 0: Options.ReadTimeout
	Answered func(*Message) // called by the reader before it reads the next line; may be nil

	done chan struct{}
	msg  *Message
	err  error
}

const (
	// MaxLine bounds a line of the agent. The longest seen, an item with a command's output,
	// had a few megabytes.
	MaxLine = 64 << 20
	// MaxQueuedEvents is how many events may wait for the callback before the reader waits,
	// too.
	MaxQueuedEvents = 1024
	// MessageLength is the longest message of an event, in characters.
	MessageLength = 200
	// ErrorLength is the longest message of an error, in characters: some agents answer an
	// unknown method with a list of all methods.
	ErrorLength = 400
)

// NewConn takes over the streams. o, which must not change any more, is read when needed.
func NewConn(streams agent.Streams, o *agent.Options) *Conn {
	c := &Conn{
		o:       o,
		streams: streams,
		lines:   newQueue(0),
		events:  newQueue(MaxQueuedEvents),
		Ended:   make(chan struct{}),
		Drained: make(chan struct{}),
		pending: make(map[int]*Call),
	}
	c.end = sync.OnceFunc(func() { close(c.Ended) })
	return c
}

// Close closes the agent's stdin, which makes the agent exit. It must be called at most once.
func (c *Conn) Close() error {
	c.closing.Store(true)
	c.events.setLimit(0) // a callback that hangs must not block the reader
	if err := c.streams.Stdin.Close(); err != nil {
		return fmt.Errorf("close agent's stdin: %w", err)
	}
	return nil
}

// Failure returns why the connection ended, nil while it is open.
func (c *Conn) Failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return nil
	}
	return c.err
}

// fail ends all calls with an error. Only the first error is kept.
func (c *Conn) fail(code agent.Code, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = cmp.Or(c.err, &agent.Error{Code: code, Message: Short(text, ErrorLength)})
	for id, call := range c.pending {
		delete(c.pending, id)
		call.err = c.err
		close(call.done)
	}
}

// Read handles every line until stdout ends, including a last line without a line break. A
// message's Raw changes when handle has returned: lines may be long, and most are not kept.
func (c *Conn) Read(handle func(*Message)) {
	lines := bufio.NewScanner(c.streams.Stdout)
	lines.Buffer(make([]byte, 64<<10), MaxLine)
	lines.Split(c.noise.split)
	for lines.Scan() {
		if line := bytes.TrimSpace(lines.Bytes()); len(line) > 0 {
			m := ReadMessage(line)
			c.noise.look(m)
			handle(m)
		}
	}
	c.fail(agent.CodePortExit, whyEnded(lines.Err()))
}

// Finish ends what waits for the agent, after Read has returned.
func (c *Conn) Finish() {
	c.end()
	c.events.add(func() { close(c.Drained) })
}

// lastWordsBound is how long an agent that has ended may take to close its stdout.
const lastWordsBound = time.Second

// InsteadOfAnswer adds to the error of the first request the text that the agent wrote to its
// stdout in place of an answer, such as "Update now? [Y/n]". A program that asks a question
// there asks it for each issue: the fault is the machine's. cause is as for agent.Error.Saying.
func (c *Conn) InsteadOfAnswer(ctx context.Context, err error, cause agent.Code) error {
	failed, is := errors.AsType[*agent.Error](err)
	if !is {
		return err
	}
	if failed.Code == agent.CodePortExit {
		c.awaitLastWords(ctx)
	}
	said := c.noise.said()
	if said == "" {
		return err
	}
	return failed.Saying(said, cause)
}

// awaitLastWords waits until everything that an ended agent wrote to its stdout is read. A
// write to its stdin may have failed before that.
func (c *Conn) awaitLastWords(ctx context.Context) {
	select {
	case <-c.Drained:
	case <-time.After(lastWordsBound):
	case <-ctx.Done():
	}
}

// whyEnded says why nothing more can be read from the agent's stdout. err is nil at its end.
func whyEnded(err error) string {
	if err == nil {
		return "agent ended: its stdout was closed"
	}
	if errors.Is(err, bufio.ErrTooLong) {
		return fmt.Sprintf("agent's stdout: a line has more than %d MiB", MaxLine>>20)
	}
	return "agent's stdout: " + err.Error()
}

// Send queues a message. sent, which may be nil, is called in a new goroutine after the
// message is written.
func (c *Conn) Send(v Object, sent func()) error {
	if c.Version != "" {
		v["jsonrpc"] = c.Version
	}
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false) // prompts hold < and &, and people read recordings
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	if c.closing.Load() {
		return &agent.Error{Code: agent.CodePortExit, Message: "the session was closed"}
	}
	if err := c.Failure(); err != nil {
		return err
	}
	c.lines.add(func() {
		written := c.write(line.Bytes())
		if written && sent != nil {
			go sent()
		}
	})
	return nil
}

// write writes a line to the agent's stdin and reports whether all of it was written. A write
// that blocks ends the calls after a while; only close can end the write itself.
func (c *Conn) write(line []byte) bool {
	if c.closing.Load() {
		return false
	}
	written := make(chan struct{})
	go func() {
		if c.await(context.Background(), written, c.o.ReadTimeout) != nil {
			text := fmt.Sprintf("agent does not read its stdin (%v)", c.o.ReadTimeout)
			c.stdinBroke(agent.CodeResponseTimeout, text)
		}
	}()
	_, err := c.streams.Stdin.Write(line)
	close(written)
	if err != nil && !c.closing.Load() {
		c.stdinBroke(agent.CodePortExit, "agent's stdin: "+err.Error())
	}
	return err == nil
}

// await waits until done is closed. If ctx ends it returns the error of ctx, and errLate after
// the limit. Time in which the agent can't be heard does not count.
func (c *Conn) await(ctx context.Context, done <-chan struct{}, limit time.Duration) error {
	for {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(limit):
			if c.o.Unheard == nil || !c.o.Unheard() {
				return errLate
			}
		}
	}
}

var errLate = errors.New("late")

// stdinBroke ends the calls. The turn gets a little more time: a broken pipe usually means
// that the agent exited, and its last lines, which may end the turn, are still to be read.
func (c *Conn) stdinBroke(code agent.Code, text string) {
	c.fail(code, text)
	time.AfterFunc(c.o.ReadTimeout, c.end)
}

// Start sends a request.
func (c *Conn) Start(r *Call) error {
	if c.Refuse != nil {
		if err := c.Refuse(r.Method); err != nil {
			return err
		}
	}
	r.done = make(chan struct{})
	c.mu.Lock()
	id := c.lastID + 1
	if r.Aside {
		c.aside++
		id = asideIDs + c.aside
	} else {
		c.lastID = id
	}
	c.pending[id] = r
	c.mu.Unlock()
	return c.Send(Object{"id": id, "method": r.Method, "params": r.Params}, nil)
}

// Request sends a request and waits for its result. Errors: *Error if the agent refuses,
// *agent.Error, or the error of ctx.
func (c *Conn) Request(ctx context.Context, r *Call) (json.RawMessage, error) {
	if err := c.Start(r); err != nil {
		return nil, err
	}
	timeout := cmp.Or(r.Timeout, c.o.ReadTimeout)
	err := c.await(ctx, r.done, timeout)
	if errors.Is(err, errLate) {
		return nil, &agent.Error{
			Code:    agent.CodeResponseTimeout,
			Message: fmt.Sprintf("no answer to %s within %v", r.Method, timeout),
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Method, err)
	}
	if r.err != nil {
		return nil, r.err
	}
	if r.msg.Error != nil {
		return nil, r.msg.Error
	}
	return r.msg.Result, nil
}

// Answer passes an answer to the call that waits for it. It reports whether such a call
// exists.
func (c *Conn) Answer(m *Message) bool {
	var id int
	if json.Unmarshal(m.ID, &id) != nil || m.Result == nil && m.Error == nil {
		return false
	}
	c.mu.Lock()
	call := c.pending[id]
	delete(c.pending, id)
	c.mu.Unlock()
	if call == nil {
		return false
	}
	if call.Answered != nil {
		call.Answered(m)
	}
	call.msg = m
	close(call.done)
	return true
}

// Emit queues an event for OnEvent.
func (c *Conn) Emit(e agent.Event) {
	e.At = c.o.Now().UTC()
	e.PID = c.o.PID
	e.Message = Short(e.Message, MessageLength)
	c.events.add(func() { c.o.OnEvent(e) })
}

// Flush waits until all events so far are delivered, so that a caller that gets the result of
// a turn also saw its events. It waits for at most Options.ReadTimeout.
func (c *Conn) Flush() {
	reached := make(chan struct{})
	c.events.add(func() { close(reached) })
	select {
	case <-reached:
	case <-time.After(c.o.ReadTimeout):
	}
}
