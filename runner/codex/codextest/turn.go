package codextest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// turn is a turn under way. It runs in a goroutine of its own.
type turn struct {
	s       *server
	t       *thread
	id      string
	began   time.Time
	ctx     context.Context
	stop    context.CancelFunc
	said    object // the item of the last agent message
	counted bool   // a directive tokens was done
}

func (s *server) startTurn(p *params) reply {
	texts := make([]string, 0, len(p.Input))
	for _, input := range p.Input {
		texts = append(texts, input.Text)
	}
	prompt := strings.Join(texts, "\n")
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.threads[p.ThreadID]
	if t == nil {
		return reply{err: "thread not found: " + p.ThreadID}
	}
	if u := t.turn; u != nil {
		// codex starts no second turn: the input joins the running one, which goes on with its script.
		return reply{result: object{"turn": u.shape(nil)}, after: func() { u.userMessage(prompt) }}
	}
	t.apply(p)
	u := &turn{s: s, t: t, id: newID(), began: time.Now()}
	u.ctx, u.stop = context.WithCancel(context.Background())
	t.turn = u
	t.here++
	t.Prompt = cmp.Or(t.Prompt, prompt)
	t.History = append(t.History, exchange{Prompt: prompt, Status: "interrupted"}) // until finish says otherwise
	prompts := make([]string, 0, len(t.History))
	for _, e := range t.History {
		prompts = append(prompts, e.Prompt)
	}
	steps, err := Steps(prompts, t.here)
	s.running.Add(1)
	answer := object{"turn": u.shape(nil)}
	if slices.ContainsFunc(steps, func(s Step) bool { return s.Verb == "late-response" }) {
		return reply{after: func() { go u.run(prompt, steps, err, func() { s.send(object{"id": p.id, "result": answer}) }) }}
	}
	return reply{result: answer, after: func() { go u.run(prompt, steps, err, func() {}) }}
}

// shape is the turn with these members.
func (u *turn) shape(members object) object {
	turn := shape("turn", members)
	turn["id"], turn["rootTurnId"] = u.id, u.id
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

// run plays the turn; ended is called after its end unless the process ends first.
func (u *turn) run(prompt string, steps []Step, err error, ended func()) {
	defer u.s.running.Done()
	defer u.stop()
	u.s.save(u.t) // so that a thread whose turn is cut off can be resumed
	u.start()
	u.userMessage(prompt)
	for i := 0; i < len(steps) && err == nil; i++ {
		if err = u.sleep(u.s.pace); err == nil {
			err = u.step(&steps[i])
		}
	}
	if err == nil && u.said == nil {
		err = u.say(0, "done")
	}
	if err == nil && !u.counted {
		u.count(1000, 50)
	}
	select {
	case <-u.s.quit: // the process is ending; codex sends nothing about the turn
	default:
		if !errors.Is(err, errCrashed) {
			u.finish(err)
			ended()
		}
	}
}

func (u *turn) start() {
	u.status(object{"type": "active", "activeFlags": []any{}})
	u.notify("turn/started", object{"turn": u.shape(object{"startedAt": u.began.Unix()})})
}

// finish sends the end of the turn.
func (u *turn) finish(err error) {
	e := &end{status: "completed"}
	if err != nil && !errors.As(err, &e) {
		e = &end{status: "failed", info: "other", text: err.Error()}
	}
	members := object{
		"status": e.status, "startedAt": u.began.Unix(), "completedAt": time.Now().Unix(), "durationMs": time.Since(u.began).Milliseconds(),
	}
	switch e.status {
	case "completed":
		members["items"], members["itemsView"] = []any{u.said}, "summary"
	case "failed":
		members["error"] = shape("error", object{"message": e.text, "codexErrorInfo": e.info})
		u.status(object{"type": "systemError"})
		u.notify("error", object{"error": members["error"], "willRetry": false, "turnId": u.id})
	}
	if e.status != "failed" {
		u.status(object{"type": "idle"})
	}
	u.s.mu.Lock()
	u.t.turn = nil
	if n := len(u.t.History); n > 0 { // a sub-agent has none
		answer, _ := u.said["text"].(string)
		u.t.History[n-1].Answer, u.t.History[n-1].Status = answer, e.status
	}
	u.s.mu.Unlock()
	u.s.save(u.t)
	u.notify("turn/completed", object{"turn": u.shape(members)})
}

// interrupt ends a turn. A running command goes on in the background.
func (s *server) interrupt(p *params) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.threads[p.ThreadID]
	switch {
	case t == nil:
		return reply{err: "thread not found: " + p.ThreadID}
	case t.turn == nil:
		return reply{err: "no active turn to interrupt"}
	case t.turn.id != p.TurnID:
		return reply{err: fmt.Sprintf("expected active turn id %s but found %s", p.TurnID, t.turn.id)}
	}
	return reply{result: object{}, after: t.turn.stop}
}

// notify sends a notification of this turn's thread.
func (u *turn) notify(method string, params object) {
	params["threadId"] = u.t.ID
	u.s.notify(method, params)
}

func (u *turn) status(status object) { u.notify("thread/status/changed", object{"status": status}) }

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

