package lineartest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/vektah/gqlparser/v2/ast"
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
type Failure struct {
	Kind string `json:"kind"`
	// Times is how many requests fail: one if 0, all until ClearFailures if negative.
	Times int `json:"times"`
	// Skip is how many matching requests succeed first.
	Skip int `json:"skip"`
	// Operation confines the failure to requests with this operation name or root field; any if empty.
	Operation string `json:"operation"`

	Status  int    `json:"status"`
	Body    string `json:"body"`
	Message string `json:"message"`
	ResetMS int64  `json:"reset_ms"`
	// RetryAfter is sent with a rate limit as the header of that name, in seconds; none if 0.
	RetryAfter int    `json:"retry_after"`
	DelayMS    int64  `json:"delay_ms"`
	Field      string `json:"field"`
	Issue      string `json:"issue"` // id, or identifier if the answer contains it
	// Value replaces the Field of a malformed issue; null by default.
	Value json.RawMessage `json:"value"`
}

// Fail adds a failure; several apply in the order in which they were added. An unknown kind is an error.
func (s *Server) Fail(f Failure) error {
	if !slices.Contains(failKinds, f.Kind) {
		return fmt.Errorf("unknown kind of failure %q", f.Kind)
	}
	f.Times = cmp.Or(f.Times, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = append(s.failures, &f)
	return nil
}

// ClearFailures ends all failures.
func (s *Server) ClearFailures() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = nil
}

// nextFailure returns the failure that applies to a request, and counts it; nil for none.
func (s *Server) nextFailure(q *query) *Failure {
	for i, f := range s.failures {
		isRoot := func(field *ast.Field) bool { return field.Name == f.Operation }
		if f.Operation != "" && f.Operation != q.Name && !slices.ContainsFunc(q.fields(q.SelectionSet), isRoot) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Times--; f.Times == 0 {
			s.failures = slices.Delete(s.failures, i, i+1)
		}
		return f
	}
	return nil
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
func (f *Failure) alter(data map[string]any) {
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
		spoil(data, f.Field, f.Issue, f.Value)
	}
}

// spoil replaces a field of the first object that has it, or of the one with this id or identifier.
func spoil(v any, field, which string, value json.RawMessage) bool {
	switch v := v.(type) {
	case map[string]any:
		if _, has := v[field]; has && (which == "" || v["id"] == which || v["identifier"] == which) {
			v[field] = value
			return true
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if spoil(v[key], field, which, value) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return spoil(e, field, which, value) })
	}
	return false
}
