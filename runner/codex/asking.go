package codex

import (
	"context"
	"sync"
	"time"
)

// served is a request of codex's that is being answered beside the reader.
type served struct {
	id     string // as it came
	asks   bool   // a person
	ctx    context.Context
	cancel context.CancelFunc
}

// openRequest takes a request whose answer needs time. Its ctx ends with the turn, with the request and with the session.
func (s *Session) openRequest(m *message, asks bool) *served {
	r := &served{id: string(m.ID), asks: asks}
	s.mu.Lock()
	defer s.mu.Unlock()
	parent := s.toolCtx
	if s.turn != nil {
		parent = s.turn.tools
	}
	r.ctx, r.cancel = context.WithCancel(parent)
	if earlier := s.requests[r.id]; earlier != nil {
		earlier.cancel() // codex asks anew by this id; only one can be answered
	}
	s.requests[r.id] = r
	return r
}

// closed is how codex had left a request that was closed.
type closed int

const (
	closedOpen    closed = iota // it waits
	closedSettled               // it was settled without us
	closedAnew                  // it was asked anew by the same id
)

// closeRequest takes the request back.
func (s *Session) closeRequest(r *served) closed {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.requests[r.id] {
	case r:
		delete(s.requests, r.id)
		return closedOpen
	case nil:
		return closedSettled
	}
	return closedAnew
}

// withdraw ends a request that codex settled without us, or after our answer.
func (s *Session) withdraw(id string) {
	s.mu.Lock()
	r := s.requests[id]
	delete(s.requests, id)
	s.mu.Unlock()
	if r != nil {
		r.cancel()
	}
}

// judge gives the answer for a person's decision, and the event for it.
type judge func(Decision) (name, message string, answer object)

// askPerson leaves a request to a person; e tells that it was asked.
func (s *Session) askPerson(m *message, e Event, a Ask, judged judge) {
	decide := func(d Decision) {
		var text string
		var answer object
		e.Name, text, answer = judged(d)
		e.Message = oneLine(text, messageLength)
		if s.reply(m, e, answer) && d.Sent != nil {
			d.Sent()
		}
	}
	if s.o.Ask == nil {
		decide(Decision{Reason: "nobody can be asked"})
		return
	}
	r := s.openRequest(m, true)
	goOn := s.standStill(r.ctx)
	s.emit(e)
	e.Progress, e.Raw = false, nil // what follows is ours
	go func() {
		defer r.cancel()
		d := s.o.Ask(r.ctx, a)
		over := r.ctx.Err() != nil
		pending := s.closeRequest(r) == closedOpen
		goOn()
		if pending && !over {
			decide(d)
			return
		}
		e.Name, e.Message = EventRequestWithdrawn, oneLine("not decided any more: "+a.what()+": "+a.Summary, messageLength)
		if pending && s.isOfSubAgent(e.ThreadID) {
			// Its turn may outlive ours, and would wait for ever.
			_, _, answer := judged(Decision{Reason: "the turn has ended"})
			s.reply(m, e, answer)
			return
		}
		s.emit(e)
	}()
}

func (s *Session) isOfSubAgent(thread string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return thread != "" && thread != s.thread
}

// standStill stops both clocks of the turn under way: it waits for a person, not for the agent. They go on, from where
// they were, when the function is called or ctx ends.
func (s *Session) standStill(ctx context.Context) (goOn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn == nil {
		return func() {} // the next turn finds the request among those that are open
	}
	return s.standStillIn(s.turn, ctx)
}

// standStillIn is standStill for a turn. mu is held.
func (s *Session) standStillIn(t *turn, ctx context.Context) (goOn func()) {
	if t.asking == 0 {
		t.stillSince = time.Now()
	}
	t.asking++
	once := sync.OnceFunc(func() { s.goOn(t) })
	// However long Ask takes to notice the end of ctx.
	context.AfterFunc(ctx, once)
	return once
}

func (s *Session) goOn(t *turn) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.asking--; t.asking > 0 {
		return
	}
	for _, mark := range []*time.Time{&t.lastMessage, &t.lastProgress, &t.lastBusy} {
		// What came in the meantime set its clock to zero, where it then stood.
		*mark = now.Add(-max(0, t.stillSince.Sub(*mark)))
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}
