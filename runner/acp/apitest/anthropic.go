package apitest

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent/script"
)

// readAnthropic reads a request for a message. Prompts that got no answer are parts of the
// message with the next prompt.
func readAnthropic(body []byte) (*script.Request, error) {
	var b struct {
		Model    string
		Stream   bool
		Tools    []struct{ Name string }
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
		r.Tools = append(r.Tools, t.Name)
	}
	for _, m := range b.Messages {
		if m.Role != "user" {
			continue
		}
		for _, p := range m.Content {
			if p.Type == "tool_result" {
				r.Outputs = append(r.Outputs, p.Content.text())
			}
			addPrompt(r, p.Text)
		}
	}
	return r, nil
}

// writeAnthropic streams a message.
func writeAnthropic(a *answer, r *reply) {
	a.w.Header().Set("Content-Type", "text/event-stream")
	event := func(kind string, members object) {
		members["type"] = kind
		a.send("event: "+kind+"\ndata: %s\n\n", members)
	}
	event("message_start", object{"message": object{
		"id":            fmt.Sprintf("msg_%d", a.id),
		"type":          "message",
		"role":          "assistant",
		"model":         a.model,
		"content":       []object{},
		"stop_reason":   nil,
		"stop_sequence": nil,
		"usage":         object{"input_tokens": r.in, "output_tokens": 1},
	}})
	index := 0
	block := func(begin object, deltas ...object) {
		event("content_block_start", object{"index": index, "content_block": begin})
		for _, delta := range deltas {
			event("content_block_delta", object{"index": index, "delta": delta})
		}
		event("content_block_stop", object{"index": index})
		index++
	}
	for _, one := range r.said {
		if one.isThought {
			block(
				object{"type": "thinking", "thinking": "", "signature": ""},
				object{"type": "thinking_delta", "thinking": one.text},
				object{"type": "signature_delta", "signature": "c2lnbmVk"},
			)
			continue
		}
		block(object{"type": "text", "text": ""}, object{"type": "text_delta", "text": one.text})
	}
	reason := "end_turn"
	if r.call != nil {
		reason = "tool_use"
		block(
			object{"type": "tool_use", "id": fmt.Sprintf("toolu_%d", a.id), "name": r.call.name, "input": object{}},
			object{"type": "input_json_delta", "partial_json": string(text.JSON(r.call.args))},
		)
	}
	event("message_delta", object{
		"delta": object{"stop_reason": reason, "stop_sequence": nil},
		"usage": object{"output_tokens": r.out},
	})
	event("message_stop", object{})
}

// refuseAnthropic is the body of an error.
func refuseAnthropic(status int, message string) object {
	kinds := map[int]string{
		http.StatusBadRequest:      "invalid_request_error",
		http.StatusUnauthorized:    "authentication_error",
		http.StatusForbidden:       "permission_error",
		http.StatusNotFound:        "not_found_error",
		http.StatusTooManyRequests: "rate_limit_error",
		529:                        "overloaded_error",
	}
	kind := kinds[status]
	if kind == "" {
		kind = "api_error"
	}
	return object{"type": "error", "error": object{"type": kind, "message": message}}
}
