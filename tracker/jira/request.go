package jira

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	apiPath = "/rest/api/3"
	// maxPages bounds a list.
	maxPages = 200
)

func ignoreHeaders(http.Header) {}

// loginHeader says why Jira takes a request for a stranger's, in answers of any status.
const loginHeader = "X-Seraph-LoginReason"

// ask sends a request to a path below the API. Another status than 2xx is an error. The error of
// a 404 or 410 wraps reconcile.ErrGone, the error of a change that Jira did not make
// reconcile.ErrRejected.
func (c *client) ask(ctx context.Context, r transport.Request) (transport.Answer, error) {
	r.Path = apiPath + r.Path
	a, err := c.api.Send(ctx, r)
	if err != nil {
		return a, err
	}
	reason := strings.Join(a.Header.Values(loginHeader), ", ")
	switch {
	case a.Status == http.StatusTooManyRequests:
		return a, c.api.RateLimit(transport.LimitEnd(a.Header, c.api.Now(), announced(a.Header)))
	case reason != "" && !strings.Contains(reason, "OK"):
		message := fmt.Sprintf("Jira does not accept the token, and answers as to a stranger (%s)", reason)
		e := reconcile.NewError(apiStatus, c.api.Scrub(message), c.api.CheckKey).WithCause(transport.ErrKey)
		e.Status = a.Status
		return a, e
	case a.Status/100 == 2:
		return a, nil
	}
	return a, c.refusal(a)
}

// announced is the end of a limit that has no Retry-After; zero if it is not told.
func announced(h http.Header) time.Time {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00"} {
		at, err := time.Parse(layout, h.Get("X-RateLimit-Reset"))
		if err == nil {
			return at
		}
	}
	return time.Time{}
}

// refusal is the error of an answer whose status means failure.
func (c *client) refusal(a transport.Answer) error {
	err := c.api.RefusalByStatus(a, message(a.Body))
	e, known := errors.AsType[*reconcile.Error](err)
	if !known {
		return err
	}
	if errors.Is(err, reconcile.ErrGone) {
		e.Hint = fmt.Sprintf("it does not exist at %s, or the account may not see it", c.site)
	}
	if a.Status == http.StatusForbidden {
		e.Hint = "the account of the token needs that right in the project " + c.o.Project +
			"; a token with scopes needs read:jira-work, write:jira-work and read:jira-user"
	}
	if status, isStatus := strings.CutPrefix(e.Message, "HTTP "); isStatus {
		e.Message = "Jira answers " + status
	}
	return err
}

// message returns the texts of an answer to a failed request; empty if it looks otherwise. They
// are in the language of the account.
func message(body []byte) string {
	var said struct {
		Messages []string          `json:"errorMessages"`
		Errors   map[string]string `json:"errors"`
		Message  string            `json:"message"` // of the gateway
	}
	_ = json.Unmarshal(body, &said)
	list := said.Messages
	if said.Message != "" {
		list = append(list, said.Message)
	}
	for _, field := range slices.Sorted(maps.Keys(said.Errors)) {
		list = append(list, field+": "+said.Errors[field])
	}
	return strings.Join(list, "; ")
}

// do sends a request and decodes the answer; an empty answer is the zero value.
func do[T any](ctx context.Context, c *client, method, path string, query url.Values, body any) (v T, err error) {
	a, err := c.ask(ctx, transport.Request{Method: method, Path: path, Query: query, Body: body})
	if err != nil || a.Status == http.StatusNoContent {
		return v, err
	}
	return decode[T](c, a.Body)
}

// get reads a path.
func get[T any](ctx context.Context, c *client, path string, query url.Values) (T, error) {
	return do[T](ctx, c, http.MethodGet, path, query, nil)
}

// decode reads the JSON of an answer. null is none.
func decode[T any](c *client, raw []byte) (v T, err error) {
	err = json.Unmarshal(raw, &v)
	if err != nil || strings.TrimSpace(string(raw)) == "null" {
		return v, c.api.Unreadable("no JSON of Jira", raw, err)
	}
	return v, nil
}

// issuePath is the path of an issue, or of something below it.
func issuePath(id string, below ...string) string {
	path := "/issue/" + url.PathEscape(id)
	for _, part := range below {
		path += "/" + url.PathEscape(part)
	}
	return path
}

// endless is the error of a list without an end.
func (c *client) endless(what string) error {
	return c.api.Fail(unknownPayload, "the list of "+what+" does not end")
}
