package codextest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/runner/agent/script"

	"github.com/google/uuid"

	"github.com/symphony-cron/symphony/internal/text"
)

// turn is a running turn. It runs in its own goroutine.
type turn struct {
	s       *server
	t       *thread
	id      string
	began   time.Time
	ctx     context.Context
	stop    context.CancelFunc
	said    object        // the item of the last agent message
	heard   chan string   // the input that was added to the turn
	counted bool          // whether a directive reported tokens
	took    time.Duration // the duration that the next items report; zero for the real duration
}

func (s *server) startTurn(p *params) reply {
	prompt := p.prompt()
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.threads[p.ThreadID]
	if t == nil {
		return reply{err: "thread not found: " + p.ThreadID}
	}
	if u := t.turn; u != nil {
		// As with codex, the input is added to the running turn, which continues with its
		// script.
		return reply{result: object{"turn": u.shape(nil)}, after: func() { u.hear(prompt) }}
	}
	t.apply(p)
	u := &turn{s: s, t: t, id: uuid.NewString(), began: time.Now(), heard: make(chan string, 1)}
	u.ctx, u.stop = context.WithCancel(context.Background())
	t.turn = u
	t.here++
	t.Prompt = cmp.Or(t.Prompt, prompt)
	// until finish sets another
	t.History = append(t.History, exchange{Prompt: prompt, Status: "interrupted"})
	steps, err := script.Steps(text.Map(t.History, func(e exchange) string { return e.Prompt }), t.here)
	s.running.Add(1)
	answer := object{"turn": u.shape(nil)}
	if slices.ContainsFunc(steps, func(s script.Step) bool { return s.Verb == "late-response" }) {
		return reply{after: func() {
			go u.run(prompt, steps, err, func() { s.send(object{"id": p.id, "result": answer}) })
		}}
	}
	return reply{result: answer, after: func() { go u.run(prompt, steps, err, func() {}) }}
}

// prompt joins the input of a request into a text.
func (p *params) prompt() string { return strings.Join(text.Map(p.Input, input.prompt), "\n") }

// steer adds input to the running turn, which continues with its script.
func (s *server) steer(p *params) reply {
	u, refusal := s.activeTurn(p, p.ExpectedTurnID, "steer")
	if u == nil {
		return reply{err: refusal}
	}
	return reply{result: object{"turnId": u.id}, after: func() { u.hear(p.prompt()) }}
}

// hear adds input to the turn.
func (u *turn) hear(text string) {
	u.userMessage(text)
	select {
	case u.heard <- text:
	default: // the script waits for no more
	}
}

// interrupt ends a turn. As with codex, a running command goes on in the background.
func (s *server) interrupt(p *params) reply {
	u, refusal := s.activeTurn(p, p.TurnID, "interrupt")
	if u == nil {
		return reply{err: refusal}
	}
	return reply{result: object{}, after: u.stop}
}

// activeTurn returns the running turn with an id, or why there is none to do that with.
func (s *server) activeTurn(p *params, id, do string) (u *turn, refusal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.threads[p.ThreadID]
	switch {
	case t == nil:
		return nil, "thread not found: " + p.ThreadID
	case t.turn == nil:
		return nil, "no active turn to " + do
	case t.turn.id != id:
		return nil, "expected active turn id `" + id + "` but found `" + t.turn.id + "`"
	}
	return t.turn, ""
}

