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
	"github.com/symphony-cron/symphony/internal/text"
)

type graphqlError = transport.GraphQLError

//go:embed query
var queries embed.FS

// document returns a request and the fragments that it uses, from the folder query.
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
		said := transport.Brief(errs[i].Message)
		c.WarnOnce("GitHub does not show the pull requests or their checks to this token: " + said)
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
		isPlain := strings.Contains(query, document("issue_fields_plain"))
		if isPlain || !errors.Is(err, githubapi.ErrUnknownField) {
			return data, missing, err
		}
		c.mu.Lock()
		c.plain = true
		c.mu.Unlock()
		c.WarnOnce("this GitHub server does not tell which issues block others, " +
			"or which pull requests close them: no issue waits for these")
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
	number, isPull := strings.CutPrefix(alias, "p")
	return isPull && text.IsNumber(number)
}
