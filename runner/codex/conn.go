package codex

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/runner/agent"
)

// Ids of requests: fixed for the three that every conversation shows, counted for all others.
const (
	idInitialize = 1
	idThread     = 2
	idTurn       = 3
	idFirstOther = 4
)

const codeMethodNotFound = -32601

// conn is the connection to one app-server: it sends requests and awaits their answers, and delivers events.
type conn struct {
	streams agent.Streams
	timeout time.Duration // of one request, and of one blocked write
	events  *eventQueue
	lines   chan []byte // for stdin

	close   func() error  // closes the agent's stdin, which makes it exit, and ends what waits on the connection
	closing chan struct{} // close was called
	broken  chan struct{} // the agent can't be written to; err says why
	ended   chan struct{} // the reader has ended; err says why

	mu      sync.Mutex
	err     *agent.Error
	nextID  int
	pending map[int]*call
}

// call is a request of ours that is not answered yet.
type call struct {
	id       int // 0: the next one
	method   string
	params   any
	timeout  time.Duration  // 0: the connection's
	answered func(*message) // runs in the reader, before the next line is read

	done chan struct{}
	msg  *message
	err  error
}

// maxQueuedLines bounds what waits for stdin. A conversation has a handful of lines, so that more means an agent that
// stopped reading.
const maxQueuedLines = 1024

func newConn(streams agent.Streams, timeout time.Duration, onEvent func(agent.Event)) *conn {
	c := &conn{
		streams: streams, timeout: timeout, lines: make(chan []byte, maxQueuedLines),
		closing: make(chan struct{}), broken: make(chan struct{}), ended: make(chan struct{}),
		nextID: idFirstOther, pending: make(map[int]*call),
	}
	c.close = sync.OnceValue(func() error {
		close(c.closing)
		if err := streams.Stdin.Close(); err != nil {
			return fmt.Errorf("close agent's stdin: %w", err)
		}
		return nil
	})
	c.events = newEventQueue(onEvent, timeout, c.ended, c.closing)
	go c.write()
	return c
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
func (c *conn) fail(err *agent.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	for id, call := range c.pending {
		delete(c.pending, id)
		call.err = c.err
		close(call.done)
	}
}

// message is any line of the stream. A method tells requests and notifications from answers; the id does not, because both
// sides number theirs from a start of their own.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *wireError      `json:"error"`

	raw json.RawMessage
}

func (m *message) hasID() bool { return len(m.ID) > 0 && !bytes.Equal(m.ID, []byte("null")) }

// unmarshal decodes as much as fits: a member of an unexpected type stays empty and does not hinder the others, because
// types differ between releases. raw must be valid JSON.
func unmarshal(raw []byte, into any) {
	_ = json.Unmarshal(raw, into) // see above
}

// maxLine bounds a line of the agent. The longest that was seen, an item with a command's output, has some megabytes.
const maxLine = 64 << 20

// read handles every line until stdout ends. A last line that has no end is handled as well.
func (c *conn) read(handle func(*message)) {
	lines := bufio.NewScanner(c.streams.Stdout)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() {
		line := bytes.Clone(bytes.TrimSpace(lines.Bytes()))
		if len(line) == 0 {
			continue
		}
		m := &message{raw: line}
		if line[0] == '{' && json.Valid(line) {
			unmarshal(line, m)
		}
		handle(m)
	}
	text := "agent ended: its stdout was closed"
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		text = fmt.Sprintf("agent's stdout: a line has more than %d MiB", maxLine>>20)
	} else if err != nil {
		text = oneLine("agent's stdout: "+err.Error(), errorLength)
	}
	c.fail(&agent.Error{Code: agent.CodePortExit, Message: text})
}

// write puts whole lines on the agent's stdin, in a goroutine of its own: an agent that waits for its stdout to be read and
// a client that waits for the agent's stdin would otherwise wait for each other.
func (c *conn) write() {
	failed := sync.OnceFunc(func() { close(c.broken) })
	for {
		select {
		case <-c.closing:
			return
		case line := <-c.lines:
			// A blocked write can't be called back: it is reported, and close ends it.
			late := time.AfterFunc(c.timeout, func() {
				c.fail(c.writeBlocked())
				failed()
			})
			_, err := c.streams.Stdin.Write(line)
			late.Stop()
			if err != nil {
				// The reader goes on: a broken pipe usually means that the agent ended, and its last lines are still to be read.
				c.fail(&agent.Error{Code: agent.CodePortExit, Message: "agent's stdin: " + err.Error()})
				failed()
				return
			}
		}
	}
}

func (c *conn) writeBlocked() *agent.Error {
	return &agent.Error{Code: agent.CodeResponseTimeout, Message: fmt.Sprintf("agent does not read its stdin (%v)", c.timeout)}
}

// object is a JSON object to be sent.
type object map[string]any

// send queues one message.
func (c *conn) send(v object) error {
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false) // prompts hold < and &, and people read recordings
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	select {
	case <-c.closing:
		return &agent.Error{Code: agent.CodePortExit, Message: "the session was closed"}
	case <-c.broken:
		return c.failure()
	default:
	}
	select {
	case c.lines <- line.Bytes():
		return nil
	default:
		return c.writeBlocked()
	}
}

// start sends a request.
func (c *conn) start(r *call) error {
	c.mu.Lock()
	if r.id == 0 {
		r.id = c.nextID
		c.nextID++
	}
	r.done = make(chan struct{})
	err := error(nil)
	switch {
	case c.err != nil:
		err = c.err
	case c.pending[r.id] != nil:
		err = fmt.Errorf("request %d is already under way", r.id)
	default:
		c.pending[r.id] = r
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.send(object{"id": r.id, "method": r.method, "params": r.params})
}

// request sends a request and waits for its result; a *wireError is codex's refusal. A request that is given up stays
// registered, so that its late answer can't pass for that of a later request with the same id.
func (c *conn) request(ctx context.Context, r *call) (json.RawMessage, error) {
	if err := c.start(r); err != nil {
		return nil, err
	}
	timeout := cmp.Or(r.timeout, c.timeout)
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
	if json.Unmarshal(m.ID, &id) != nil {
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
