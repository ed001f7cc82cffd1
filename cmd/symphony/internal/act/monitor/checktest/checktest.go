// Package checktest is a server for tests that watches a check as healthchecks.io does.
package checktest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// Ping is a request for the check.
type Ping struct {
	Kind string // success, fail or log
	Body string
}

// Server watches a check. It is up until the last ping is older than Period and Grace, or a pass
// failed.
type Server struct {
	URL string // of the check

	server        *httptest.Server
	period, grace time.Duration
	now           func() time.Time

	mu     sync.Mutex
	pings  []Ping
	last   time.Time // of the last success
	failed bool
	refuse int
	hang   chan struct{}
}

// New starts a server on loopback.
func New(period, grace time.Duration, now func() time.Time) *Server {
	s := &Server{period: period, grace: grace, now: now}
	s.server = httptest.NewServer(http.HandlerFunc(s.serve))
	s.URL = s.server.URL + "/ping/0123456789abcdefghijkl/web-shop"
	return s
}

// Close ends the server, and requests that hang.
func (s *Server) Close() {
	s.Hang(false)
	s.server.Close()
}

// Refuse answers later pings with a status; 0: accept them.
func (s *Server) Refuse(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = status
}

// Hang makes later pings wait until it is called again with false.
func (s *Server) Hang(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hang != nil {
		close(s.hang)
	}
	s.hang = nil
	if on {
		s.hang = make(chan struct{})
	}
}

// Pings returns the accepted pings, the oldest first.
func (s *Server) Pings() []Ping {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Ping{}, s.pings...)
}

// Status is new before the first success, then up or down.
func (s *Server) Status() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	switch {
	case s.failed,
		!s.last.IsZero() && now.Sub(s.last) > s.period+s.grace:
		return "down"
	case s.last.IsZero():
		return "new"
	}
	return "up"
}

func (s *Server) serve(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	hang := s.hang
	s.mu.Unlock()
	if hang != nil {
		<-hang
		return
	}
	body, _ := io.ReadAll(req.Body)
	kind, isOurs := strings.CutPrefix("http://"+req.Host+req.URL.Path, s.URL)
	isOurs = isOurs && slices.Contains([]string{"", "/fail", "/log"}, kind)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !isOurs || s.refuse != 0 {
		http.Error(w, "not found: "+req.URL.Path, max(s.refuse, http.StatusNotFound))
		return
	}
	ping := Ping{Kind: strings.TrimPrefix(kind, "/"), Body: string(body)}
	switch ping.Kind {
	case "":
		ping.Kind = "success"
		s.last = s.now()
		s.failed = false
	case "fail":
		s.failed = true
	}
	s.pings = append(s.pings, ping)
	_, _ = io.WriteString(w, "OK")
}
