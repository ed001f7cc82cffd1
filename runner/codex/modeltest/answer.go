package modeltest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/runner/codex/codextest"
)

type object map[string]any

// answer is one response under way.
type answer struct {
	s     *Server
	w     http.ResponseWriter
	r     *http.Request
	model string

	id       string // of the response, once its stream has begun
	sequence int
	index    int // of the next output item
	spoke    bool
	in, out  int // tokens; default below
}

// isCall says which directives end a response with a call of a tool.
func isCall(verb string) bool {
	switch verb {
	case "sh", "background", "tool", "patch", "ask-command", "ask-permissions", "ask-user", "steal-turn":
		return true
	}
	return false
}

// play does the steps of one response: up to the first call, or to the end.
func (a *answer) play(steps []codextest.Step) {
	a.in, a.out = 1000, 50
	for i := range steps {
		s := &steps[i]
		if isCall(s.Verb) {
			a.call(s)
			a.complete()
			return
		}
		if done := a.speak(s); done {
			return
		}
	}
	if !a.spoke {
		a.message("done")
	}
	a.complete()
}

// speak does a directive that is no call; done says that the response is over.
func (a *answer) speak(s *codextest.Step) (done bool) {
	switch s.Verb {
	case "say":
		a.message(s.Text)
	case "think":
		a.item(object{"type": "reasoning", "id": a.s.id("rs"), "summary": []object{{"type": "summary_text", "text": s.Text}}})
	case "tokens":
		a.in, a.out = s.N, s.M
	case "sleep":
		return a.sleep(s.Wait)
	case "stream":
		return a.stream(s.N, s.Wait)
	case "fail":
		a.fail(s.Name, s.Text)
		return true
	case "crash":
		a.begin()
		panic(http.ErrAbortHandler) // the connection is cut, nothing is logged
	case "hang":
		a.wait()
		return true
	case "silent":
		a.begin()
		a.wait()
		return true
	default:
		refuse(a.w, http.StatusBadRequest, fmt.Sprintf("a model can't do %q (line %d)", s.Verb, s.Line))
		return true
	}
	return false
}

// wait lasts until the client or the server goes.
func (a *answer) wait() {
	select {
	case <-a.r.Context().Done():
	case <-a.s.quit:
	}
}

func (a *answer) sleep(d time.Duration) (gone bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false
	case <-a.r.Context().Done():
	case <-a.s.quit:
	}
	return true
}

// event sends one server-sent event.
func (a *answer) event(kind string, data object) {
	data["type"], data["sequence_number"] = kind, a.sequence
	a.sequence++
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // data is made here
	}
	// A client that is gone is seen by its context, not here.
	_, _ = fmt.Fprintf(a.w, "event: %s\ndata: %s\n\n", kind, text)
	if f, ok := a.w.(http.Flusher); ok {
		f.Flush()
	}
}

// begin sends the headers and response.created, once.
func (a *answer) begin() {
	if a.id != "" {
		return
	}
	a.id = a.s.id("resp")
	a.w.Header().Set("Content-Type", "text/event-stream")
	a.event("response.created", object{"response": a.response("in_progress")})
}

func (a *answer) response(status string) object {
	return object{"id": a.id, "object": "response", "status": status, "model": a.model, "output": []any{}}
}

func (a *answer) complete() {
	a.begin()
	a.s.mu.Lock()
	a.s.in, a.s.out = a.s.in+a.in, a.s.out+a.out
	a.s.mu.Unlock()
	r := a.response("completed")
	r["usage"] = object{
		"input_tokens": a.in, "input_tokens_details": object{"cached_tokens": a.in / 4},
		"output_tokens": a.out, "output_tokens_details": object{"reasoning_tokens": a.out / 5}, "total_tokens": a.in + a.out,
	}
	a.event("response.completed", object{"response": r})
}

// item is an output item without parts.
func (a *answer) item(item object) {
	a.begin()
	a.event("response.output_item.added", object{"output_index": a.index, "item": item})
	item["status"] = "completed"
	a.event("response.output_item.done", object{"output_index": a.index, "item": item})
	a.index++
}

func (a *answer) message(text string) {
	a.messageOf(strings.SplitAfter(text, " "), 0)
}

