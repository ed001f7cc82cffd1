package modeltest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/runner/codex/codextest"
)

type object map[string]any

// answer is one response under way.
type answer struct {
	Request
	s *Server
	w http.ResponseWriter
	r *http.Request

	id       string // of the response, once its stream has begun
	sequence int
	index    int // of the next output item
	spoke    bool
	try      int // of this response, from 1: codex asks again after a fault
	in, out  int // tokens
}

// play does the steps of one response: up to the first call, or to the end.
func (a *answer) play(steps []codextest.Step) {
	a.in, a.out = 1000, 50
	for i := range steps {
		s := &steps[i]
		if isCall(s.Verb) {
			a.item(a.call(s))
			a.complete()
			return
		}
		if over := a.speak(s); over {
			return
		}
	}
	if !a.spoke {
		a.message([]string{"done"}, 0)
	}
	a.complete()
}

// speak does a directive that is no call; over says that the response ends with it.
func (a *answer) speak(s *codextest.Step) (over bool) {
	switch s.Verb {
	case "say":
		a.message(strings.SplitAfter(s.Text, " "), 0)
	case "think":
		a.item(object{"type": "reasoning", "id": a.s.id("rs"), "summary": []object{{"type": "summary_text", "text": s.Text}}})
	case "tokens":
		a.in, a.out = s.N, s.M
	case "sleep":
		return !a.sleep(s.Wait)
	case "stream":
		words := make([]string, s.N)
		for i := range words {
			words[i] = fmt.Sprintf("%d ", i+1)
		}
		return !a.message(words, s.Wait)
	case "long":
		const piece = 256 << 10 // of one delta
		pieces := slices.Repeat([]string{strings.Repeat("x", piece)}, s.N/piece)
		a.message(append(pieces, strings.Repeat("x", s.N%piece)), 0)
	case "fail":
		return a.fail(s.Name, s.Text)
	case "crash":
		return a.fail("cut", "")
	case "silent":
		a.begin()
		a.sleep(time.Hour)
		return true
	case "hang":
		a.sleep(time.Hour)
		return true
	default:
		refuse(a.w, http.StatusBadRequest, fmt.Sprintf("a model can't do %q (line %d)", s.Verb, s.Line))
		return true
	}
	return false
}

// sleep waits; false if the client or the server goes meanwhile.
func (a *answer) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-a.r.Context().Done():
	case <-a.s.quit:
	}
	return false
}

// isCall tells the directives that end a response with a call of a tool.
func isCall(verb string) bool {
	return slices.Contains([]string{"sh", "background", "tool", "patch", "ask-command", "ask-permissions", "ask-user", "steal-turn"}, verb)
}

// call is the item that asks codex for a tool.
func (a *answer) call(s *codextest.Step) object {
	const execCommand = "exec_command"
	switch s.Verb {
	case "sh":
		return a.function(execCommand, object{"cmd": s.Text, "yield_time_ms": 30000})
	case "background":
		return a.function(execCommand, object{"cmd": s.Text, "yield_time_ms": 250})
	case "ask-command":
		return a.function(execCommand, object{
			"cmd": s.Text, "sandbox_permissions": "require_escalated", "justification": "needs to run outside the sandbox",
		})
	case "ask-permissions":
		return a.function("request_permissions", object{"reason": "needs more", "permissions": object{"network": object{"enabled": true}}})
	case "ask-user":
		return a.function("request_user_input", object{"questions": []object{{
			"id": "q1", "header": "Choice", "question": s.Text,
			"options": []object{{"label": "Yes", "description": "go on"}, {"label": "No", "description": "stop"}},
		}}})
	case "steal-turn":
		return a.function("create_goal", object{"objective": "go on"})
	case "patch":
		input := fmt.Sprintf("*** Begin Patch\n*** Add File: %s\n+%s\n*** End Patch\n", filepath.ToSlash(s.Name), s.Text)
		if slices.Contains(a.Tools, "apply_patch") {
			return object{"type": "custom_tool_call", "id": a.s.id("ctc"), "call_id": a.s.id("call"), "name": "apply_patch", "input": input}
		}
		return a.function(execCommand, object{"cmd": "apply_patch <<'EOF'\n" + input + "EOF\n"}) // codex knows this command
	}
	if s.JSON == nil {
		return a.function(s.Name, object{})
	}
	return a.function(s.Name, s.JSON)
}

func (a *answer) function(name string, args any) object {
	item := object{"type": "function_call", "id": a.s.id("fc"), "call_id": a.s.id("call"), "name": name, "arguments": encode(args)}
	if space, short, ok := strings.Cut(name, "."); ok {
		item["namespace"], item["name"] = space, short
	}
	return item
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // v is made here, or JSON already
	}
	return string(text)
}

