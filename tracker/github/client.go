// Package github is the adapter to the issues of one or more repositories on GitHub. It reads issues for passes and workers.
//
// Adapter returns the value that the rest of the program uses. Errors are *reconcile.Error with these codes:
//
//	missing_tracker_api_key   there is no token
//	missing_github_repo       there is no repository, or its name is not OWNER/NAME
//	tracker_endpoint_invalid  the endpoint is not an http(s) URL
//	tracker_ca_file_invalid   tracker.ca_file is not readable or contains no certificate
//	github_api_request        no answer: a transport error, or a timeout after 30 s
//	github_api_status         an answer with a status that means failure
//	github_graphql_errors     HTTP 200 with GraphQL errors
//	github_unknown_payload    an answer of another shape, or a malformed record
//	answer_too_large          an answer of more than 64 MiB, or of more than a request allows
//	tracker_rate_limited      a primary or secondary limit is reached; the error wraps RateLimited, which has the time of its end
//	tracker_project_not_found the repository or the project does not exist
//	issue_not_found           the issue does not exist
//
// # Decisions
//
//   - Reads are not retried. The next pass is the retry.
//   - The end of a limit is stored in the project's database. Until then no process of the project makes a request.
//   - Redirects, which GitHub answers for a renamed repository, are followed on the same host only.
package github

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

// DefaultEndpoint is the URL of GitHub's REST API.
const DefaultEndpoint = "https://api.github.com"

const (
	requestTimeout = 30 * time.Second
	maxBody        = 64 << 20 // bytes of an answer to a pass or worker
	maxRedirects   = 3
)

// Options configure a Client.
type Options struct {
	Endpoint string // the URL of the REST API; DefaultEndpoint if empty, https://HOST/api/v3 on GitHub Enterprise
	Token    string
	// TokenSource says where the token comes from, for the error of a refused token; empty if that is obvious.
	TokenSource  string
	Repositories []string // OWNER/NAME
	// StateLabels are the labels that are states; empty if issues are only open or closed.
	StateLabels []string
	// PriorityLabels are the labels of the priorities 1, 2 and so on.
	PriorityLabels []string
	// Assignee is the login, or "me", for which the workflow looks among several assignees of an issue; may be empty.
	Assignee string
	// Project is the URL of a project (Projects v2) whose column is the state; empty for none. StatusField is the field of the
	// columns, "Status" if empty.
	Project, StatusField string
	// ToolBudget bounds the requests of the agent's tool in one run; 0 is no bound.
	ToolBudget int
	// ReadOnly makes the agent's tool refuse all methods but GET.
	ReadOnly bool
	// CAFile is a PEM file with certificates to trust in addition to the system's.
	CAFile string
	// IgnoreProxy: do not use the proxy in this process's environment variables.
	IgnoreProxy bool
	// Memory keeps the end of a limit and the list of open issues between processes. Nil: only this client remembers them.
	Memory reconcile.TrackerMemory
	// Branch returns the branch on which an issue is worked on, empty for none. Nil: pull requests are not read.
	Branch func(reconcile.Issue) string
	// Transport replaces the client's default transport. CAFile and IgnoreProxy have no effect on it.
	Transport http.RoundTripper
	Now       func() time.Time // time.Now if nil
	// Warn receives each warning once; nil discards them.
	Warn func(string)
}

// Client sends requests to GitHub for the repositories of one project. It is safe for concurrent use.
type Client struct {
	o        Options
	endpoint string // without a slash at its end
	graphql  string // the URL of the GraphQL API
	token    string
	http     *http.Client
	now      func() time.Time
	report   func(string)

	mu         sync.Mutex
	allowances map[string]allowance // by GitHub's name of the resource
	answered   reconcile.Budget     // the times of the last answer
	limited    time.Time            // the end of the limit that this client was told
	renamed    map[string]string    // the present names of renamed repositories, by the former in lower case
	warned     map[string]bool      // the warnings that were reported
	classic    bool                 // the token is one with scopes, which is not so for all kinds
	scopes     []string             // of the token
	plain      bool                 // the server does not know dependencies between issues

	listing sync.Mutex // held while the list in Memory is read and written
}

