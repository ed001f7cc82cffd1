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

// conn is the connection to one app-server: it sends requests and awaits their answers, and delivers events.
type conn struct {
	o       *agent.Options
	streams agent.Streams
	lines   *queue // for stdin
	events  *queue

	closing atomic.Bool   // the session was closed
	ended   chan struct{} // stdout has ended, or stdin broke and no end of the turn followed; err says why
	end     func()        // closes it
	drained chan struct{} // stdout has ended, and all events of it were delivered

	mu      sync.Mutex
	err     *agent.Error
	lastID  int
	pending map[int]*call
}

// call is a request of ours.
type call struct {
	method   string
	params   any
	timeout  time.Duration  // 0: the connection's
	answered func(*message) // runs in the reader, before the next line is read

	done chan struct{}
	msg  *message
	err  error
}

const (
	// maxLine bounds a line of the agent. The longest that was seen, an item with a command's output, has some megabytes.
	maxLine = 64 << 20
	// maxQueuedEvents is how many events may wait before reading waits for the callback.
	maxQueuedEvents = 1024
	// messageLength is where the message of an event is cut, in characters.
	messageLength = 200
)

func newConn(streams agent.Streams, o *agent.Options) *conn {
	c := &conn{
		o: o, streams: streams, lines: newQueue(0), events: newQueue(maxQueuedEvents),
		ended: make(chan struct{}), drained: make(chan struct{}), pending: make(map[int]*call),
	}
	c.end = sync.OnceFunc(func() { close(c.ended) })
	return c
}

// close closes the agent's stdin, which makes it exit, and ends what waits on the connection. It may be called once.
func (c *conn) close() error {
	c.closing.Store(true)
	c.events.setLimit(0) // a callback that hangs must not keep the reader
	if err := c.streams.Stdin.Close(); err != nil {
		return fmt.Errorf("close agent's stdin: %w", err)
	}
	return nil
}

// failure is why the connection ended, nil while it lives.
func (c *conn) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return nil
	}
	return c.err
}

// fail ends all calls. The first reason stays.
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

// read handles every line until stdout ends. A last line that has no end is handled as well.
func (c *conn) read(handle func(*message)) {
	lines := bufio.NewScanner(c.streams.Stdout)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() {
		if line := bytes.TrimSpace(lines.Bytes()); len(line) > 0 {
			handle(readMessage(bytes.Clone(line)))
		}
	}
	text := "agent ended: its stdout was closed"
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		text = fmt.Sprintf("agent's stdout: a line has more than %d MiB", maxLine>>20)
	} else if err != nil {
		text = "agent's stdout: " + err.Error()
	}
	c.fail(agent.CodePortExit, text)
}

// send queues one message.
func (c *conn) send(v object) error {
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
	c.lines.add(func() { c.write(line.Bytes()) })
	return nil
}

// write puts a line on the agent's stdin. A blocked write can't be called back: it is reported, and close ends it.
func (c *conn) write(line []byte) {
	if c.closing.Load() {
		return
	}
	late := time.AfterFunc(c.o.ReadTimeout, func() {
		c.stdinBroke(agent.CodeResponseTimeout, fmt.Sprintf("agent does not read its stdin (%v)", c.o.ReadTimeout))
	})
	_, err := c.streams.Stdin.Write(line)
	late.Stop()
	if err != nil && !c.closing.Load() {
		c.stdinBroke(agent.CodePortExit, "agent's stdin: "+err.Error())
	}
}

// stdinBroke ends the calls. A turn goes on for a while: a broken pipe usually means that the agent ended, and its last
// lines, the end of the turn among them, are still to be read.
func (c *conn) stdinBroke(code agent.Code, text string) {
	c.fail(code, text)
	time.AfterFunc(c.o.ReadTimeout, c.end)
}

// start sends a request.
func (c *conn) start(r *call) error {
	r.done = make(chan struct{})
	c.mu.Lock()
	c.lastID++
	id := c.lastID
	c.pending[id] = r
	c.mu.Unlock()
	return c.send(object{"id": id, "method": r.method, "params": r.params})
}

// request sends a request and waits for its result; a *wireError is codex's refusal.
func (c *conn) request(ctx context.Context, r *call) (json.RawMessage, error) {
	if err := c.start(r); err != nil {
		return nil, err
	}
	timeout := cmp.Or(r.timeout, c.o.ReadTimeout)
	select {
	case <-r.done:
		switch {
		case r.err != nil:
			return nil, r.err
		case r.msg.Error != nil:
			return nil, r.msg.Error
		}
		return r.msg.Result, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %w", r.method, ctx.Err())
	case <-time.After(timeout):
		return nil, &agent.Error{Code: agent.CodeResponseTimeout, Message: fmt.Sprintf("no answer to %s within %v", r.method, timeout)}
	}
}

// answer takes an answer from the stream; false if it is to no request of ours.
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
	e.At, e.PID, e.Message = time.Now().UTC(), c.o.PID, oneLine(e.Message, messageLength)
	c.events.add(func() { c.o.OnEvent(e) })
}

// flush waits until all events so far are delivered, for at most the timeout of a request: a caller that has the result of a
// turn also has its events.
func (c *conn) flush() {
	reached := make(chan struct{})
	c.events.add(func() { close(reached) })
	select {
	case <-reached:
	case <-time.After(c.o.ReadTimeout):
	}
}

// queue runs functions one after the other, in a goroutine that lives while there are any.
type queue struct {
	mu      sync.Mutex
	room    *sync.Cond
	limit   int      // of those that wait, before add does; 0: none
	waiting []func() // the first one runs
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