// stream is a message of n words, an interval apart.
func (a *answer) stream(n int, interval time.Duration) (gone bool) {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprintf("%d ", i+1)
	}
	return a.messageOf(words, interval)
}

func (a *answer) messageOf(words []string, interval time.Duration) (gone bool) {
	a.begin()
	a.spoke = true
	id, text := a.s.id("msg"), strings.Join(words, "")
	part := func(text string) object { return object{"type": "output_text", "text": text, "annotations": []any{}} }
	item := object{"type": "message", "id": id, "role": "assistant", "status": "in_progress", "content": []object{}}
	a.event("response.output_item.added", object{"output_index": a.index, "item": item})
	at := func() object { return object{"item_id": id, "output_index": a.index, "content_index": 0} }
	with := func(key string, value any) object { o := at(); o[key] = value; return o }
	a.event("response.content_part.added", with("part", part("")))
	for _, w := range words {
		a.event("response.output_text.delta", with("delta", w))
		if interval > 0 && a.sleep(interval) {
			return true
		}
	}
	a.event("response.output_text.done", with("text", text))
	a.event("response.content_part.done", with("part", part(text)))
	item["status"], item["content"] = "completed", []object{part(text)}
	a.event("response.output_item.done", object{"output_index": a.index, "item": item})
	a.index++
	return false
}

// call asks codex for a tool.
func (a *answer) call(s *codextest.Step) {
	if s.Verb == "patch" {
		input := fmt.Sprintf("*** Begin Patch\n*** Add File: %s\n+%s\n*** End Patch\n", filepath.ToSlash(s.Name), s.Text)
		a.item(object{"type": "custom_tool_call", "id": a.s.id("ctc"), "call_id": a.s.id("call"), "name": "apply_patch", "input": input})
		return
	}
	name, args := function(s)
	text, err := json.Marshal(args)
	if err != nil {
		panic(err) // args are made here, or JSON already
	}
	a.item(object{"type": "function_call", "id": a.s.id("fc"), "call_id": a.s.id("call"), "name": name, "arguments": string(text)})
}

func function(s *codextest.Step) (name string, args any) {
	switch s.Verb {
	case "tool":
		return s.Name, s.JSON
	case "background":
		return "exec_command", object{"cmd": s.Text, "yield_time_ms": 250}
	case "ask-command":
		return "exec_command", object{
			"cmd": s.Text, "sandbox_permissions": "require_escalated", "justification": "needs to run outside the sandbox",
		}
	case "ask-permissions":
		return "request_permissions", object{"reason": "needs more", "permissions": object{"network": object{"enabled": true}}}
	case "ask-user":
		return "request_user_input", object{"questions": []object{{
			"id": "q1", "header": "Choice", "question": s.Text,
			"options": []object{{"label": "Yes", "description": "go on"}, {"label": "No", "description": "stop"}},
		}}}
	case "steal-turn":
		return "create_goal", object{"objective": "go on"}
	}
	return "exec_command", object{"cmd": s.Text, "yield_time_ms": 30000}
}

// fail ends the response with an error: by HTTP, unless its stream has begun
// or the name is a code of the API's own.
func (a *answer) fail(name, text string) {
	status, err := strconv.Atoi(name)
	if name == "usage_limit_reached" && a.id == "" {
		a.usageLimit(text)
		return
	}
	if err != nil || a.id != "" {
		a.begin()
		r := a.response("failed")
		r["error"] = object{"code": name, "message": text}
		a.event("response.failed", object{"response": r})
		return
	}
	refuse(a.w, status, text)
}

// limitLasts is how far off the end of a usage limit is.
const limitLasts = time.Hour

func (a *answer) usageLimit(text string) {
	resets := time.Now().Add(limitLasts).Unix()
	h := a.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("x-codex-primary-used-percent", "100")
	h.Set("x-codex-primary-window-minutes", "300")
	h.Set("x-codex-primary-reset-at", strconv.FormatInt(resets, 10))
	a.w.WriteHeader(http.StatusTooManyRequests)
	_ = json.NewEncoder(a.w).Encode(object{"error": object{
		"type": "usage_limit_reached", "message": text, "plan_type": "pro", "resets_at": resets, "resets_in_seconds": int(limitLasts.Seconds()),
	}})
}
