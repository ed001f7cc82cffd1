package apitest

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent/script"
)

// readOpenAI reads a request for a chat completion.
func readOpenAI(body []byte) (*script.Request, error) {
	var b struct {
		Model  string
		Stream bool
		Tools  []struct {
			Function struct{ Name string }
		}
		Messages []struct {
			Role    string
			Content parts
		}
	}
	if err := json.Unmarshal(body, &b); err != nil {
		return nil, err
	}
	if !b.Stream {
		return nil, errNoStream
	}
	r := &script.Request{Model: b.Model}
	for _, t := range b.Tools {
		r.Tools = append(r.Tools, t.Function.Name)
	}
	for _, m := range b.Messages {
		if m.Role == "tool" {
			r.Outputs = append(r.Outputs, m.Content.text())
		}
		if m.Role != "user" {
			continue
		}
		for _, p := range m.Content {
			addPrompt(r, p.Text)
		}
	}
	return r, nil
}

// writeOpenAI streams a completion.
func writeOpenAI(a *answer, r *reply) {
	a.w.Header().Set("Content-Type", "text/event-stream")
	chunk := func(choices []object, usage object) {
		a.event(object{
			"id":      fmt.Sprintf("chatcmpl-%d", a.id),
			"object":  "chat.completion.chunk",
			"created": 0,
			"model":   a.model,
			"choices": choices,
			"usage":   usage,
		})
	}
	delta := func(d object, reason any) {
		chunk([]object{{"index": 0, "delta": d, "finish_reason": reason}}, nil)
	}
	delta(object{"role": "assistant", "content": ""}, nil)
	for _, one := range r.said {
		name := "content"
		if one.isThought {
			name = "reasoning_content"
		}
		delta(object{name: one.text}, nil)
	}
	reason := "stop"
	if r.call != nil {
		reason = "tool_calls"
		function := object{"name": r.call.name, "arguments": string(text.JSON(r.call.args))}
		call := object{"index": 0, "id": fmt.Sprintf("call_%d", a.id), "type": "function", "function": function}
		delta(object{"tool_calls": []object{call}}, nil)
	}
	delta(object{}, reason)
	chunk([]object{}, object{
		"prompt_tokens":     r.in,
		"completion_tokens": r.out,
		"total_tokens":      r.in + r.out,
	})
	_, _ = fmt.Fprint(a.w, "data: [DONE]\n\n")
}

// refuseOpenAI is the body of an error.
func refuseOpenAI(status int, message string) object {
	kinds := map[int]string{
		http.StatusBadRequest:      "invalid_request_error",
		http.StatusUnauthorized:    "invalid_request_error",
		http.StatusTooManyRequests: "rate_limit_exceeded",
	}
	kind := kinds[status]
	if kind == "" {
		kind = "server_error"
	}
	return object{"error": object{"message": message, "type": kind, "code": kind}}
}
