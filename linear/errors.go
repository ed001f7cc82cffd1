package linear

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
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
	return &reconcile.Error{Code: code, Message: c.scrub(message), Hint: hint, Class: reconcile.ClassTracker}
}

// shortestKey is the length from which a key is removed from text. Linear's keys have 48 characters; a placeholder such
// as "x" would be found in every word.
const shortestKey = 8

// scrub removes the key from text that came from outside. Linear does not repeat the key, but a proxy may.
func (c *Client) scrub(s string) string {
	if len(c.key) < shortestKey {
		return s
	}
	return strings.ReplaceAll(s, c.key, "[key]")
}

// short is the beginning of a body, on one line.
func (c *Client) short(body []byte) string {
	const limit = 300
	if len(body) > 4*limit {
		body = body[:4*limit]
	}
	s := strings.Join(strings.Fields(c.scrub(strings.ToValidUTF8(string(body), "?"))), " ")
	if len(s) > limit {
		s = text.Within(s, limit) + "…"
	}
	return cmp.Or(s, "(empty)")
}

func (c *Client) statusError(a answer, errs []graphqlError) error {
	said := c.short(a.body)
	if len(errs) > 0 {
		said = messages(errs)
	}
	e := &reconcile.Error{
		Code: "linear_api_status", Class: reconcile.ClassTracker, Message: c.scrub("HTTP " + strconv.Itoa(a.status) + ": " + said),
	}
	switch {
	case a.status == http.StatusUnauthorized || a.status == http.StatusForbidden || authFault(errs):
		e.Hint = keyHint
	case a.status >= 300 && a.status < 400:
		e.Hint = "the endpoint redirects, and the key is not sent elsewhere: set tracker.endpoint to the final URL"
	case a.status >= 500:
		e.Hint, e.Err = "Linear has a fault of its own; the next pass asks again", errServer{}
	}
	switch {
	case notFound(errs):
		e.Err = errNotFound{}
	case a.status == http.StatusBadRequest && !authFault(errs):
		e.Err = reconcile.ErrRejected
	}
	return e
}

func (c *Client) graphqlErrors(errs []graphqlError) error {
	e := &reconcile.Error{Code: "linear_graphql_errors", Class: reconcile.ClassTracker, Message: c.scrub(messages(errs))}
	switch {
	case authFault(errs):
		e.Hint = keyHint
	case notFound(errs):
		e.Err = errNotFound{}
	default:
		e.Err = reconcile.ErrRejected
	}
	return e
}

// messages joins the first three errors.
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
		message := cmp.Or(strings.TrimSpace(e.Message), strings.TrimSpace(e.Extensions.Code), "an error without a message")
		if p := e.Extensions.Present; p != "" && p != message {
			message += " (" + p + ")"
		}
		if r := []rune(message); len(r) > 300 {
			message = string(r[:300]) + "…"
		}
		b.WriteString(strings.Join(strings.Fields(message), " "))
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

// errNotFound is in the chain of an error where the entity asked for does not exist, errServer where Linear failed
// (HTTP 5xx) and may have executed the request.
type (
	errNotFound struct{}
	errServer   struct{}
)

func (errNotFound) Error() string { return "no such entity" }
func (errServer) Error() string   { return "the server failed" }

// notFound reports Linear's "Entity not found". Its code is the general INPUT_ERROR, so the message decides.
func notFound(errs []graphqlError) bool {
	for _, e := range errs {
		if strings.HasPrefix(e.Message, "Entity not found") {
			return true
		}
	}
	return false
}
