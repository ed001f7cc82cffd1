// Package githubtest is a GitHub in memory, for tests: repositories with issues, comments,
// labels, dependencies and pull requests behind the parts of its REST API that symphony, gh
// and agents use. It answers as api.github.com does, errors included, below / and, as GitHub
// Enterprise, below /api/v3; also to a client that uses it as a proxy, such as gh, for which
// its name is github.localhost.
//
// A request is logged, made to fail if a test ordered that (failure.go), authenticated,
// counted against an allowance and answered: rest.go contains the routes, issue.go, pull.go,
// actions.go and repository.go their answers, graphql.go the GraphQL API, and board.go
// projects. An answer to GET carries an ETag, and a repeated request is answered 304, which
// costs nothing.
//
// If the environment names GitHub's published descriptions (schema.go, package openapi),
// requests and answers are checked by them. A mistake is answered 599.
package githubtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/graphqltest"
	"github.com/symphony-cron/symphony/internal/text"
)

// Server is GitHub. The exported fields are set before Start. The methods are safe for
// concurrent use.
type Server struct {
	Repository string // owner/name of the first repository
	Remote     string // the directory with its branches; may be empty without pull requests
	Tokens     []string
	// StateLabels are labels that exclude each other: Move replaces them by the new label.
	StateLabels []string
	Now         func() time.Time // of the data and the allowance; time.Now if nil
	Check       CheckFunc        // of package openapi; nil: nothing is checked
	// Errorf is called with each mistake in a request or an answer by GitHub's published
	// descriptions, never concurrently.
	Errorf func(format string, args ...any)
	// NoPulls: the tokens may not read the pull requests that close an issue.
	NoPulls  bool
	NoIssues bool // the repositories have no issues
	Archived bool // the repositories are archived
	NoLogs   bool // the host of logs refuses requests
	// Methods are the ways to merge that the repositories allow, such as squash; all if nil.
	Methods     []string
	NoAutoMerge bool // the repositories do not allow auto-merge
	// Permission is what the account of a token may do in the repositories, such as READ; WRITE
	// if it is empty.
	Permission string
	Queue      bool // their branches have a merge queue
	// FineGrained: the tokens are fine-grained ones, which see no checks but commit statuses.
	FineGrained bool

	http, storage *httptest.Server // storage serves logs
	graphqltest.Failures
	data
	log    []Request
	rest   allowance // of the REST API
	points allowance // of the GraphQL API
}

// data is the content of this GitHub.
type data struct {
	clock   func() time.Time // Server.Now
	remote  string           // Server.Remote
	mu      sync.Mutex       // guards all of the Server
	repos   []*repository
	lastID  int64
	comment int                // how many comments were made, for ids that tests can predict
	board   *board             // nil for none
	checks  map[string][]Check // by commit
	heads   map[string]string  // the commits of branches without a Remote
}

// users are the logins of all accounts, the owner of the tokens first.
var users = []string{"ann", "kim"}

// Request is a request that was received.
type Request struct {
	Method, Path string // with the query, without the prefix of GitHub Enterprise
	Conditional  bool   // it had If-None-Match
	Status       int    // 0 if the connection was cut
}

// String returns method, status and path.
func (r Request) String() string { return fmt.Sprint(r.Method, " ", r.Status, " ", r.Path) }

// Start starts the server.
func (s *Server) Start() {
	if s.Now == nil {
		s.Now = time.Now
	}
	s.rest = allowance{name: "core", limit: 5000}
	s.points = allowance{name: "graphql", limit: 5000}
	s.clock = s.Now
	s.remote = s.Remote
	s.checks = map[string][]Check{}
	s.heads = map[string]string{}
	s.rest.renew(s.now())
	s.points.renew(s.now())
	s.Kinds = slices.AppendSeq([]string{FailClose, FailMalformed, FailHideNext}, maps.Keys(refusals))
	s.AddRepository(s.Repository)
	s.http = httptest.NewServer(s)
}

// URL is the address of the server.
func (s *Server) URL() string { return s.http.URL }

// Close ends the server and all its requests.
func (s *Server) Close() {
	s.http.Close()
	if s.storage != nil {
		s.storage.Close()
	}
}

// Log returns the requests in the order of their answers.
func (s *Server) Log() (list []Request) {
	s.locked(func() { list = slices.Clone(s.log) })
	return list
}

// ClearLog forgets the requests so far.
func (s *Server) ClearLog() { s.locked(func() { s.log = nil }) }

// SetRemaining sets the rest of both allowances.
func (s *Server) SetRemaining(requests int) {
	s.locked(func() {
		s.rest.left = requests
		s.points.left = requests
	})
}

