package githubtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
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
	FailMalformed   = "malformed"       // replace the Field of an issue in the answer: of Issue, or of the first
	FailHideNext    = "hide-next"       // the next list of pull requests is empty
)

var failKinds = []string{
	FailCredentials, FailForbidden, FailScope, FailNotFound, FailRateLimit, FailSecondary, FailDown, FailHTML, FailClose, FailCut,
	FailMalformed, FailHideNext,
}

// Failure makes requests fail.
type Failure struct {
	Kind string `json:"kind"`
	// Times is how many requests fail: one if 0, all until ClearFailures if negative.
	Times int `json:"times"`
	// Skip is how many requests succeed first.
	Skip int `json:"skip"`
	// Reset is when the primary limit ends, as Unix time; in 2033 if 0.
	Reset int64 `json:"reset"`
	// RetryAfter is sent with a secondary limit as the header of that name, in seconds: 60 if 0.
	RetryAfter int             `json:"retry_after"`
	Field      string          `json:"field"`
	Issue      int             `json:"issue"`
	Value      json.RawMessage `json:"value"` // null by default
}

// Fail adds a failure; several apply in the order in which they were added. An unknown kind is an error.
func (s *Server) Fail(f Failure) error {
	if !slices.Contains(failKinds, f.Kind) {
		return fmt.Errorf("unknown kind of failure %q", f.Kind)
	}
	f.Times = cmp.Or(f.Times, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hide = s.hide || f.Kind == FailHideNext; f.Kind != FailHideNext {
		s.failures = append(s.failures, &f)
	}
	return nil
}

// ClearFailures ends all failures and limits.
func (s *Server) ClearFailures() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures, s.hide = nil, false
	s.rest.renew(s.now())
	s.points.renew(s.now())
}

// nextFailure returns the failure that applies to a request, and counts it; nil for none.
func (s *Server) nextFailure() *Failure {
	for i, f := range s.failures {
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

// instead returns what a failure answers instead of the server; status 0 cuts the answer. It returns false if the server is to answer.
func (c *call) instead(f *Failure) (answer, bool) {
	if f == nil {
		return answer{}, false
	}
	const unicorn = "<!DOCTYPE html>\n<html><head><title>Unicorn! &middot; GitHub</title></head></html>\n"
	if f.Kind == FailRateLimit {
		a := c.allowance()
		a.left, a.reset = 0, time.Unix(cmp.Or(f.Reset, 2_000_000_000), 0)
	}
	if f.Kind == FailScope {
		c.header.Set("X-OAuth-Scopes", "repo")
	}
	if c.isGraphQL() {
		if out, ordered := c.refusal(f); ordered {
			return out, true
		}
	}
	switch f.Kind {
	case FailCredentials:
		return badTokens, true
	case FailForbidden:
		return problem(http.StatusForbidden, "Resource not accessible by personal access token"), true
	case FailNotFound, FailScope:
		return missing, true
	case FailRateLimit:
		return exhausted, true
	case FailSecondary:
		c.header.Set("Retry-After", strconv.Itoa(cmp.Or(f.RetryAfter, 60)))
		const text = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
		return problem(http.StatusForbidden, text), true
	case FailDown:
		return answer{http.StatusBadGateway, unicorn}, true
	case FailHTML:
		return answer{http.StatusOK, "<html>Welcome to another server</html>"}, true
	case FailCut:
		return answer{}, true
	case FailClose:
		c.log = append(c.log, Request{Method: c.r.Method, Path: c.r.URL.RequestURI()})
		panic(http.ErrAbortHandler)
	}
	return answer{}, false
}

// alter changes an answer.
func (f *Failure) alter(data []byte) []byte {
	var v any
	if f == nil || f.Kind != FailMalformed || json.Unmarshal(data, &v) != nil {
		return data
	}
	spoil(v, f.Field, f.Issue, f.Value)
	return encode(v)
}

// spoil replaces a field of the first object that has it, or of the one with this number.
func spoil(v any, field string, number int, value json.RawMessage) bool {
	switch v := v.(type) {
	case object:
		if _, has := v[field]; has && (number == 0 || v["number"] == float64(number)) {
			v[field] = value
			return true
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if spoil(v[key], field, number, value) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return spoil(e, field, number, value) })
	}
	return false
}
