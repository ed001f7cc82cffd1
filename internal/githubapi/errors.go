package githubapi

import (
	"cmp"
	"errors"
	"net/http"
	"slices"

	"github.com/symphony-cron/symphony/internal/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

type graphqlError = transport.GraphQLError

// ErrUnknownField is wrapped by the error of a query with a field that the server's schema lacks.
var ErrUnknownField = errors.New("unknown field")

// Refusal returns the error of an answer with GraphQL errors, or with an HTTP status that means failure. It wraps reconcile.ErrGone if
// something does not exist, or the token may not see it.
func (c *Client) Refusal(a transport.Answer, errs []graphqlError) error {
	ofType := func(types ...string) func(graphqlError) bool {
		return func(e graphqlError) bool { return slices.Contains(types, e.Type) }
	}
	said := cmp.Or(transport.Brief(Message(a.Body)), c.Short(a.Body))
	return c.Client.Refusal(a, errs, said, ofType("FORBIDDEN", "INSUFFICIENT_SCOPES"), func(e *reconcile.Error) bool {
		switch {
		case a.Status == http.StatusNotFound || a.Status == http.StatusGone || slices.ContainsFunc(errs, ofType("NOT_FOUND")):
			e.Hint, e.Err = "check "+c.Setting+" and the name, and that the token may read it", reconcile.ErrGone
		case a.Status < 500 && slices.ContainsFunc(errs, func(e graphqlError) bool { return e.Extensions.Code == "undefinedField" }):
			e.Err = ErrUnknownField // Extensions.Code is set for a query that the server's schema does not allow
		case a.Status == http.StatusUnprocessableEntity:
			e.Err = reconcile.ErrRejected
		}
		return e.Err != nil
	})
}
