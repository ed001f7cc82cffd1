// Package linear is the adapter to Linear's GraphQL API (specification 11). It reads issues for passes and workers and
// provides the agent's tool linear_graphql (specification 10.5).
//
// Adapter returns the value that the rest of the program uses. Errors are *reconcile.Error with these codes:
//
//	missing_tracker_api_key, missing_tracker_project_slug   there is no key or no project
//	tracker_endpoint_invalid   the endpoint is not an http(s) URL
//	tracker_ca_file_invalid    tracker.ca_file is not readable or contains no certificate
//	linear_api_request         no answer: a transport error, or a timeout after 30 s
//	linear_api_status          an answer other than HTTP 200
//	linear_graphql_errors      HTTP 200 with GraphQL errors
//	linear_unknown_payload     an answer of another shape, or a malformed record
//	linear_missing_end_cursor  pages that cannot be followed to their end
//	answer_too_large           an answer of more than 64 MiB, or 1 MiB for the agent's tool
//	tracker_rate_limited       the allowance is used up; the error wraps RateLimited, which has the time of the reset
//	tracker_project_not_found  the project does not exist
//	issue_not_found            the issue does not exist
//
// # Decisions
//
//   - Every request of a pass or worker consists of files in query/; only the variables vary. It asks for the fields that the
//     specification names; what else is needed has requests of its own, which a server may refuse.
//   - Connections inside an issue are read with a small page size, because Linear prices a query by the product of its page
//     sizes (10,000 points at most). Further pages are fetched separately, so that nothing is cut silently.
//   - Reads are not retried. The next pass is the retry.
//   - Redirects are not followed: the key goes to the configured endpoint only.
//   - Priority 0 (Linear's "no priority") stays 0. Specification 11.3 makes only non-integers null, a prompt may want to
//     distinguish the two, and the order of specification 8.2 treats both alike.
package linear

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

// DefaultEndpoint is the URL of Linear's API (specification 5.3.1).
const DefaultEndpoint = "https://api.linear.app/graphql"

const (
	requestTimeout = 30 * time.Second // specification 11.2
	maxBody        = 64 << 20         // bytes of an answer to a pass or worker
)

// Options configure a Client.
type Options struct {
	Endpoint string // DefaultEndpoint if empty
	APIKey   string // a personal API key, or an OAuth token that starts with lin_oauth_
	// KeySource says where the key comes from, for the error of a refused key; empty if that is obvious.
	KeySource string
	// ProjectSlug is the project's slug id, or its URL, which ends in the slug id.
	ProjectSlug string
	// CAFile is a PEM file with certificates to trust in addition to the system's.
	CAFile string
	// IgnoreProxy: do not use the proxy in this process's environment variables.
	IgnoreProxy bool
	// Assignee: read the assignees of issues, which a workflow may ask for.
	Assignee bool
	// ReadOnly makes the agent's tool refuse mutations.
	ReadOnly bool
	// Transport replaces the client's default transport. CAFile and IgnoreProxy have no effect on it.
	Transport http.RoundTripper
	Now       func() time.Time // time.Now if nil
	// Warn receives each warning once; nil discards them.
	Warn func(string)
}

// Client sends requests to Linear for one project. It is safe for concurrent use.
type Client struct {
	endpoint string
	key      string
	keyHint  string // of the error of a refused key
	header   string
	fields   string // the fragments of the fields of an issue
	http     *http.Client
	now      func() time.Time
	report   func(string)

	mu     sync.Mutex
	slugs  []string // the possible slug ids of the project, the most likely first
	budget reconcile.Budget
	warned map[string]bool // the warnings that were reported
}

// New returns a client for a project. It checks the options, and sends nothing.
func New(o Options) (*Client, error) {
	c, err := connect(o)
	if err != nil {
		return nil, err
	}
	if c.slugs, err = projectSlugs(o.ProjectSlug); err != nil {
		return nil, err
	}
	return c, nil
}

