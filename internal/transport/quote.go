package transport

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	// shortestSecret is the length of the shortest secret that is removed from text. Real keys and tokens have 40 characters and more;
	// a placeholder such as "x" would match in many words.
	shortestSecret = 8
	// longestQuote is how much of an answer an error quotes, in bytes.
	longestQuote = 300
)

// Scrub removes the key from text that was received. Trackers do not repeat their keys, but a proxy may.
func (c *Client) Scrub(s string) string {
	if len(c.Key) < shortestSecret {
		return s
	}
	return strings.ReplaceAll(s, c.Key, "["+c.Word+"]")
}

// scrubBytes is Scrub for a whole answer.
func (c *Client) scrubBytes(b []byte) []byte {
	if len(c.Key) < shortestSecret {
		return b
	}
	return bytes.ReplaceAll(b, []byte(c.Key), []byte("["+c.Word+"]"))
}

// Short returns the beginning of a body, on one line.
func (c *Client) Short(body []byte) string {
	s := strings.ToValidUTF8(string(body[:min(len(body), 4*longestQuote)]), "?")
	return cmp.Or(OneLine(c.Scrub(s)), "(empty)")
}

// OneLine returns the beginning of a text, on one line.
func OneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > longestQuote {
		s = text.Within(s, longestQuote) + "…"
	}
	return s
}

// scrubbed wraps an error and prints it without the key.
type scrubbed struct {
	text string
	error
}

func (s scrubbed) Error() string { return s.text }

func (s scrubbed) Unwrap() error { return s.error }

// Refused is the answer of an agent's tool to a call that failed.
func (c *Client) Refused(err error) reconcile.ToolAnswer {
	e := &reconcile.Error{Code: c.Prefix + "_api_request", Message: err.Error()}
	errors.As(err, &e)
	said := map[string]string{"code": e.Code, "message": c.Scrub(e.Message)}
	return reconcile.ToolAnswer{Text: string(JSON(map[string]any{"error": said}))}
}

// ReadOnly is the error of a change that an agent may not make in a project with tracker.tool_scope: read.
func ReadOnly(change string) error {
	return &reconcile.Error{Code: "mutation_refused", Message: "this project's WORKFLOW.md has tracker.tool_scope: read, so " + change +
		" was not sent; say in your last message what should be changed"}
}

// JSON encodes a value that can be encoded, with < and > as they are.
func JSON(value any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		panic(err) // texts and values that were decoded from JSON
	}
	return bytes.TrimSpace(b.Bytes())
}
