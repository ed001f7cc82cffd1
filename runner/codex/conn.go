package codex

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symphony-cron/symphony/runner/agent"
)

// conn is the connection to an app-server. It sends requests, matches their answers, and
// delivers events.
type conn struct {
	o       *agent.Options
	streams agent.Streams
	lines   *queue // writes to stdin
	events  *queue

	closing atomic.Bool // the session was closed
	limited atomic.Bool // the agent names no codex release: see specified
	// closed when stdout ends, or stdin broke and the turn did not end; err is the reason
	ended   chan struct{}
	end     func()        // closes ended
	drained chan struct{} // closed when stdout ended and all its events are delivered

	noise noise

	mu      sync.Mutex
	err     *agent.Error
	lastID  int
	aside   int // the number of requests aside
	pending map[int]*call
}

// asideIDs is added to the ids of requests that the specification does not name, so that
// initialize, thread/start and the first turn/start have the ids 1, 2 and 3 of its examples.
const asideIDs = 1000

// call is a request to the agent.
type call struct {
	method   string
	params   any
	trace    string         // a W3C traceparent, "" for none
	aside    bool           // the specification does not name it: see asideIDs
	timeout  time.Duration  // 0: Options.ReadTimeout
	answered func(*message) // called by the reader before it reads the next line; may be nil

	done chan struct{}
	msg  *message
	err  error
}

const (
	// maxLine bounds a line of the agent. The longest seen, an item with a command's output,
	// had a few megabytes.
	maxLine = 64 << 20
	// maxQueuedEvents is how many events may wait for the callback before the reader waits,
	// too.
	maxQueuedEvents = 1024
	// messageLength is the longest message of an event, in characters.
	messageLength = 200
)

func newConn(streams agent.Streams, o *agent.Options) *conn {
	c := &conn{
		o:       o,
		streams: streams,
		lines:   newQueue(0),
		events:  newQueue(maxQueuedEvents),
		ended:   make(chan struct{}),
		drained: make(chan struct{}),
		pending: make(map[int]*call),
	}
	c.end = sync.OnceFunc(func() { close(c.ended) })
	return c
}

// close closes the agent's stdin, which makes the agent exit. It must be called at most once.
func (c *conn) close() error {
	c.closing.Store(true)
	c.events.setLimit(0) // a callback that hangs must not block the reader
	if err := c.streams.Stdin.Close(); err != nil {
		return fmt.Errorf("close agent's stdin: %w", err)
	}
	return nil
}

// failure returns why the connection ended, nil while it is open.
func (c *conn) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return nil
	}
	return c.err
}

// fail ends all calls with an error. Only the first error is kept.
func (c *conn) fail(code agent.Code, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = cmp.Or(c.err, &agent.Error{Code: code, Message: oneLine(text, errorLength)})
	for id, call := range c.pending {
		delete(c.pending, id)
		call.err = c.err
		close(call.done)
	}
}

// read handles every line until stdout ends, including a last line without a line break.
func (c *conn) read(handle func(*message)) {
	lines := bufio.NewScanner(c.streams.Stdout)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	lines.Split(c.noise.split)
	for lines.Scan() {
		if line := bytes.TrimSpace(lines.Bytes()); len(line) > 0 {
			handle(c.noise.skip(readMessage(bytes.Clone(line))))
		}
	}
	c.fail(agent.CodePortExit, whyEnded(lines.Err()))
}

// whyEnded says why nothing more can be read from the agent's stdout. err is nil at its end.
func whyEnded(err error) string {
	if err == nil {
		return "agent ended: its stdout was closed"
	}
	if errors.Is(err, bufio.ErrTooLong) {
		return fmt.Sprintf("agent's stdout: a line has more than %d MiB", maxLine>>20)
	}
	return "agent's stdout: " + err.Error()
}

// send queues a message. sent, which may be nil, is called in a new goroutine after the
// message is written.
func (c *conn) send(v object, sent func()) error {
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false) // prompts hold < and &, and people read recordings
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	if c.closing.Load() {
		return &agent.Error{Code: agent.CodePortExit, Message: "the session was closed"}
	}
	if err := c.failure(); err != nil {
		return err
	}
	c.lines.add(func() {
		if c.write(line.Bytes()) && sent != nil {
			go sent()
		}
	})
	return nil
}

