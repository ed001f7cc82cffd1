// Package jiratest is a Jira Cloud in memory, for tests: a site with projects whose issues have
// statuses, comments, links and transitions, behind the parts of its REST API that symphony and
// agents use.
//
// It answers as Jira does, also where that surprises: the search reads an index that may lag
// behind (Lag), a single unknown status makes a query fail, and to an expired token (Expire) it
// answers as to a stranger, with success and without issues. If Check is set, requests and answers
// are checked by Jira's published description. A mistake is answered 599.
package jiratest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/faulttest"
	"github.com/symphony-cron/symphony/internal/test"
)

// The account of the token, and that of a person.
const (
	Email       = "symphony@example.com"
	Token       = "ATATT3xFfGF0-a-token-of-the-tests-0123456789"
	Me          = "712020:symphony"
	Person      = "712020:kim"
	PersonEmail = "kim@example.com"
)

// CheckFunc returns the fault of a request, or of the reply to it, by Jira's description. params
// are the values of the parts of path in braces.
type CheckFunc = func(
	r *http.Request, body []byte, path string, params map[string]string, reply func() (int, http.Header, []byte),
) (mistake string)

// Server is a site. The exported fields are set before Start. The methods are safe for concurrent
// use, and name issues by id or key.
type Server struct {
	Project string // the key of the project; a second one is called OTHER
	// Page is how many issues a page of the search has at most; 5000 if 0.
	Page   int
	Check  CheckFunc // nil: nothing is checked
	Errorf func(format string, args ...any)
	Now    func() time.Time // time.Now if nil
	// ShowEmails: the account may see the email of Person.
	ShowEmails bool
	// Required are the names of fields that each transition to a status asks for.
	Required map[string][]string
	Denied   string // a permission that the account lacks
	http     *httptest.Server

	mu       sync.Mutex
	statuses []Status
	issues   []*issue
	last     int            // the last id
	numbers  map[string]int // the last numbers of keys, by project
	comments int
	former   []string // the earlier keys of the project
	log      []string
	fail     faulttest.Fault
	spoil    func(*issue, map[string]any)
	expired  bool
	nameless bool // an expired token is not told in a header
	hidden   bool
	indexed  map[string]indexed
	lag      bool
}

// Status is a status of the project.
type Status struct {
	ID, Name string
	Category string // new, indeterminate or done
}

// indexed is what the search knows of an issue.
type indexed struct {
	status  string
	project string
}

// Start starts the server.
func (s *Server) Start() {
	if s.Now == nil {
		s.Now = time.Now
	}
	s.numbers = map[string]int{}
	s.last = 10000
	s.comments = 20000
	s.statuses = []Status{
		{"10001", "Backlog", "new"},
		{"10002", "Todo", "new"},
		{"3", "In Progress", "indeterminate"},
		{"10004", "Human Review", "indeterminate"},
		{"10005", "Done", "done"},
		{"10006", "Canceled", "done"},
	}
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
}

// Close ends the server.
func (s *Server) Close() { s.http.Close() }

// URL is the address of the site.
func (s *Server) URL() string { return s.http.URL }

// Log are the requests since ClearLog: a method and a path each.
func (s *Server) Log() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// ClearLog empties the log.
func (s *Server) ClearLog() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = nil
}

// Fail lets a function answer requests before the server does; it reports whether it has. nil ends
// that.
func (s *Server) Fail(answer faulttest.Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = answer
}

// Expire lets the token expire, or makes it valid again. If told is false, the answers lack the
// header that says so, as behind a proxy that removes it.
func (s *Server) Expire(expired, told bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expired = expired
	s.nameless = !told
}

// Hide hides the project from the account, or shows it again.
func (s *Server) Hide(hidden bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hidden = hidden
}

// Lag lets the index of the search stay as it is, or brings it up to date.
func (s *Server) Lag(lag bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.indexed = map[string]indexed{}
	for _, i := range s.issues {
		s.indexed[i.id] = indexed{status: i.status.ID, project: i.project}
	}
	s.lag = lag
}

// Spoil changes the fields of issues in answers.
func (s *Server) Spoil(change func(key string, fields map[string]any)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spoil = func(i *issue, fields map[string]any) { change(i.key, fields) }
}

// RenameProject gives the project another key, and its issues keys that begin with it. By their
// old keys all are still found.
func (s *Server) RenameProject(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.former = append(s.former, s.Project)
	s.numbers[key] = s.numbers[s.Project]
	for _, i := range s.issues {
		if i.project == s.Project {
			i.project = key
			i.key = s.renewed(i.key, key)
		}
	}
	s.Project = key
}

// renewed is a key of an issue or of the project with the project's present key.
func (s *Server) renewed(name, project string) string {
	key, number, isIssue := strings.Cut(strings.ToUpper(name), "-")
	switch {
	case !slices.Contains(s.former, key):
		return name
	case isIssue:
		return project + "-" + number
	}
	return project
}

