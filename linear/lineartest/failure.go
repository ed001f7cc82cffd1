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
)

// The kinds of Failure.
const (
	FailStatus    = "status"         // answer with Status and Body
	FailGraphQL   = "graphql"        // HTTP 200 with one error of Code and Message
	FailRateLimit = "rate_limit"     // HTTP 400 RATELIMITED, or Status; allowance gone until ResetMS from now
	FailHang      = "hang"           // accept and never answer
	FailClose     = "close"          // close the connection without an answer
	FailGarbage   = "garbage"        // HTTP 200 with Body, which is no JSON by default
	FailSlow      = "slow"           // answer rightly, but DelayMS later
	FailCursor    = "missing_cursor" // say that there are more pages and give no cursor
	FailMalformed = "malformed"      // null the Field of an issue in the answer: of Issue, or of the first
)

// Failure makes requests fail on purpose.
type Failure struct {
	Kind string `json:"kind"`
	// Times is how many requests fail: 0 is one, a negative number all until ClearFailures.
	Times int `json:"times"`
	// Skip lets so many matching requests pass before.
	Skip int `json:"skip"`
	// Operation confines it to requests with this operation name or root field; empty: any.
	Operation string `json:"operation"`

	Status  int    `json:"status"`
	Body    string `json:"body"`
	Code    string `json:"code"`
	Message string `json:"message"`
	ResetMS int64  `json:"reset_ms"`
	// RetryAfter is sent as the header of that name, in seconds, with a rate limit; 0: none.
	RetryAfter int    `json:"retry_after"`
	DelayMS    int64  `json:"delay_ms"`
	Field      string `json:"field"` // identifier by default
	Issue      string `json:"issue"` // id, or identifier where the answer holds it
	// Value replaces the Field of a malformed issue; null by default.
	Value json.RawMessage `json:"value"`
}

var failKinds = [...]string{
	FailStatus, FailGraphQL, FailRateLimit, FailHang, FailClose, FailGarbage, FailSlow, FailCursor, FailMalformed,
}

// Fail adds a failure; several apply in the order in which they were added. An unknown kind is an error.
func (s *Server) Fail(f Failure) error {
	if !slices.Contains(failKinds[:], f.Kind) {
		return fmt.Errorf("unknown kind of failure %q", f.Kind)
	}
	if f.Times == 0 {
		f.Times = 1
	}
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

// nextFailure takes the failure that applies to a request of this operation and these root fields, if any.
func (s *Server) nextFailure(operation string, fields []string) *Failure {
	for i, f := range s.failures {
		if f.Operation != "" && f.Operation != operation && !slices.Contains(fields, f.Operation) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		taken := *f
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				s.failures = slices.Delete(s.failures, i, i+1)
			}
		}
		return &taken
	}
	return nil
}

// before carries out the failures that come instead of an answer. The lock is not held.
func (s *Server) before(w http.ResponseWriter, r *http.Request, f *Failure) (done bool) {
	switch f.Kind {
	case FailStatus:
		reply(w, cmp.Or(f.Status, http.StatusInternalServerError), []byte(f.Body))
	case FailGarbage:
		reply(w, cmp.Or(f.Status, http.StatusOK), []byte(cmp.Or(f.Body, "<html>this is no JSON")))
	case FailGraphQL:
		err := apiError{Message: f.Message, Extensions: extensions{Type: "other", Code: f.Code, Status: 500}}
		if err.Message == "" {
			err.Message = "made to fail"
		}
		replyErrors(w, cmp.Or(f.Status, http.StatusOK), err)
	case FailRateLimit:
		s.rateLimit(w, f)
	case FailHang:
		s.wait(r, -1)
		panic(http.ErrAbortHandler)
	case FailClose:
		panic(http.ErrAbortHandler)
	case FailSlow:
		s.wait(r, time.Duration(f.DelayMS)*time.Millisecond)
		return false
	default:
		return false
	}
	return true
}

func (s *Server) rateLimit(w http.ResponseWriter, f *Failure) {
	s.mu.Lock()
	s.limitHeaders(w.Header())
	s.mu.Unlock()
	h := w.Header()
	h.Set("X-RateLimit-Requests-Remaining", "0")
	h.Set("X-RateLimit-Requests-Reset", strconv.FormatInt(s.config.Now().Add(time.Duration(f.ResetMS)*time.Millisecond).UnixMilli(), 10))
	if f.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(f.RetryAfter))
	}
	replyErrors(w, cmp.Or(f.Status, http.StatusBadRequest), rateError())
}

// wait ends after d (never, where d is negative), when the client goes away, or with the server.
func (s *Server) wait(r *http.Request, d time.Duration) {
	var timer <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-timer:
	case <-r.Context().Done():
	case <-s.done:
	}
}

// after alters an answer.
func (f *Failure) after(data map[string]any) {
	switch f.Kind {
	case FailCursor:
		for _, value := range data {
			list, _ := value.(map[string]any)
			if info, ok := list["pageInfo"].(map[string]any); ok {
				info["hasNextPage"], info["endCursor"] = true, nil
			}
		}
	case FailMalformed:
		spoil(data, cmp.Or(f.Field, "identifier"), f.Issue, f.Value)
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