// step does one directive.
func (u *turn) step(s *Step) error {
	switch s.Verb {
	case "sh", "background":
		wait := u.command(s.Text, u.started(commandItem(s.Text, u.t.Cwd), "call"))
		if s.Verb == "sh" {
			wait()
		}
	case "say":
		return u.say(0, strings.SplitAfter(s.Text, " ")...)
	case "think":
		u.completed(u.started(newItem("reasoning", object{"summary": []string{s.Text}}), "rs"))
	case "patch":
		u.patch(u.started(fileItem(filepath.Join(u.t.Cwd, s.Name), s.Text), "call"), s.Name, s.Text)
	case "tokens":
		u.count(int64(s.N), int64(s.M))
	case "ratelimits":
		u.s.notify("account/rateLimits/updated", object{"rateLimits": s.JSON})
	case "sleep":
		return u.sleep(s.Wait)
	case "stream":
		words := make([]string, s.N)
		for i := range words {
			words[i] = fmt.Sprintf("%d ", i+1)
		}
		return u.say(s.Wait, words...)
	case "subagent":
		u.subAgent(s.Text)
	case "late-response": // startTurn has read it
	case "fail":
		return &end{status: "failed", info: errorInfo(s.Name), text: cmp.Or(s.Text, s.Name)}
	case "cancel":
		return &end{status: "interrupted"}
	case "crash":
		u.s.crashed <- struct{}{}
		return errCrashed
	case "hang", "silent": // they differ only in package modeltest
		<-u.ctx.Done()
	case "deaf":
		u.s.mu.Lock()
		u.s.deaf = true
		u.s.mu.Unlock()
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	case "garbage":
		u.s.write([]byte(s.Text + "\n"))
	case "long":
		item := u.started(commandItem("cat large", u.t.Cwd), "call")
		item["status"], item["exitCode"], item["durationMs"] = "completed", 0, 0
		item["aggregatedOutput"] = strings.Repeat("x", s.N)
		u.completed(item)
	default:
		return u.ask(s)
	}
	return u.interrupted()
}

// errorInfo makes codexErrorInfo of a word, or of KEY=STATUS an object with an HTTP status, which may be empty.
func errorInfo(text string) any {
	key, status, ok := strings.Cut(text, "=")
	if !ok {
		return text
	}
	return object{key: object{"httpStatusCode": json.RawMessage(cmp.Or(status, "null"))}}
}

// started gives an item an id and sends its start. The caller completes it.
func (u *turn) started(item object, prefix string) object {
	u.s.mu.Lock()
	u.s.nextItem++
	item["id"] = fmt.Sprintf("%s_%04d", prefix, u.s.nextItem)
	u.s.mu.Unlock()
	item["startedAtMs"], item["completedAtMs"] = now(), nil
	u.notify("item/started", object{"item": item, "turnId": u.id, "startedAtMs": item["startedAtMs"]})
	return item
}

func (u *turn) completed(item object) {
	item["completedAtMs"] = now()
	u.notify("item/completed", object{"item": item, "turnId": u.id, "contentTokenCount": nil, "completedAtMs": item["completedAtMs"]})
}

func (u *turn) userMessage(text string) {
	content := []object{{"type": "text", "text": text, "text_elements": []any{}}}
	u.completed(u.started(newItem("userMessage", object{"content": content}), "user"))
}

// say sends an agent message in these parts, an interval apart.
func (u *turn) say(interval time.Duration, parts ...string) error {
	item := u.started(newItem("agentMessage", nil), "msg")
	for _, part := range parts {
		u.notify("item/agentMessage/delta", object{"turnId": u.id, "itemId": item["id"], "delta": part})
		if err := u.sleep(interval); err != nil {
			return err
		}
	}
	item["text"] = strings.TrimSpace(strings.Join(parts, ""))
	u.completed(item)
	u.said = item
	return nil
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
	u.notify("thread/tokenUsage/updated", object{"turnId": u.id, "tokenUsage": object{
		"total": usageShape(total), "last": usageShape(tokens{in, out}), "modelContextWindow": 258400,
	}})
	u.s.notify("account/rateLimits/updated", object{"rateLimits": shape("rateLimits", nil)})
}

// patch writes a file of the workspace and completes its item. As with codex, a path outside fails.
func (u *turn) patch(item object, name, text string) {
	item["status"] = "completed"
	if err := writeFile(u.t.Cwd, name, text); err != nil {
		item["status"] = "failed"
		u.s.log("codex_core::tools::router: error=" + err.Error())
	}
	u.completed(item)
}

func writeFile(dir, name, text string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it is only read
	if err := root.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	return root.WriteFile(name, []byte(text+"\n"), 0o666)
}

// subAgent sends what a client sees of a sub-agent: a call, and a turn of another thread.
func (u *turn) subAgent(text string) {
	child := &turn{s: u.s, t: &thread{ID: newID(), Cwd: u.t.Cwd}, id: newID(), began: time.Now(), ctx: u.ctx}
	call := u.started(newItem("collabAgentToolCall", object{"senderThreadId": u.t.ID, "prompt": text}), "call")
	call["status"], call["model"], call["receiverThreadIds"] = "completed", "scripted", []string{child.t.ID}
	call["agentsStates"] = object{child.t.ID: object{"status": "pendingInit", "message": nil}}
	u.completed(call)
	child.start()
	err := child.say(0, text)
	child.count(1000, 50)
	child.finish(err)
}
