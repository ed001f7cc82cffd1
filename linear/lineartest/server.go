// Package lineartest is an in-process Linear for tests and the demo command: a workspace in memory behind the part of
// Linear's GraphQL API that symphony and its agents use.
//
// A request is authenticated, counted against an allowance, validated (Config.Validate), priced as Linear prices it, and
// answered by its root fields: query.go has the queries, object.go the fields of the entities and the mutations. What is not
// served is an error. Fail makes requests fail on purpose.
package lineartest

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// DefaultKey is the API key of a Server whose Config names none.
const DefaultKey = "lin_api_lineartest"

// Config says how a Server behaves. The zero value is ready for use.
type Config struct {
	// Key is the one that is accepted; DefaultKey if empty. One that starts with lin_oauth_ is expected as Bearer.
	Key string
	// Now is the clock of the data and of the allowance; time.Now if nil.
	Now func() time.Time
	// Validate returns what is wrong with a request by the API's schema. Without it, a field that is not served is an error
	// all the same.
	Validate func(query, operation string, variables map[string]any) []string
	// RequestsPerHour and ComplexityPerHour are the allowance; 5,000 and 3,000,000 if 0.
	RequestsPerHour   int
	ComplexityPerHour int
}

// Server is a Linear workspace behind HTTP. All methods may be called at any time, by several goroutines.
type Server struct {
	config Config
	done   chan struct{} // closed by Close
	http   *http.Server
	served sync.WaitGroup

	mu       sync.Mutex
	w        *workspace
	log      []Entry
	failures []*Failure
	requests allowance
	points   allowance
	url      string
}

// New makes a server with the workspace of DefaultSeed.
func New(c Config) *Server {
	c.Key = cmp.Or(c.Key, DefaultKey)
	if c.Now == nil {
		c.Now = time.Now
	}
	s := &Server{config: c, done: make(chan struct{})}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	s.requests.limit, s.points.limit = float64(cmp.Or(c.RequestsPerHour, 5000)), float64(cmp.Or(c.ComplexityPerHour, 3_000_000))
	if err := s.Load(DefaultSeed()); err != nil {
		panic("lineartest: the default seed is wrong: " + err.Error())
	}
	return s
}

// Load replaces the workspace. A wrong seed changes nothing.
func (s *Server) Load(seed Seed) error {
	w, err := newWorkspace(s.config.Now, seed)
	if err != nil {
		return fmt.Errorf("load seed: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.w = w
	return nil
}

// Key is the API key that the server accepts.
func (s *Server) Key() string { return s.config.Key }

// Start listens on the loopback interface until Close.
func (s *Server) Start() error {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.url = "http://" + l.Addr().String()
	s.served.Go(func() { _ = s.http.Serve(l) }) // it always returns an error, after Close the expected one
	return nil
}

// Endpoint is where GraphQL is served after Start: what belongs into tracker.endpoint.
func (s *Server) Endpoint() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.url + "/graphql"
}

// Close ends the server and all hanging requests.
func (s *Server) Close() error {
	s.mu.Lock()
	select {
	case <-s.done:
	default:
		close(s.done)
	}
	s.mu.Unlock()
	err := s.http.Close()
	s.served.Wait()
	return err
}
