package lineartest

import (
	"math"
	"net/http"
	"strconv"
	"time"
)

const window = time.Hour

// bucket is a leaky bucket: it empties at a constant rate, a whole allowance per hour.
type bucket struct {
	limit float64
	used  float64
	at    time.Time
}

func (b *bucket) drain(now time.Time) {
	if gone := now.Sub(b.at); gone > 0 && !b.at.IsZero() {
		b.used = math.Max(0, b.used-b.limit*gone.Seconds()/window.Seconds())
	}
	b.at = now
}

func (b *bucket) remaining() float64 { return math.Max(0, math.Floor(b.limit-b.used+1e-9)) }

// reset is when the allowance will be whole again.
func (b *bucket) reset() time.Time {
	return b.at.Add(time.Duration(b.used / b.limit * float64(window)))
}

func (b *bucket) headers(h http.Header, kind string) {
	h.Set("X-RateLimit-"+kind+"-Limit", strconv.FormatFloat(b.limit, 'f', 0, 64))
	h.Set("X-RateLimit-"+kind+"-Remaining", strconv.FormatFloat(b.remaining(), 'f', 0, 64))
	h.Set("X-RateLimit-"+kind+"-Reset", strconv.FormatInt(b.reset().UnixMilli(), 10))
}

// SetRemaining uses up the allowance until no more than so many requests and points are left in this hour.
func (s *Server) SetRemaining(requests, complexity int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.requests.drain(now)
	s.points.drain(now)
	s.requests.used = math.Max(0, s.requests.limit-float64(requests))
	s.points.used = math.Max(0, s.points.limit-float64(complexity))
}

// allow counts a request; false where the allowance is used up.
func (s *Server) allow(h http.Header) bool {
	now := s.now()
	s.requests.drain(now)
	s.points.drain(now)
	ok := s.requests.remaining() >= 1 && s.points.remaining() >= 1
	if ok {
		s.requests.used++
	}
	s.limitHeaders(h)
	return ok
}

// charge takes the points of a request; false where too few are left.
func (s *Server) charge(h http.Header, points float64) bool {
	ok := s.points.remaining() >= points
	if ok {
		s.points.used += points
	}
	h.Set("X-Complexity", strconv.FormatFloat(points, 'f', 0, 64))
	s.limitHeaders(h)
	return ok
}

func (s *Server) limitHeaders(h http.Header) {
	s.requests.headers(h, "Requests")
	s.points.headers(h, "Complexity")
}
