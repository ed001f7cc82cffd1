package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// Server carries out the calls of one run on this machine. It outlives every stream.
type Server struct {
	runID       string
	incarnation int64
	methods     map[string]method
	children    *children
	ctx         context.Context
	stop        context.CancelFunc
	working     sync.WaitGroup

	mu     sync.Mutex
	stream *stream // the newest; nil before the first
	calls  map[int64]*served
	seen   time.Time // when a client was connected last; meaningless while one is
}

// method carries out one call with encoded parameters.
type method func(ctx context.Context, with json.RawMessage) (any, error)

// served is a call that the client may repeat.
type served struct {
	cancel context.CancelFunc
	answer *answer // nil while the call goes on
}

// NewServer returns the server of one incarnation of a run. In dir, which exists, it keeps what the run's processes write.
func NewServer(m host.Machine, runID string, incarnation int64, dir string) *Server {
	s := &Server{runID: runID, incarnation: incarnation, calls: map[int64]*served{}, seen: time.Now()}
	s.children = &children{dir: dir, all: map[int64]*child{}}
	s.methods = methods(m, m.Run(runID), s.children)
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Close cancels all calls, waits for them, and closes the processes that are left.
func (s *Server) Close() error {
	s.stop()
	s.working.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream != nil {
		s.stream.end()
	}
	return s.children.close()
}

// Silent returns for how long no client was connected.
func (s *Server) Silent() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream != nil && s.stream.ctx.Err() == nil {
		return 0
	}
	return time.Since(s.seen)
}

// Serve serves a client until its stream breaks or a newer client of the same incarnation connects.
func (s *Server) Serve(conn io.ReadWriteCloser) error {
	stream := newStream(conn)
	defer stream.end()
	var h hello
	if err := stream.next(&h); err != nil {
		return err
	}
	refused := s.refuse(h)
	if err := writeLine(conn, welcome{Protocol: protocol, Fault: newFault(refused)}); err != nil || refused != nil {
		return err
	}
	stream.start(answer{})
	s.take(stream, h)
	defer s.leave(stream)
	for {
		var m message
		if err := stream.next(&m); err != nil {
			return err
		}
		s.handle(stream, m)
	}
}

// refuse returns why a client is not served, nil if it is.
func (s *Server) refuse(h hello) error {
	why := ""
	switch {
	case h.Protocol != protocol:
		why = fmt.Sprintf("the host speaks version %d of the protocol, not %d", protocol, h.Protocol)
	case h.RunID != s.runID || h.Incarnation != s.incarnation:
		why = fmt.Sprintf("the host works for incarnation %d of run %s, not for %d of %s", s.incarnation, s.runID, h.Incarnation, h.RunID)
	case s.ctx.Err() != nil:
		why = "run " + s.runID + " has ended there"
	default:
		return nil
	}
	return reconcile.NewError(CodeRefused, why, "the run ends; the next pass starts the issue again")
}

// take makes a stream the current one, and forgets the answers that its client has.
func (s *Server) take(stream *stream, h hello) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream != nil {
		s.stream.cancel() // its sender closes it
	}
	s.stream = stream
	for n, call := range s.calls {
		if call.answer != nil && !slices.Contains(h.Unanswered, n) {
			delete(s.calls, n)
		}
	}
}

func (s *Server) leave(stream *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stream.cancel()
	s.seen = time.Now()
}

// handle begins what a client asks for. A repeated call is not carried out again.
func (s *Server) handle(stream *stream, m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	call := s.calls[m.Call]
	switch {
	case m.Forget != 0:
		delete(s.calls, m.Forget)
	case m.Cancel != 0:
		if canceled := s.calls[m.Cancel]; canceled != nil {
			canceled.cancel()
		}
	case m.Call == 0: // a sign of life
	case call == nil:
		call = &served{}
		s.calls[m.Call] = call
		var ctx context.Context
		ctx, call.cancel = context.WithCancel(s.ctx)
		s.working.Go(func() { s.carryOut(ctx, call, m) })
	case call.answer != nil:
		go stream.put(*call.answer)
	}
}

// carryOut carries out a call and sends the answer on the stream that is the current one then.
func (s *Server) carryOut(ctx context.Context, call *served, m message) {
	defer call.cancel()
	a := answer{Call: m.Call}
	var result any
	err := fmt.Errorf("this symphony knows no method %q", m.Method)
	if do, known := s.methods[m.Method]; known {
		result, err = do(ctx, m.With)
	}
	if result != nil {
		data, encodeErr := json.Marshal(result)
		if a.Result = data; err == nil {
			err = encodeErr
		}
	}
	a.Fault = newFault(err)
	s.mu.Lock()
	call.answer = &a
	stream := s.stream
	s.mu.Unlock()
	stream.put(a)
}

// methodOf returns the method that calls a function with decoded parameters.
func methodOf[Q, A any](f func(context.Context, Q) (A, error)) method {
	return func(ctx context.Context, with json.RawMessage) (any, error) {
		var q Q
		if err := json.Unmarshal(with, &q); err != nil {
			return nil, err
		}
		return f(ctx, q)
	}
}

// withoutAnswer is a function whose answer is only an error.
func withoutAnswer[Q any](f func(context.Context, Q) error) func(context.Context, Q) (struct{}, error) {
	return func(ctx context.Context, q Q) (struct{}, error) { return struct{}{}, f(ctx, q) }
}

// nothing are the parameters of a call without any.
type nothing struct{}

func withoutParameters(f func(context.Context) error) func(context.Context, nothing) (nothing, error) {
	return func(ctx context.Context, _ nothing) (nothing, error) { return nothing{}, f(ctx) }
}
