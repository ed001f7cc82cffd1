package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Dial opens a stream to the server.
type Dial func(ctx context.Context) (io.ReadWriteCloser, error)

const (
	maxPause   = 10 * time.Second // between two attempts to connect
	cancelWait = 10 * time.Second // how long a call may take that was canceled
)

// CodeRefused: the server works for another incarnation of the run, speaks another version of the protocol, or has ended.
const CodeRefused = "host_refused"

// Client sends the calls of one run to its server. Its methods can be called concurrently.
type Client struct {
	dial  Dial
	hello hello
	ctx   context.Context
	close context.CancelFunc
	done  chan struct{} // closed when no more answers come

	mu      sync.Mutex
	last    int64 // the number of the last call
	waiting map[int64]*call
	stream  *stream // nil while there is none
	refused error
}

// call is a call without an answer.
type call struct {
	message
	answered chan answer // of capacity 1
}

// Connect connects to the server of an incarnation of a run. Afterwards the client connects again by itself until Close, and calls wait
// meanwhile. An error means that the server has carried out nothing.
func Connect(ctx context.Context, dial Dial, runID string, incarnation int64) (*Client, error) {
	c := &Client{
		dial: dial, hello: hello{Protocol: protocol, RunID: runID, Incarnation: incarnation}, done: make(chan struct{}),
		waiting: map[int64]*call{},
	}
	c.ctx, c.close = context.WithCancel(context.WithoutCancel(ctx))
	s, err := c.open(ctx)
	if err != nil {
		c.close()
		return nil, err
	}
	go c.keep(s)
	return c, nil
}

// Close ends the link. The server goes on.
func (c *Client) Close() {
	c.close()
	<-c.done
}

// open connects once.
func (c *Client) open(ctx context.Context) (*stream, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	s := newStream(conn)
	c.mu.Lock()
	h := c.hello
	h.Unanswered = slices.Sorted(maps.Keys(c.waiting))
	c.mu.Unlock()
	var w welcome
	if err = writeLine(conn, h); err == nil {
		err = s.next(&w)
	}
	if err == nil {
		err = w.Fault.err()
	}
	if err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

// keep reads answers, and connects again when a stream breaks, until the client is closed or refused.
func (c *Client) keep(s *stream) {
	defer close(c.done)
	for pause := time.Duration(0); ; {
		if s != nil {
			c.use(s)
			pause = 0
		}
		select {
		case <-c.ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(max(2*pause, 100*time.Millisecond), maxPause)
		var err error
		s, err = c.open(c.ctx)
		var known *reconcile.Error
		if errors.As(err, &known) && known.Code == CodeRefused {
			c.mu.Lock()
			c.refused = err
			c.mu.Unlock()
			return
		}
	}
}

// use repeats the calls without an answer on a stream and reads answers until it breaks.
func (c *Client) use(s *stream) {
	s.start(message{})
	defer s.end()
	defer context.AfterFunc(c.ctx, s.cancel)()
	c.mu.Lock()
	c.stream = s
	again := slices.SortedFunc(maps.Values(c.waiting), func(a, b *call) int { return cmp.Compare(a.Call, b.Call) })
	c.mu.Unlock()
	go func() {
		for _, w := range again {
			s.put(w.message)
		}
	}()
	for {
		var a answer
		if err := s.next(&a); err != nil {
			break
		}
		if a.Call != 0 {
			c.deliver(s, a)
		}
	}
	c.mu.Lock()
	c.stream = nil
	c.mu.Unlock()
}

// deliver passes an answer to its call, once.
func (c *Client) deliver(s *stream, a answer) {
	c.mu.Lock()
	w := c.waiting[a.Call]
	delete(c.waiting, a.Call)
	c.mu.Unlock()
	if w != nil {
		w.answered <- a
	}
	s.put(message{Forget: a.Call})
}

// ask carries out a call and decodes its answer.
func ask[A any](ctx context.Context, c *Client, method string, with any) (result A, err error) {
	data, err := json.Marshal(with)
	if err != nil {
		return result, fmt.Errorf("%s: %w", method, err)
	}
	w := c.begin(method, data)
	var a answer
	select {
	case a = <-w.answered:
	case <-c.done:
		return result, c.ended(method)
	case <-ctx.Done():
		if a, err = c.cancel(ctx, w); err != nil {
			return result, err
		}
	}
	if err = a.Fault.err(); errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if len(a.Result) > 0 {
		err = errors.Join(err, json.Unmarshal(a.Result, &result))
	}
	return result, err
}

// tell carries out a call whose answer is only an error.
func tell(ctx context.Context, c *Client, method string, with any) error {
	_, err := ask[struct{}](ctx, c, method, with)
	return err
}

// begin sends a new call, now or as soon as there is a stream.
func (c *Client) begin(method string, with json.RawMessage) *call {
	c.mu.Lock()
	c.last++
	w := &call{message: message{Call: c.last, Method: method, With: with}, answered: make(chan answer, 1)}
	c.waiting[w.Call] = w
	s := c.stream
	c.mu.Unlock()
	s.put(w.message)
	return w
}

// cancel ends the wait for a call. If the server can be reached, the call ends there first, and its answer counts.
func (c *Client) cancel(ctx context.Context, w *call) (answer, error) {
	c.mu.Lock()
	s := c.stream
	c.mu.Unlock()
	if s != nil {
		s.put(message{Cancel: w.Call})
		select {
		case a := <-w.answered:
			return a, nil
		case <-s.ctx.Done():
		case <-time.After(cancelWait):
		}
	}
	c.mu.Lock()
	delete(c.waiting, w.Call)
	c.mu.Unlock()
	return answer{}, context.Cause(ctx)
}

// ended is the error of a call after the end of the link.
func (c *Client) ended(method string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused != nil {
		return c.refused
	}
	return fmt.Errorf("%s: the link to the host was closed: %w", method, context.Canceled)
}
