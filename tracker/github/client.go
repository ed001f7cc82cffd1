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
//	tracker_rate_limited      a primary or secondary limit is reached; the error wraps transport.RateLimited, which has the time of its end
//	tracker_project_not_found the repository or the project does not exist
//	issue_not_found           the issue does not exist, or is not on the board
//	tracker_state_not_found   the workflow or the board has no such state
//
// # Decisions
//
//   - Reads are not retried. The next pass is the retry.
//   - The end of a limit is stored in the project's database. Until then no process of the project makes a request.
//   - Redirects, which GitHub answers for a renamed repository, are followed on the same host only.
package github

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

const maxRedirects = 3

var service = transport.Service{
	Name: "GitHub", Prefix: "github", Address: DefaultEndpoint, Paths: true,
	Header: map[string]string{"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"},
	Secret: "GitHub token", Word: "token",
	SetKey:        "set GITHUB_TOKEN or GH_TOKEN, run `gh auth login`, or set tracker.api_key to the $VARIABLE that holds it",
	CheckKey:      "check the GitHub token: it must be valid, and allow reading and writing issues of the repository",
	CheckEndpoint: "leave it out to use " + DefaultEndpoint + "; on GitHub Enterprise it is https://HOST/api/v3",
	Redirected:    "the token is not sent to another host or protocol",
	Strange:       "the next pass asks again; if that does not help, a proxy has changed GitHub's answer, or its API has changed",
	AskLess:       "ask for less, or for fewer entries at a time (per_page)",
	Endless:       "github_unknown_payload", Narrow: "close or move old ones",
	Limited: "GitHub accepts no more requests of this account", Separate: "account",
}

// Options configure a Client.
type Options struct {
	transport.Options          // Endpoint is https://HOST/api/v3 on GitHub Enterprise
	Repositories      []string // OWNER/NAME
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
	// Memory keeps the end of a limit and the list of open issues between processes. Nil: only this client remembers them.
	Memory reconcile.TrackerMemory
	// Branch returns the branch on which an issue is worked on, empty for none. Nil: pull requests are not read.
	Branch func(reconcile.Issue) string
}

// Client reads the issues of the repositories of one project. It is safe for concurrent use.
type Client struct {
	*requests
	*names
	comments comments
	o        Options
	listing  sync.Mutex // held while the list in Memory is read and written
}

// requests sends requests to GitHub, within its limits.
type requests struct {
	*transport.Client
	memory  reconcile.TrackerMemory // may be nil
	graphql string                  // the URL of the GraphQL API

	mu         sync.Mutex
	allowances map[string]transport.Allowance // by GitHub's name of the resource
	answered   reconcile.Budget               // the times of the last answer
	limited    time.Time                      // the end of the limit that this client was told
	classic    bool                           // the token is one with scopes, which is not so for all kinds
	scopes     []string                       // of the token
	plain      bool                           // the server does not know dependencies between issues
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
			return nil, noName(fmt.Sprintf("%q is not the name of a repository", repo))
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
	return reconcile.NewError("missing_github_repo", message, "write OWNER/NAME, as in the address https://github.com/OWNER/NAME")
}

// Adapter returns GitHub as a tracker. It sends nothing.
func Adapter(o Options) (*reconcile.TrackerAdapter, error) {
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	return &reconcile.TrackerAdapter{
		Tracker: c, Name: "GitHub",
		Find: c.Find, Comments: c.comments.read, Post: c.comments.post, Edit: c.comments.edit, Move: c.Move,
		Verify: c.Verify, Budget: c.Budget,
		Tools:   []reconcile.AgentTool{Tool(c)},
		Secrets: []string{c.Key},
	}, nil
}

// connect returns a client that has not checked its repositories.
func connect(o Options) (c *Client, err error) {
	r := &requests{memory: o.Memory, allowances: map[string]transport.Allowance{}}
	if r.Client, err = service.Connect(o.Options, r.readBudget); err != nil {
		return nil, err
	}
	o.StatusField = cmp.Or(o.StatusField, "Status")
	r.graphql = r.Endpoint + "/graphql"
	if base, ok := strings.CutSuffix(r.Endpoint, "/api/v3"); ok {
		r.graphql = base + "/api/graphql"
	}
	n := &names{api: r.Client, o: o, renamed: map[string]string{}}
	return &Client{requests: r, names: n, comments: comments{r, n}, o: o}, nil
}

