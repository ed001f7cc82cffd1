package codex

import (
	"cmp"

	"github.com/symphony-cron/symphony/runner/agent"
)

// traits say what a notification means to a worker.
type traits int

const (
	progress traits = 1 << iota // it moves the stall clock
	fragment                    // a later notification repeats it as part of a whole
	routine                     // it tells a person nothing
)

// notification is what the session knows of one kind of notification.
type notification struct {
	traits
	describe func(*params) string // one line for people
	// take changes the session's state; nil where there is none to change. It may change the event.
	take func(s *Session, p *params, e *agent.Event)
}

// notifications are the ones that the session knows. Retries are no progress: without a network they come for ever.
func notifications() map[string]notification {
	return map[string]notification{
		"turn/started":        {progress, constant("turn started"), (*Session).turnStarted},
		"turn/diff/updated":   {progress | fragment, describeDiff, nil},
		"turn/plan/updated":   {progress, describePlan, nil},
		"turn/input_required": {0, describeReason, (*Session).inputRequired},
		"error":               {0, describeError, (*Session).errorNoticed},
		"serverRequest/resolved": {
			routine, func(p *params) string { return "request " + string(p.RequestID) + " is settled" },
			func(s *Session, p *params, _ *agent.Event) { s.requests.withdraw(string(p.RequestID)) },
		},

		"item/started":                              {progress, describeStarted, (*Session).itemStarted},
		"item/completed":                            {progress, describeEnded, (*Session).itemCompleted},
		"item/agentMessage/delta":                   {progress | fragment, describeDelta, nil},
		"item/commandExecution/outputDelta":         {progress | fragment, describeDelta, nil},
		"item/commandExecution/terminalInteraction": {progress, constant("input to a running command"), nil},
		"item/fileChange/outputDelta":               {progress | fragment, describeDelta, nil},
		"item/fileChange/patchUpdated":              {progress, func(p *params) string { return "file change is now" + baseNames(p.Changes) }, (*Session).patchUpdated},
		"item/mcpToolCall/progress":                 {progress, func(p *params) string { return join("MCP tool", p.Message) }, nil},
		"item/plan/delta":                           {progress | fragment, describeDelta, nil},
		"item/reasoning/summaryTextDelta":           {progress | fragment, describeDelta, nil},
		"item/reasoning/textDelta":                  {progress | fragment, describeDelta, nil},
		"item/reasoning/summaryPartAdded":           {progress, constant("reasoning goes on"), nil},

		"thread/started":            {routine, constant("thread started"), nil},
		"thread/closed":             {0, constant("thread closed"), nil},
		"thread/compacted":          {0, constant("context compacted"), nil},
		"thread/name/updated":       {routine, constant("name of the thread changed"), nil},
		"thread/settings/updated":   {routine, constant("settings of the thread changed"), nil},
		"thread/readState/changed":  {routine, constant("read state of the thread changed"), nil},
		"thread/status/changed":     {routine, func(p *params) string { return "thread is " + statusText(p) }, nil},
		"thread/tokenUsage/updated": {progress, constant("tokens"), (*Session).usageUpdated},
		"thread/goal/updated":       {0, func(p *params) string { return join("goal "+camelToWords(p.Goal.Status), p.Goal.Objective) }, nil},
		"thread/goal/cleared":       {0, constant("goal cleared"), nil},

		"account/rateLimits/updated":          {routine, describeLimits, func(s *Session, p *params, _ *agent.Event) { s.update(p.RateLimits) }},
		"model/rerouted":                      {0, describeRerouted, (*Session).modelRerouted},
		"modelProvider/authRecoveryStarted":   {0, func(p *params) string { return join("signing in to "+p.Provider+" again", p.Message) }, nil},
		"modelProvider/authRecoveryCompleted": {0, func(p *params) string { return join("signed in to "+p.Provider+" again", p.Message) }, nil},
		"mcpServer/startupStatus/updated":     {routine, describeServer, (*Session).serverStarted},
		"remoteControl/status/changed":        {routine, func(p *params) string { return "remote control is " + p.statusWord() }, nil},

		"warning":           {0, func(p *params) string { return join("warning", p.Message) }, nil},
		"guardianWarning":   {0, func(p *params) string { return join("guardian warns", p.Message) }, nil},
		"configWarning":     {0, func(p *params) string { return join("configuration", join(p.Summary, p.Details)) }, nil},
		"deprecationNotice": {0, func(p *params) string { return join("deprecated", join(p.Summary, p.Details)) }, nil},
	}
}

var knownNotifications = notifications()

// notice takes a notification, in the reader.
func (s *Session) notice(m *message) {
	p := readParams(m.Params)
	e := agent.Event{Name: agent.EventNotification, ThreadID: p.threadID(), TurnID: p.turnID(), Raw: m.raw}
	switch m.Method {
	case "turn/completed", "turn/failed", "turn/cancelled":
		s.sawLine(false)
		s.turnEnded(readEnd(m.Method, p), e)
		return
	}
	n, known := knownNotifications[m.Method]
	if !known {
		n = notification{describe: func(p *params) string { return cmp.Or(p.Message, p.Summary, m.Method) }}
	}
	e.Message = oneLine(n.describe(p), messageLength)
	e.Progress, e.Fragment, e.Routine = n.traits&progress != 0, n.traits&fragment != 0, n.traits&routine != 0
	s.sawLine(e.Progress)
	if n.take != nil {
		n.take(s, p, &e)
	}
	s.emit(e)
}