// New returns a client for repositories. It checks the options, and sends nothing.
func New(o Options) (*Client, error) {
	c, err := connect(o)
	if err != nil {
		return nil, err
	}
	for _, repo := range o.Repositories {
		owner, name, _ := strings.Cut(repo, "/")
		if url.PathEscape(owner) != owner || url.PathEscape(name) != name || owner == "" || strings.Trim(name, ".") == "" {
			return nil, noName(fmt.Sprintf("%q is no name of a repository", repo))
		}
	}
	if len(o.Repositories) == 0 {
		return nil, noName("no repository is named")
	}
	if o.Project != "" {
		if _, _, _, err := boardAddress(o.Project); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func noName(message string) error {
	return &reconcile.Error{
		Code: "missing_github_repo", Message: message, Hint: "write OWNER/NAME, as in the address https://github.com/OWNER/NAME",
	}
}

// Adapter returns GitHub as a tracker. It sends nothing.
func Adapter(o Options) (*reconcile.TrackerAdapter, error) {
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	return &reconcile.TrackerAdapter{
		Tracker: c, Name: "GitHub",
		Find: c.Find, Comments: c.Comments, Post: c.Post, Edit: c.Edit, Verify: c.Verify, Budget: c.Budget,
		Tools:   []reconcile.AgentTool{Tool(c)},
		Secrets: []string{c.token},
	}, nil
}

// connect returns a client that has not checked its repositories.
func connect(o Options) (*Client, error) {
	token := strings.TrimSpace(o.Token)
	if token == "" {
		return nil, &reconcile.Error{
			Code: "missing_tracker_api_key", Message: "no GitHub token",
			Hint: "set GITHUB_TOKEN or GH_TOKEN, run `gh auth login`, or set tracker.api_key to the $VARIABLE that holds it",
		}
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= 0x20 || r > 0x7e }) {
		return nil, &reconcile.Error{
			Code: "missing_tracker_api_key", Message: "the GitHub token contains characters that no token has",
			Hint: "check for a line break or quotes around the token",
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
		o: o, endpoint: endpoint, graphql: endpoint + "/graphql", token: token, now: o.Now, report: o.Warn,
		allowances: map[string]allowance{}, renamed: map[string]string{}, warned: map[string]bool{},
		http: &http.Client{
			Timeout: requestTimeout, Transport: sender,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if base, ok := strings.CutSuffix(endpoint, "/api/v3"); ok {
		c.graphql = base + "/api/graphql"
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
	s = strings.TrimRight(strings.TrimSpace(s), "/")
	if s == "" {
		return DefaultEndpoint, nil
	}
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		// The value is not quoted: it may be a token that was pasted into the wrong place.
		return "", &reconcile.Error{
			Code: "tracker_endpoint_invalid", Message: "tracker.endpoint is not an http or https URL",
			Hint: "leave it out to use " + DefaultEndpoint + "; on GitHub Enterprise it is https://HOST/api/v3",
		}
	}
	return s, nil
}

// request is one HTTP request.
type request struct {
	method, path string     // path is escaped, below the endpoint, and begins with a slash
	query        url.Values // nil for none
	body         any        // sent as JSON unless nil
	etag         string     // of If-None-Match; empty for none
	limit        int64      // bytes of the answer; maxBody if 0
	stay         bool       // an answer that is a redirect is returned
}

// answer is an HTTP answer.
type answer struct {
	status     int
	header     http.Header
	body       []byte
	redirected bool // the answer comes from another path of the same host
}

// do sends one request to a path below the endpoint and reads the answer. Another status than 2xx is an error; the error of a
// 404 or 410 wraps reconcile.ErrGone.
func (c *Client) do(ctx context.Context, method, path string, query url.Values, body any) (answer, error) {
	a, err := c.send(ctx, request{method: method, path: path, query: query, body: body})
	if err == nil && a.status/100 != 2 {
		err = c.refusal(a, nil)
	}
	return a, err
}

// send sends one request and follows redirects on the same host. It returns the answer with any status, but an error if there is
// none, or if it is too large, says that a limit is reached, or leads to another host. While a limit lasts nothing is sent.
func (c *Client) send(ctx context.Context, r request) (answer, error) {
	target := c.endpoint + r.path
	if r.path == "/graphql" {
		target = c.graphql
	}
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	if err := c.mayAsk(ctx); err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for n := 0; ; n++ {
		a, err := c.exchange(ctx, r, target)
		if err != nil || r.stay || a.status != http.StatusMovedPermanently && a.status != http.StatusTemporaryRedirect &&
			a.status != http.StatusPermanentRedirect && a.status != http.StatusFound {
			a.redirected = n > 0
			return a, err
		}
		next, ok := sameHost(target, a.header.Get("Location"))
		if !ok || n == maxRedirects {
			return answer{}, c.refusal(a, nil)
		}
		target = next
	}
}

// sameHost resolves the location of a redirect. It is false for another host or protocol, to which the token is not sent.
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

// exchange sends one request to target and reads the answer, which may be a redirect.
func (c *Client) exchange(ctx context.Context, r request, target string) (answer, error) {
	var sent io.Reader
	if r.body != nil {
		data, err := json.Marshal(r.body)
		if err != nil {
			return answer{}, fmt.Errorf("encode request: %w", err)
		}
		sent = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, sent)
	if err != nil {
		return answer{}, c.requestError(r, err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Accept", "application/vnd.github+json")
	req.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	req.Header.Set("User-Agent", "symphony")
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.etag != "" {
		req.Header.Set("If-None-Match", r.etag)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, c.requestError(r, err)
	}
	defer resp.Body.Close()
	limit := r.limit
	if limit == 0 {
		limit = maxBody
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return answer{}, c.requestError(r, fmt.Errorf("read answer: %w", err))
	}
	c.readBudget(resp.Header)
	if int64(len(body)) > limit {
		return answer{}, &reconcile.Error{
			Code: "answer_too_large", Class: reconcile.ClassTracker, Message: fmt.Sprintf("GitHub's answer has more than %d bytes", limit),
			Hint: "ask for less, or for fewer entries at a time (per_page)",
		}
	}
	// The token is removed before the text is cut anywhere, so that no part of it can remain at an end.
	body = transport.ScrubBytes(body, c.token, "[token]")
	a := answer{status: resp.StatusCode, header: resp.Header, body: body}
	if isLimit(a) {
		return answer{}, c.reached(ctx, a)
	}
	return a, nil
}

// graphQL sends a query and decodes its data. Errors about entities that do not exist are returned as missing if there is data:
// their fields in it are null. All other errors fail the call, except about pull requests that the token may not read.
func graphQL[T any](ctx context.Context, c *Client, query string, vars map[string]any) (data *T, missing []graphqlError, err error) {
	a, err := c.send(ctx, request{method: http.MethodPost, path: "/graphql", body: map[string]any{"query": query, "variables": vars}})
	if err != nil {
		return nil, nil, err
	}
	var env struct {
		Data   *T             `json:"data"`
		Errors []graphqlError `json:"errors"`
	}
	decodeErr := json.Unmarshal(a.body, &env)
	for i := range env.Errors {
		env.Errors[i].Message = c.scrub(env.Errors[i].Message) // JSON escapes can hide the token until it is decoded
	}
	wrongType := (*json.UnmarshalTypeError)(nil)
	switch {
	case a.status != http.StatusOK:
		return nil, nil, c.refusal(a, env.Errors)
	case errors.As(decodeErr, &wrongType):
		return nil, nil, c.fail("github_unknown_payload", "the answer has an unexpected shape: "+decodeErr.Error())
	case decodeErr != nil:
		return nil, nil, &reconcile.Error{
			Code: "github_unknown_payload", Message: "the answer is not GraphQL: " + c.short(a.body),
			Hint: "check tracker.endpoint; a proxy or login page may have answered instead", Err: decodeErr, Class: reconcile.ClassTracker,
		}
	case len(env.Errors) > 0 && (env.Data == nil || !allMissing(env.Errors)):
		return nil, nil, c.refusal(a, env.Errors)
	case env.Data == nil:
		return nil, nil, c.fail("github_unknown_payload", "the answer contains neither data nor errors")
	}
	if i := slices.IndexFunc(env.Errors, graphqlError.inPulls); i >= 0 {
		c.warnOnce("GitHub does not show the pull requests or their checks to this token: " + transport.OneLine(env.Errors[i].Message))
	}
	return env.Data, env.Errors, nil
}

// decode reads the JSON of an answer.
func decode[T any](c *Client, what string, a answer) (v T, err error) {
	if err := json.Unmarshal(a.body, &v); err != nil {
		return v, &reconcile.Error{
			Code: "github_unknown_payload", Message: c.scrub("the answer is no " + what + ": " + c.short(a.body)),
			Hint: "check tracker.endpoint; a proxy or login page may have answered instead", Err: err, Class: reconcile.ClassTracker,
		}
	}
	return v, nil
}
