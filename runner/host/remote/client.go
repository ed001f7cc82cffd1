package remote

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// Dial opens a stream to the server.
type Dial func(ctx context.Context) (io.ReadWriteCloser, error)

const (
	minPause    = 10 * time.Millisecond // before an attempt to connect, if the last link was of use
	secondPause = 50 * time.Millisecond // before the second attempt, at least
	maxPause    = 10 * time.Second      // between two attempts to connect
	cancelWait  = 10 * time.Second      // how long a call may take that was canceled
)

// The codes of the errors that end a client.
const (
	// CodeRefused: the server works for another incarnation of the run or for a newer client,
	// or speaks another version of the protocol.
	CodeRefused = "host_mismatch"
	CodeEnded   = host.CodeEnded
	CodeDied    = host.CodeDied
)

// Ends reports whether a client can't be served any more after an error.
func Ends(err error) bool {
	known, is := errors.AsType[*reconcile.Error](err)
	return is && slices.Contains([]string{CodeRefused, CodeEnded, CodeDied}, known.Code)
}

// Client sends the calls of a run to its server. Machine and its runs make the calls, which
// may be concurrent.
type Client struct {
	dial    Dial
	hello   hello
	session *session
	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	done    chan struct{} // closed when no more answers come

	mu      sync.Mutex
	last    int64           // the number of the last call
	waiting map[int64]*call // without an answer
	stream  *stream         // nil if there is none
	lostAt  time.Time       // when the last stream that delivered a frame broke
	backAt  time.Time       // when the present stream was opened
	refused error
}

// call is a call without an answer.
type call struct {
	number   int64
	method   string
	answered chan answer // of capacity 1
	// late gets an answer that comes after the caller is gone; nil to drop it.
	late func(answer)
	gone bool // the caller
}

// Connect connects to the server of an incarnation of a run. Afterwards the client connects
// again by itself until Close, and calls wait meanwhile. An error means that the server
// carried out nothing.
func Connect(ctx context.Context, dial Dial, of Incarnation) (*Client, error) {
	c := &Client{
		dial:    dial,
		hello:   hello{Protocol: protocol, Incarnation: of, Client: rand.Text()},
		session: newSession(),
		done:    make(chan struct{}),
		waiting: map[int64]*call{},
	}
	c.ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	s, w, err := c.open(ctx)
	if err != nil {
		c.stop()
		return nil, err
	}
	go c.keep(s, w)
	return c, nil
}

// Close ends the link. The server goes on, and with it the calls.
func (c *Client) Close() {
	c.stop()
	<-c.done
}

// open connects once. It ends with ctx.
func (c *Client) open(ctx context.Context) (s *stream, w welcome, err error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, w, err
	}
	s = newStream(c.ctx, conn)
	defer context.AfterFunc(ctx, s.end)()
	w, err = c.greet(s)
	if err != nil {
		s.end()
		return nil, w, err
	}
	return s, w, nil
}

// greet says on a new stream who the client is, and reads the answer.
func (c *Client) greet(s *stream) (w welcome, err error) {
	h := c.hello
	h.Received = c.session.have()
	if err := s.write(h); err != nil {
		return w, err
	}
	if err := s.lines.next(&w); err != nil {
		return w, err
	}
	return w, w.Fault.err()
}

// keep reads answers, and connects again when a stream breaks, until the client is closed or
// refused.
func (c *Client) keep(s *stream, w welcome) {
	defer close(c.done)
	pause := time.Duration(0)
	for s != nil {
		had := c.session.have()
		c.use(s)
		_ = s.run(c.session, w.Received, c.deliver) // the stream broke
		c.use(nil)
		if c.session.have() > had {
			pause = minPause
		}
		s, w, pause = c.reopen(pause, longestPause(w.LostAfter))
	}
}

// reopen connects again, until that succeeds: the first time after a pause, and then after
// longer and longer ones, up to longest. It returns the next pause, and no stream once the
// client is closed or refused.
func (c *Client) reopen(pause, longest time.Duration) (*stream, welcome, time.Duration) {
	for {
		select {
		case <-c.ctx.Done():
			return nil, welcome{}, 0
		case <-time.After(pause):
		}
		pause = min(max(2*pause, secondPause), longest)
		s, w, err := c.open(c.ctx)
		if err == nil {
			return s, w, pause
		}
		if Ends(err) {
			c.mu.Lock()
			c.refused = err
			c.mu.Unlock()
			return nil, welcome{}, 0
		}
	}
}

// longestPause is the longest pause between two attempts to connect to a server that ends the
// run after a silence: a tenth of that, so that a host which is reachable again for a short
// time is not missed. For 20 s it is 2 s, for 15 minutes maxPause.
func longestPause(lostAfter time.Duration) time.Duration {
	if lostAfter <= 0 {
		return maxPause
	}
	return min(lostAfter/10, maxPause)
}

