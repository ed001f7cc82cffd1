package lineartest

import (
	"context"
	"errors"
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
	// Addr is where Start listens, a loopback address; 127.0.0.1:0 if empty.
	Addr string
	// Control serves the control API, by which other processes steer the workspace.
	Control bool
	// Validate returns what is wrong with a request by the API's schema. Without it, a field that is not served is an error
	// all the same.
	Validate func(query, operation string, variables map[string]any) []string
	// RequestsPerHour and ComplexityPerHour are the allowance; 5,000 and 3,000,000 if 0.
	RequestsPerHour   int
	ComplexityPerHour int
}

// Server is a Linear workspace behind HTTP. All methods may be called at any time, by several goroutines.
type Server struct {
	key      string
	now      func() time.Time
	addr     string
	validate func(query, operation string, variables map[string]any) []string
	mux      *http.ServeMux
	done     chan struct{}
	closing  sync.Once

	mu       sync.Mutex
	w        *workspace
	log      []*Entry
	failures []*Failure
	requests allowance
	points   allowance
	url      string
	http     *http.Server
	served   chan struct{}
}

// New makes a server with the workspace of DefaultSeed. It serves GraphQL at /graphql.
func New(c Config) *Server {
	s := &Server{key: c.Key, now: c.Now, addr: c.Addr, validate: c.Validate, mux: http.NewServeMux(), done: make(chan struct{})}
	if s.key == "" {
		s.key = DefaultKey
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.addr == "" {
		s.addr = "127.0.0.1:0"
	}
	s.requests.limit, s.points.limit = 5000, 3_000_000
	if c.RequestsPerHour > 0 {
		s.requests.limit = float64(c.RequestsPerHour)
	}
	if c.ComplexityPerHour > 0 {
		s.points.limit = float64(c.ComplexityPerHour)
	}
	if err := s.Load(DefaultSeed()); err != nil {
		panic("lineartest: the default seed is wrong: " + err.Error())
	}
	s.mux.HandleFunc("/graphql", s.serveGraphQL)
	if c.Control {
		s.control()
	}
	return s
}

// Load replaces the workspace. A wrong seed changes nothing.
func (s *Server) Load(seed Seed) error {
	w, err := newWorkspace(s.now, seed)
	if err != nil {
		return fmt.Errorf("load seed: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.w = w
	return nil
}

// Key is the API key that the server accepts.
func (s *Server) Key() string { return s.key }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Start listens on the loopback address of the Config until Close.
func (s *Server) Start() error {
	host, _, err := net.SplitHostPort(s.addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", s.addr, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("listen on %s: not a loopback address", s.addr)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", s.addr)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http != nil {
		return errors.Join(errors.New("already started"), l.Close())
	}
	srv := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan struct{})
	s.http, s.served, s.url = srv, served, "http://"+l.Addr().String()
	go func() {
		defer close(served)
		// Serve always returns an error, after Close the expected one.
		_ = srv.Serve(l)
	}()
	return nil
}

// URL is the base address after Start, without a path.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.url
}

// Endpoint is where GraphQL is served: what belongs into tracker.endpoint.
func (s *Server) Endpoint() string { return s.URL() + "/graphql" }

// Close ends the server and all hanging requests.
func (s *Server) Close() error {
	s.closing.Do(func() { close(s.done) })
	s.mu.Lock()
	srv, served := s.http, s.served
	s.mu.Unlock()
	if srv == nil {
		return nil
	}
	err := srv.Close()
	<-served
	return err
}
