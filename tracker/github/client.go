// Package github is the adapter to the issues of one or more repositories on GitHub. It reads issues for passes and workers.
//
// Adapter returns the value that the rest of the program uses. docs/errors.md explains the codes of its errors.
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
	"embed"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/internal/githubapi"
	"github.com/symphony-cron/symphony/internal/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

// DefaultEndpoint is the URL of GitHub's REST API.
const DefaultEndpoint = "https://api.github.com"

// LimitKey is where Memory has the end of a limit, in milliseconds since 1970.
const LimitKey = "github" + githubapi.LimitSuffix

type graphqlError = transport.GraphQLError

var service = transport.Service{
	Name: "GitHub", Prefix: "github", Address: DefaultEndpoint, Paths: true, Setting: "tracker.endpoint",
	Header: githubapi.Header,
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

//go:embed query
var queries embed.FS

// document is a request with the fragments that it uses, as the folder query has them.
func document(names ...string) string { return transport.Document(queries, names...) }

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
	*githubapi.Client

	mu    sync.Mutex
	plain bool // the server does not know dependencies between issues
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
	api, err := githubapi.Connect(service, o.Options, o.Memory)
	if err != nil {
		return nil, err
	}
	r := &requests{Client: api}
	o.StatusField = cmp.Or(o.StatusField, "Status")
	n := &names{api: api.Client, o: o, renamed: map[string]string{}}
	return &Client{requests: r, names: n, comments: comments{r, n}, o: o}, nil
}

// graphQL sends a query and decodes its data. Errors about pull requests that the token may not read do not fail it.
func graphQL[T any](ctx context.Context, c *requests, query string, vars map[string]any) (*T, []graphqlError, error) {
	data, errs, err := githubapi.GraphQL[T](ctx, c.Client, query, vars, inPulls)
	if i := slices.IndexFunc(errs, inPulls); i >= 0 {
		c.WarnOnce("GitHub does not show the pull requests or their checks to this token: " + transport.Brief(errs[i].Message))
	}
	return data, errs, err
}

// queryIssues sends a query that uses IssueFields. If the server does not know dependencies between issues, it asks without them.
func queryIssues[T any](ctx context.Context, c *requests, build func() (query string, vars map[string]any)) (*T, []graphqlError, error) {
	for {
		query, vars := build()
		data, missing, err := graphQL[T](ctx, c, query, vars)
		if errors.Is(err, githubapi.ErrUnknownField) && !strings.Contains(query, document("issue_fields_plain")) {
			c.mu.Lock()
			c.plain = true
			c.mu.Unlock()
			c.WarnOnce("this GitHub server does not tell which issues block others, or which pull requests close them: no issue waits for these")
			continue
		}
		return data, missing, err
	}
}

// issueFields returns the fragment for issues that the server understands.
func (c *requests) issueFields() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.plain { // it does not know dependencies between issues
		return document("issue_fields_plain")
	}
	return document("issue_fields")
}
