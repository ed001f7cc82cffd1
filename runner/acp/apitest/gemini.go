package apitest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strings"

	"github.com/symphony-cron/symphony/runner/agent/script"
)

// readGemini reads a request for content.
func readGemini(body []byte) (*script.Request, error) {
	var b struct {
		Tools []struct {
			FunctionDeclarations []struct{ Name string }
		}
		Contents []struct {
			Role  string
			Parts []struct {
				Text             string
				FunctionResponse *struct{ Response json.RawMessage }
			}
		}
	}
	if err := json.Unmarshal(body, &b); err != nil {
		return nil, err
	}
	r := &script.Request{}
	for _, t := range b.Tools {
		for _, f := range t.FunctionDeclarations {
			r.Tools = append(r.Tools, f.Name)
		}
	}
	for _, c := range b.Contents {
		if c.Role != "user" {
			continue
		}
		for _, p := range c.Parts {
			if p.FunctionResponse != nil {
				r.Outputs = append(r.Outputs, string(p.FunctionResponse.Response))
			}
			addPrompt(r, p.Text)
		}
	}
	return r, nil
}

// writeGemini streams content. Gemini CLI also asks, without tools and for one piece of JSON,
// which of its models fits a prompt.
func writeGemini(a *answer, r *reply) {
	var parts []object
	for _, one := range r.said {
		parts = append(parts, object{"text": one.text, "thought": one.isThought})
	}
	if r.call != nil {
		parts = append(parts, object{"functionCall": object{
			"id":   fmt.Sprintf("call-%d", a.id),
			"name": r.call.name,
			"args": r.call.args,
		}})
	}
	model, verb, _ := strings.Cut(path.Base(a.r.URL.Path), ":")
	isWhole := verb == "generateContent"
	if isWhole {
		parts = []object{{"text": `{"reasoning": "a script", "model_choice": "flash"}`}}
	}
	content := object{
		"candidates": []object{{
			"index":        0,
			"content":      object{"role": "model", "parts": parts},
			"finishReason": "STOP",
		}},
		"modelVersion": model,
		"responseId":   fmt.Sprintf("response-%d", a.id),
		"usageMetadata": object{
			"promptTokenCount":     r.in,
			"candidatesTokenCount": r.out,
			"totalTokenCount":      r.in + r.out,
		},
	}
	if isWhole {
		a.w.Header().Set("Content-Type", "application/json")
		a.send("%s", content)
		return
	}
	a.w.Header().Set("Content-Type", "text/event-stream")
	a.event(content)
}

// refuseGemini is the body of an error.
func refuseGemini(status int, message string) object {
	kinds := map[int]string{
		http.StatusBadRequest:         "INVALID_ARGUMENT",
		http.StatusUnauthorized:       "UNAUTHENTICATED",
		http.StatusForbidden:          "PERMISSION_DENIED",
		http.StatusTooManyRequests:    "RESOURCE_EXHAUSTED",
		http.StatusServiceUnavailable: "UNAVAILABLE",
	}
	kind := kinds[status]
	if kind == "" {
		kind = "INTERNAL"
	}
	return object{"error": object{"code": status, "message": message, "status": kind}}
}
