// Package gitlabtest is a GitLab in memory, for tests: projects with issues, notes, labels and
// links behind the parts of its REST API that symphony uses. It answers as GitLab does, errors,
// pages and headers included, below /api/v4 or, as a server that is at a path of its host, below
// Server.Path.
//
// A request is logged, made to fail if a test ordered that (failure.go), authenticated, counted
// against an allowance and answered: rest.go contains the routes, the other files their answers.
// Texts are searched for quick actions (quick.go), which are carried out.
//
// If the environment names GitLab's description (package openapi), requests and answers are
// checked by it. A mistake is answered 599.
package gitlabtest

import (
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

// Server is GitLab. The exported fields are set before Start, or by Change. The methods are safe for
// concurrent use.
type Server struct {
	Project string // group/sub/project, the first project
	Path    string // of a server that is not at the root of its host, such as /gitlab; may be empty
	Token   string // of the account Operator
	Remote  string // the directory with the branches of the project; may be empty without merge requests
	// StateLabels are labels that exclude each other: Move replaces them by the new label.
	StateLabels []string
	Now         func() time.Time // of the data and the allowance; time.Now if nil
	Free        bool             // the free tier: issues do not block each other
	NoIssues    bool             // the projects have no issues
	Private     bool             // issues are for members only
	Outsider    bool             // Operator is no member
	Role        int              // the level of Operator's role; a developer's if 0
	// NeedsGreen: a merge needs a pipeline that succeeds; NeedsApprovals: so many approvals.
	NeedsGreen       bool
	NeedsApprovals   int
	MergeMethod      string // merge, rebase_merge or ff; merge if empty
	MaintainersMerge bool   // main is protected: only maintainers merge into it, and Operator is none
	// WaitsForPipelines: an older release, whose auto-merge waits for a pipeline and nothing else
	WaitsForPipelines bool
	// MergeTrains: what is to be merged later goes on a train, and is merged when the train has passed.
	MergeTrains bool
	// Unprocessable: a release that answers 422 where others answer 405 and 406.
	Unprocessable bool
	Check         CheckFunc // of package openapi; nil: nothing is checked
	// Errorf is called with each mistake in a request or an answer by GitLab's description, never
	// concurrently.
	Errorf func(format string, args ...any)

	http *httptest.Server
	graphqltest.Failures

	mu        sync.Mutex // guards all that follows
	projects  []*project
	lastID    int64
	merges    []*MergeRequest
	pipelines []*pipeline
	notes     int64 // how many notes were made, for ids that tests can predict
	log       []Request
	left      int
	reset     time.Time
}

// The accounts.
const (
	Operator = "operator" // of the token, a developer
	Writer   = "kim"      // a developer
	Reader   = "sam"      // a guest
)

var users = []string{Operator, Writer, Reader}

// limit is how many requests an account may make in a minute.
const limit = 2000

// CheckFunc returns the fault of a request, or of the reply to it, by GitLab's description.
// params are the values of the parts of path in braces.
type CheckFunc = func(
	r *http.Request, body []byte, path string, params map[string]string, reply func() (int, http.Header, []byte),
) (mistake string)

// Request is a request that was received.
type Request struct {
	Method, Path string // with the query, below /api/v4
	Status       int    // 0 if the connection was cut
}

// String returns method, status and path.
func (r Request) String() string { return fmt.Sprint(r.Method, " ", r.Status, " ", r.Path) }

// Start starts the server.
func (s *Server) Start() {
	if s.Now == nil {
		s.Now = time.Now
	}
	s.left = limit
	s.reset = s.now().Add(time.Minute)
	s.Kinds = slices.AppendSeq([]string{FailClose, FailMalformed}, maps.Keys(refusals))
	s.AddProject(s.Project)
	s.http = httptest.NewServer(s)
}

// Change sets exported fields after Start.
func (s *Server) Change(set func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set()
}

// URL is the address of the server's pages.
func (s *Server) URL() string { return s.http.URL + s.Path }

// API is the address of its API.
func (s *Server) API() string { return s.URL() + "/api/v4" }

// Close ends the server and all its requests.
func (s *Server) Close() { s.http.Close() }

// Log returns the requests in the order of their answers.
func (s *Server) Log() []Request {
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

// SetRemaining sets the rest of the allowance until a time.
func (s *Server) SetRemaining(requests int, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = requests
	s.reset = until
}

func (s *Server) now() time.Time { return s.Now().UTC().Truncate(time.Millisecond) }

func (s *Server) id() int64 {
	s.lastID++
	return 1_000_000 + s.lastID
}

// call is a request while it is answered. Its methods panic with an answer instead of returning
// an error.
type call struct {
	*Server
	r       *http.Request
	header  http.Header
	body    []byte
	named   map[string]string // the values of the parts of the path in braces
	user    string            // the login
	project *project
	issue   *Issue
	merge   *MergeRequest
}

// answer is an answer with a body that becomes JSON; a string is sent as it is, and nil sends
// nothing.
type answer struct {
	status int
	body   any
}

// object is a JSON object.
type object = map[string]any

func ok(body any) answer { return answer{http.StatusOK, body} }

func made(body any) answer { return answer{http.StatusCreated, body} }

// problem is the answer to a request that is refused; message is a text, a list or an object.
func problem(status int, message any) answer { return answer{status, object{"message": message}} }

// unfit is the answer to a request whose parameters do not fit.
func unfit(reason string) answer { return answer{http.StatusBadRequest, object{"error": reason}} }

var unauthorized = problem(http.StatusUnauthorized, "401 Unauthorized")

func missing(what string) answer {
	return problem(http.StatusNotFound, strings.TrimSpace("404 "+what+" Not Found"))
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c := &call{Server: s, r: r, header: w.Header(), body: body}
	s.mu.Lock()
	defer s.mu.Unlock()
	below := strings.TrimPrefix(r.URL.RequestURI(), s.Path+"/api/v4")
	entry := Request{Method: r.Method, Path: below}
	c.header.Set("Content-Type", "application/json")
	c.header.Set("X-Request-Id", fmt.Sprint("01TEST", len(s.log)))
	c.header.Set("X-Gitlab-Meta", `{"version":"1"}`)
	data, status, cut := c.respond(s.Next(func(*Failure) bool { return true }))
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

// respond returns the body of the answer to a request, its status, and whether the connection is
// to be cut.
func (c *call) respond(failure *Failure) (data []byte, status int, cut bool) {
	if out, ordered := c.instead(failure); ordered {
		if out.status == 0 { // the length promises more than is sent
			c.header.Set("Content-Length", "1000")
			return []byte(`[{"id":`), http.StatusOK, true
		}
		return encode(out.body), out.status, false
	}
	out := c.try(c.answer)
	return alter(failure, encode(out.body)), out.status, false
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

// answer authenticates the request, counts it, finds the objects in its path, and answers it by
// its route.
func (c *call) answer() answer {
	key, bearer := strings.CutPrefix(c.r.Header.Get("Authorization"), "Bearer ")
	if !bearer || key != c.Token {
		return unauthorized
	}
	c.user = Operator
	if !c.count() {
		c.header.Set("Content-Type", "text/plain")
		return answer{http.StatusTooManyRequests, "Retry later\n"}
	}
	to, named := c.route()
	c.named = named
	if to.answer == nil {
		return answer{http.StatusNotFound, object{"error": "404 Not Found"}}
	}
	c.find()
	return c.checked(to)
}

// count takes the request from the allowance, and says so in the headers. It is false if nothing
// is left.
func (c *call) count() bool {
	if c.now().After(c.reset) {
		c.left = limit
		c.reset = c.now().Add(time.Minute)
	}
	enough := c.left > 0
	c.left = max(c.left-1, 0)
	c.tellLimit()
	return enough
}

// tellLimit sets the headers about the allowance.
func (c *call) tellLimit() {
	wait := max(int(c.reset.Sub(c.now()).Seconds()), 1)
	c.header.Set("RateLimit-Name", "throttle_authenticated_api")
	c.header.Set("RateLimit-Limit", fmt.Sprint(limit))
	c.header.Set("RateLimit-Observed", fmt.Sprint(limit-c.left))
	c.header.Set("RateLimit-Remaining", fmt.Sprint(c.left))
	c.header.Set("RateLimit-Reset", fmt.Sprint(c.reset.Unix()))
	if c.left == 0 {
		c.header.Set("Retry-After", fmt.Sprint(wait))
	}
}

// checked answers a request by its route, and checks both by GitLab's description. A fault is
// reported and answered 599.
func (c *call) checked(to route) (out answer) {
	if c.Check == nil {
		return to.answer(c)
	}
	wrong := c.Check(c.r, c.body, "/api/v4"+to.path, c.named, func() (int, http.Header, []byte) {
		out = c.try(func() answer { return to.answer(c) })
		return out.status, c.header, encode(out.body)
	})
	if wrong == "" {
		return out
	}
	const mistake = 599
	what := c.r.Method + " " + c.r.URL.RequestURI() + ": " + wrong
	c.Errorf("GitLab's description: %s", what)
	return problem(mistake, what)
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
	if json.Unmarshal(c.body, v) != nil {
		panic(unfit("The request body is not valid JSON"))
	}
}

// stamp is a time as GitLab writes it; nil if it is zero.
func stamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}
