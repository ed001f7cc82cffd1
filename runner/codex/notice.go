package codex

import (
	"cmp"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"
)

// traits say what a notification means to a worker.
type traits int

const (
	progress traits = 1 << iota // it moves the stall clock
	fragment                    // a later notification repeats it as part of a whole
	routine                     // it tells a person nothing
)

// traitsOf are those of the notifications that have some. Retries are no progress: without a network they come for ever.
var traitsOf = map[string]traits{
	"turn/started": progress, "turn/diff/updated": progress | fragment, "turn/plan/updated": progress, "thread/tokenUsage/updated": progress,
	"item/started": progress, "item/completed": progress, "item/fileChange/patchUpdated": progress, "item/mcpToolCall/progress": progress,
	"item/agentMessage/delta": progress | fragment, "item/commandExecution/outputDelta": progress | fragment,
	"item/fileChange/outputDelta": progress | fragment, "item/plan/delta": progress | fragment,
	"item/reasoning/summaryTextDelta": progress | fragment, "item/reasoning/textDelta": progress | fragment,
	"item/reasoning/summaryPartAdded": progress, "item/commandExecution/terminalInteraction": progress,

	"serverRequest/resolved": routine, "thread/started": routine, "thread/name/updated": routine, "thread/settings/updated": routine,
	"thread/readState/changed": routine, "thread/status/changed": routine, "account/rateLimits/updated": routine,
	"mcpServer/startupStatus/updated": routine, "remoteControl/status/changed": routine,
}

// notice takes a notification, in the reader.
func (s *Session) notice(m *message) {
	p, has := readParams(m.Params), traitsOf[m.Method]
	e := agent.Event{
		Name: agent.EventNotification, ThreadID: p.threadID(), TurnID: p.turnID(), Message: describe(m.Method, p), Raw: m.raw,
		Progress: has&progress != 0, Fragment: has&fragment != 0, Routine: has&routine != 0,
	}
	s.sawLine(e.Progress)
	switch m.Method {
	case "turn/started":
		s.turnStarted(p)
	case "turn/completed", "turn/failed", "turn/cancelled":
		s.turnEnded(m.Method, p, e)
		return
	case "turn/input_required":
		e.Name, e.Message = agent.EventTurnInputRequired, cmp.Or(p.reason(), "no reason given")
		s.failTurn(agent.CodeTurnInputRequired, "the agent asks a person: "+e.Message)
	case "error":
		e.Name = agent.EventError
		if t := s.currentTurn(); t != nil && p.Error != nil {
			t.clock.sawError(p.Error) // for a turn that ends without one, and for the text of a stall
		}
	case "item/started", "item/completed":
		e.Item = p.Item.item(m.Method == "item/completed")
		s.sawItem(p, e.Item)
	case "item/fileChange/patchUpdated":
		s.mu.Lock()
		s.patches[p.threadID()+"/"+p.ItemID] = fileChanges(p.Changes)
		s.mu.Unlock()
	case "serverRequest/resolved":
		if s.withdraw(string(p.RequestID)) {
			s.sawLine(true)
		}
	case "thread/tokenUsage/updated":
		if used, ok := s.count(cmp.Or(p.threadID(), s.ThreadID()), p.TokenUsage); ok {
			e.Usage = &used
			e.Message = fmt.Sprintf("tokens: %d in (%d cached), %d out, %d in all", used.Input, used.CachedInput, used.Output, used.Total)
		}
	case "account/rateLimits/updated":
		s.updateLimits(p.RateLimits)
	case "model/rerouted":
		if s.isOurs(p.threadID()) {
			s.usesModel(p.ToModel)
		}
	case "mcpServer/startupStatus/updated": // after a failure the agent goes on without the tools
		e.Routine = p.statusWord() != statusFailed
	}
	s.emit(e)
}

// turnStarted gives the turn under way its id where the answer to turn/start has named none.
func (s *Session) turnStarted(p *params) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.turn; t != nil && t.id == "" && (p.threadID() == "" || p.threadID() == s.thread) {
		t.id = p.turnID()
	}
}

