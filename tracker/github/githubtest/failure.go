package githubtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/graphqltest"
)

// The kinds of Failure.
const (
	FailCredentials = "bad-credentials" // 401
	FailForbidden   = "forbidden"       // 403: the token lacks a permission
	FailScope       = "scope"           // the token may not read projects
	FailNotFound    = "not-found"       // 404: the token may not know the repository
	FailRateLimit   = "rate-limit"      // 403 with nothing remaining until Reset
	FailSecondary   = "secondary-limit" // 403 with RetryAfter
	FailDown        = "down"            // 502 with HTML
	FailHTML        = "html"            // 200 with HTML
	FailClose       = "close"           // close the connection without an answer
	FailCut         = "cut"             // close the connection within the answer
	FailMergeRace   = "merge-race"      // 405: the base was just pushed
	FailNoMerge     = "no-merge"        // 405: a rule of the repository forbids the merge
	// replace the Field of an issue in the answer: of Issue, or of the first
	FailMalformed = "malformed"
	// the next list of pull requests lacks pull requests to the default branch, as shortly
	// after they were opened
	FailHideNext = "hide-next"
)

// refusals are the answers of failures, where GraphQL does not answer something else.
var refusals = map[string]answer{
	FailCredentials: badTokens,
	FailForbidden:   problem(http.StatusForbidden, "Resource not accessible by personal access token"),
	FailScope:       missing,
	FailNotFound:    missing,
	FailRateLimit:   exhausted,
	FailSecondary: problem(http.StatusForbidden,
		"You have exceeded a secondary rate limit. Please wait a few minutes before you try again."),
	FailMergeRace: problem(http.StatusMethodNotAllowed,
		"Base branch was modified. Review and try the merge again."),
	FailNoMerge: problem(http.StatusMethodNotAllowed,
		"Repository rule violations found\n\nCommit author email must match a given pattern"),
	FailDown: {
		http.StatusBadGateway,
		"<!DOCTYPE html>\n<html><head><title>Unicorn! &middot; GitHub</title></head></html>\n",
	},
	FailHTML: {http.StatusOK, "<html>Welcome to another server</html>"},
	FailCut:  {}, // status 0 cuts the answer
}

// graphQLRefusals are answered by GraphQL with status 200.
var graphQLRefusals = map[string]fault{
	FailRateLimit: pointsGone,
	FailForbidden: {Type: "FORBIDDEN", Message: "Resource not accessible by personal access token"},
	FailScope: {
		Type: "INSUFFICIENT_SCOPES",
		Message: "Your token has not been granted the required scopes to execute this query. The 'projectV2' " +
			"field requires one of the following scopes: ['read:project'], but your token has only " +
			"been granted the: ['repo'] scopes. " +
			"Please modify your token's scopes at: https://github.com/settings/tokens.",
	},
}

// Failure makes requests fail.
type Failure = graphqltest.Failure

// ClearFailures ends all failures and limits.
func (s *Server) ClearFailures() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Failures.ClearFailures()
	s.rest.renew(s.now())
	s.points.renew(s.now())
}

// instead returns the answer of a failure. It returns false if the server is to answer.
func (c *call) instead(f *Failure) (answer, bool) {
	if f == nil || f.Kind == FailMalformed {
		return answer{}, false
	}
	switch f.Kind {
	case FailRateLimit:
		a := c.allowance()
		a.left = 0
		a.reset = time.Unix(cmp.Or(f.Reset, 2_000_000_000), 0)
	case FailScope:
		c.header.Set("X-OAuth-Scopes", "repo")
	case FailSecondary:
		c.header.Set("Retry-After", strconv.Itoa(cmp.Or(f.RetryAfter, 60)))
	case FailClose:
		c.log = append(c.log, Request{Method: c.r.Method, Path: c.r.URL.RequestURI()})
		panic(http.ErrAbortHandler)
	}
	if e, differs := graphQLRefusals[f.Kind]; differs && c.isGraphQL() {
		return ok(object{"errors": []fault{e}}), true
	}
	return refusals[f.Kind], true
}

// alter changes an answer.
func alter(f *Failure, data []byte) []byte {
	var v any
	if f == nil || f.Kind != FailMalformed || json.Unmarshal(data, &v) != nil {
		return data
	}
	f.Spoil(v, func(o object) bool { return fmt.Sprint(o["number"]) == fmt.Sprint(f.Issue) })
	return encode(v)
}