// turnStarted judges the start of a turn: ours, a sub-agent's, or one that codex began by itself on our thread.
func (s *Session) turnStarted(p *params, _ *agent.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := p.turnID()
	if s.thread == "" || id == "" || p.threadID() != "" && p.threadID() != s.thread {
		return
	}
	switch t := s.turn; {
	case t == nil:
		s.addForeign(id)
	case !t.known:
		t.started = append(t.started, id)
	case t.id == "":
		t.id = id
	case t.id != id:
		s.addForeign(id)
	}
}

// turnEnded judges the end of a turn. Its event is out before RunTurn returns.
func (s *Session) turnEnded(end turnEnd, e agent.Event) {
	s.mu.Lock()
	t := s.turn
	switch {
	case end.thread != "" && end.thread != s.thread, s.finished[end.turn], s.endForeign(end.turn), t == nil:
		t = nil
	case !t.known:
		t.early = append(t.early, end)
		e.Name = endNames[end.status]
		t = nil
	case !s.isEndOf(t, end) || t.ending:
		t = nil
	default:
		t.ending = true
		e.Name = endNames[end.status]
	}
	s.mu.Unlock()
	if e.Name != agent.EventNotification {
		e.Name = cmp.Or(e.Name, agent.EventTurnEndedWithError)
		used := s.Usage()
		e.Usage = &used
	}
	e.Message = "turn " + end.status
	if end.err != nil {
		e.Message = join(e.Message, end.err.Message)
	}
	e.Message = oneLine(e.Message, messageLength)
	s.emit(e)
	if t != nil {
		s.mu.Lock()
		s.finishTurn(t, end)
		s.mu.Unlock()
	}
}

var endNames = map[string]string{
	statusCompleted: agent.EventTurnCompleted, statusFailed: agent.EventTurnFailed, statusInterrupted: agent.EventTurnCancelled,
}

func (s *conversation) itemStarted(p *params, e *agent.Event) {
	e.Item = p.Item.item(false)
	if e.Item.Kind == agent.ItemFileChange {
		s.patchUpdated(&params{ThreadID: p.threadID(), ItemID: p.Item.ID, Changes: p.Item.Changes}, nil)
	}
	if t := s.turnOf(p); t != nil && e.Item.Kind == agent.ItemCommand {
		s.mu.Lock()
		t.commands[p.Item.ID] = true
		s.mu.Unlock()
	}
}

func (s *conversation) itemCompleted(p *params, e *agent.Event) {
	e.Item = p.Item.item(true)
	t := s.turnOf(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Item.Kind == agent.ItemFileChange {
		s.patches.drop(p.threadID(), p.Item.ID)
	}
	if t == nil {
		return
	}
	delete(t.commands, p.Item.ID)
	if e.Item.Kind == agent.ItemMessage && e.Item.Text != "" && (p.threadID() == "" || p.threadID() == s.thread) {
		t.lastText = e.Item.Text
	}
}

// turnOf is the turn under way, nil for a message of an earlier turn of our thread: a command that such a turn left running
// says nothing of this one. Messages of sub-agents belong to the turn under way.
func (s *conversation) turnOf(p *params) *turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.turn
	ours := p.threadID() == "" || p.threadID() == s.thread
	if t == nil || ours && t.id != "" && p.turnID() != "" && p.turnID() != t.id {
		return nil
	}
	return t
}

func (s *conversation) patchUpdated(p *params, _ *agent.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.patches.keep(p.threadID(), p.ItemID, fileChanges(p.Changes))
}

// errorNoticed keeps an error, for a turn that ends without one and for the text of a stall.
func (s *conversation) errorNoticed(p *params, e *agent.Event) {
	e.Name = agent.EventError
	if t := s.currentTurn(); t != nil && p.Error != nil {
		t.clock.sawError(p.Error)
	}
}

// inputRequired fails a turn that waits for a person.
func (s *conversation) inputRequired(_ *params, e *agent.Event) {
	e.Name = agent.EventTurnInputRequired
	s.failTurn(&agent.Error{Code: agent.CodeTurnInputRequired, Message: "the agent asks a person: " + e.Message})
}

// serverStarted shows the failure of an MCP server: the agent goes on without its tools.
func (s *conversation) serverStarted(p *params, e *agent.Event) {
	e.Routine = p.statusWord() != statusFailed
}

func (s *Session) modelRerouted(p *params, _ *agent.Event) {
	if s.isOurs(p.threadID()) {
		s.rerouted(p.ToModel)
	}
}

func (s *Session) usageUpdated(p *params, e *agent.Event) {
	thread := cmp.Or(p.threadID(), s.ThreadID())
	if used, ok := s.count(thread, p.TokenUsage); ok {
		e.Usage, e.Message = &used, tokensText(used)
	}
}
