package wire

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/symphony-cron/symphony/runner/agent"
)

// Message is any line of the stream. The method tells requests and notifications from answers.
// The id does not, because both sides number their requests independently.
type Message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *Error          `json:"error"`

	// Raw is the line, which whoever keeps it copies.
	Raw json.RawMessage `json:"-"`
}

// longestID bounds the id of a message in bytes. An answer repeats it.
const longestID = 200

// ReadMessage decodes a line, which must not be empty. Of a line that is not a JSON object, or
// that has no usual id, only Raw is set.
func ReadMessage(line []byte) *Message {
	m := &Message{Raw: line}
	if line[0] == '{' && json.Valid(line) {
		Unmarshal(line, m)
	}
	if len(m.ID) > longestID {
		return &Message{Raw: line}
	}
	return m
}

// HasID reports whether the message has an id that is not null: a request or an answer.
func (m *Message) HasID() bool { return len(m.ID) > 0 && !bytes.Equal(m.ID, []byte("null")) }

// IsMessage reports whether the line is a request, a notification or an answer.
func (m *Message) IsMessage() bool {
	return m.Method != "" || m.HasID() && (m.Result != nil || m.Error != nil)
}

// Unmarshal decodes as much as fits. A member of an unexpected type stays empty, because types
// differ between agents and their releases. raw may be empty.
func Unmarshal(raw []byte, into any) {
	_ = json.Unmarshal(raw, into) // see above
}

// Read is Unmarshal into a new T. Members are matched by name regardless of case.
func Read[T any](raw json.RawMessage) *T {
	v := new(T)
	Unmarshal(raw, v)
	return v
}

// Unexpected is the event for a line that is no message, or an answer to a request that was not
// sent.
func Unexpected(m *Message) agent.Event {
	e := agent.Event{Name: agent.EventMalformed, Message: string(m.Raw)}
	if json.Valid(m.Raw) {
		e.Raw = bytes.Clone(m.Raw)
	}
	if m.IsMessage() {
		e.Name = agent.EventOtherMessage
	}
	return e
}

// Object is a JSON object to send.
type Object map[string]any

// Error is the error object of an answer.
type Error struct {
	Code    int
	Message string
	Data    json.RawMessage `json:"data"`
}

func (e *Error) Error() string { return e.Message }

// MethodNotFound is the code of an Error: the other side does not know the method.
const MethodNotFound = -32601

// Short replaces white space and control characters by single blanks and cuts at n characters.
// An ellipsis marks a cut.
func Short(text string, n int) string {
	isBlank := func(r rune) bool { return r <= ' ' }
	text = strings.TrimFunc(text, isBlank)
	// cheap first cut; the rest may still be mostly white space
	if limit := 4 * (n + 1); len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	r := []rune(strings.Join(strings.FieldsFunc(text, isBlank), " "))
	if len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return string(r)
}

// Join joins two texts with a colon, unless either is empty.
func Join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ": " + b
}
