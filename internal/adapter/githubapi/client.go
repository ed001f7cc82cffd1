// Package githubapi sends requests to the REST and GraphQL APIs of GitHub, within its limits,
// for the adapters to its issues and its pull requests.
package githubapi

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

// Header are the headers of each request.
var Header = map[string]string{
	"Accept":               "application/vnd.github+json",
	"X-GitHub-Api-Version": "2022-11-28",
}

const maxRedirects = 3

// Client sends requests to GitHub. It is safe for concurrent use.
type Client struct {
	*transport.Client
	GraphQLAddress string

	memory     reconcile.TrackerMemory // may be nil
	mu         sync.Mutex
	allowances map[string]transport.Allowance // by GitHub's name of the resource
	answered   reconcile.Budget               // the times of the last answer
	limited    time.Time                      // the end of the limit that this client was told
	// the token is of the kind with scopes; other kinds have none
	classic bool
	scopes  []string // of the token
}

// Connect checks the options and returns a client. The memory keeps the end of a limit between
// processes; if it is nil, only this client remembers it. Nothing is sent.
func Connect(
	s transport.Service,
	o transport.Options,
	memory reconcile.TrackerMemory,
) (c *Client, err error) {
	c = &Client{memory: memory, allowances: map[string]transport.Allowance{}}
	c.Client, err = s.Connect(o, c.readBudget)
	if err != nil {
		return nil, err
	}
	c.GraphQLAddress = c.Endpoint + "/graphql"
	if base, ok := strings.CutSuffix(c.Endpoint, "/api/v3"); ok {
		c.GraphQLAddress = base + "/api/graphql"
	}
	return c, nil
}

// Do sends a request to a path below the endpoint and reads the answer. Another status than
// 2xx is an error; the error of a 404 or 410 wraps reconcile.ErrGone.
func (c *Client) Do(
	ctx context.Context,
	method, path string,
	query url.Values,
	body any,
) (transport.Answer, error) {
	a, err := c.Follow(ctx, transport.Request{
		Method: method,
		Path:   path,
		Query:  query,
		Body:   body,
	})
	if err != nil {
		return a, err
	}
	if a.Status/100 != 2 {
		return a, c.Refusal(a, nil)
	}
	return a, nil
}

// Ask sends a request. It returns the answer with any status, but an error if there is none,
// if it is too large, or if it reports that a limit is reached. While a limit lasts nothing is
// sent.
func (c *Client) Ask(ctx context.Context, r transport.Request) (a transport.Answer, err error) {
	if err := c.checkLimit(ctx); err != nil {
		return a, err
	}
	if r.Path == "/graphql" && r.To == "" {
		r.To = c.GraphQLAddress
	}
	ctx, cancel := context.WithTimeout(ctx, transport.Timeout)
	defer cancel()
	a, err = c.Send(ctx, r)
	if err != nil {
		return a, err
	}
	if isLimit(a) {
		return transport.Answer{}, c.reached(ctx, a)
	}
	return a, nil
}

// Follow is Ask that follows redirects on the same host. A redirect to another host is an
// error.
func (c *Client) Follow(ctx context.Context, r transport.Request) (a transport.Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, transport.Timeout)
	defer cancel()
	for n := 0; ; n++ {
		a, err = c.Ask(ctx, r)
		if err != nil || !slices.Contains(redirects, a.Status) {
			return a, err
		}
		to, ok := sameHost(a.URL, a.Header.Get("Location"))
		if !ok || n == maxRedirects {
			return transport.Answer{}, c.Refusal(a, nil)
		}
		r.To = to
	}
}

var redirects = []int{
	http.StatusMovedPermanently,
	http.StatusFound,
	http.StatusTemporaryRedirect,
	http.StatusPermanentRedirect,
}

// sameHost resolves the location of a redirect. It is false for another host or protocol, to
// which the token is not sent.
func sameHost(from, location string) (string, bool) {
	base, err := url.Parse(from)
	if err != nil || location == "" {
		return "", false
	}
	to, err := base.Parse(location)
	if err != nil || to.Scheme != base.Scheme || to.Host != base.Host || to.User != nil {
		return "", false
	}
	return to.String(), true
}

// GraphQL sends a query and decodes its data. If there is data, errors about entities that do
// not exist, and errors that allowed accepts, are returned as missing: their fields in the
// data are null. All other errors fail the call.
func GraphQL[T any](
	ctx context.Context,
	c *Client,
	query string,
	vars map[string]any,
	allowed func(transport.GraphQLError) bool,
) (
	data *T, missing []transport.GraphQLError, err error,
) {
	a, err := c.Follow(ctx, transport.Request{
		Method: http.MethodPost,
		Path:   "/graphql",
		Body:   map[string]any{"query": query, "variables": vars},
	})
	if err != nil {
		return nil, nil, err
	}
	refused := func(e transport.GraphQLError) bool { return e.Type != "NOT_FOUND" && !allowed(e) }
	env, wrong := transport.GraphQL[T](c.Client, a)
	switch {
	case a.Status != http.StatusOK:
		return nil, nil, c.Refusal(a, env.Errors)
	case wrong != nil:
		return nil, nil, wrong
	case len(env.Errors) > 0 && (env.Data == nil || slices.ContainsFunc(env.Errors, refused)):
		return nil, nil, c.Refusal(a, env.Errors)
	}
	return env.Data, env.Errors, nil
}

// Decode reads the JSON of an answer or of a field.
func Decode[T any](c *transport.Client, what string, raw []byte) (v T, err error) {
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, c.Unreadable("no "+what, raw, err)
	}
	return v, nil
}

// DecodeList decodes a list. null is no empty list.
func DecodeList[T any](c *transport.Client, what string, raw []byte) ([]T, error) {
	list, err := Decode[[]T](c, what, raw)
	if err == nil && list == nil {
		err = c.Unreadable("no "+what, raw, nil)
	}
	return list, err
}

type graphqlError = transport.GraphQLError

// Refusal returns the error of an answer with GraphQL errors, or with an HTTP status that
// means failure. It wraps reconcile.ErrGone if something does not exist, or the token may not
// see it.
func (c *Client) Refusal(a transport.Answer, errs []graphqlError) error {
	ofType := func(types ...string) func(graphqlError) bool {
		return func(e graphqlError) bool { return slices.Contains(types, e.Type) }
	}
	said := cmp.Or(transport.Brief(Message(a.Body)), c.Short(a.Body))
	return c.Client.Refusal(
		a,
		errs,
		said,
		ofType("FORBIDDEN", "INSUFFICIENT_SCOPES"),
		func(e *reconcile.Error) bool {
			gone := a.Status == http.StatusNotFound || a.Status == http.StatusGone
			switch {
			case gone || slices.ContainsFunc(errs, ofType("NOT_FOUND")):
				e.Hint = "check " + c.Setting + " and the name, and that the token may read it"
				e.Err = reconcile.ErrGone
			case a.Status == http.StatusUnprocessableEntity:
				e.Err = reconcile.ErrRejected
			}
			return e.Err != nil
		},
	)
}
