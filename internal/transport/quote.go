package transport

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/agenttool"
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
	return cmp.Or(Brief(c.Scrub(s)), "(empty)")
}

// Brief returns the beginning of a text, on one line.
func Brief(s string) string { return text.Short(text.OneLine(s), longestQuote) }

// scrubbed wraps an error and prints it without the key.
type scrubbed struct {
	text string
	error
}

func (s scrubbed) Error() string { return s.text }

func (s scrubbed) Unwrap() error { return s.error }

// Refused is the answer of an agent's tool to a call that failed.
func (c *Client) Refused(err error) reconcile.ToolAnswer {
	answer := agenttool.Refused(c.Prefix+"_api_request", err)
	answer.Text = c.Scrub(answer.Text)
	return answer
}

// Unsure extends the error of a change that the tracker may have made, so that the agent does not simply repeat it.
func (c *Client) Unsure(err error) error {
	var e *reconcile.Error
	sent := []string{c.Prefix + "_api_request", c.Prefix + "_unknown_payload", "answer_too_large"}
	if !errors.As(err, &e) || !slices.Contains(sent, e.Code) && !errors.Is(err, ErrServer) {
		return err // refused, and not carried out
	}
	extended := *e
	extended.Message += "; the change may have been made nevertheless: check before you send it again"
	return &extended
}
