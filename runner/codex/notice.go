package codex

import (
	"cmp"
	"strings"
	"time"
)

// touch notes that a line came, for the clocks of the turn under way.
func (s *Session) touch(progress bool) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn == nil {
		return
	}
	s.turn.lastMessage = now
	if progress {
		s.turn.lastProgress = now
		s.turn.lastError = nil // a retry that worked; it explains no later stall
	}
}

// isProgress says which notifications move the stall clock: items, deltas and
// token usage, of any thread. Notices of retries are none: without a network
// they come for ever.
func isProgress(method string) bool {
	switch method {
	case "thread/tokenUsage/updated", "turn/started", "turn/diff/updated", "turn/plan/updated":
		return true
	}
	return strings.HasPrefix(method, "item/")
}

// notice takes a notification.
func (s *Session) notice(m *message) {
	var p params
	p.read(m.Params)
	method, old := m.Method, false
	if name, ok := strings.CutPrefix(method, oldMethods); ok {
		method, old = p.modern(name), true
	}
	progress := isProgress(method)
	s.touch(progress)
	e := Event{
		Name: EventNotification, Method: m.Method, ThreadID: p.threadID(), TurnID: p.turnID(),
		Message: describe(method, &p), Progress: progress, Raw: m.raw,
	}
	switch method {
	case "turn/completed", "turn/failed", "turn/cancelled", "turn/canceled", "turn/interrupted":
		if old {
			s.noticeOldEnd(method, &p, e)
		} else {
			s.noticeEnd(m, &p, e)
		}
		return
	case "turn/started":
		s.noticeStart(&p)
	case "item/started", "item/completed":
		s.noticeItem(method, &p)
	case "item/fileChange/patchUpdated":
		s.keepPatch(p.ItemID, &p, p.Changes)
	case "error":
		s.noticeError(&p)
	case "serverRequest/resolved":
		s.withdraw(string(p.RequestID))
	case "model/rerouted":
		s.rerouted(p.threadID(), p.ToModel)
	case "account/rateLimits/updated":
		s.updateLimits(p.RateLimits)
	}
	if old {
		s.updateLimits(p.RateLimits)
	}
	if strings.Contains(m.Method, "oken") { // tokenUsage, token_count
		e.Message = cmp.Or(s.updateUsage(p.threadID(), m.Params), e.Message)
	}
	if p.RequiresInput || p.NeedsInput || p.InputRequired || isInputMethod(m.Method) {
		e.Name = EventTurnInputRequired
		s.fail(&Error{Code: CodeTurnInputRequired, Message: "the agent asks a person: " + e.Message})
	}
	s.emit(e)
}

// isInputMethod knows the methods by which other versions say that a turn
// waits for a person.
func isInputMethod(method string) bool {
	switch method {
	case "turn/input_required", "turn/inputRequired", "turn/needs_input", "turn/needsInput":
		return true
	}
	return false
}

// noticeStart judges a turn/started: ours, a sub-agent's, or one that codex
// began by itself on our thread.
func (s *Session) noticeStart(p *params) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := p.turnID()
	if s.thread == "" || id == "" || (p.threadID() != "" && p.threadID() != s.thread) {
		return
	}
	switch t := s.turn; {
	case t == nil:
		s.addForeign(id)
	case !t.isKnown:
		t.started = append(t.started, id)
	case t.id == "":
		t.id = id
	case t.id != id:
		s.addForeign(id)
	}
}

// noticeEnd judges the end of a turn and emits its event before whoever waits
// for the turn goes on.
func (s *Session) noticeEnd(m *message, p *params, e Event) {
	end := endOf(m.Method, p)
	s.mu.Lock()
	t := s.turn
	ours := e.ThreadID == "" || e.ThreadID == s.thread || s.thread == ""
	known := e.TurnID != "" && s.finished[e.TurnID]
	switch {
	case !ours, known, e.TurnID != "" && s.endForeign(e.TurnID):
		ours = false
	case t == nil || !t.isKnown:
		// Before its turn/start was answered, or even sent. An end without any
		// id can only belong to an answer that also came early.
		if e.TurnID == "" && t == nil && len(s.calls.early["3"]) == 0 {
			ours = false
		} else if len(s.early) < earlyKept {
			s.early = append(s.early, m)
		}
		t = nil
	case s.isEndOf(t, p) && !t.ending:
		t.ending = true
		t.keepLast(p)
	default:
		t, ours = nil, false
	}
	s.mu.Unlock()
	if ours {
		e.Name = endName(end.status)
	}
	s.emit(e)
	if !ours || t == nil {
		return
	}
	s.mu.Lock()
	if s.turn == t {
		s.finish(t, end)
	}
	s.mu.Unlock()
}

func endName(status string) string {
	switch status {
	case statusCompleted:
		return EventTurnCompleted
	case statusFailed:
		return EventTurnFailed
	case statusInterrupted:
		return EventTurnCancelled
	}
	return EventTurnEndedWithError
}

// keepLast takes the last message from the summary in a turn's end.
func (t *turn) keepLast(p *params) {
	for _, item := range p.Turn.Items {
		if item.Type == itemAgentMessage && item.Text != "" {
			t.lastText = item.Text
		}
	}
}

// Types of items that the session knows.
const (
	itemAgentMessage = "agentMessage"
	itemCommand      = "commandExecution"
	itemFileChange   = "fileChange"
)

// keepPatch keeps what a file change would do.
func (s *Session) keepPatch(item string, p *params, changes []wireChange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.patches.keep(p.threadID(), item, changes)
}

func (s *Session) dropPatch(item string, p *params) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.patches.drop(p.threadID(), item)
}

// noticeItem keeps the open commands and file changes, and the agent's last
// message.
func (s *Session) noticeItem(method string, p *params) {
	switch {
	case p.Item.Type == itemFileChange && method == "item/started":
		s.keepPatch(p.Item.ID, p, p.Item.Changes)
	case p.Item.Type == itemFileChange:
		s.dropPatch(p.Item.ID, p)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.turn
	if t == nil {
		return
	}
	ours := p.threadID() == "" || p.threadID() == s.thread
	if ours && t.id != "" && p.turnID() != "" && p.turnID() != t.id {
		// A command left running by an earlier turn says nothing of this one.
		return
	}
	switch {
	case p.Item.Type == itemCommand && method == "item/started":
		told := t.open[p.Item.ID] // some versions tell twice, and not all both times
		t.open[p.Item.ID] = openCommand{cmp.Or(told.command, p.Item.Command), cmp.Or(told.cwd, p.Item.Cwd)}
	case p.Item.Type == itemCommand:
		delete(t.open, p.Item.ID)
	case p.Item.Type == itemAgentMessage && method == "item/completed" && ours && p.Item.Text != "":
		t.lastText = p.Item.Text
	}
}

// noticeError keeps the last error, for a turn that ends without one and for
// the text of a stall.
func (s *Session) noticeError(p *params) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil && p.Error != nil {
		s.turn.lastError, s.turn.lastFinal = p.Error, !p.WillRetry
	}
}

// fail makes the turn under way end with e, whatever codex says of it; the
// first reason stays.
func (s *Session) fail(e *Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.turn; t != nil && t.cause == nil {
		t.cause = e
		close(t.refused)
	}
}
