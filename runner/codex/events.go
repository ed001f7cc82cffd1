package codex

import (
	"time"

	"github.com/symphony-cron/symphony/runner/agent"
)

// eventQueue delivers events to a callback in order, from one goroutine.
type eventQueue struct {
	call    func(agent.Event) // nil: all events are dropped
	timeout time.Duration
	entries chan any        // agent.Event, or func() to be called in its turn
	ended   <-chan struct{} // the stream has ended
	closing <-chan struct{} // the session was closed
	drained chan struct{}   // what was emitted until the end of the stream is delivered
	silent  chan struct{}   // nothing will be delivered any more
}

// maxQueuedEvents is how many events may wait before reading waits for the callback.
const maxQueuedEvents = 1024

func newEventQueue(call func(agent.Event), timeout time.Duration, ended, closing <-chan struct{}) *eventQueue {
	q := &eventQueue{
		call: call, timeout: timeout, entries: make(chan any, maxQueuedEvents),
		ended: ended, closing: closing, drained: make(chan struct{}), silent: make(chan struct{}),
	}
	go q.run()
	return q
}

// run delivers until the stream has ended and the session is closed: after the agent's end the callback still learns how
// that ended the turn.
func (q *eventQueue) run() {
	defer close(q.silent)
	q.deliverUntil(q.ended)
	close(q.drained)
	q.deliverUntil(q.closing)
}

// deliverUntil delivers until over, and what is queued then.
func (q *eventQueue) deliverUntil(over <-chan struct{}) {
	for {
		select {
		case entry := <-q.entries:
			q.deliver(entry)
			continue
		case <-over:
		}
		for {
			select {
			case entry := <-q.entries:
				q.deliver(entry)
			default:
				return
			}
		}
	}
}

func (q *eventQueue) deliver(entry any) {
	switch e := entry.(type) {
	case agent.Event:
		q.call(e)
	case func():
		e()
	}
}

// emit queues an event. It blocks while the queue is full; after the session was closed for at most the timeout, so that a
// callback that hangs can't keep the reader.
func (q *eventQueue) emit(e agent.Event) {
	if q.call == nil {
		return
	}
	if e.At.IsZero() {
		e.At = time.Now()
	}
	e.At = e.At.UTC()
	q.enqueue(e)
}

func (q *eventQueue) enqueue(entry any) {
	select {
	case q.entries <- entry:
		return
	default:
	}
	select {
	case q.entries <- entry:
		return
	case <-q.silent:
		return
	case <-q.closing:
	}
	late := time.NewTimer(q.timeout)
	defer late.Stop()
	select {
	case q.entries <- entry:
	case <-q.silent:
	case <-late.C:
	}
}

// flush waits until all events so far are delivered, at most the timeout: a caller that has the result of a turn also has
// its events.
func (q *eventQueue) flush() {
	if q.call == nil {
		return
	}
	reached := make(chan struct{})
	q.enqueue(func() { close(reached) })
	late := time.NewTimer(q.timeout)
	defer late.Stop()
	select {
	case <-reached:
	case <-q.silent:
	case <-late.C:
	}
}
