// Package githubtest is the part of GitHub's API that opens pull requests, for tests. It answers as api.github.com does, errors
// included, also to gh that uses it as a proxy: then its name is github.localhost.
package githubtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Pull is a pull request.
type Pull struct {
	Number                          int
	State                           string // open or closed
	Title, Body, Branch, Base, From string // From is the token of the account that opened it
	Commit                          string // the last one while it was open
}

// Server is GitHub with one repository.
type Server struct {
	Repository string // owner/name
	Remote     string // the directory with its branches
	Tokens     []string

	http *httptest.Server
	mu   sync.Mutex
	all  []*Pull
	log  []string
	fail string // how all requests are answered
	hide bool   // the next list is empty
}

// Start starts the server.
func (s *Server) Start() {
	mux := http.NewServeMux()
	for _, prefix := range []string{"", "/api/v3"} {
		mux.HandleFunc("GET "+prefix+"/repos/{owner}/{name}/pulls", s.handle(s.list))
		mux.HandleFunc("POST "+prefix+"/repos/{owner}/{name}/pulls", s.handle(s.open))
		mux.HandleFunc("GET "+prefix+"/{$}", s.handle(func(*http.Request) (int, any) { return http.StatusOK, struct{}{} }))
	}
	mux.HandleFunc("POST /graphql", s.handle(func(*http.Request) (int, any) { // gh asks for its login
		return http.StatusOK, json.RawMessage(`{"data":{"viewer":{"login":"ann"}}}`)
	}))
	mux.HandleFunc("/", s.handle(func(*http.Request) (int, any) { return http.StatusNotFound, problem("Not Found") }))
	s.http = httptest.NewServer(mux)
}

// URL is the address of the server.
func (s *Server) URL() string { return s.http.URL }

// Close ends the server.
func (s *Server) Close() { s.http.Close() }

// Fail makes all requests fail: rate-limit, secondary-limit, forbidden, not-found, down, html; or, until the next list, hide-next.
// An empty reason ends that.
func (s *Server) Fail(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hide = reason == "hide-next"; s.hide {
		reason = ""
	}
	s.fail = reason
}

// Pulls returns all pull requests, the oldest first.
func (s *Server) Pulls(ctx context.Context) (list []Pull) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.follow(ctx)
	for _, p := range s.all {
		list = append(list, *p)
	}
	return list
}

// End merges or closes a pull request, which GitHub's API does not distinguish in lists.
func (s *Server) End(ctx context.Context, number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.follow(ctx)
	s.all[number-1].State = "closed"
}

// Requests returns the methods of the requests about pull requests since the last call.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.log
	s.log = nil
	return log
}

func problem(message string, errors ...any) any {
	return map[string]any{
		"message": message, "errors": errors, "documentation_url": "https://docs.github.com/rest/pulls/pulls", "status": "0",
	}
}

// handle answers a request as f does, unless requests fail.
func (s *Server) handle(f func(*http.Request) (int, any)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.follow(r.Context())
		if strings.HasSuffix(r.URL.Path, "/pulls") {
			s.log = append(s.log, r.Method)
		}
		h := w.Header()
		h.Set("Content-Type", "application/json; charset=utf-8")
		h.Set("X-RateLimit-Remaining", "4999")
		h.Set("X-OAuth-Scopes", "repo, read:org")
		code, answer := s.failure(h, r)
		if code == 0 {
			code, answer = f(r)
		}
		w.WriteHeader(code)
		if text, plain := answer.(string); plain {
			fmt.Fprint(w, text)
			return
		}
		_ = json.NewEncoder(w).Encode(answer)
	}
}

