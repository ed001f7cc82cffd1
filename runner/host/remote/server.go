package remote

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// maxCalls bounds the calls that go on at once.
const maxCalls = 256

// Server carries out the calls of a run on this machine. It outlives every stream.
type Server struct {
	// Released is called before the worker's call of Release is answered.
	Released func() error
	// Run is the run.
	Run host.Run
	// LostAfter is how long the server works without a client, before who serves it ends the
	// run. Clients learn it, so that none waits longer between two attempts to connect.
	LostAfter time.Duration

	of       Incarnation
	methods  map[string]method
	children *children
	ctx      context.Context
	stop     context.CancelFunc

	mu       sync.Mutex
	closed   bool
	replaced map[string]bool // clients that are not served any more
	client   *served         // nil before the first client
	lostAt   time.Time       // when the last stream ended, or the server began
}

// served is a client, over all its streams.
type served struct {
	id      string
	session *session
	stream  *stream // the newest
	calls   map[int64]context.CancelFunc
	ctx     context.Context // of its calls; ends when a newer client takes its place
	stop    context.CancelFunc
	// closed when the calls of all clients before it have ended; only then it makes calls
	ready   chan struct{}
	working sync.WaitGroup
}

// wait waits for the end of the calls of a client that makes no new calls, and of earlier
// clients. There may be no client.
func (c *served) wait() {
	if c != nil {
		<-c.ready
		c.working.Wait()
	}
}

// method carries out a call with encoded parameters.
type method func(ctx context.Context, with json.RawMessage) (any, error)

// NewServer returns the server of an incarnation of a run.
func NewServer(m host.Machine, of Incarnation) *Server {
	s := &Server{of: of, Run: m.Run(of.RunID), replaced: map[string]bool{}, lostAt: time.Now()}
	s.children = &children{all: map[int64]*child{}}
	s.methods = methods(m, s.Run, s.children)
	s.methods["EndRun"] = methodOf(withoutResult(s.endWork))
	s.Released = func() error { return nil }
	s.methods["Release"] = methodOf(withoutBoth(func(context.Context) error { return s.Released() }))
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Close ends all streams and calls, waits for the calls, and closes the processes that are
// left.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	client := s.client
	s.mu.Unlock()
	s.stop()
	client.wait()
	return s.children.close()
}

// EndRun ends the run without its worker, and closes the server: the agent gets the end of its
// stdin first, and then the rest is killed. Files and commits stay as they are.
func (s *Server) EndRun(ctx context.Context) error {
	s.children.sendEOF(ctx)
	return errors.Join(s.Close(), s.killRest(ctx, host.KillRequest{}), s.Run.Finish(ctx))
}

// endWork ends the run as EndRun does, for a worker, which the server goes on to serve. The
// workspace stays held: the worker copies its commits, and then calls Finish.
func (s *Server) endWork(ctx context.Context, r host.KillRequest) error {
	s.children.sendEOF(ctx)
	err := s.children.close()
	if openErr := s.Run.Open(ctx); openErr != nil { // in a daemon that was started only for this
		return errors.Join(err, openErr)
	}
	return errors.Join(err, s.killRest(ctx, r))
}

// killRest kills the remaining processes of the run, and restores git settings.
func (s *Server) killRest(ctx context.Context, r host.KillRequest) error {
	left, killErr := s.Run.Kill(ctx, r)
	_, restoreErr := s.Run.RestoreGit(ctx)
	return errors.Join(killErr, host.Leftover("run "+s.of.RunID, left.Processes), restoreErr)
}

// Silent returns for how long no client was connected.
func (s *Server) Silent() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil && s.client.stream.ctx.Err() == nil {
		s.lostAt = time.Now()
		return 0
	}
	return time.Since(s.lostAt)
}

// CloseProcesses closes the processes that the worker did not close.
func (s *Server) CloseProcesses() error { return s.children.close() }

// Serve serves a client until its stream breaks, a newer client connects, or the server is
// closed.
func (s *Server) Serve(conn io.ReadWriteCloser) error {
	stream := newStream(context.Background(), conn)
	defer stream.end()
	var h hello
	if err := stream.lines.next(&h); err != nil {
		return err
	}
	client, err := s.take(stream, h)
	w := welcome{Protocol: protocol, Fault: newFault(err)}
	if err != nil {
		return errors.Join(err, stream.write(w))
	}
	w.Received = client.session.have()
	w.LostAfter = s.LostAfter
	defer s.leave()
	defer context.AfterFunc(s.ctx, stream.end)()
	if err := stream.write(w); err != nil {
		return err
	}
	return stream.run(client.session, h.Received, func(body json.RawMessage) { s.handle(client, body) })
}

