package modeltest

import (
	"encoding/json"
	"fmt"
	"net/http"
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
	tools []string // on offer

	id       string // of the response, once its stream has begun
	sequence int
	index    int // of the next output item
	spoke    bool
	try      int // of this response, from 1: codex asks again after a fault
	in, out  int // tokens; default below
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
		return a.fail(s.Name, s.Text)
	case "crash":
		a.cut()
	case "long":
		a.long(s.N)
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

// pieceSize is how much of a long message one delta carries.
const pieceSize = 256 << 10

// long is a message of n bytes in one line.
func (a *answer) long(n int) {
	piece := strings.Repeat("x", pieceSize)
	var pieces []string
	for left := n; left > 0; left -= pieceSize {
		pieces = append(pieces, piece[:min(left, pieceSize)])
	}
	a.messageOf(pieces, 0)
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