// use makes a stream the present stream; nil after it broke.
func (c *Client) use(s *stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if s == nil {
		if c.heard() {
			c.lostAt = now
		}
	} else {
		c.backAt = now
		s.heard.Store(false) // the welcome is no frame
	}
	c.stream = s
}

// heard reports whether there is a stream that delivered a frame, or a sign of life.
func (c *Client) heard() bool { return c.stream != nil && c.stream.heard.Load() }

// Lost returns for how long the link is lost, 0 if it is up. A link that was opened again
// counts as soon as something comes from it.
func (c *Client) Lost() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lostAt.IsZero() || c.heard() {
		return 0
	}
	return time.Since(c.lostAt)
}

// Done is closed when no more calls are answered, because of Err.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err returns why the server does not serve this client any more, nil if it may.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}

// Back returns for how long the link is up again, 0 if it is lost.
func (c *Client) Back() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream == nil {
		return 0
	}
	return time.Since(c.backAt)
}

// EndRun ends everything that an earlier worker of the run left there: first the agent, by the
// end of its stdin, then all processes. A workspace that the run holds there stays held.
func (c *Client) EndRun(ctx context.Context, r host.KillRequest) error {
	return tell(ctx, c, "EndRun", r)
}

// Release tells the server that the run ended, whereupon it ends.
func (c *Client) Release(ctx context.Context) error {
	err := tell(ctx, c, "Release", nothing{})
	if known, ok := errors.AsType[*reconcile.Error](err); ok && known.Code == CodeEnded {
		return nil
	}
	return err
}

// deliver passes an answer to its call.
func (c *Client) deliver(body json.RawMessage) {
	var a answer
	if json.Unmarshal(body, &a) != nil {
		return // a call that the server answers like this gets no answer
	}
	c.mu.Lock()
	w := c.waiting[a.Call]
	delete(c.waiting, a.Call)
	late := w != nil && w.gone
	if w != nil && !late {
		w.answered <- a
	}
	c.mu.Unlock()
	if late && w.late != nil {
		w.late(a)
	}
}

// begin adds a call to the session.
func (c *Client) begin(method string, with any, late func(answer)) (*call, error) {
	data, err := json.Marshal(with)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	w := &call{number: c.last, method: method, answered: make(chan answer, 1), late: late}
	if err := c.session.put(request{Call: w.number, Method: method, With: data}); err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	c.waiting[w.number] = w
	return w, nil
}

// await waits for the answer to a call. If ctx ends first, the call goes on.
func (c *Client) await(ctx context.Context, w *call) (a answer, err error) {
	select {
	case a = <-w.answered:
		return a, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-c.done:
		err = c.ended(w.method)
	}
	select {
	case a = <-w.answered: // at the same time
		return a, nil
	default:
		return a, err
	}
}

// ask carries out a call and decodes its answer. If ctx ends first, it also ends the call, and
// waits for that if there is a link.
func ask[A any](ctx context.Context, c *Client, method string, with any) (result A, err error) {
	return askLate[A](ctx, c, method, with, nil)
}

// askLate is ask with a function that gets an answer that comes too late.
func askLate[A any](
	ctx context.Context,
	c *Client,
	method string,
	with any,
	late func(answer),
) (result A, err error) {
	w, err := c.begin(method, with, late)
	if err != nil {
		return result, err
	}
	a, err := c.await(ctx, w)
	if err != nil && ctx.Err() != nil {
		a, err = c.cancel(ctx, w)
	}
	if err != nil {
		return result, err
	}
	return decode[A](ctx, a)
}

// decode returns the result and the error of an answer. That the call was canceled counts only
// if ctx ended.
func decode[A any](ctx context.Context, a answer) (result A, err error) {
	err = a.Fault.err()
	canceled := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if canceled && a.Fault.Code == "" {
		err = errors.New("the host has ended the call: " + printable(a.Fault.Message))
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}
	if len(a.Result) > 0 {
		err = errors.Join(err, json.Unmarshal(a.Result, &result))
	}
	return result, err
}

// tell carries out a call whose answer is only an error.
func tell(ctx context.Context, c *Client, method string, with any) error {
	_, err := ask[nothing](ctx, c, method, with)
	return err
}

// cancel ends a call. If there is a link, its answer counts.
func (c *Client) cancel(ctx context.Context, w *call) (answer, error) {
	_ = c.session.put(request{Cancel: w.number}) // it is short
	c.mu.Lock()
	s := c.stream
	c.mu.Unlock()
	if s != nil {
		bounded, end := context.WithTimeout(s.ctx, cancelWait)
		defer end()
		if a, err := c.await(bounded, w); err == nil {
			return a, nil
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case a := <-w.answered:
		return a, nil
	default:
		w.gone = true
		return answer{}, context.Cause(ctx)
	}
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
