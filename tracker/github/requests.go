package github

import (
	"context"
	"embed"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/internal/adapter/githubapi"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

// Options configure a Client.
type Options struct {
	transport.Options          // Endpoint is https://HOST/api/v3 on GitHub Enterprise
	Repositories      []string // OWNER/NAME
	// StateLabels are the labels that are states; empty if issues are only open or closed.
	StateLabels []string
	// PriorityLabels are the labels of the priorities 1, 2 and so on.
	PriorityLabels []string
	// Assignee is the login, or "me", for which the workflow looks among several assignees of
	// an issue; may be empty.
	Assignee string
	// Project is the URL of a project (Projects v2) whose column is the state; empty for none.
	// StatusField is the field of the columns, "Status" if empty.
	Project, StatusField string
	// ToolBudget is the most requests that the agent's tool may make in one run; 0 means no
	// limit.
	ToolBudget int
	// ReadOnly makes the agent's tool refuse all methods but GET.
	ReadOnly bool
	// Memory keeps the end of a limit and the list of open issues between processes. Nil: only
	// this client remembers them.
	Memory reconcile.TrackerMemory
	// Branch returns the branch on which an issue is worked on, empty for none. Nil: pull
	// requests are not read.
	Branch func(reconcile.Issue) string
}

// DefaultEndpoint is the URL of GitHub's REST API.
const DefaultEndpoint = "https://api.github.com"

// LimitKey is where Memory has the end of a limit, in milliseconds since 1970.
const LimitKey = "github" + githubapi.LimitSuffix

type graphqlError = transport.GraphQLError

var service = transport.Service{
	Name:          "GitHub",
	Prefix:        "github",
	Address:       DefaultEndpoint,
	Paths:         true,
	Setting:       "tracker.endpoint",
	Header:        githubapi.Header,
	Secret:        "GitHub token",
	Word:          "token",
	SetKey:        "set GITHUB_TOKEN or GH_TOKEN, run `gh auth login`, or set tracker.api_key to the $VARIABLE that holds it",
	CheckKey:      "check the GitHub token: it must be valid, and allow reading and writing issues of the repository",
	CheckEndpoint: "leave it out to use " + DefaultEndpoint + "; on GitHub Enterprise it is https://HOST/api/v3",
	Redirected:    "the token is not sent to another host or protocol",
	Strange:       "the next pass asks again; if that does not help, a proxy has changed GitHub's answer, or its API has changed",
	AskLess:       "ask for less, or for fewer entries at a time (per_page)",
	Endless:       "github_unknown_payload",
	Narrow:        "close or move old ones",
	Limited:       "GitHub accepts no more requests of this account",
	Separate:      "account",
}

//go:embed query
var queries embed.FS

// document is a request with the fragments that it uses, as the folder query has them.
func document(names ...string) string { return transport.Document(queries, names...) }

// requests sends requests to GitHub, within its limits.
type requests struct {
	*githubapi.Client

	mu    sync.Mutex
	plain bool // the server does not know dependencies between issues
}

// graphQL sends a query and decodes its data. Errors about pull requests that the token may
// not read do not fail it.
func graphQL[T any](
	ctx context.Context,
	c *requests,
	query string,
	vars map[string]any,
) (*T, []graphqlError, error) {
	data, errs, err := githubapi.GraphQL[T](ctx, c.Client, query, vars, inPulls)
	if i := slices.IndexFunc(errs, inPulls); i >= 0 {
		c.WarnOnce(
			"GitHub does not show the pull requests or their checks to this token: " + transport.Brief(
				errs[i].Message,
			),
		)
	}
	return data, errs, err
}

// queryIssues sends a query that uses IssueFields. If the server does not know dependencies
// between issues, it asks without them.
func queryIssues[T any](
	ctx context.Context,
	c *requests,
	build func() (query string, vars map[string]any),
) (*T, []graphqlError, error) {
	for {
		query, vars := build()
		data, missing, err := graphQL[T](ctx, c, query, vars)
		if errors.Is(err, githubapi.ErrUnknownField) &&
			!strings.Contains(query, document("issue_fields_plain")) {
			c.mu.Lock()
			c.plain = true
			c.mu.Unlock()
			c.WarnOnce(
				"this GitHub server does not tell which issues block others, or which pull requests close them: no issue waits for these",
			)
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

// inPulls reports whether an error is about pull requests, which the token may not read.
func inPulls(e graphqlError) bool {
	if slices.Contains(e.Path, any("closedByPullRequestsReferences")) {
		return true
	}
	if len(e.Path) < 2 {
		return false
	}
	alias, _ := e.Path[1].(string)
	return strings.HasPrefix(alias, "p") && strings.Trim(alias[1:], "0123456789") == ""
}