// shape returns the turn with these members.
func (u *turn) shape(members object) object {
	turn := shape("turn", members)
	turn["id"] = u.id
	turn["rootTurnId"] = u.id
	return turn
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

// run runs the turn's steps. It calls ended after the turn's end, unless the process ends
// first.
func (u *turn) run(prompt string, steps []script.Step, err error, ended func()) {
	defer u.s.running.Done()
	defer u.stop()
	u.s.save(u.t) // so that a thread whose turn is cut off can be resumed
	u.start()
	u.userMessage(prompt)
	if err == nil {
		err = u.play(steps)
	}
	select {
	case <-u.s.quit: // the process is ending; codex then sends nothing about the turn
	default:
		if !errors.Is(err, errCrashed) {
			u.finish(err)
			ended()
		}
	}
}

// play runs the steps. A turn without a message ends with "done", and a turn without tokens
// reports some.
func (u *turn) play(steps []script.Step) error {
	for i := range steps {
		if err := u.sleep(u.s.pace); err != nil {
			return err
		}
		if err := u.step(&steps[i]); err != nil {
			return err
		}
	}
	if u.said == nil {
		if err := u.say(0, "done"); err != nil {
			return err
		}
	}
	if !u.counted {
		u.count(1000, 50)
	}
	return nil
}

func (u *turn) start() {
	u.status("active")
	u.notify("turn/started", object{"turn": u.shape(object{"startedAt": u.began.Unix()})})
}

// finish sends the end of the turn.
func (u *turn) finish(err error) {
	e := &end{status: "completed"}
	if err != nil && !errors.As(err, &e) {
		e = &end{status: "failed", info: "other", text: err.Error()}
	}
	members := object{
		"status":      e.status,
		"startedAt":   u.began.Unix(),
		"completedAt": time.Now().Unix(),
		"durationMs":  time.Since(u.began).Milliseconds(),
	}
	switch e.status {
	case "completed":
		members["items"] = []any{u.said}
		members["itemsView"] = "summary"
		u.status("idle")
	case "failed":
		members["error"] = shape("error", object{"message": e.text, "codexErrorInfo": e.info})
		u.status("systemError")
		u.notify("error", object{"error": members["error"], "willRetry": false, "turnId": u.id})
	default:
		u.status("idle")
	}
	u.s.mu.Lock()
	u.t.turn = nil
	if n := len(u.t.History); n > 0 { // empty for a sub-agent
		answer, _ := u.said["text"].(string)
		u.t.History[n-1].Answer = answer
		u.t.History[n-1].Status = e.status
	}
	u.s.mu.Unlock()
	u.s.save(u.t)
	if u.s.specified() && e.status == "completed" {
		u.s.send(object{"method": "turn/completed"})
		return
	}
	u.notify("turn/completed", object{"turn": u.shape(members)})
}

// notify sends a notification of this turn's thread.
func (u *turn) notify(method string, params object) {
	params["threadId"] = u.t.ID
	u.s.notify(method, params)
}

// status sends the status of the thread. Only the status "active" carries flags.
func (u *turn) status(kind string, flags ...string) {
	status := object{"type": kind}
	if kind == "active" {
		status["activeFlags"] = append([]string{}, flags...)
	}
	u.notify("thread/status/changed", object{"status": status})
}

// request sends a request and waits for the answer without a timeout, as codex does. Until
// then the thread's status carries the flag. An answer of an unexpected shape is logged and
// leaves result empty, which counts as a refusal.
func (u *turn) request(method, flag string, params object, result any) (refusal json.RawMessage, err error) {
	answer := make(chan *message, 1)
	n := u.s.requests.Add(1) - 1
	u.s.pending.Store(fmt.Sprint(n), answer)
	if flag != "" {
		u.status("active", flag)
		defer u.status("active")
	}
	params["threadId"] = u.t.ID
	params["turnId"] = u.id
	u.s.send(object{"method": method, "id": n, "params": params})
	// Codex also sends this if the request was not answered.
	defer func() { u.notify("serverRequest/resolved", object{"requestId": n}) }()
	select {
	case m := <-answer:
		if m.Error != nil {
			u.s.log("codex_app_server: request failed with client error: " + string(m.Error))
		} else if err := json.Unmarshal(m.Result, result); err != nil {
			u.s.log("codex_app_server: failed to deserialize the answer: " + string(m.Result))
		}
		return m.Error, nil
	case <-u.ctx.Done():
		return nil, u.interrupted()
	}
}

// sleep waits, or ends the turn if it is interrupted.
func (u *turn) sleep(d time.Duration) error {
	if d > 0 {
		select {
		case <-time.After(d):
		case <-u.ctx.Done():
		}
	}
	return u.interrupted()
}

func (u *turn) interrupted() error {
	if u.ctx.Err() != nil {
		return &end{status: "interrupted"}
	}
	return nil
}

// started gives an item an id and sends its start. The caller completes it.
func (u *turn) started(item object, prefix string) object {
	item["id"] = fmt.Sprintf("%s_%04d", prefix, u.s.items.Add(1))
	item["startedAtMs"] = now()
	item["completedAtMs"] = nil
	u.notify("item/started", object{
		"item":        item,
		"turnId":      u.id,
		"startedAtMs": item["startedAtMs"],
	})
	return item
}

// completed sends the end of an item, with its status at that time.
func (u *turn) completed(item object) {
	item["completedAtMs"] = now()
	u.notify("item/completed", object{
		"item":              item,
		"turnId":            u.id,
		"contentTokenCount": nil,
		"completedAtMs":     item["completedAtMs"],
	})
}

func (u *turn) userMessage(text string) {
	content := []object{{"type": "text", "text": text, "text_elements": []any{}}}
	u.completed(u.started(newItem("userMessage", object{"content": content}), "user"))
}

// say sends an agent message in parts, an interval apart.
func (u *turn) say(interval time.Duration, parts ...string) error {
	item := u.started(newItem("agentMessage", nil), "msg")
	for _, part := range parts {
		u.notify("item/agentMessage/delta", object{
			"turnId": u.id,
			"itemId": item["id"],
			"delta":  part,
		})
		if err := u.sleep(interval); err != nil {
			return err
		}
	}
	item["text"] = strings.TrimSpace(strings.Join(parts, ""))
	u.completed(item)
	u.said = item
	return nil
}

// contextWindow is the number of tokens that fit into the context of the model.
const contextWindow = 258400

// fillWindow reports the window as the total, as codex does when the conversation does not fit.
func (u *turn) fillWindow() {
	u.counted = true
	total := usageShape(tokens{})
	total["totalTokens"] = contextWindow
	u.notify("thread/tokenUsage/updated", object{
		"turnId": u.id,
		"tokenUsage": object{
			"total":              total,
			"last":               total,
			"modelContextWindow": contextWindow,
		},
	})
}

// count reports a model call.
func (u *turn) count(in, out int64) {
	u.counted = true
	u.s.mu.Lock()
	u.t.Total.Input += in
	u.t.Total.Output += out
	total := u.t.Total
	u.s.mu.Unlock()
	u.s.save(u.t) // first: the tokens are used even if the client is gone
	u.notify("thread/tokenUsage/updated", object{
		"turnId": u.id,
		"tokenUsage": object{
			"total":              usageShape(total),
			"last":               usageShape(tokens{in, out}),
			"modelContextWindow": contextWindow,
		},
	})
	u.s.notify("account/rateLimits/updated", object{"rateLimits": shape("rateLimits", nil)})
}
