package codex

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// watch waits for the end of a turn, with the clocks of design section 9.
func (s *Session) watch(ctx context.Context, t *turn) (Turn, error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next, err := s.clocks(t)
		if err != nil {
			return s.lateAbandon(t, err)
		}
		timer.Reset(next)
		select {
		case <-t.ended:
			s.flush()
			return s.result(t)
		case <-t.refused:
			return s.refuse(ctx, t)
		case <-s.broken:
			return s.lastWords(t)
		case <-s.ended:
			return s.lastWords(t)
		case <-ctx.Done():
			return s.abandon(t, fmt.Errorf("turn: %w", ctx.Err()))
		case <-t.wake:
		case <-timer.C:
		}
	}
}

// lastWords ends a turn whose agent is gone or can't be written to any more.
// The reader may still have lines, the end of the turn among them: it is
// waited for, at most ReadTimeout.
func (s *Session) lastWords(t *turn) (Turn, error) {
	late := time.NewTimer(s.o.ReadTimeout)
	defer late.Stop()
	select {
	case <-t.ended:
	case <-s.ended:
	case <-late.C:
	}
	select {
	case <-t.ended:
		s.flush()
		return s.result(t)
	default:
		return s.abandon(t, s.failure())
	}
}

// lateAbandon is for a clock that ran out: a turn that ended at that very
// moment has ended.
func (s *Session) lateAbandon(t *turn, err error) (Turn, error) {
	select {
	case <-t.ended:
		s.flush()
		return s.result(t)
	default:
		return s.abandon(t, err)
	}
}

// refuse ends a turn that asked for what it can't have. codex has its answer
// already; the turn is interrupted all the same, for the model would go on.
func (s *Session) refuse(ctx context.Context, t *turn) (Turn, error) {
	err := s.Interrupt(ctx)
	s.mu.Lock()
	cause := t.cause
	out := Turn{ID: t.id, Status: t.end.status, LastMessage: t.lastText}
	s.mu.Unlock()
	if err != nil {
		// The turn may still run; the caller ends the agent after any error.
		s.emit(Event{Name: EventTurnEndedWithError, ThreadID: s.ThreadID(), TurnID: out.ID, Message: oneLine(err.Error(), messageLength)})
	}
	s.flush()
	return out, cause
}

// abandon leaves a turn that did not end. It stays the turn under way, so that
// Interrupt finds it.
func (s *Session) abandon(t *turn, err error) (Turn, error) {
	s.mu.Lock()
	out := Turn{ID: t.id, LastMessage: t.lastText}
	thread := s.thread
	s.mu.Unlock()
	t.stopTools()
	s.emit(Event{Name: EventTurnEndedWithError, ThreadID: thread, TurnID: out.ID, Message: oneLine(err.Error(), messageLength)})
	s.flush()
	return out, err
}

// noClock is how long watch sleeps where no clock is set.
const noClock = time.Hour

// clocks looks at the clocks of a turn and says when to look again.
//
// Two facts shape the stall clock. A command's item may come only when the
// command is already over, so that open items alone don't show work: Busy is
// asked too. And the time that work was seen without progress must not be held
// against the moment after it: between the end of a process and the item that
// tells of it, a look would find neither. So each look that sees work starts
// the stall clock anew, within TurnTimeout of the last progress.
func (s *Session) clocks(t *turn) (next time.Duration, err error) {
	next = noClock
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.asking > 0 {
		return next, nil // until t.wake
	}
	now := time.Now()
	if limit := s.o.TurnTimeout; limit > 0 {
		left := limit - now.Sub(t.lastMessage)
		if left <= 0 {
			return 0, &Error{Code: CodeTurnTimeout, Message: fmt.Sprintf("nothing came from the agent for %v", round(now.Sub(t.lastMessage)))}
		}
		next = min(next, left)
	}
	if s.o.StallTimeout <= 0 {
		return next, nil
	}
	if now.Sub(later(t.lastProgress, t.lastBusy)) >= s.o.StallTimeout {
		busy := s.busy(t) // may have taken a while, and let progress in
		now = time.Now()
		if busy {
			t.lastBusy = now
		}
	}
	left := s.o.StallTimeout - now.Sub(later(t.lastProgress, t.lastBusy))
	if t.lastBusy.After(t.lastProgress) && s.o.TurnTimeout > 0 {
		left = min(left, max(s.o.TurnTimeout, s.o.StallTimeout)-now.Sub(t.lastProgress))
	}
	if left <= 0 {
		return 0, stalled(t, now.Sub(t.lastProgress))
	}
	return min(next, left), nil
}

// busy says whether the turn has work under way that shows no progress. mu is
// held, and let go while Busy is asked: the reader must go on.
func (s *Session) busy(t *turn) bool {
	if len(t.open) > 0 || len(s.requests) > 0 {
		return true
	}
	if s.o.Busy == nil {
		return false
	}
	s.mu.Unlock()
	defer s.mu.Lock()
	return s.o.Busy()
}

// stalled is the error of a turn without progress. mu is held.
func stalled(t *turn, since time.Duration) *Error {
	e := &Error{Code: CodeStalled, Message: fmt.Sprintf("stalled for %v", round(since))}
	if last := t.lastError; last != nil {
		e.Info = last.Info
		e.Message = oneLine(e.Message+": "+last.Message, errorLength)
		if class, ok := classify(last.Info, last.Message+" "+last.AdditionalDetails); ok {
			e.Cause = class
		}
	}
	return e
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// round makes a duration readable; the clocks are set in seconds and minutes.
func round(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}

// settleForeign waits until the turns that codex started by itself have ended;
// they were interrupted when they began.
func (s *Session) settleForeign(ctx context.Context) error {
	late := time.NewTimer(s.o.ReadTimeout)
	defer late.Stop()
	for {
		f := s.anyForeign()
		if f == nil {
			return nil
		}
		select {
		case <-f.ended:
		case <-s.ended:
			return s.failure()
		case <-ctx.Done():
			return fmt.Errorf("turn/start: %w", ctx.Err())
		case <-late.C:
			return &Error{Code: CodeResponseTimeout, Message: "a turn that codex started by itself did not end"}
		}
	}
}

// foreign is a turn of our thread that we did not start (goals).
type foreign struct {
	ended chan struct{}
	over  bool
}

func (s *Session) anyForeign() *foreign {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.foreign {
		if !f.over {
			return f
		}
	}
	return nil
}

// addForeign notes such a turn and has it interrupted. mu is held.
func (s *Session) addForeign(id string) {
	if id == "" || s.foreign[id] != nil || s.finished[id] {
		return
	}
	f := &foreign{ended: make(chan struct{})}
	s.foreign[id] = f
	// Not in the reader, which must read the answer.
	go func() {
		gone, err := s.interrupt(s.toolCtx, id)
		switch {
		case gone:
			s.foreignEnded(id)
		case err != nil && !errors.Is(err, context.Canceled):
			s.emit(Event{Name: EventOtherMessage, TurnID: id, Message: oneLine("interrupt of a turn that codex started by itself: "+err.Error(), messageLength)})
		}
	}()
}

func (s *Session) foreignEnded(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endForeign(id)
}

// endForeign notes the end of such a turn; false if id is none. mu is held.
func (s *Session) endForeign(id string) bool {
	f := s.foreign[id]
	if f == nil {
		return false
	}
	if !f.over {
		f.over = true
		close(f.ended)
	}
	return true
}