// write writes a line to the agent's stdin and reports whether all of it was written. A write
// that blocks ends the calls after a while; only close can end the write itself.
func (c *conn) write(line []byte) bool {
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
func (c *conn) await(ctx context.Context, done <-chan struct{}, limit time.Duration) error {
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
func (c *conn) stdinBroke(code agent.Code, text string) {
	c.fail(code, text)
	time.AfterFunc(c.o.ReadTimeout, c.end)
}

// start sends a request.
func (c *conn) start(r *call) error {
	if c.limited.Load() && !slices.Contains(specified, r.method) {
		return &wireError{
			Code:    codeMethodNotFound,
			Message: "the agent names no codex release, and the specification has no such method",
		}
	}
	r.done = make(chan struct{})
	c.mu.Lock()
	id := c.lastID + 1
	if r.aside {
		c.aside++
		id = asideIDs + c.aside
	} else {
		c.lastID = id
	}
	c.pending[id] = r
	c.mu.Unlock()
	line := object{"id": id, "method": r.method, "params": r.params}
	if r.trace != "" {
		line["trace"] = object{"traceparent": r.trace}
	}
	return c.send(line, nil)
}

// request sends a request and waits for its result. Errors: *wireError if codex refuses,
// *agent.Error, or the error of ctx.
func (c *conn) request(ctx context.Context, r *call) (json.RawMessage, error) {
	if err := c.start(r); err != nil {
		return nil, err
	}
	timeout := cmp.Or(r.timeout, c.o.ReadTimeout)
	err := c.await(ctx, r.done, timeout)
	if errors.Is(err, errLate) {
		return nil, &agent.Error{
			Code:    agent.CodeResponseTimeout,
			Message: fmt.Sprintf("no answer to %s within %v", r.method, timeout),
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.method, err)
	}
	if r.err != nil {
		return nil, r.err
	}
	if r.msg.Error != nil {
		return nil, r.msg.Error
	}
	return r.msg.Result, nil
}

// answer passes an answer to the call that waits for it. It reports whether such a call
// exists.
func (c *conn) answer(m *message) bool {
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
	if call.answered != nil {
		call.answered(m)
	}
	call.msg = m
	close(call.done)
	return true
}

// emit queues an event for OnEvent.
func (c *conn) emit(e agent.Event) {
	e.At = c.o.Now().UTC()
	e.PID = c.o.PID
	e.Message = oneLine(e.Message, messageLength)
	c.events.add(func() { c.o.OnEvent(e) })
}

// flush waits until all events so far are delivered, so that a caller that gets the result of
// a turn also saw its events. It waits for at most Options.ReadTimeout.
func (c *conn) flush() {
	reached := make(chan struct{})
	c.events.add(func() { close(reached) })
	select {
	case <-reached:
	case <-time.After(c.o.ReadTimeout):
	}
}

// queue runs functions in order, in a goroutine that exists only while there are any.
type queue struct {
	mu      sync.Mutex
	room    *sync.Cond
	limit   int      // of the queue's length, at which add blocks; 0: none
	waiting []func() // the first function is running
}

func newQueue(limit int) *queue {
	q := &queue{limit: limit}
	q.room = sync.NewCond(&q.mu)
	return q
}

func (q *queue) setLimit(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limit = n
	q.room.Broadcast()
}

func (q *queue) add(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.limit > 0 && len(q.waiting) >= q.limit {
		q.room.Wait()
	}
	q.waiting = append(q.waiting, f)
	if len(q.waiting) == 1 {
		go q.run()
	}
}

func (q *queue) run() {
	q.mu.Lock()
	for len(q.waiting) > 0 {
		next := q.waiting[0]
		q.mu.Unlock()
		next()
		q.mu.Lock()
		q.waiting = slices.Delete(q.waiting, 0, 1)
		q.room.Signal()
	}
	q.mu.Unlock()
}