func (d *data) locked(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

func (d *data) now() time.Time { return atSecond(d.clock()) }

func (d *data) id() int64 {
	d.lastID++
	return 1_000_000 + d.lastID
}

// allowance is the hourly allowance of a token. It is renewed at the end of its hour.
type allowance struct {
	name        string
	limit, left int
	reset       time.Time
}

func (a *allowance) renew(now time.Time) {
	a.left = a.limit
	a.reset = now.Add(time.Hour)
}

// take uses n of the allowance. It returns false if less is left.
func (a *allowance) take(n int, now time.Time) bool {
	if now.After(a.reset) {
		a.renew(now)
	}
	if a.left < n {
		return false
	}
	a.left -= n
	return true
}

func (a *allowance) write(h http.Header) {
	numbers := object{
		"limit":     a.limit,
		"remaining": a.left,
		"used":      a.limit - a.left,
		"reset":     a.reset.Unix(),
	}
	for key, value := range numbers {
		h.Set("X-RateLimit-"+key, fmt.Sprint(value))
	}
	h.Set("X-RateLimit-Resource", a.name)
}

// call is a request while it is answered. Its methods panic with an answer instead of
// returning an error.
type call struct {
	*Server
	r      *http.Request
	base   string // of the links in answers
	header http.Header
	body   []byte
	named  map[string]string // the values of the parts of the path in braces
	user   string            // the login
	repo   *repository
	issue  *Issue
}

// answer is an answer with a body that becomes JSON; a string is sent as it is, and nil sends
// nothing.
type answer struct {
	status int
	body   any
}

// object is a JSON object.
type object = map[string]any

func problem(status int, message string, errors ...any) answer {
	body := object{
		"message":           message,
		"documentation_url": "https://docs.github.com/rest",
		"status":            fmt.Sprint(status),
	}
	if len(errors) > 0 {
		body["errors"] = errors
	}
	return answer{status, body}
}

func invalid(resource, field string) answer {
	return problem(http.StatusUnprocessableEntity, "Validation Failed", object{
		"resource": resource,
		"field":    field,
		"code":     "invalid",
	})
}

var (
	missing    = problem(http.StatusNotFound, "Not Found")
	exhausted  = problem(http.StatusForbidden, "API rate limit exceeded for user ID 1.")
	badTokens  = problem(http.StatusUnauthorized, "Bad credentials")
	unreadable = problem(http.StatusBadRequest, "Problems parsing JSON")
)

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c := &call{Server: s, r: r, base: "http://" + r.Host, header: w.Header(), body: body}
	path, enterprise := strings.CutPrefix(r.URL.RequestURI(), "/api/")
	if enterprise {
		path = "/" + strings.TrimPrefix(path, "v3/")
		c.base = c.base + "/api/v3"
	}
	entry := Request{Method: r.Method, Path: path, Conditional: r.Header.Get("If-None-Match") != ""}
	c.header.Set("Content-Type", "application/json; charset=utf-8")
	c.header.Set("X-OAuth-Scopes", "repo, read:org, project")
	c.header.Set("X-GitHub-Media-Type", "github.v3; format=json")
	s.mu.Lock()
	defer s.mu.Unlock()
	var to route
	to, c.named = match(r)
	data, status, cut := c.respond(to, s.Next(func(f *Failure) bool { return f.Kind != FailHideNext }))
	entry.Status = status
	if cut {
		entry.Status = 0
	}
	s.log = append(s.log, entry)
	w.WriteHeader(status)
	_, _ = w.Write(data)
	if cut {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// respond returns the body of the answer to a request, its status, and whether the connection
// is to be cut.
func (c *call) respond(to route, failure *Failure) (data []byte, status int, cut bool) {
	if out, ordered := c.instead(failure); ordered {
		c.allowance().write(c.header)
		if out.status == 0 { // the length promises more than is sent
			c.header.Set("Content-Length", "1000")
			return []byte(`[{"id":`), http.StatusOK, true
		}
		return encode(out.body), out.status, false
	}
	out := c.answer(to)
	data = alter(failure, encode(out.body))
	if c.r.Method == http.MethodGet && out.status == http.StatusOK {
		etag := fmt.Sprintf(`W/"%x"`, sha256.Sum256(data))
		c.header.Set("ETag", etag)
		if strings.TrimPrefix(c.r.Header.Get("If-None-Match"), "W/") == strings.TrimPrefix(etag, "W/") {
			c.rest.left = min(c.rest.left+1, c.rest.limit)
			c.header.Del("Content-Type")
			data = nil
			out.status = http.StatusNotModified
		}
	}
	c.allowance().write(c.header)
	return data, out.status, false
}

func encode(body any) []byte {
	switch body := body.(type) {
	case nil:
		return nil
	case string:
		return []byte(body)
	}
	return text.JSON(body)
}

// answer authenticates the request, counts it, finds the objects in its path, and answers it
// by its route.
func (c *call) answer(to route) answer {
	kind, token, _ := strings.Cut(c.r.Header.Get("Authorization"), " ")
	if !slices.Contains(c.Tokens, token) || !strings.EqualFold(kind, "Bearer") && kind != "token" {
		return badTokens
	}
	c.user = users[0]
	enough := c.allowance().take(1, c.now())
	switch {
	case !enough && c.isGraphQL():
		return ok(object{"errors": []fault{pointsGone}})
	case !enough:
		return exhausted
	}
	c.follow(c.r.Context())
	c.mergeArmed()
	return c.try(func() answer {
		c.find()
		return c.checked(to)
	})
}

// try returns the answer of f, or the answer with which it panics.
func (c *call) try(f func() answer) (out answer) {
	defer func() {
		if r := recover(); r != nil {
			var refused bool
			out, refused = r.(answer)
			if !refused {
				panic(r)
			}
		}
	}()
	return f()
}

// decode reads the body into v.
func (c *call) decode(v any) {
	decoder := json.NewDecoder(bytes.NewReader(c.body))
	decoder.DisallowUnknownFields()
	if decoder.Decode(v) != nil {
		panic(unreadable)
	}
}
