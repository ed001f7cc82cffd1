package linear

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/reconcile"
)

// RateLimited is in the chain of an error with code tracker_rate_limited. errors.As finds it.
type RateLimited struct {
	// Reset is when to ask again: what Linear named, or a minute ahead where it named nothing.
	Reset time.Time
}

// Error implements error.
func (r *RateLimited) Error() string {
	return "the allowance is used up until " + r.Reset.UTC().Format(time.RFC3339)
}

const (
	resetUnknown = time.Minute
	// resetLongest bounds what a wrong clock on either side can do; Linear's windows are an hour.
	resetLongest = 2 * time.Hour
)

const keyHint = "check the Linear API key: it must be valid, not revoked, and its user must see the project"

type graphqlError struct {
	Message    string `json:"message"`
	Path       []any  `json:"path"`
	Extensions struct {
		Code    string `json:"code"`
		Type    string `json:"type"`
		Present string `json:"userPresentableMessage"`
	} `json:"extensions"`
}

// scrubbed keeps the cause for errors.Is and errors.As but prints it without the key.
type scrubbed struct {
	text string
	err  error
}

func (s scrubbed) Error() string { return s.text }
func (s scrubbed) Unwrap() error { return s.err }

func (c *Client) fail(code, message, hint string) error {
	return &reconcile.Error{Code: code, Message: c.scrub(message), Hint: hint}
}

// shortestKey is the length from which a key is looked for in what comes back. Linear's have 48 characters; a
// placeholder such as "x" would be found in every word.
const shortestKey = 8

// scrub takes the key out of text that came from outside. Linear does not repeat it; proxies may.
func (c *Client) scrub(s string) string {
	if len(c.key) < shortestKey {
		return s
	}
	return strings.ReplaceAll(s, c.key, "[key]")
}

// short is the beginning of a body on one line.
func (c *Client) short(body []byte) string {
	const most = 300
	if len(body) > 4*most {
		body = body[:4*most]
	}
	// The key goes before the cut, so that no part of it can be left at the end.
	s := strings.Join(strings.Fields(c.scrub(strings.ToValidUTF8(string(body), "?"))), " ")
	if len(s) > most {
		s = s[:most]
		for !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
		s += "…"
	}
	if s == "" {
		return "(empty)"
	}
	return s
}

func (c *Client) statusError(a answer, errs []graphqlError) error {
	text := c.short(a.body)
	if len(errs) > 0 {
		text = messages(errs)
	}
	e := &reconcile.Error{Code: "linear_api_status", Message: c.scrub("HTTP " + strconv.Itoa(a.status) + ": " + text)}
	switch {
	case a.status == http.StatusUnauthorized || a.status == http.StatusForbidden || authFault(errs):
		e.Hint = keyHint
	case a.status >= 300 && a.status < 400:
		e.Hint = "the endpoint redirects, and the key is not taken elsewhere: set tracker.endpoint to the final URL"
	case a.status >= 500:
		e.Hint = "Linear has a fault of its own; the next pass asks again"
	}
	if notFound(errs) {
		e.Err = errNotFound{}
	}
	return e
}

func (c *Client) graphqlErrors(errs []graphqlError) error {
	e := &reconcile.Error{Code: "linear_graphql_errors", Message: c.scrub(messages(errs))}
	if authFault(errs) {
		e.Hint = keyHint
	}
	if notFound(errs) {
		e.Err = errNotFound{}
	}
	return e
}

// messages joins the first three.
func messages(errs []graphqlError) string {
	var b strings.Builder
	for i, e := range errs {
		if i == 3 {
			b.WriteString("; and " + strconv.Itoa(len(errs)-i) + " more")
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		text := cmp.Or(strings.TrimSpace(e.Message), strings.TrimSpace(e.Extensions.Code), "an error without a message")
		if p := e.Extensions.Present; p != "" && p != text {
			text += " (" + p + ")"
		}
		if r := []rune(text); len(r) > 300 {
			text = string(r[:300]) + "…"
		}
		b.WriteString(strings.Join(strings.Fields(text), " "))
	}
	return b.String()
}

func authFault(errs []graphqlError) bool {
	for _, e := range errs {
		if e.Extensions.Code == "AUTHENTICATION_ERROR" || e.Extensions.Code == "FORBIDDEN" ||
			e.Extensions.Type == "authentication error" || strings.Contains(e.Message, "API key as a Bearer token") {
			return true
		}
	}
	return false
}

// errNotFound marks an answer that says that the entity asked for does not exist.
type errNotFound struct{}

func (errNotFound) Error() string { return "no such entity" }

// notFound: Linear has no code of its own for it, only a general INPUT_ERROR with this message.
func notFound(errs []graphqlError) bool {
	for _, e := range errs {
		if strings.HasPrefix(e.Message, "Entity not found") {
			return true
		}
	}
	return false
}