// turnEnded judges the end of a turn: only its own ends the turn under way. The event is out before RunTurn returns.
// Specification 10.3 also names methods for failure and cancellation.
func (s *Session) turnEnded(method string, p *params, e agent.Event) {
	end := turnEnd{status: p.Turn.Status, err: cmp.Or(p.Turn.Error, p.Error)}
	if end.err == nil && p.reason() != "" {
		end.err = &turnError{Message: p.reason()}
	}
	switch {
	case method == "turn/failed":
		end.status = statusFailed
	case method == "turn/cancelled":
		end.status = statusInterrupted
	case end.status == "" && end.err != nil:
		end.status = statusFailed
	case end.status == "":
		end.status = statusCompleted
	}
	e.Message = "turn " + end.status
	if end.err != nil {
		e.Message = join(e.Message, end.err.Message)
	}
	s.mu.Lock()
	t := s.turn
	ours := t != nil && (p.threadID() == "" || p.threadID() == s.thread) && (p.turnID() == "" || t.id == "" || p.turnID() == t.id)
	s.mu.Unlock()
	if !ours {
		s.emit(e)
		return
	}
	names := map[string]string{
		statusCompleted: agent.EventTurnCompleted, statusFailed: agent.EventTurnFailed, statusInterrupted: agent.EventTurnCancelled,
	}
	used := s.Usage()
	e.Name, e.Usage = cmp.Or(names[end.status], agent.EventTurnEndedWithError), &used
	s.emit(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	t.end, t.id = end, cmp.Or(t.id, p.turnID())
	for _, item := range p.Turn.Items {
		if item.Type == "agentMessage" && item.Text != "" {
			t.lastText = item.Text
		}
	}
	s.turn = nil
	t.cancel()
	close(t.ended)
}

// sawItem notes an item that began or ended. Those of sub-agents belong to the turn under way; a command that an earlier
// turn left running says nothing of this one.
func (s *Session) sawItem(p *params, i *agent.Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key := p.threadID() + "/" + i.ID; i.Kind == agent.ItemFileChange && !i.Ended {
		s.patches[key] = i.Changes
	} else {
		delete(s.patches, key)
	}
	t := s.turn
	ours := p.threadID() == "" || p.threadID() == s.thread
	if t == nil || ours && t.id != "" && p.turnID() != "" && p.turnID() != t.id {
		return
	}
	if i.Kind == agent.ItemCommand && !i.Ended {
		t.commands[i.ID] = true
	} else {
		delete(t.commands, i.ID)
	}
	if i.Kind == agent.ItemMessage && i.Ended && i.Text != "" && ours {
		t.lastText = i.Text
	}
}

// describe is one line for people.
func describe(method string, p *params) string {
	status := words(p.statusWord())
	switch method {
	case "error":
		if p.Error == nil {
			return cmp.Or(p.Message, "error")
		}
		line := join(p.Error.Message, p.Error.Details)
		if p.WillRetry {
			return "retrying: " + line
		}
		return line
	case "item/started", "item/completed":
		return describeItem(&p.Item, method == "item/completed")
	case "item/fileChange/patchUpdated":
		return join("file change is now", baseNames(p.Changes))
	case "item/mcpToolCall/progress":
		return join("MCP tool", p.Message)
	case "item/commandExecution/terminalInteraction":
		return "input to a running command"
	case "turn/plan/updated":
		return describePlan(p)
	case "thread/status/changed":
		return "thread is " + cmp.Or(status, "unknown")
	case "thread/goal/updated":
		return join("goal "+words(p.Goal.Status), p.Goal.Objective)
	case "model/rerouted":
		return join("model "+p.ToModel+" instead of "+p.FromModel, words(p.Reason))
	case "mcpServer/startupStatus/updated":
		line := "MCP server " + p.Name + " is " + status
		if p.Error != nil {
			line = join(line, p.Error.Message)
		}
		return line
	}
	return join(join(words(strings.TrimPrefix(method, "item/")), status), cmp.Or(join(p.Summary, p.Details), p.Message))
}

func describeItem(i *wireItem, ended bool) string {
	state := "started"
	if ended {
		state = cmp.Or(i.Status, statusCompleted)
	}
	switch i.Type {
	case "agentMessage":
		if ended {
			return firstLine(i.Text)
		}
	case "commandExecution":
		if ended && i.ExitCode != nil {
			state = fmt.Sprintf("exited %d", *i.ExitCode)
		}
		return "command " + state + ": " + shellText(i.Command)
	case "fileChange":
		if len(i.Changes) > 0 {
			return join(text.Plural(len(i.Changes), "file change")+" "+state, baseNames(i.Changes))
		}
	case "dynamicToolCall":
		return "tool " + i.Tool + " " + state
	case "mcpToolCall":
		line := "MCP tool " + i.Server + "/" + i.Tool + " " + state
		if i.Error != nil {
			line = join(line, i.Error.Message)
		}
		return line
	case "collabAgentToolCall":
		return "sub-agent " + i.Tool + " " + state
	case "userMessage":
		return "prompt"
	case "reasoning":
		return join("reasoning", strings.Join(i.Summary, " "))
	}
	return join(words(i.Type)+" "+state, cmp.Or(i.Query, i.Path, firstLine(i.Text)))
}

func describePlan(p *params) string {
	done, now := 0, ""
	for _, step := range p.Plan {
		switch step.Status {
		case "completed":
			done++
		case "inProgress":
			now = cmp.Or(now, step.Step)
		}
	}
	return join(fmt.Sprintf("plan: %d of %s done", done, text.Plural(len(p.Plan), "step")), cmp.Or(now, p.Explanation))
}

// words turns thread/readState/changed into "thread read state changed".
func words(name string) string {
	var b strings.Builder
	for _, r := range strings.ReplaceAll(name, "/", " ") {
		if 'A' <= r && r <= 'Z' {
			b.WriteByte(' ')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// join puts a colon between two texts; an empty one is left out.
func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ": " + b
}

// baseNames names the first files of a change.
func baseNames(changes []wireChange) string {
	const shown = 3
	var names []string
	for _, c := range changes[:min(len(changes), shown)] {
		names = append(names, path.Base(c.Path))
	}
	if len(changes) > shown {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}

// eventQueue delivers events to a callback in order, from one goroutine.
type eventQueue struct {
	call    func(agent.Event)
	timeout time.Duration
	queue   chan func()
	closing <-chan struct{} // the session was closed
	drained chan struct{}   // what was emitted until the end of the stream is delivered
	silent  chan struct{}   // nothing will be delivered any more
}

// maxQueuedEvents is how many events may wait before reading waits for the callback.
const maxQueuedEvents = 1024

// newEventQueue delivers until the stream has ended and the session is closed: after the agent's end the callback still
// learns how that ended the turn.
func newEventQueue(call func(agent.Event), timeout time.Duration, ended, closing <-chan struct{}) *eventQueue {
	q := &eventQueue{
		call: call, timeout: timeout, queue: make(chan func(), maxQueuedEvents),
		closing: closing, drained: make(chan struct{}), silent: make(chan struct{}),
	}
	go func() {
		q.deliverUntil(ended)
		close(q.drained)
		q.deliverUntil(closing)
		close(q.silent)
	}()
	return q
}

// deliverUntil delivers until over, and what is queued then.
func (q *eventQueue) deliverUntil(over <-chan struct{}) {
	for open := true; open || len(q.queue) > 0; {
		select {
		case deliver := <-q.queue:
			deliver()
		case <-over:
			open = false
		}
	}
}

func (q *eventQueue) emit(e agent.Event) {
	e.At = time.Now().UTC()
	q.add(func() { q.call(e) })
}

// add blocks while the queue is full; after the session was closed for at most the timeout, so that a callback that hangs
// can't keep the reader.
func (q *eventQueue) add(deliver func()) {
	select {
	case q.queue <- deliver:
		return
	case <-q.silent:
		return
	case <-q.closing:
	}
	select {
	case q.queue <- deliver:
	case <-q.silent:
	case <-time.After(q.timeout):
	}
}

// flush waits until all events so far are delivered, at most the timeout: a caller that has the result of a turn also has
// its events.
func (q *eventQueue) flush() {
	reached := make(chan struct{})
	q.add(func() { close(reached) })
	select {
	case <-reached:
	case <-q.silent:
	case <-time.After(q.timeout):
	}
}