// Adapter returns Linear as a tracker. It sends nothing.
func Adapter(o Options) (*reconcile.TrackerAdapter, error) {
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	return &reconcile.TrackerAdapter{
		Tracker: c, Name: "Linear",
		Find: c.ByIdentifier, Comments: c.Comments, Post: c.Post, Edit: c.Edit, Verify: c.Verify, Budget: c.Budget,
		Tools:   []reconcile.AgentTool{Tool(c, o.ReadOnly)},
		Secrets: []string{c.key},
	}, nil
}

// connect returns a client without a project.
func connect(o Options) (*Client, error) {
	key := strings.TrimSpace(o.APIKey)
	if key == "" {
		return nil, &reconcile.Error{
			Code: "missing_tracker_api_key", Message: "no Linear API key",
			Hint: "set LINEAR_API_KEY, or tracker.api_key to the $VARIABLE that holds it",
		}
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r < 0x20 || r > 0x7e }) {
		return nil, &reconcile.Error{
			Code: "missing_tracker_api_key", Message: "the Linear API key contains characters that no key has",
			Hint: "check for a line break or quotes around the key",
		}
	}
	endpoint, err := checkEndpoint(o.Endpoint)
	if err != nil {
		return nil, err
	}
	sender := o.Transport
	if sender == nil {
		if sender, err = transport.New(o.CAFile, o.IgnoreProxy); err != nil {
			return nil, err
		}
	}
	c := &Client{
		endpoint: endpoint, key: key, keyHint: keyHint, header: key, now: o.Now, report: o.Warn, warned: map[string]bool{},
		http: &http.Client{
			Timeout: requestTimeout, Transport: sender,
			// net/http would also send the key to subdomains, and the operator should configure an endpoint's new address.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	c.fields = issueFields + relationFields
	if o.Assignee {
		c.fields = strings.Replace(c.fields, "{\n", "{\n  ...AssigneeFields\n", 1) + assigneeFields
	}
	if o.KeySource != "" {
		c.keyHint += "; it comes from " + o.KeySource
	}
	if strings.HasPrefix(key, "lin_oauth_") { // Linear refuses personal keys with "Bearer", and OAuth tokens without it
		c.header = "Bearer " + key
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.report == nil {
		c.report = func(string) {}
	}
	return c, nil
}

func checkEndpoint(s string) (string, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return DefaultEndpoint, nil
	}
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil {
		// The value is not quoted: it may be a key that was pasted into the wrong place.
		return "", &reconcile.Error{
			Code: "tracker_endpoint_invalid", Message: "tracker.endpoint is not an http or https URL",
			Hint: "leave it out to use " + DefaultEndpoint,
		}
	}
	return s, nil
}

// answer is an HTTP answer of any status.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// send posts one GraphQL request and reads the answer, of at most limit bytes.
func (c *Client) send(ctx context.Context, query string, variables any, limit int64) (answer, error) {
	sent, err := json.Marshal(struct {
		Query     string `json:"query"`
		Variables any    `json:"variables,omitempty"`
	}{query, variables})
	if err != nil {
		return answer{}, fmt.Errorf("encode request: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(sent))
	if err != nil {
		return answer{}, c.requestError(err)
	}
	req.Header.Set("Authorization", c.header)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "symphony")
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, c.requestError(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return answer{}, c.requestError(fmt.Errorf("read answer: %w", err))
	}
	c.readBudget(resp.Header)
	if int64(len(body)) > limit {
		return answer{}, c.fail("answer_too_large", fmt.Sprintf("Linear's answer has more than %d bytes: ask for fewer fields, "+
			"or for fewer entries at a time (first: 20, after: the last endCursor)", limit))
	}
	// The key is removed before the text is cut anywhere, so that no part of the key can remain at an end.
	body = transport.ScrubBytes(body, c.key, "[key]")
	return answer{status: resp.StatusCode, header: resp.Header, body: body}, nil
}

// ask sends one of the requests in query/ and decodes its data.
func ask[T any](ctx context.Context, c *Client, query string, variables map[string]any) (*T, error) {
	a, err := c.send(ctx, query, variables, maxBody)
	if err != nil {
		return nil, err
	}
	env, err := check[T](c, a)
	switch {
	case err != nil:
		return nil, err
	case len(env.Errors) > 0:
		return nil, c.refusal(a, env.Errors)
	case env.Data == nil:
		return nil, c.fail("linear_unknown_payload", "the answer contains neither data nor errors")
	}
	return env.Data, nil
}

// envelope is the outer shape of every GraphQL answer.
type envelope[T any] struct {
	Data   *T             `json:"data"`
	Errors []graphqlError `json:"errors"`
}

// check decodes an answer. It returns an error for a rate limit, an HTTP status other than 200, or an answer of another shape.
// GraphQL errors in an answer with status 200 are not checked.
func check[T any](c *Client, a answer) (env envelope[T], err error) {
	decodeErr := json.Unmarshal(a.body, &env)
	// JSON escapes can hide the key until it is decoded.
	for i := range env.Errors {
		e := &env.Errors[i]
		for _, text := range []*string{&e.Message, &e.Extensions.Present, &e.Extensions.Code} {
			*text = c.scrub(*text)
		}
	}
	wrongType := (*json.UnmarshalTypeError)(nil)
	switch {
	case isRateLimit(a, env.Errors):
		return env, c.rateLimited(a)
	case a.status != http.StatusOK:
		return env, c.refusal(a, env.Errors)
	case errors.As(decodeErr, &wrongType) && len(env.Errors) == 0:
		return env, c.fail("linear_unknown_payload", "the answer has an unexpected shape: "+decodeErr.Error())
	case decodeErr != nil && wrongType == nil:
		return env, &reconcile.Error{
			Code: "linear_unknown_payload", Message: "the answer is not GraphQL: " + c.short(a.body),
			Hint: "check tracker.endpoint; a proxy or login page may have answered instead", Err: decodeErr, Class: reconcile.ClassTracker,
		}
	}
	return env, nil
}

func (c *Client) requestError(err error) error {
	e := &reconcile.Error{
		Code: "linear_api_request", Class: reconcile.ClassTracker, Message: c.scrub(err.Error()),
		Hint: "check the network and tracker.endpoint", Err: transport.Scrubbed{Text: c.scrub(err.Error()), Err: err},
	}
	if u := (*url.Error)(nil); errors.As(err, &u) {
		late := ""
		if u.Timeout() {
			late = "no answer in time: "
		}
		e.Message = c.scrub("POST " + c.endpoint + ": " + late + u.Err.Error())
	}
	return e
}

// ours reports whether a slug id may belong to the client's project.
func (c *Client) ours(slug string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.slugs, slug)
}

// settleSlug records which of the possible slug ids exists.
func (c *Client) settleSlug(slug string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slugs = []string{slug}
}

// maxPages bounds the pages of one list.
const maxPages = 200

// list is a connection: one page of a list. Nodes is nil if the answer contains no list.
type list[T any] struct {
	Nodes    []T      `json:"nodes"`
	PageInfo pageInfo `json:"pageInfo"`
}

type pageInfo struct {
	HasNextPage bool   `json:"hasNextPage"`
	EndCursor   string `json:"endCursor"`
}

type wireUser struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

// wireName is a label or a state. Only a state has a type and a position.
type wireName struct {
	Name     string  `json:"name"`
	Type     string  `json:"type"`
	Position float64 `json:"position"`
}

// pages calls fetch with the variables of each page of a connection until fetch returns no further page.
func (c *Client) pages(what string, vars map[string]any, fetch func(vars map[string]any) (pageInfo, error)) error {
	seen := map[string]bool{}
	for {
		info, err := fetch(vars)
		switch {
		case err != nil || !info.HasNextPage:
			return err
		case info.EndCursor == "":
			return c.fail("linear_missing_end_cursor", "there are more "+what+", but the answer has no cursor for them")
		case seen[info.EndCursor]:
			return c.fail("linear_missing_end_cursor", "the cursor of "+what+" repeats")
		case len(seen) == maxPages-1:
			return c.fail("linear_missing_end_cursor",
				fmt.Sprintf("%s have more than %d pages: narrow tracker.active_states or move old issues out of the project", what, maxPages))
		}
		vars["after"], seen[info.EndCursor] = info.EndCursor, true
	}
}
