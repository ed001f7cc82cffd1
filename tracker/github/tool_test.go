package github

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/tracker/github/githubtest"
	"github.com/symphony-cron/symphony/tracker/github/githubtest/openapi"
	"github.com/symphony-cron/symphony/tracker/trackertest"
)

// recorder is a GitHub that records requests, and answers them with status and body, or else
// with 200 and {}.
type recorder struct {
	mu   sync.Mutex
	sent []string // METHOD PATH?QUERY BODY
	// answers are used up in order.
	answers []recorded
}

type recorded struct {
	status   int
	body     string
	location string
}

func (s *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
	a := recorded{200, "{}", ""}
	if len(s.answers) > 0 {
		a = s.answers[0]
		s.answers = s.answers[1:]
	}
	if a.location != "" {
		w.Header().Set("Location", "http://"+r.Host+a.location)
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}

func (s *recorder) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.sent = nil }()
	return strings.Join(s.sent, "\n")
}

// The agent's tools follow a repository that was renamed, and no issue that was transferred to
// another one.
func TestToolsAfterRename(t *testing.T) {
	s := &githubtest.Server{
		Repository: "acme/web-shop",
		Tokens:     []string{testToken},
		Check:      openapi.Check,
	}
	s.Start()
	t.Cleanup(s.Close)
	s.AddRepository("acme/other")
	for range 2 {
		test.Must(s.AddIssue(githubtest.Issue{Title: "x"}))
	}
	test.Must(s.Transfer("acme/web-shop#1", "acme/other"))
	test.OK(t, s.Rename("acme/web-shop", "acme/store"))
	a := test.Must(Adapter(Options{
		Options:      transport.Options{Endpoint: s.URL(), Key: testToken},
		Repositories: []string{"acme/web-shop"},
	}))
	calls := func(issue reconcile.Issue) []trackertest.Call {
		return []trackertest.Call{
			trackertest.ByIssueComment(issue, "Done."),
			trackertest.ByIssueUpdate(issue, "closed"),
		}
	}
	for id, isHere := range map[string]bool{"1": false, "2": true} {
		issue := reconcile.Issue{ID: id, Identifier: "GH-" + id}
		for i, call := range calls(issue) {
			answer := a.Tools[1-i].Call(t.Context(), issue, call.Args)
			test.Equal(t, call.Tool+" of "+id+": "+answer.Text, answer.Success, isHere)
		}
	}
	there := test.Must(s.Issue("acme/other#1"))
	test.Equal(t, "the transferred issue", []any{there.State, len(there.Comments)}, []any{"open", 0})
	here := test.Must(s.Issue("2"))
	test.Equal(t, "the issue", []any{here.State, len(here.Comments)}, []any{"closed", 1})
}
