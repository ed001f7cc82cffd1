package modeltest

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent/script"
)

type object map[string]any

// answer is a response that is being written.
type answer struct {
	script.Request
	s *Server
	w http.ResponseWriter
	r *http.Request

	id      string // of the response; set when its stream begins
	index   int    // of the next output item
	spoke   bool
	try     int // of this response, from 1: codex retries after a fault
	in, out int // tokens
}

// play runs the steps of a response: up to the first call, or to the end.
func (a *answer) play(steps []script.Step) {
	a.in = 1000
	a.out = 50
	for i := range steps {
		s := &steps[i]
		if call, ok := calls[s.Verb]; ok {
			a.item(call(a, s))
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

// speak runs a directive that is not a call. It returns true if the response ends with it.
func (a *answer) speak(s *script.Step) (over bool) {
	switch s.Verb {
	case "say":
		a.message(strings.SplitAfter(s.Text, " "), 0)
	case "think":
		a.item(object{
			"type":    "reasoning",
			"id":      a.s.id("rs"),
			"summary": []object{{"type": "summary_text", "text": s.Text}},
		})
	case "tokens":
		a.in = s.N
		a.out = s.M
	case "sleep":
		return !a.sleep(s.Wait)
	case "stream":
		return !a.message(script.Numbers(s.N), s.Wait)
	case "long":
		const piece = 256 << 10 // size of a delta
		pieces := slices.Repeat([]string{strings.Repeat("x", piece)}, s.N/piece)
		a.message(append(pieces, strings.Repeat("x", s.N%piece)), 0)
	case "fail":
		return a.fail(s.Name, s.Text)
	case "crash":
		return a.fail("cut", "")
	case "hang", "silent":
		if s.Verb == "silent" {
			a.begin()
		}
		a.sleep(time.Hour)
		return true
	default:
		a.refuse(http.StatusBadRequest, fmt.Sprintf("a model can't do %q (line %d)", s.Verb, s.Line))
		return true
	}
	return false
}

// sleep waits. It returns false if the client or the server is gone.
func (a *answer) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-a.r.Context().Done():
	case <-a.s.quit:
	}
	return false
}

// calls maps the directives that end a response to the calls of codex's tools.
var calls = map[string]func(*answer, *script.Step) object{
	"sh": func(a *answer, s *script.Step) object {
		return a.call(execCommand, object{"cmd": s.Text, "yield_time_ms": 30000})
	},
	"background": func(a *answer, s *script.Step) object {
		return a.call(execCommand, object{"cmd": s.Text, "yield_time_ms": 250})
	},
	"ask-command": func(a *answer, s *script.Step) object {
		const why = "needs to run outside the sandbox"
		return a.call(execCommand, object{
			"cmd":                 s.Text,
			"sandbox_permissions": "require_escalated",
			"justification":       why,
		})
	},
	"ask-permissions": func(a *answer, _ *script.Step) object {
		return a.call("request_permissions", object{
			"reason":      "needs more",
			"permissions": object{"network": object{"enabled": true}},
		})
	},
	"ask-user": func(a *answer, s *script.Step) object {
		options := []object{{
			"label":       "Yes",
			"description": "go on",
		}, {
			"label":       "No",
			"description": "stop",
		}}
		question := object{"id": "q1", "header": "Choice", "question": s.Text, "options": options}
		return a.call("request_user_input", object{"questions": []object{question}})
	},
	"steal-turn": func(a *answer, _ *script.Step) object {
		return a.call("create_goal", object{"objective": "go on"})
	},
	"patch": func(a *answer, s *script.Step) object {
		const patch = "*** Begin Patch\n*** Add File: %s\n+%s\n*** End Patch\n"
		input := fmt.Sprintf(patch, filepath.ToSlash(s.Name), s.Text)
		if slices.Contains(a.Tools, "apply_patch") {
			return object{
				"type":    "custom_tool_call",
				"id":      a.s.id("ctc"),
				"call_id": a.s.id("call"),
				"name":    "apply_patch",
				"input":   input,
			}
		}
		// codex knows this command
		return a.call(execCommand, object{"cmd": "apply_patch <<'EOF'\n" + input + "EOF\n"})
	},
	"tool": func(a *answer, s *script.Step) object {
		if s.Name == "tool_search" {
			return object{
				"type":      "tool_search_call",
				"id":        a.s.id("tsc"),
				"call_id":   a.s.id("call"),
				"execution": "client",
				"arguments": s.JSON,
			}
		}
		if s.JSON == nil {
			return a.call(s.Name, object{})
		}
		return a.call(s.Name, s.JSON)
	},
}

const execCommand, writeStdin = "exec_command", "write_stdin"

func (a *answer) call(name string, args any) object {
	item := object{
		"type":      "function_call",
		"id":        a.s.id("fc"),
		"call_id":   a.s.id("call"),
		"name":      name,
		"arguments": encode(args),
	}
	if space, short, ok := strings.Cut(name, "."); ok {
		item["namespace"] = space
		item["name"] = short
	}
	return item
}

func encode(v any) string { return string(text.JSON(v)) }

// event sends a server-sent event.
func (a *answer) event(kind string, data object) {
	data["type"] = kind
	// sleep checks whether the client is gone.
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
	r := object{
		"id":     a.id,
		"object": "response",
		"status": status,
		"model":  a.Model,
		"output": []any{},
	}
	maps.Copy(r, members)
	return object{"response": r}
}

func (a *answer) complete() {
	a.begin()
	a.s.mu.Lock()
	a.s.in += a.in
	a.s.out += a.out
	a.s.mu.Unlock()
	a.event("response.completed", a.response("completed", object{"usage": object{
		"input_tokens":          a.in,
		"input_tokens_details":  object{"cached_tokens": a.in / 4},
		"output_tokens":         a.out,
		"output_tokens_details": object{"reasoning_tokens": a.out / 5},
		"total_tokens":          a.in + a.out,
	}}))
}

// item sends an output item. The parts run between its start and its end, and may add to it.
func (a *answer) item(item object, parts ...func()) {
	a.begin()
	a.event("response.output_item.added", object{"output_index": a.index, "item": item})
	for _, part := range parts {
		part()
	}
	item["status"] = "completed"
	a.event("response.output_item.done", object{"output_index": a.index, "item": item})
	a.index++
}

// message sends a message word by word, an interval apart. It returns false if the client is
// gone.
func (a *answer) message(words []string, interval time.Duration) (all bool) {
	a.spoke = true
	all = true
	id := a.s.id("msg")
	item := object{
		"type":    "message",
		"id":      id,
		"role":    "assistant",
		"status":  "in_progress",
		"content": []object{},
	}
	a.item(item, func() {
		for _, w := range words {
			a.event("response.output_text.delta", object{
				"item_id":       id,
				"output_index":  a.index,
				"content_index": 0,
				"delta":         w,
			})
			all = interval <= 0 || a.sleep(interval)
			if !all {
				return
			}
		}
		item["content"] = []object{{
			"type":        "output_text",
			"text":        strings.Join(words, ""),
			"annotations": []any{},
		}}
	})
	return all
}

// fail ends the response with an error: an HTTP status, or a response.failed if the stream
// began or the word is not a status. The word may end with a slash and a number of tries;
// after these fail does nothing and returns false.
func (a *answer) fail(word, text string) (over bool) {
	word, tries, limited := strings.Cut(word, "/")
	if n, err := strconv.Atoi(tries); limited && (err != nil || a.try > n) {
		return false
	}
	word, reset, _ := strings.Cut(word, "=")
	status, err := strconv.Atoi(word)
	switch {
	case word == "cut":
		a.begin()
		panic(http.ErrAbortHandler) // cuts the connection without a log entry
	case word == "usage_limit_reached" && a.id == "":
		a.usageLimit(text, reset)
	case err != nil || a.id != "":
		a.begin()
		a.event("response.failed", a.response("failed", object{"error": object{
			"code":    word,
			"message": text,
		}}))
	default:
		a.refuse(status, text)
	}
	return true
}

// usageLimit refuses the request with a limit that resets after an hour, or after the given
// duration.
func (a *answer) usageLimit(text, reset string) {
	lasts, err := time.ParseDuration(reset)
	if err != nil {
		lasts = time.Hour
	}
	resets := time.Now().Add(lasts).Unix()
	h := a.w.Header()
	h.Set("x-codex-primary-used-percent", "100")
	h.Set("x-codex-primary-window-minutes", "300")
	h.Set("x-codex-primary-reset-at", strconv.FormatInt(resets, 10))
	a.refuseWith(http.StatusTooManyRequests, object{
		"type":              "usage_limit_reached",
		"message":           text,
		"plan_type":         "pro",
		"resets_at":         resets,
		"resets_in_seconds": int(lasts.Seconds()),
	})
}

func (a *answer) refuse(status int, message string) {
	a.refuseWith(status, object{"message": message, "type": "invalid_request_error", "code": nil})
}

func (a *answer) refuseWith(status int, err object) {
	a.w.Header().Set("Content-Type", "application/json")
	a.w.WriteHeader(status)
	_, _ = fmt.Fprintln(a.w, encode(object{"error": err})) // a client that is gone gets nothing
}