// Rename gives a status another name.
func (s *Server) Rename(status, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.statuses {
		if strings.EqualFold(s.statuses[i].Name, status) {
			s.statuses[i].Name = name
			for _, issue := range s.issues {
				if issue.status.ID == s.statuses[i].ID {
					issue.status = s.statuses[i]
				}
			}
			return nil
		}
	}
	return fmt.Errorf("there is no status %q", status)
}

// call is a request to the server.
type call struct {
	*Server
	r        *http.Request
	body     []byte
	named    map[string]string // the parts of the path in braces
	isNobody bool              // the token is not accepted
	header   http.Header       // of the answer
}

// answer is an answer; body is nil for none.
type answer struct {
	status int
	body   any
}

// mistake is the status of an answer to a request that Jira does not know.
const mistake = 599

func problem(status int, message string, args ...any) answer {
	return answer{status, map[string]any{
		"errorMessages": []string{fmt.Sprintf(message, args...)},
		"errors":        map[string]string{},
	}}
}

// field is the problem of a field.
func field(name, message string) answer {
	return answer{http.StatusBadRequest, map[string]any{
		"errorMessages": []string{},
		"errors":        map[string]string{name: message},
	}}
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.log = append(s.log, r.Method+" "+r.URL.RequestURI())
	fail := s.fail
	s.mu.Unlock()
	if fail != nil && fail(w, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	user, password, _ := r.BasicAuth()
	c := &call{Server: s, r: r, body: body, header: http.Header{}}
	c.header.Set("Content-Type", "application/json;charset=UTF-8")
	c.isNobody = s.expired || user != Email || password != Token
	if c.isNobody && !s.nameless {
		c.header.Set("X-Seraph-LoginReason", "AUTHENTICATED_FAILED")
	}
	a := c.answered()
	for name, values := range c.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(encode(a.body))
}

func encode(body any) []byte {
	if body == nil {
		return nil
	}
	return test.Must(json.Marshal(body))
}

// noColon are the times as Jira writes them.
var noColon = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT[\d:.]+[+-]\d\d)(\d\d)$`)

// described is the body of an answer without what the description does not have: nulls are
// declared nowhere, a time has a colon in its zone, and 204 has a body.
func described(body any) []byte {
	if body == nil {
		return []byte("{}")
	}
	var value any
	if err := json.Unmarshal(encode(body), &value); err != nil {
		panic(err)
	}
	return encode(cleaned(value))
}

func cleaned(v any) any {
	switch v := v.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(_ string, inner any) bool { return inner == nil })
		for name, inner := range v {
			v[name] = cleaned(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = cleaned(inner)
		}
	case string:
		return noColon.ReplaceAllString(v, "$1:$2")
	}
	return v
}

// answered answers a request by its route, and checks both by Jira's description.
func (c *call) answered() answer {
	for _, to := range routes {
		var fits bool
		c.named, fits = match(to.path, c.r.URL.EscapedPath())
		if !fits || to.method != c.r.Method {
			continue
		}
		if c.Check == nil {
			return to.answer(c)
		}
		var out answer
		wrong := c.Check(c.r, c.body, to.path, c.named, func() (int, http.Header, []byte) {
			out = to.answer(c)
			return out.status, c.header, described(out.body)
		})
		if wrong != "" {
			return c.mistake(wrong)
		}
		return out
	}
	return c.mistake("this server does not know the path")
}

// mistake reports the fault of a request or of this server's answer.
func (c *call) mistake(what string) answer {
	what = c.r.Method + " " + c.r.URL.RequestURI() + ": " + what
	if c.Errorf != nil {
		c.Errorf("Jira's description: %s", what)
	}
	return problem(mistake, "%s", what)
}

// match compares a path with a pattern such as /rest/api/3/issue/{issueIdOrKey}.
func match(pattern, path string) (map[string]string, bool) {
	parts := strings.Split(path, "/")
	names := strings.Split(pattern, "/")
	if len(parts) != len(names) {
		return nil, false
	}
	values := map[string]string{}
	for i, name := range names {
		switch {
		case strings.HasPrefix(name, "{"):
			values[strings.Trim(name, "{}")] = parts[i]
		case name != parts[i]:
			return nil, false
		}
	}
	return values, true
}

// read decodes the body of a request. Jira refuses what it does not know.
func (c *call) read(into any) error {
	d := json.NewDecoder(bytes.NewReader(c.body))
	return d.Decode(into)
}

// Limit refuses requests until a time, as Jira does it for a burst.
func Limit(until time.Time) faulttest.Fault {
	return faulttest.Answer(
		http.StatusTooManyRequests, `{"errorMessages": ["Rate limit exceeded."], "errors": {}}`,
		"X-RateLimit-Reset", until.UTC().Format("2006-01-02T15:04:05Z"),
		"RateLimit-Reason", "jira-burst-based",
	)
}
