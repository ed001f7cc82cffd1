package gitlabtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/graphqltest"
)

// The kinds of Failure.
const (
	FailCredentials = "bad-credentials" // 401
	FailScope       = "scope"           // 403: the token may only read
	FailForbidden   = "forbidden"       // 403: the role does not allow it
	FailNotFound    = "not-found"       // 404: the token may not know the project
	FailRateLimit   = "rate-limit"      // 429 until Reset
	FailDown        = "down"            // 502 with HTML
	FailHTML        = "html"            // 200 with HTML
	FailClose       = "close"           // close the connection without an answer
	FailCut         = "cut"             // close the connection within the answer
	FailMalformed   = "malformed"       // replace the Field of an issue in the answer
)

// refusals are the answers of failures.
var refusals = map[string]answer{
	FailCredentials: unauthorized,
	FailScope: {http.StatusForbidden, object{
		"error":             "insufficient_scope",
		"error_description": "The request requires higher privileges than provided by the access token.",
		"scope":             "api",
	}},
	FailForbidden: problem(http.StatusForbidden, "403 Forbidden"),
	FailNotFound:  missing("Project"),
	FailRateLimit: {http.StatusTooManyRequests, "Retry later\n"},
	FailDown: {
		http.StatusBadGateway,
		"<!DOCTYPE html>\n<html><head><title>GitLab is not responding (502)</title></head></html>\n",
	},
	FailHTML: {http.StatusOK, "<!DOCTYPE html><html><title>Sign in · GitLab</title></html>"},
	FailCut:  {}, // status 0 cuts the answer
}

// Failure makes requests fail.
type Failure = graphqltest.Failure

// instead returns the answer of a failure. It returns false if the server is to answer.
func (c *call) instead(f *Failure) (answer, bool) {
	if f == nil || f.Kind == FailMalformed {
		return answer{}, false
	}
	switch f.Kind {
	case FailRateLimit:
		c.left = 0
		if f.Reset != 0 {
			c.reset = time.Unix(f.Reset, 0)
		}
		c.tellLimit()
		c.header.Set("Content-Type", "text/plain")
	case FailDown, FailHTML:
		c.header.Set("Content-Type", "text/html; charset=utf-8")
	case FailClose:
		c.log = append(c.log, Request{Method: c.r.Method, Path: c.r.URL.RequestURI()})
		panic(http.ErrAbortHandler)
	}
	return refusals[f.Kind], true
}

// ClearFailures ends all failures and limits.
func (s *Server) ClearFailures() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Failures.ClearFailures()
	s.left = limit
}

// alter changes an answer.
func alter(f *Failure, data []byte) []byte {
	var v any
	if f == nil || f.Kind != FailMalformed || json.Unmarshal(data, &v) != nil {
		return data
	}
	f.Spoil(v, func(o object) bool { return fmt.Sprint(o["iid"]) == fmt.Sprint(f.Issue) })
	return encode(v)
}
