package lineartest

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/symphony-cron/symphony/internal/graphqltest"
)

// The kinds of Failure.
const (
	FailStatus    = "status"         // answer with Status and Body
	FailGraphQL   = "graphql"        // HTTP 200 with one error of Message
	FailRateLimit = "rate_limit"     // HTTP 400 RATELIMITED, or Status; allowance gone until ResetMS from now
	FailHang      = "hang"           // accept and never answer
	FailClose     = "close"          // close the connection without an answer
	FailGarbage   = "garbage"        // HTTP 200 with a body that is not JSON
	FailSlow      = "slow"           // answer correctly, but DelayMS later
	FailCursor    = "missing_cursor" // say that there are more pages, without a cursor
	FailMalformed = "malformed"      // replace the Field of an issue in the answer: of Issue, or of the first
)

var failKinds = []string{FailStatus, FailGraphQL, FailRateLimit, FailHang, FailClose, FailGarbage, FailSlow, FailCursor, FailMalformed}

// Failure makes requests fail.
type Failure = graphqltest.Failure

// failureOf returns the failure that applies to a request, and counts it; nil for none.
func (s *Server) failureOf(q *query) *Failure {
	return s.Next(func(f *Failure) bool {
		isRoot := func(field *ast.Field) bool { return field.Name == f.Operation }
		return f.Operation == "" || f.Operation == q.Name || slices.ContainsFunc(q.fields(q.SelectionSet), isRoot)
	})
}

// instead returns what a failure answers instead of the server; false if the server is to answer.
func (s *Server) instead(f *Failure, h http.Header) (result, bool) {
	if f == nil {
		return result{}, false
	}
	switch f.Kind {
	case FailStatus:
		return plain(cmp.Or(f.Status, http.StatusInternalServerError), f.Body), true
	case FailGarbage:
		return plain(http.StatusOK, "<html>this is no JSON"), true
	case FailGraphQL:
		return refuse(http.StatusOK, graphqlError("", cmp.Or(f.Message, "made to fail"))), true
	case FailRateLimit:
		s.mu.Lock()
		s.limitHeaders(h)
		s.mu.Unlock()
		h.Set("X-RateLimit-Requests-Remaining", "0")
		h.Set("X-RateLimit-Requests-Reset", strconv.FormatInt(s.config.Now().Add(time.Duration(f.ResetMS)*time.Millisecond).UnixMilli(), 10))
		if f.RetryAfter > 0 {
			h.Set("Retry-After", strconv.Itoa(f.RetryAfter))
		}
		return refuse(cmp.Or(f.Status, http.StatusBadRequest), rateError()), true
	case FailSlow:
		select {
		case <-time.After(time.Duration(f.DelayMS) * time.Millisecond):
		case <-s.ctx.Done():
		}
	case FailHang:
		<-s.ctx.Done()
		fallthrough
	case FailClose:
		panic(http.ErrAbortHandler)
	}
	return result{}, false
}

// alter changes the data of an answer.
func alter(f *Failure, data map[string]any) {
	switch {
	case f == nil:
	case f.Kind == FailCursor:
		for _, value := range data {
			list, _ := value.(map[string]any)
			if info, ok := list["pageInfo"].(map[string]any); ok {
				info["hasNextPage"], info["endCursor"] = true, nil
			}
		}
	case f.Kind == FailMalformed:
		f.Spoil(data, func(o map[string]any) bool { return o["id"] == f.Issue || o["identifier"] == f.Issue })
	}
}
