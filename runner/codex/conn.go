package codex

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	in      io.Reader
	out     *writer
	timeout time.Duration // of one request
	events  *eventQueue

	closing chan struct{} // Close was called
	broken  chan struct{} // the agent can't be written to; err says why
	ended   chan struct{} // the reader has ended; err says why

	mu      sync.Mutex
	err     *agent.Error
	nextID  int
	pending map[int]*call
}

// call is a request of ours that is not answered yet.
type call struct {
	answered func(*message) // runs in the reader, before the next line is read
	done     chan struct{}
	msg      *message
	err      *agent.Error
}

func newConn(streams agent.Streams, timeout time.Duration, onEvent func(agent.Event)) *conn {
	c := &conn{
		in: streams.Stdout, timeout: timeout,
		closing: make(chan struct{}), broken: make(chan struct{}), ended: make(chan struct{}),
		nextID: idFirstOther, pending: make(map[int]*call),
	}
	c.out = newWriter(streams.Stdin, timeout, c.writeFailed)
	c.events = newEventQueue(onEvent, timeout, c.ended, c.closing)
	return c
}

// close closes the agent's stdin, which makes it exit, and ends what waits on the connection.
func (c *conn) close() error {
	c.mu.Lock()
	select {
	case <-c.closing:
	default:
		close(c.closing)
	}
	c.mu.Unlock()
	return c.out.close()
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

// writeFailed ends all calls. The reader goes on: a broken pipe usually means that the agent ended, and its last lines
// are still to be read.
func (c *conn) writeFailed(err error) {
	e := &agent.Error{Code: agent.CodePortExit, Message: "agent's stdin: " + err.Error()}
	if errors.Is(err, errWriteBlocked) {
		e = &agent.Error{Code: agent.CodeResponseTimeout, Message: err.Error()}
	}
	c.fail(e)
	close(c.broken)
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

// maxLine bounds one line. codex's own have a few megabytes at most; a program that never ends its line must not fill the
// machine's memory.
const maxLine = 256 << 20

var errLineTooLong = errors.New("line too long")

// readLine returns the next line without its end. A last line that has no end is returned as well.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	tooLong := false
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			tooLong, line = true, nil
		}
		if !tooLong {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case tooLong && err == nil:
			return nil, errLineTooLong
		case err != nil && len(line) == 0:
			return nil, err
		}
		return bytes.TrimSpace(line), nil
	}
}

// read handles every line until stdout ends.
func (c *conn) read(handle func(*message)) {
	r := bufio.NewReaderSize(c.in, 64<<10)
	for {
		line, err := readLine(r)
		switch {
		case errors.Is(err, errLineTooLong):
			handle(&message{raw: []byte(fmt.Sprintf("a line of more than %d bytes", maxLine))})
		case err != nil:
			c.fail(streamEnded(err))
			return
		case len(line) > 0:
			m := &message{raw: line}
			if line[0] == '{' && json.Valid(line) {
				unmarshal(line, m)
			}
			handle(m)
		}
	}
}

func streamEnded(err error) *agent.Error {
	if errors.Is(err, io.EOF) {
		return &agent.Error{Code: agent.CodePortExit, Message: "agent ended: its stdout was closed"}
	}
	return &agent.Error{Code: agent.CodePortExit, Message: oneLine("agent's stdout: "+err.Error(), errorLength)}
}

// otherID is the id of a request that has no fixed one.
func (c *conn) otherID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nextID++
	return c.nextID - 1
}

// register announces a request that is about to be sent.
func (c *conn) register(id int, answered func(*message)) (*call, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	if c.pending[id] != nil {
		return nil, fmt.Errorf("request %d is already under way", id)
	}
	call := &call{answered: answered, done: make(chan struct{})}
	c.pending[id] = call
	return call, nil
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

// request sends a request and waits for its answer, for at most timeout. A request that is given up stays registered, so
// that its late answer can't pass for that of a later request with the same id.
func (c *conn) request(ctx context.Context, id int, method string, params any, timeout time.Duration, answered func(*message)) (*message, error) {
	call, err := c.register(id, answered)
	if err != nil {
		return nil, err
	}
	if err := c.send(object{"id": id, "method": method, "params": params}); err != nil {
		c.mu.Lock()
		delete(c.pending, id)
		c.mu.Unlock()
		return nil, err
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-call.done:
		if call.err != nil {
			return nil, call.err
		}
		return call.msg, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %w", method, ctx.Err())
	case <-timer.C:
		return nil, &agent.Error{Code: agent.CodeResponseTimeout, Message: fmt.Sprintf("no answer to %s within %v", method, timeout)}
	}
}

// object is a JSON object to be sent.
type object map[string]any

// send queues one message.
func (c *conn) send(v any) error {
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false) // prompts hold < and &, and people read recordings
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	err := c.out.send(line.Bytes())
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.ErrClosedPipe):
		return &agent.Error{Code: agent.CodePortExit, Message: "the session was closed"}
	}
	if failure := c.failure(); failure != nil {
		return failure
	}
	return &agent.Error{Code: agent.CodeResponseTimeout, Message: err.Error()}
}

// errWriteBlocked: the agent does not read its stdin.
var errWriteBlocked = errors.New("agent does not read its stdin")

// writer puts whole lines on the agent's stdin, from one goroutine: an agent that waits for its stdout to be read and a
// client that waits for the agent's stdin would otherwise wait for each other.
type writer struct {
	w       io.WriteCloser
	timeout time.Duration
	failed  func(error) // called once
	wake    chan struct{}

	mu     sync.Mutex
	queue  [][]byte
	err    error // set once; nothing is written after it
	closed bool
}

// maxQueuedLines bounds the queue. A conversation has a handful of lines, so that more means an agent that stopped reading.
const maxQueuedLines = 4096

func newWriter(w io.WriteCloser, timeout time.Duration, failed func(error)) *writer {
	out := &writer{w: w, timeout: timeout, failed: failed, wake: make(chan struct{}, 1)}
	go out.run()
	return out
}

// send queues a line. failed tells if it can't be written.
func (w *writer) send(line []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
		return w.err
	case w.closed:
		return io.ErrClosedPipe
	case len(w.queue) >= maxQueuedLines:
		return errWriteBlocked
	}
	w.queue = append(w.queue, line)
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return nil
}

// close closes stdin at once, which also ends a write that blocks. Lines that were queued are dropped.
func (w *writer) close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed = true
	close(w.wake)
	w.mu.Unlock()
	if err := w.w.Close(); err != nil {
		return fmt.Errorf("close agent's stdin: %w", err)
	}
	return nil
}

func (w *writer) run() {
	for range w.wake {
		for line := w.next(); line != nil; line = w.next() {
			// A blocked write can't be called back: it is reported, and close ends it.
			late := time.AfterFunc(w.timeout, func() { w.fail(fmt.Errorf("%w (%v)", errWriteBlocked, w.timeout)) })
			_, err := w.w.Write(line)
			late.Stop()
			if err != nil {
				w.fail(err)
				return
			}
		}
	}
}

func (w *writer) next() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.queue) == 0 {
		return nil
	}
	line := w.queue[0]
	w.queue = w.queue[1:]
	return line
}

func (w *writer) fail(err error) {
	w.mu.Lock()
	first := w.err == nil && !w.closed
	if first {
		w.err = err
	}
	w.mu.Unlock()
	if first {
		w.failed(err)
	}
}
