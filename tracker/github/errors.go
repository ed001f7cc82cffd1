package github

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

const tokenHint = "check the GitHub token: it must be valid, and allow reading and writing issues of the repository"

const strangeHint = "the next pass asks again; if that does not help, a proxy has changed GitHub's answer, or its API has changed"

type graphqlError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Path    []any  `json:"path"`
	// Extensions.Code is set for a query that the server's schema does not allow.
	Extensions struct {
		Code string `json:"code"`
	} `json:"extensions"`
}

// reconcile.ErrGone is wrapped by the error of a request for something that does not exist, or that the token may not see; errServer
// if GitHub failed (HTTP 5xx) and may have executed the request; errUnknownField if the server's schema lacks a field of a query.
var (
	errServer       = errors.New("the server failed")
	errUnknownField = errors.New("unknown field")
)

func (c *Client) fail(code, message string) error {
	return &reconcile.Error{Code: code, Message: c.scrub(message), Class: reconcile.ClassTracker, Hint: strangeHint}
}

// scrub removes the token from text that was received.
func (c *Client) scrub(s string) string { return transport.Scrub(s, c.token, "[token]") }

// short returns the beginning of a body, on one line.
func (c *Client) short(body []byte) string { return transport.Short(body, c.scrub) }

func (c *Client) requestError(r request, err error) error {
	e := &reconcile.Error{
		Code: "github_api_request", Class: reconcile.ClassTracker, Message: c.scrub(err.Error()),
		Hint: "check the network and tracker.endpoint", Err: transport.Scrubbed{Text: c.scrub(err.Error()), Err: err},
	}
	if u := (*url.Error)(nil); errors.As(err, &u) {
		late := ""
		if u.Timeout() {
			late = "no answer in time: "
		}
		e.Message = c.scrub(r.method + " " + c.endpoint + r.path + ": " + late + u.Err.Error())
	}
	return e
}

// refusal returns the error of an answer with GraphQL errors, or with an HTTP status that means failure.
func (c *Client) refusal(a answer, errs []graphqlError) error {
	said := c.short(a.body)
	if m := message(a.body); m != "" {
		said = transport.OneLine(m)
	}
	if len(errs) > 0 {
		said = messages(errs)
	}
	e := &reconcile.Error{Code: "github_graphql_errors", Class: reconcile.ClassTracker, Message: c.scrub(said), Hint: strangeHint}
	if a.status != http.StatusOK {
		e.Code, e.Message = "github_api_status", c.scrub("HTTP "+strconv.Itoa(a.status)+": "+said)
	}
	ofType := func(types ...string) bool {
		return slices.ContainsFunc(errs, func(e graphqlError) bool { return slices.Contains(types, e.Type) })
	}
	switch {
	case a.status == http.StatusUnauthorized || a.status == http.StatusForbidden || ofType("FORBIDDEN", "INSUFFICIENT_SCOPES"):
		e.Hint = tokenHint
		if c.o.TokenSource != "" {
			e.Hint += "; it comes from " + c.o.TokenSource
		}
	case a.status == http.StatusNotFound || a.status == http.StatusGone || ofType("NOT_FOUND"):
		e.Hint, e.Err = "check the name, and that the token may read it", reconcile.ErrGone
	case a.status >= 300 && a.status < 400:
		e.Hint = "the answer leads to another host, and the token is not sent there: set tracker.endpoint to the final URL"
	case a.status >= 500:
		e.Hint, e.Err = "GitHub has an internal error; the next pass asks again", errServer
	case slices.ContainsFunc(errs, func(e graphqlError) bool { return e.Extensions.Code == "undefinedField" }):
		e.Err = errUnknownField
	case a.status == http.StatusOK || a.status == http.StatusBadRequest || a.status == http.StatusUnprocessableEntity:
		e.Err = reconcile.ErrRejected
	}
	return e
}

func allMissing(errs []graphqlError) bool {
	return !slices.ContainsFunc(errs, func(e graphqlError) bool { return e.Type != "NOT_FOUND" && !e.inPulls() })
}

// messages joins the messages of the first three errors.
func messages(errs []graphqlError) string {
	var list []string
	for _, e := range errs[:min(3, len(errs))] {
		list = append(list, transport.OneLine(cmp.Or(strings.TrimSpace(e.Message), strings.TrimSpace(e.Type), "an error without a message")))
	}
	if more := len(errs) - len(list); more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(list, "; ")
}
