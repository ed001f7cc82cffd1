package codex

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Ids as design section 9 has them: fixed for the three requests that every
// transcript shows, and counted from 4 for the rest.
const (
	idInitialize = 1
	idThread     = 2
	idTurn       = 3
	idFirstOther = 4
)

// calls are the requests of ours. It is guarded by the session's mu.
type calls struct {
	next    int
	pending map[string]*call
	// early keeps answers that came before their request was registered, in
	// order: an agent may answer faster than we look.
	early map[string][]*message
	kept  int
}

// earlyKept bounds calls.early.
const earlyKept = 64

type call struct {
	// hook runs in the reader before the next line is read, so that what the
	// answer says is known when later lines are judged.
	hook func(*message)
	done chan struct{}
	msg  *message
	err  *Error
}

func newCalls() calls {
	return calls{
		next:    idFirstOther,
		pending: make(map[string]*call),
		early:   make(map[string][]*message),
	}
}

func (c *calls) id() int {
	c.next++
	return c.next - 1
}

func (c *calls) failAll(err *Error) {
	for id, p := range c.pending {
		delete(c.pending, id)
		p.err = err
		close(p.done)
	}
}

// register takes id for a request about to be written; the call is already
// answered where its answer came early.
func (s *Session) register(id int, hook func(*message)) (*call, error) {
	key := fmt.Sprint(id)
	p := &call{hook: hook, done: make(chan struct{})}
	s.mu.Lock()
	if s.err != nil {
		defer s.mu.Unlock()
		return nil, s.err
	}
	if s.calls.pending[key] != nil {
		defer s.mu.Unlock()
		return nil, fmt.Errorf("request %s is already under way", key)
	}
	waiting := s.calls.early[key]
	if len(waiting) == 0 {
		s.calls.pending[key] = p
		s.mu.Unlock()
		return p, nil
	}
	s.calls.early[key] = waiting[1:]
	s.calls.kept--
	s.mu.Unlock()
	p.answer(waiting[0])
	return p, nil
}

func (p *call) answer(m *message) {
	if p.hook != nil {
		p.hook(m)
	}
	p.msg = m
	close(p.done)
}

// answered takes a response from the stream.
func (s *Session) answered(m *message) {
	key := string(m.ID)
	s.mu.Lock()
	p := s.calls.pending[key]
	switch {
	case p != nil:
		delete(s.calls.pending, key)
	case s.calls.kept < earlyKept:
		s.calls.early[key] = append(s.calls.early[key], m)
		s.calls.kept++
	}
	s.mu.Unlock()
	if p != nil {
		p.answer(m)
		return
	}
	s.emit(Event{Name: EventOtherMessage, Message: "answer to no request of ours, id " + oneLine(key, 40), Raw: m.raw})
}

// request is one of ours, with the shape codex wants: params always there.
type request struct {
	ID     int    `json:"id"`
	Method string `json:"method"`
	Params any    `json:"params"`
}

// call sends a request and waits for its answer, for at most timeout. A
// request given up stays registered: its late answer still runs the hook, and
// can't pass for the answer to a later request with the same id.
func (s *Session) call(ctx context.Context, id int, method string, params any, timeout time.Duration, hook func(*message)) (*message, error) {
	p, err := s.register(id, hook)
	if err != nil {
		return nil, err
	}
	if err := s.post(request{ID: id, Method: method, Params: params}); err != nil {
		s.forget(id, p)
		return nil, err
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.msg, p.asError()
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %w", method, ctx.Err())
	case <-timer.C:
		return nil, &Error{Code: CodeResponseTimeout, Message: fmt.Sprintf("no answer to %s within %v", method, timeout)}
	}
}

// asError keeps a nil *Error from becoming an error that is not nil.
func (p *call) asError() error {
	if p.err != nil {
		return p.err
	}
	return nil
}

// forget takes back a request that could not be sent.
func (s *Session) forget(id int, p *call) {
	key := fmt.Sprint(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls.pending[key] == p {
		delete(s.calls.pending, key)
	}
}

// resultOf decodes what a request was answered with.
func resultOf(method string, m *message, into any) error {
	if err := json.Unmarshal(m.Result, into); err != nil {
		return fmt.Errorf("answer to %s: %w", method, err)
	}
	return nil
}
