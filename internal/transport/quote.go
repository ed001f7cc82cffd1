package transport

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
)

const (
	// shortestSecret is the length of the shortest secret that is removed from text. Real keys and tokens have 40 characters and more;
	// a placeholder such as "x" would match in many words.
	shortestSecret = 8
	// longestQuote is how much of an answer an error quotes, in bytes.
	longestQuote = 300
)

// Scrub replaces the secret in text that was received. Trackers do not repeat their keys, but a proxy may.
func Scrub(s, secret, by string) string {
	if len(secret) < shortestSecret {
		return s
	}
	return strings.ReplaceAll(s, secret, by)
}

// ScrubBytes is Scrub for a whole answer.
func ScrubBytes(b []byte, secret, by string) []byte {
	if len(secret) < shortestSecret {
		return b
	}
	return bytes.ReplaceAll(b, []byte(secret), []byte(by))
}

// Short returns the beginning of a body, scrubbed, on one line.
func Short(body []byte, scrub func(string) string) string {
	s := strings.ToValidUTF8(string(body[:min(len(body), 4*longestQuote)]), "?")
	return cmp.Or(OneLine(scrub(s)), "(empty)")
}

// OneLine returns the beginning of a text, on one line.
func OneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > longestQuote {
		s = text.Within(s, longestQuote) + "…"
	}
	return s
}

// Scrubbed wraps an error and prints it without a secret.
type Scrubbed struct {
	Text string
	Err  error
}

func (s Scrubbed) Error() string { return s.Text }

// Unwrap returns the wrapped error.
func (s Scrubbed) Unwrap() error { return s.Err }
