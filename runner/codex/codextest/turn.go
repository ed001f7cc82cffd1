package codextest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// turn is a turn under way. It runs in its own goroutine.
type turn struct {
	s       *server
	t       *thread
	id      string
	began   time.Time
	prompt  string
	ctx     context.Context
	stop    context.CancelFunc
	answer  func() // sends the answer to turn/start, once
	said    string // the last agent message
	saidID  string
	counted bool // a directive tokens was done
	at      int  // index in the thread's history
}

// turnParams are what turn/start takes.
type turnParams struct {
	ThreadID string `json:"threadId"`
	Input    []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"input"`
	Cwd            string          `json:"cwd"`
	ApprovalPolicy json.RawMessage `json:"approvalPolicy"`
	SandboxPolicy  json.RawMessage `json:"sandboxPolicy"`
}

// maxInput is the longest prompt that codex accepts, in characters.
const maxInput = 1 << 20

// check returns codex's error message for parameters that it refuses, "" for valid ones.
func (p *turnParams) check() string {
	if refusal := checkApproval(p.ApprovalPolicy); refusal != "" || len(p.SandboxPolicy) == 0 {
		return refusal
	}
	var policy struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(p.SandboxPolicy, &policy); err != nil {
		return "Invalid request: invalid type: expected internally tagged enum SandboxPolicyDeserialize"
	}
	switch policy.Type {
	case "":
		return "Invalid request: missing field `type`"
	case "workspaceWrite", "readOnly", "dangerFullAccess", "externalSandbox":
		return ""
	}
	return unknownVariant(policy.Type, "dangerFullAccess", "readOnly", "externalSandbox", "workspaceWrite")
}

func (p *turnParams) text() string {
	var texts []string
	for _, i := range p.Input {
		if i.Type == "text" {
			texts = append(texts, i.Text)
		}
	}
	return strings.Join(texts, "\n")
}

func (s *server) startTurn(m *message) {
	var p turnParams
	if err := json.Unmarshal(m.Params, &p); err != nil {
		s.refuse(m.ID, invalidRequest, "Invalid request: "+err.Error())
		return
	}
	if refusal := p.check(); refusal != "" {
		s.refuse(m.ID, invalidRequest, refusal)
		return
	}
	if n := len([]rune(p.text())); n > maxInput {
		s.send(object{"error": object{
			"code": -32602, "data": object{"input_error_code": "input_too_large", "max_chars": maxInput, "actual_chars": n},
			"message": fmt.Sprintf("Input exceeds the maximum length of %d characters.", maxInput),
		}, "id": m.ID})
		return
	}
	s.mu.Lock()
	t := s.threads[p.ThreadID]
	if t == nil {
		s.mu.Unlock()
		s.refuse(m.ID, invalidRequest, "thread not found: "+p.ThreadID)
		return
	}
	if running := t.turn; running != nil {
		s.mu.Unlock()
		// codex starts no second turn: the input joins the running one, which goes on with its script.
		s.result(m.ID, object{"turn": turnShape(running.id, 0)})
		running.item(object{"type": "userMessage", "clientId": nil, "content": content(p.text())}, newID())
		return
	}
	t.apply(&threadParams{Cwd: p.Cwd, ApprovalPolicy: p.ApprovalPolicy})
	u := s.newTurn(t, p.text())
	id := m.ID
	u.answer = func() { s.result(id, object{"turn": turnShape(u.id, 0)}) }
	s.mu.Unlock()
	go u.run()
}

// newTurn makes the thread's next turn. mu is held.
func (s *server) newTurn(t *thread, prompt string) *turn {
	u := &turn{s: s, t: t, id: newID(), prompt: prompt, began: time.Now(), answer: func() {}}
	u.ctx, u.stop = context.WithCancel(context.Background())
	t.turn = u
	u.at = len(t.History)
	t.History = append(t.History, exchange{Prompt: prompt, Status: "interrupted"}) // until finish says otherwise
	t.here++
	t.Turns++
	if t.Prompt == "" {
		t.Prompt = prompt
	}
	if n, ok := Attempt(prompt); ok {
		t.Attempt = n
	} else if _, found, _ := Parse(prompt); found {
		t.Attempt = 0
	}
	s.running.Add(1)
	return u
}

// steps returns the steps of the script for this turn.
func (u *turn) steps() ([]Step, error) {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	script, found, err := Parse(u.prompt)
	if found && err == nil {
		u.t.Script = u.prompt
	} else if !found && u.t.Script != "" {
		script, found, err = Parse(u.t.Script)
	}
	if err != nil || !found {
		return nil, err
	}
	number, ok := Turn(u.prompt)
	if !ok {
		number = u.t.here
	}
	return script.Steps(u.t.Attempt, number), nil
}

// end is an error with which a step ends the turn.
type end struct {
	status string
	info   any
	text   string
}

func (e *end) Error() string { return e.status + ": " + e.text }

// errCrashed ends the turn of a process that is about to exit.
var errCrashed = errors.New("crashed")

func (u *turn) run() {
	defer u.s.running.Done()
	defer u.stop()
	steps, err := u.steps()
	u.save() // so that a thread whose turn is cut off can be resumed
	late := slices.ContainsFunc(steps, func(s Step) bool { return s.Verb == "late-response" })
	if !late {
		u.answer()
	}
	u.status(object{"type": "active", "activeFlags": []any{}})
	u.notify("turn/started", object{"turn": turnShape(u.id, u.began.Unix())})
	u.item(object{"type": "userMessage", "clientId": nil, "content": content(u.prompt)}, newID())
	if err == nil {
		err = u.play(steps)
	} else {
		err = &end{status: "failed", info: "other", text: err.Error()}
	}
	if errors.Is(err, errCrashed) {
		return
	}
	select {
	case <-u.s.quit:
		return // the process is ending; codex sends nothing about the turn
	default:
	}
	u.finish(err)
	if late {
		u.answer()
	}
}

// play does the steps, and adds a message and tokens where the steps have none.
func (u *turn) play(steps []Step) error {
	for i := range steps {
		if err := u.sleep(u.s.o.Pace); err != nil {
			return err
		}
		if err := u.step(&steps[i]); err != nil {
			return err
		}
	}
	if u.said == "" {
		if err := u.say("done"); err != nil {
			return err
		}
	}
	if !u.counted {
		u.count(1000, 50)
	}
	return nil
}

func (u *turn) save() {
	if err := u.s.save(u.t); err != nil {
		u.s.log("codex_core::rollout: " + err.Error())
	}
}

// finish sends the end of the turn.
func (u *turn) finish(err error) {
	e := &end{status: "completed"}
	if err != nil && !errors.As(err, &e) {
		e = &end{status: "failed", info: "other", text: err.Error()}
	}
	failure, items, view := any(nil), []any{}, "notLoaded"
	if e.status == "failed" {
		failure = errorShape(e.info, e.text)
		u.status(object{"type": "systemError"})
		u.notify("error", object{"error": failure, "willRetry": false, "turnId": u.id})
	} else {
		u.status(object{"type": "idle"})
	}
	if e.status == "completed" {
		item := messageItem(u.saidID, u.said)
		item["startedAtMs"], item["completedAtMs"] = now(), now()
		items, view = []any{item}, "summary"
	}
	u.s.mu.Lock()
	u.t.turn = nil
	u.t.History[u.at] = exchange{Prompt: u.prompt, Answer: u.said, Status: e.status}
	u.s.mu.Unlock()
	u.save()
	u.notify("turn/completed", object{"turn": object{
		"id": u.id, "rootTurnId": u.id, "items": items, "itemsView": view, "status": e.status, "error": failure,
		"startedAt": u.began.Unix(), "completedAt": time.Now().Unix(), "durationMs": time.Since(u.began).Milliseconds(),
	}})
}

// interrupt ends a turn. A running command continues in the background.
func (s *server) interrupt(m *message) {
	var p struct {
		ThreadID string `json:"threadId"`
		TurnID   string `json:"turnId"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil || p.ThreadID == "" {
		s.refuse(m.ID, invalidRequest, "Invalid request: missing field `threadId`")
		return
	}
	s.mu.Lock()
	t := s.threads[p.ThreadID]
	var u *turn
	if t != nil {
		u = t.turn
	}
	s.mu.Unlock()
	switch {
	case t == nil:
		s.refuse(m.ID, invalidRequest, "thread not found: "+p.ThreadID)
	case u == nil:
		s.refuse(m.ID, invalidRequest, "no active turn to interrupt")
	case u.id != p.TurnID:
		s.refuse(m.ID, invalidRequest, fmt.Sprintf("expected active turn id %s but found %s", p.TurnID, u.id))
	default:
		s.result(m.ID, object{})
		u.stop()
	}
}

// notify sends a notification of this turn's thread.
func (u *turn) notify(method string, params object) {
	params["threadId"] = u.t.ID
	u.s.notify(method, params)
}

func (u *turn) status(status object) {
	u.notify("thread/status/changed", object{"status": status})
}

// sleep waits, or ends the turn if it is interrupted.
func (u *turn) sleep(d time.Duration) error {
	if d <= 0 {
		return u.interrupted()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-u.ctx.Done():
		return u.interrupted()
	}
}

func (u *turn) interrupted() error {
	if u.ctx.Err() != nil {
		return &end{status: "interrupted"}
	}
	return nil
}

func content(text string) []object {
	return []object{{"type": "text", "text": text, "text_elements": []any{}}}
}