// do sends one request to a path below the endpoint and reads the answer. Another status than 2xx is an error; the error of a
// 404 or 410 wraps reconcile.ErrGone.
func (c *requests) do(ctx context.Context, method, path string, query url.Values, body any) (transport.Answer, error) {
	a, err := c.send(ctx, transport.Request{Method: method, Path: path, Query: query, Body: body}, true)
	if err == nil && a.Status/100 != 2 {
		err = c.refusal(a, nil)
	}
	return a, err
}

// send sends one request and, with follow, follows redirects on the same host. It returns the answer with any status, but an error if
// there is none, or if it is too large, reports that a limit is reached, or leads to another host. While a limit lasts nothing is sent.
func (c *requests) send(ctx context.Context, r transport.Request, follow bool) (a transport.Answer, err error) {
	if err := c.mayAsk(ctx); err != nil {
		return a, err
	}
	if r.Path == "/graphql" {
		r.To = c.graphql
	}
	ctx, cancel := context.WithTimeout(ctx, transport.Timeout)
	defer cancel()
	for n := 0; ; n++ {
		a, err = c.Send(ctx, r)
		if err == nil && isLimit(a) {
			return transport.Answer{}, c.reached(ctx, a)
		}
		if err != nil || !follow || !slices.Contains(redirects, a.Status) {
			return a, err
		}
		var ok bool
		if r.To, ok = sameHost(a.URL, a.Header.Get("Location")); !ok || n == maxRedirects {
			return transport.Answer{}, c.refusal(a, nil)
		}
	}
}

var redirects = []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect}

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

// graphQL sends a query and decodes its data. Errors about entities that do not exist are returned as missing if there is data:
// their fields in it are null. All other errors fail the call, except about pull requests that the token may not read.
func graphQL[T any](ctx context.Context, c *requests, query string, vars map[string]any) (data *T, missing []graphqlError, err error) {
	a, err := c.send(ctx, transport.Request{
		Method: http.MethodPost, Path: "/graphql", Body: map[string]any{"query": query, "variables": vars},
	}, true)
	if err != nil {
		return nil, nil, err
	}
	env, wrong := transport.GraphQL[T](c.Client, a)
	switch {
	case a.Status != http.StatusOK:
		return nil, nil, c.refusal(a, env.Errors)
	case wrong != nil:
		return nil, nil, wrong
	case len(env.Errors) > 0 && (env.Data == nil || !allMissing(env.Errors)):
		return nil, nil, c.refusal(a, env.Errors)
	case env.Data == nil:
		return nil, nil, c.Fail("github_unknown_payload", "the answer contains neither data nor errors")
	}
	if i := slices.IndexFunc(env.Errors, inPulls); i >= 0 {
		c.WarnOnce("GitHub does not show the pull requests or their checks to this token: " + transport.Brief(env.Errors[i].Message))
	}
	return env.Data, env.Errors, nil
}

// queryIssues sends a query that uses IssueFields. If the server does not know dependencies between issues, it asks without them.
func queryIssues[T any](ctx context.Context, c *requests, build func() (query string, vars map[string]any)) (*T, []graphqlError, error) {
	for {
		query, vars := build()
		data, missing, err := graphQL[T](ctx, c, query, vars)
		if errors.Is(err, errUnknownField) && !strings.Contains(query, issueFieldsPlain) {
			c.mu.Lock()
			c.plain = true
			c.mu.Unlock()
			c.WarnOnce("this GitHub server does not tell which issues block others: all count as not blocked")
			continue
		}
		return data, missing, err
	}
}

// issueFields returns the fragment for issues that the server understands.
func (c *requests) issueFields() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.plain {
		return issueFieldsPlain
	}
	return issueFields
}

// decode reads the JSON of an answer.
func decode[T any](c *requests, what string, a transport.Answer) (v T, err error) {
	if err := json.Unmarshal(a.Body, &v); err != nil {
		return v, c.Unreadable("no "+what, a.Body, err)
	}
	return v, nil
}