// event sends one server-sent event.
func (a *answer) event(kind string, data object) {
	data["type"], data["sequence_number"] = kind, a.sequence
	a.sequence++
	// A client that is gone is seen by its context, not here.
	_, _ = fmt.Fprintf(a.w, "event: %s\ndata: %s\n\n", kind, encode(data))
	_ = http.NewResponseController(a.w).Flush()
}

// begin sends the headers and response.created, once.
func (a *answer) begin() {
	if a.id != "" {
		return
	}
	a.id = a.s.id("resp")
	a.w.Header().Set("Content-Type", "text/event-stream")
	a.event("response.created", a.response("in_progress", nil))
}

func (a *answer) response(status string, members object) object {
	r := object{"id": a.id, "object": "response", "status": status, "model": a.Model, "output": []any{}}
	maps.Copy(r, members)
	return object{"response": r}
}

func (a *answer) complete() {
	a.begin()
	a.s.mu.Lock()
	a.s.in, a.s.out = a.s.in+a.in, a.s.out+a.out
	a.s.mu.Unlock()
	a.event("response.completed", a.response("completed", object{"usage": object{
		"input_tokens": a.in, "input_tokens_details": object{"cached_tokens": a.in / 4},
		"output_tokens": a.out, "output_tokens_details": object{"reasoning_tokens": a.out / 5}, "total_tokens": a.in + a.out,
	}}))
}

// item is an output item without parts.
func (a *answer) item(item object) {
	a.begin()
	a.event("response.output_item.added", object{"output_index": a.index, "item": item})
	item["status"] = "completed"
	a.event("response.output_item.done", object{"output_index": a.index, "item": item})
	a.index++
}

// message is a message word by word, an interval apart; false if the client goes meanwhile.
func (a *answer) message(words []string, interval time.Duration) bool {
	a.begin()
	a.spoke = true
	id := a.s.id("msg")
	send := func(kind, member string, value any) {
		a.event(kind, object{"item_id": id, "output_index": a.index, "content_index": 0, member: value})
	}
	part := object{"type": "output_text", "text": "", "annotations": []any{}}
	item := object{"type": "message", "id": id, "role": "assistant", "status": "in_progress", "content": []object{}}
	a.event("response.output_item.added", object{"output_index": a.index, "item": item})
	send("response.content_part.added", "part", part)
	for _, w := range words {
		send("response.output_text.delta", "delta", w)
		if interval > 0 && !a.sleep(interval) {
			return false
		}
	}
	part["text"] = strings.Join(words, "")
	send("response.output_text.done", "text", part["text"])
	send("response.content_part.done", "part", part)
	item["status"], item["content"] = "completed", []object{part}
	a.event("response.output_item.done", object{"output_index": a.index, "item": item})
	a.index++
	return true
}

// fail ends the response with an error: by HTTP, unless its stream has begun or the word is a code of the API's own. over is
// false where the fault has passed: word may have a number of tries behind a slash.
func (a *answer) fail(word, text string) (over bool) {
	word, tries, limited := strings.Cut(word, "/")
	if n, err := strconv.Atoi(tries); limited && (err != nil || n < 1) {
		refuse(a.w, http.StatusBadRequest, fmt.Sprintf("not a number of tries: %q", tries))
		return true
	} else if limited && a.try > n {
		return false
	}
	info, reset, timed := strings.Cut(word, "=")
	lasts, err := time.ParseDuration(reset)
	if !timed {
		lasts = time.Hour
	} else if err != nil {
		refuse(a.w, http.StatusBadRequest, fmt.Sprintf("not a duration: %q", reset))
		return true
	}
	status, err := strconv.Atoi(info)
	switch {
	case info == "cut":
		a.begin()
		panic(http.ErrAbortHandler) // breaks the connection; nothing is logged
	case info == "usage_limit_reached" && a.id == "":
		a.usageLimit(text, lasts)
	case err != nil || a.id != "":
		a.begin()
		a.event("response.failed", a.response("failed", object{"error": object{"code": info, "message": text}}))
	default:
		refuse(a.w, status, text)
	}
	return true
}

func (a *answer) usageLimit(text string, lasts time.Duration) {
	resets := time.Now().Add(lasts).Unix()
	h := a.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("x-codex-primary-used-percent", "100")
	h.Set("x-codex-primary-window-minutes", "300")
	h.Set("x-codex-primary-reset-at", strconv.FormatInt(resets, 10))
	a.w.WriteHeader(http.StatusTooManyRequests)
	// A client that is gone can't be told.
	_ = json.NewEncoder(a.w).Encode(object{"error": object{
		"type": "usage_limit_reached", "message": text, "plan_type": "pro", "resets_at": resets, "resets_in_seconds": int(lasts.Seconds()),
	}})
}