func (s *Server) failure(h http.Header, r *http.Request) (int, any) {
	known := false
	for _, token := range s.Tokens {
		auth := r.Header.Get("Authorization")
		known = known || auth == "Bearer "+token || auth == "token "+token
	}
	owner, name := r.PathValue("owner"), r.PathValue("name")
	switch s.fail {
	case "rate-limit":
		h.Set("X-RateLimit-Remaining", "0")
		h.Set("X-RateLimit-Reset", fmt.Sprint(time.Date(2033, 5, 18, 3, 33, 20, 0, time.UTC).Unix()))
		return http.StatusForbidden, problem("API rate limit exceeded for user ID 1.")
	case "secondary-limit":
		h.Set("Retry-After", "60")
		return http.StatusForbidden, problem("You have exceeded a secondary rate limit. Please wait a few minutes before you try again.")
	case "forbidden":
		return http.StatusForbidden, problem("Resource not accessible by personal access token")
	case "not-found":
		return http.StatusNotFound, problem("Not Found")
	case "down":
		return http.StatusBadGateway, "<html>Unicorn!</html>"
	case "html":
		return http.StatusOK, "<html>Welcome to another server</html>"
	}
	switch {
	case !known:
		return http.StatusUnauthorized, problem("Bad credentials")
	case owner != "" && !strings.EqualFold(owner+"/"+name, s.Repository):
		return http.StatusNotFound, problem("Not Found")
	}
	return 0, nil
}

// follow moves open pull requests to the commits of their branches.
func (s *Server) follow(ctx context.Context) {
	for _, p := range s.all {
		if at := s.commitOf(ctx, p.Branch); p.State == "open" && at != "" {
			p.Commit = at
		}
	}
}

func (s *Server) commitOf(ctx context.Context, branch string) string {
	out, _ := exec.CommandContext(ctx, "git", "--git-dir", s.Remote, "rev-parse", "--verify", "--quiet", "refs/heads/"+branch).Output()
	return strings.TrimSpace(string(out))
}

func (s *Server) list(r *http.Request) (int, any) {
	q := r.URL.Query()
	owner, branch, filtered := strings.Cut(q.Get("head"), ":")
	list := []any{}
	for i := len(s.all) - 1; i >= 0 && !s.hide; i-- { // the newest first
		p := s.all[i]
		state := q.Get("state")
		if state == "" {
			state = "open"
		}
		if filtered && (p.Branch != branch || !strings.HasPrefix(s.Repository, owner+"/")) || state != "all" && p.State != state {
			continue
		}
		list = append(list, s.row(p))
	}
	s.hide = false
	return http.StatusOK, list
}

func (s *Server) row(p *Pull) any {
	return map[string]any{
		"number": p.Number, "state": p.State, "title": p.Title, "body": p.Body, "draft": false,
		"html_url": fmt.Sprintf("https://github.com/%s/pull/%d", s.Repository, p.Number),
		"head":     map[string]any{"ref": p.Branch, "sha": p.Commit}, "base": map[string]any{"ref": p.Base},
	}
}

func (s *Server) open(r *http.Request) (int, any) {
	ctx := r.Context()
	var asked struct{ Title, Body, Head, Base string }
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if decoder.Decode(&asked) != nil {
		return http.StatusBadRequest, problem("Problems parsing JSON")
	}
	invalid := func(field string) (int, any) {
		return http.StatusUnprocessableEntity, problem("Validation Failed",
			map[string]any{"resource": "PullRequest", "field": field, "code": "invalid"})
	}
	custom := func(message string) (int, any) {
		return http.StatusUnprocessableEntity, problem("Validation Failed",
			map[string]any{"resource": "PullRequest", "code": "custom", "message": message})
	}
	at, base := s.commitOf(ctx, asked.Head), s.commitOf(ctx, asked.Base)
	merged := exec.CommandContext(ctx, "git", "--git-dir", s.Remote, "merge-base", "--is-ancestor", at, base)
	switch {
	case len([]rune(asked.Title)) > 256:
		return custom("title is too long (maximum is 256 characters)")
	case at == "":
		return invalid("head")
	case base == "":
		return invalid("base")
	case merged.Run() == nil:
		return custom("No commits between " + asked.Base + " and " + asked.Head)
	}
	for _, p := range s.all {
		if p.State == "open" && p.Branch == asked.Head && p.Base == asked.Base {
			owner, _, _ := strings.Cut(s.Repository, "/")
			return custom("A pull request already exists for " + owner + ":" + asked.Head + ".")
		}
	}
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	p := &Pull{
		Number: len(s.all) + 1, State: "open", Title: asked.Title, Body: asked.Body, Branch: asked.Head, Base: asked.Base, Commit: at,
		From: token,
	}
	s.all = append(s.all, p)
	return http.StatusCreated, s.row(p)
}
