// Package lineartest is an in-process Linear for tests: a workspace in memory behind the part
// of Linear's GraphQL API that symphony and its agents use.
//
// A request is authenticated, counted against an allowance, validated (Config.Validate),
// priced as Linear prices it, and answered by its root fields: query.go contains the queries,
// object.go the fields of the entities and the mutations. A field that is not implemented is
// an error. Fail makes requests fail.
package lineartest

import (
	"cmp"
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/graphqltest"
	"github.com/symphony-cron/symphony/internal/text"
)

// DefaultKey is the API key of a Server whose Config names none.
const DefaultKey = "lin_api_lineartest"

// Config describes how a Server behaves. The zero value is ready for use.
type Config struct {
	// Key is the API key that is accepted; DefaultKey if empty.
	Key string
	// Now is the clock of the data and of the allowance; time.Now if nil.
	Now func() time.Time
	// Validate checks a request against the API's schema and returns its faults. If it is nil,
	// only the fields that are used are checked.
	Validate func(*graphqltest.Request) []error
	// RequestsPerHour and ComplexityPerHour are the allowance; 5,000 and 3,000,000 if 0. It is
	// not renewed.
	RequestsPerHour   int
	ComplexityPerHour int
}

// Server is a Linear workspace behind HTTP. Its methods are safe for concurrent use.
type Server struct {
	graphqltest.Failures
	config Config
	ctx    context.Context //nolint:containedctx // the server's life
	cancel context.CancelFunc
	http   *httptest.Server // nil before Start

	mu       sync.Mutex
	w        *workspace
	log      []Entry
	requests allowance
	points   allowance
	strict   bool // Specified was called
	// the time of all answers and changes; nil or zero for the configured clock
	stopped atomic.Pointer[time.Time]
}

// StopClock makes all answers and changes have the same time.
func (s *Server) StopClock(at time.Time) { s.stopped.Store(&at) }

func (s *Server) now() time.Time {
	if at := s.stopped.Load(); at != nil && !at.IsZero() {
		return *at
	}
	return s.config.Now()
}

// Specified makes the server refuse queries for more than the specification names, as the
// fixtures of other implementations may.
func (s *Server) Specified() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strict = true
}

// Entry is a GraphQL request that was received. The key is not in it.
type Entry struct {
	Operation string // its name
}

// maxLog bounds the log of a server that runs for a long time.
const maxLog = 10000

// New returns a server with the workspace of an empty Seed.
func New(c Config) *Server {
	c.Key = cmp.Or(c.Key, DefaultKey)
	if c.Now == nil {
		c.Now = time.Now
	}
	s := &Server{
		config:   c,
		Failures: graphqltest.Failures{Kinds: failKinds},
		requests: newAllowance(cmp.Or(c.RequestsPerHour, 5000)),
		points:   newAllowance(cmp.Or(c.ComplexityPerHour, 3_000_000)),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.Load(Seed{}); err != nil {
		panic("lineartest: the default seed is wrong: " + err.Error())
	}
	return s
}

// Load replaces the workspace. If the seed is invalid, nothing is changed.
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
func (s *Server) Key() string { return s.config.Key }

// Start listens on the loopback interface until Close.
func (s *Server) Start() { s.http = httptest.NewServer(s) }

// Endpoint returns the URL of the GraphQL API after Start: the value for tracker.endpoint.
func (s *Server) Endpoint() string { return s.http.URL + "/graphql" }

// Close ends the server and all its requests.
func (s *Server) Close() {
	s.cancel()
	s.http.Close()
}

// Log returns the requests in the order in which they arrived, the last 10,000 at most.
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

// SetRemaining sets the remaining allowance.
func (s *Server) SetRemaining(requests, complexity int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests.left = float64(requests)
	s.points.left = float64(complexity)
}

// AddIssue creates an issue and returns it with all fields set.
func (s *Server) AddIssue(i Issue) (Issue, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	made, err := s.w.add(i)
	if err != nil {
		return Issue{}, err
	}
	return made.clone(), nil
}

// onIssue calls f with an issue, found by identifier or id, under the lock.
func (s *Server) onIssue(ref string, f func(*Issue) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.w.find(ref)
	if i == nil {
		return fmt.Errorf("there is no issue %q", ref)
	}
	return f(i)
}

// Issue returns an issue by identifier or id.
func (s *Server) Issue(identifier string) (found Issue, err error) {
	err = s.onIssue(identifier, func(i *Issue) error { found = i.clone(); return nil })
	return found, err
}

// Issues returns all issues, archived ones included, oldest first.
func (s *Server) Issues() []Issue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return text.Map(s.w.issues, (*Issue).clone)
}

// Move changes the state of an issue.
func (s *Server) Move(identifier, state string) error {
	return s.Edit(identifier, func(i *Issue) { i.State = state })
}

// Edit calls change with a copy of the issue, and applies the changes, all or none. Id,
// identifier, team, URL, times, comments and links cannot be changed.
func (s *Server) Edit(identifier string, change func(*Issue)) error {
	return s.onIssue(identifier, func(i *Issue) error {
		want := i.clone()
		change(&want)
		return s.w.edit(i, want)
	})
}

// Comment adds a comment to an issue; author is an email, or empty for the key's user.
func (s *Server) Comment(identifier, author, body string) (made Comment, err error) {
	return s.CommentOf(identifier, Comment{Author: author, Body: body})
}

// CommentOf adds a comment to an issue that was made at another time.
func (s *Server) CommentOf(identifier string, c Comment) (made Comment, err error) {
	err = s.onIssue(identifier, func(i *Issue) error {
		made, err = s.w.comment(i, c)
		return err
	})
	return made, err
}

// Remove deletes an issue and all references to it.
func (s *Server) Remove(identifier string) error {
	return s.onIssue(identifier, func(i *Issue) error { s.w.remove(i); return nil })
}

// StateID returns the id of a team's workflow state, which a mutation needs to move an issue.
func (s *Server) StateID(team, name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.w.team(team); t != nil && t.state(name) >= 0 {
		return stateID(t.Key, t.States[t.state(name)].Name), nil
	}
	return "", fmt.Errorf("team %s has no state %q", team, name)
}
