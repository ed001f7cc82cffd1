package lineartest

import (
	"context"
	_ "embed" // the schema
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
)

//go:embed schema.graphql
var schemaText string

// loadSchema parses the schema once, and only in a process that needs it.
var loadSchema = sync.OnceValues(func() (*ast.Schema, error) {
	return gqlparser.LoadSchema(&ast.Source{Name: "schema.graphql", Input: schemaText})
})

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
	// NoControl switches the control API off.
	NoControl bool
	// RequestsPerHour and ComplexityPerHour are the allowance; 5,000 and 3,000,000 if 0.
	RequestsPerHour   int
	ComplexityPerHour int
}

// Server is a Linear workspace behind HTTP. All methods may be called at any time, by several goroutines.
type Server struct {
	key     string
	now     func() time.Time
	addr    string
	mux     *http.ServeMux
	done    chan struct{}
	closing sync.Once

	mu       sync.Mutex
	w        *workspace
	log      []*Entry
	failures []*Failure
	requests bucket
	points   bucket
	url      string
	http     *http.Server
	served   chan struct{}
}

// New makes a server with the workspace of DefaultSeed. It serves GraphQL at /graphql as an http.Handler, or,
// after Start, at an address of its own.
func New(c Config) *Server {
	s := &Server{key: c.Key, now: c.Now, addr: c.Addr, mux: http.NewServeMux(), done: make(chan struct{})}
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
	if !c.NoControl {
		s.control(s.mux)
	}
	return s
}

// Load replaces the workspace. Where the seed is wrong nothing changes.
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
		// It always ends with an error; after Close that is the expected one, and before there is nobody to tell.
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

// Close ends the server and every request that hangs in it.
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
