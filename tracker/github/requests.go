package github

import (
	"context"
	"embed"
	"slices"
	"strings"

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
type requests struct{ *githubapi.Client }

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
