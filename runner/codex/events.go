package codex

import (
	"time"

	"github.com/symphony-cron/symphony/runner/agent"
)

// eventQueue delivers events to a callback in order, from one goroutine.
type eventQueue struct {
	call    func(agent.Event)
	timeout time.Duration
	queue   chan func()
	closing <-chan struct{} // the session was closed
	drained chan struct{}   // what was emitted until the end of the stream is delivered
	silent  chan struct{}   // nothing will be delivered any more
}

// maxQueuedEvents is how many events may wait before reading waits for the callback.
const maxQueuedEvents = 1024

// newEventQueue delivers until the stream has ended and the session is closed: after the agent's end the callback still
// learns how that ended the turn.
func newEventQueue(call func(agent.Event), timeout time.Duration, ended, closing <-chan struct{}) *eventQueue {
	q := &eventQueue{
		call: call, timeout: timeout, queue: make(chan func(), maxQueuedEvents),
		closing: closing, drained: make(chan struct{}), silent: make(chan struct{}),
	}
	go func() {
		q.deliverUntil(ended)
		close(q.drained)
		q.deliverUntil(closing)
		close(q.silent)
	}()
	return q
}

// deliverUntil delivers until over, and what is queued then.
func (q *eventQueue) deliverUntil(over <-chan struct{}) {
	for open := true; open || len(q.queue) > 0; {
		select {
		case deliver := <-q.queue:
			deliver()
		case <-over:
			open = false
		}
	}
}

func (q *eventQueue) emit(e agent.Event) {
	e.At = time.Now().UTC()
	q.add(func() { q.call(e) })
}

// add blocks while the queue is full; after the session was closed for at most the timeout, so that a callback that hangs
// can't keep the reader.
func (q *eventQueue) add(deliver func()) {
	select {
	case q.queue <- deliver:
		return
	case <-q.silent:
		return
	case <-q.closing:
	}
	select {
	case q.queue <- deliver:
	case <-q.silent:
	case <-time.After(q.timeout):
	}
}

// flush waits until all events so far are delivered, at most the timeout: a caller that has the result of a turn also has
// its events.
func (q *eventQueue) flush() {
	reached := make(chan struct{})
	q.add(func() { close(reached) })
	select {
	case <-reached:
	case <-q.silent:
	case <-time.After(q.timeout):
	}
}
