package codex

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// errWriteBlocked: the agent did not read what it was sent.
var errWriteBlocked = errors.New("agent does not read its stdin")

// writer puts whole lines on the agent's stdin. One goroutine writes, so that
// the reader can answer requests without ever waiting for a full pipe: a codex
// that waits for its stdout to be read and a client that waits for codex's
// stdin would else wait for each other.
type writer struct {
	w       io.WriteCloser
	timeout time.Duration
	failed  func(error) // called once, without locks of the writer's

	mu     sync.Mutex
	queue  [][]byte
	err    error // set once; nothing is written after it
	wake   chan struct{}
	closed bool
}

// writeQueue bounds what may wait; the session's own traffic is a handful of
// lines, so that more means that the agent stopped reading long ago.
const writeQueue = 4096

func newWriter(w io.WriteCloser, timeout time.Duration, failed func(error)) *writer {
	out := &writer{w: w, timeout: timeout, failed: failed, wake: make(chan struct{}, 1)}
	go out.run()
	return out
}

// send queues one line. Its fate is learnt by failed: a line that can't be
// written ends the session, there is nothing else to be done about it.
func (w *writer) send(line []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
		return w.err
	case w.closed:
		return io.ErrClosedPipe
	case len(w.queue) >= writeQueue:
		return errWriteBlocked
	}
	w.queue = append(w.queue, line)
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return nil
}

// close closes stdin at once, which also ends a write that blocks. What was
// still queued is dropped: codex ends on EOF without looking at it.
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
		for {
			w.mu.Lock()
			if w.closed || len(w.queue) == 0 {
				w.mu.Unlock()
				break
			}
			line := w.queue[0]
			w.queue = w.queue[1:]
			w.mu.Unlock()
			if err := w.write(line); err != nil {
				w.fail(err)
				return
			}
		}
	}
}

// write bounds one write. The write itself can't be called back, so that the
// bound reports it and leaves it blocked; close ends it.
func (w *writer) write(line []byte) error {
	late := time.AfterFunc(w.timeout, func() {
		w.fail(fmt.Errorf("%w (%v)", errWriteBlocked, w.timeout))
	})
	defer late.Stop()
	_, err := w.w.Write(line)
	return err
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