// take makes a stream the only stream. Before a new client is served, the calls of the
// previous client end.
func (s *Server) take(stream *stream, h hello) (*served, error) {
	s.mu.Lock()
	if why := s.refuse(h); why != "" {
		s.mu.Unlock()
		return nil, Refused(why)
	}
	if s.closed { // the end of the run is not certain before the outcome is written
		s.mu.Unlock()
		return nil, errors.New("run " + s.of.RunID + " is ending there")
	}
	before := s.client
	if before != nil {
		before.stream.end()
	}
	client := before
	if before == nil || before.id != h.Client {
		client = &served{
			id:      h.Client,
			session: newSession(),
			calls:   map[int64]context.CancelFunc{},
			ready:   make(chan struct{}),
		}
		client.ctx, client.stop = context.WithCancel(s.ctx)
		if before != nil {
			s.replaced[before.id] = true
			before.stop()
		}
		go func() {
			before.wait()
			close(client.ready)
		}()
	}
	s.client = client
	client.stream = stream
	s.mu.Unlock()
	<-client.ready
	return client, nil
}

// Refused is the error for a client that is not served.
func Refused(why string) error {
	return reconcile.NewError(CodeRefused, why, "the run ends; the next pass starts the issue again")
}

// Refuse tells a client, instead of a server, why it is not served.
func Refuse(w io.Writer, err error) error {
	return writeLine(w, welcome{Protocol: protocol, Fault: newFault(err)})
}

// refuse returns why a client is not served, empty if it is.
func (s *Server) refuse(h hello) string {
	switch {
	case h.Protocol != protocol:
		return fmt.Sprintf("the host speaks version %d of the protocol, not %d", protocol, h.Protocol)
	case h.RunID != s.of.RunID || h.Number != s.of.Number:
		return fmt.Sprintf(
			"the host works for incarnation %d of run %s, not for %d of %s",
			s.of.Number,
			s.of.RunID,
			h.Number,
			h.RunID,
		)
	case subtle.ConstantTimeCompare([]byte(h.Secret), []byte(s.of.Secret)) == 0:
		return "the secret of run " + s.of.RunID + " is another there"
	case s.replaced[h.Client]:
		return "another worker controls run " + s.of.RunID + " there"
	}
	return ""
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lostAt = time.Now()
}

// handle begins or ends a call of a client.
func (s *Server) handle(client *served, body json.RawMessage) {
	var r request
	err := json.Unmarshal(body, &r)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed || client.ctx.Err() != nil:
	case r.Cancel != 0:
		if cancel := client.calls[r.Cancel]; cancel != nil {
			cancel()
		}
	case err != nil:
		_ = client.session.put(answer{Call: r.Call, Fault: newFault(err)})
	case len(client.calls) >= maxCalls:
		_ = client.session.put(answer{
			Call:  r.Call,
			Fault: newFault(fmt.Errorf("more than %d calls at once", maxCalls)),
		})
	default:
		ctx, cancel := context.WithCancel(client.ctx)
		client.calls[r.Call] = cancel
		client.working.Go(func() { s.answer(client, s.carryOut(ctx, r)) })
	}
}

// answer ends a call.
func (s *Server) answer(client *served, a answer) {
	if err := client.session.put(a); err != nil {
		_ = client.session.put(answer{Call: a.Call, Fault: newFault(err)})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	client.calls[a.Call]()
	delete(client.calls, a.Call)
}

func (s *Server) carryOut(ctx context.Context, r request) answer {
	do, known := s.methods[r.Method]
	if !known {
		return answer{
			Call:  r.Call,
			Fault: newFault(fmt.Errorf("this symphony knows no method %q", r.Method)),
		}
	}
	result, err := do(ctx, r.With)
	data, encodeErr := json.Marshal(result)
	if err == nil {
		err = encodeErr
	}
	return answer{Call: r.Call, Result: data, Fault: newFault(err)}
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

// nothing are the parameters or the result of a call without any.
type nothing struct{}

func withoutResult[Q any](f func(context.Context, Q) error) func(context.Context, Q) (nothing, error) {
	return func(ctx context.Context, q Q) (nothing, error) { return nothing{}, f(ctx, q) }
}

func withoutParameters[A any](f func(context.Context) (A, error)) func(context.Context, nothing) (A, error) {
	return func(ctx context.Context, _ nothing) (A, error) { return f(ctx) }
}

func withoutBoth(f func(context.Context) error) func(context.Context, nothing) (nothing, error) {
	return func(ctx context.Context, _ nothing) (nothing, error) { return nothing{}, f(ctx) }
}
