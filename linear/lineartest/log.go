package lineartest

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Entry is one GraphQL request that was received. The key is not in it.
type Entry struct {
	Operation string // its name
	Query     string
	Variables map[string]any
}

// maxLog bounds the log of a server that runs for long.
const maxLog = 10000

// Log returns the requests in the order in which they came, the last 10,000 at most.
func (s *Server) Log() []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// ClearLog forgets the requests so far.
func (s *Server) ClearLog() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = nil
}

// allowance is a leaky bucket: it refills at a constant rate, completely in an hour.
type allowance struct {
	limit, used float64
	at          time.Time
}

func (a *allowance) refill(now time.Time) {
	if passed := now.Sub(a.at); passed > 0 && !a.at.IsZero() {
		a.used = math.Max(0, a.used-a.limit*passed.Hours())
	}
	a.at = now
}

// take uses n of the allowance; false if less is left.
func (a *allowance) take(now time.Time, n float64) bool {
	a.refill(now)
	if a.remaining() < n {
		return false
	}
	a.used += n
	return true
}

func (a *allowance) remaining() float64 { return math.Max(0, math.Floor(a.limit-a.used+1e-9)) }

func (a *allowance) headers(h http.Header, kind string) {
	reset := a.at.Add(time.Duration(a.used / a.limit * float64(time.Hour)))
	h.Set("X-RateLimit-"+kind+"-Limit", strconv.FormatFloat(a.limit, 'f', 0, 64))
	h.Set("X-RateLimit-"+kind+"-Remaining", strconv.FormatFloat(a.remaining(), 'f', 0, 64))
	h.Set("X-RateLimit-"+kind+"-Reset", strconv.FormatInt(reset.UnixMilli(), 10))
}

func (s *Server) limitHeaders(h http.Header) {
	s.requests.headers(h, "Requests")
	s.points.headers(h, "Complexity")
}

// SetRemaining uses up the allowance until no more than so many requests and points are left in this hour.
func (s *Server) SetRemaining(requests, complexity int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests.refill(s.config.Now())
	s.points.refill(s.config.Now())
	s.requests.used = math.Max(0, s.requests.limit-float64(requests))
	s.points.used = math.Max(0, s.points.limit-float64(complexity))
}
