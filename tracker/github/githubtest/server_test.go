package githubtest

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/tracker/github/githubtest/openapi"
)

// hub is a server with three issues; 1 depends on 2, and 3 is closed.
func hub(t *testing.T) *Server {
	t.Helper()
	clock := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := &Server{
		Repository:  "team/app",
		Tokens:      []string{"ghp_secret"},
		StateLabels: []string{"Todo", "Doing"},
		Now:         func() time.Time { clock = clock.Add(time.Second); return clock },
		Errorf:      t.Errorf,
		Check:       openapi.Check,
	}
	s.Start()
	t.Cleanup(s.Close)
	for _, i := range []Issue{{
		Title:  "One",
		Labels: []string{"Todo", "bug"},
	}, {
		Title:     "Two",
		Assignees: []string{"ann"},
	}, {
		Title: "Three",
		State: "closed",
	}} {
		test.Must(s.AddIssue(i))
	}
	test.OK(t, s.Block("1", "#2"))
	return s
}

type reply struct {
	*http.Response
	body string
}

// ask sends a request without following redirects. A body that begins with { is sent.
func ask(t *testing.T, s *Server, request string, header ...string) reply {
	t.Helper()
	method, rest, _ := strings.Cut(request, " ")
	path, body, _ := strings.Cut(rest, " ")
	if !strings.HasPrefix(path, "http") {
		path = s.URL() + path
	}
	r := test.Must(http.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
	r.Header.Set("Authorization", "Bearer ghp_secret")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for n := 0; n < len(header); n += 2 {
		r.Header.Set(header[n], header[n+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	test.OK(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		data = append(data, err.Error()...)
	}
	return reply{resp, string(data)}
}

// The order in which requests build on each other is that of the list.
func TestREST(t *testing.T) {
	t.Parallel()
	s := hub(t)
	test.Must(s.AddIssue(Issue{Title: "Four"}))
	for _, c := range []struct {
		request string
		status  int
		want    string // in the answer
	}{
		{"GET /user", 200, `"login":"ann"`},
		{"GET /repos/TEAM/App", 200, `"full_name":"team/app"`},
		{"GET /repos/team/other", 404, `Not Found`},
		{"GET /repos/team/app/issues/1", 200, `"issue_dependencies_summary":{"total_blocked_by":1}`},
		{"GET /repos/team/app/issues/9", 404, `Not Found`},
		{"PATCH /repos/team/app/issues/4 {\"state\": \"closed\"}", 200, `"state_reason":"completed"`},
		{
			"PATCH /repos/team/app/issues/4 {\"state\": \"closed\", \"state_reason\": \"not_planned\"}",
			200,
			`"state_reason":"not_planned"`,
		},
		{
			"PATCH /repos/team/app/issues/4 {\"state\": \"open\", \"labels\": [\"Todo\"], \"body\": \"Text\"}",
			200,
			`"state_reason":"reopened"`,
		},
		{"PATCH /repos/team/app/issues/4 {\"title\": \"\"}", 422, `Validation Failed`},
		{"POST /repos/team/app/issues/4/labels {\"labels\": [\"two words\"]}", 200, `"name":"two words"`},
		{"PUT /repos/team/app/issues/4/labels {\"labels\": [\"bug\", \"two words\"]}", 200, `"name":"bug"`},
		{"POST /repos/team/app/issues/4/comments {\"body\": \"Hello\"}", 201, `"id":1,`},
		{"PATCH /repos/team/app/issues/comments/1 {\"body\": \"Bye\"}", 200, `"body":"Bye"`},
		{"GET /repos/team/app/issues/4/comments?since=2020-01-01T00:00:00Z", 200, `"body":"Bye"`},
		{"GET /repos/team/app/issues/4/comments?since=2027-01-01T00:00:00Z", 200, `[]`},
		{"GET /api/v3/repos/team/app/issues/4", 200, `"number":4`},
	} {
		r := ask(t, s, c.request)
		test.Equal(t, c.request, r.StatusCode, c.status)
		test.Contains(t, c.request, r.body, c.want)
	}
}

func TestMovedAndGone(t *testing.T) {
	t.Parallel()
	s := hub(t)
	s.AddRepository("team/other")
	to := test.Must(s.Transfer("2", "team/other"))
	test.Equal(t, "transferred to", to, "team/other#1")
	test.OK(t, s.Delete("3"))
	test.OK(t, s.Rename("team/app", "team/web"))
	test.Equal(t, "deleted", ask(t, s, "GET /repos/team/web/issues/3").StatusCode, http.StatusGone)
	for _, path := range []string{"/repos/team/app/issues/1", "/repos/team/web/issues/2"} {
		r := ask(t, s, "GET "+path)
		test.Equal(t, path, r.StatusCode, http.StatusMovedPermanently)
		r = ask(t, s, "GET "+r.Header.Get("Location"))
		if r.StatusCode != http.StatusOK ||
			!strings.Contains(r.body, `"number":1`) {
			t.Errorf("%s leads to %d %s", path, r.StatusCode, r.body)
		}
		test.Equal(t, path, ask(t, s, "PATCH "+path+" {}").StatusCode, http.StatusTemporaryRedirect)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	s := hub(t)
	for _, c := range []struct {
		Failure
		status int
		body   string
		header string
	}{
		{Failure{Kind: FailCredentials}, 401, "Bad credentials", ""},
		{Failure{Kind: FailForbidden}, 403, "Resource not accessible", ""},
		{Failure{Kind: FailNotFound}, 404, "Not Found", ""},
		{Failure{Kind: FailScope}, 404, "Not Found", "X-Oauth-Scopes: repo\r\n"},
		{Failure{Kind: FailSecondary}, 403, "secondary rate limit", "Retry-After: 60\r\n"},
		{Failure{
			Kind:       FailSecondary,
			RetryAfter: 90,
		}, 403, "secondary rate limit", "Retry-After: 90\r\n"},
		{
			Failure{Kind: FailRateLimit},
			403,
			"rate limit exceeded",
			"X-Ratelimit-Remaining: 0\r\nX-Ratelimit-Reset: 2000000000\r\n",
		},
		{Failure{Kind: FailDown}, 502, "Unicorn", ""},
		{Failure{Kind: FailHTML}, 200, "<html>", ""},
		{Failure{Kind: FailCut}, 200, "unexpected EOF", ""},
		{Failure{Kind: FailMalformed, Field: "title", Issue: 2}, 200, `"title":null`, ""},
	} {
		t.Run(c.Kind, func(t *testing.T) {
			c.Skip = 1
			test.OK(t, s.Fail(c.Failure))
			ask(t, s, "GET /user")
			r := ask(t, s, "GET /repos/team/app/issues?state=all")
			var header strings.Builder
			test.OK(t, r.Header.Write(&header))
			if r.StatusCode != c.status || !strings.Contains(r.body, c.body) ||
				!strings.Contains(header.String(), c.header) {
				t.Errorf("%d %s\n%s", r.StatusCode, r.body, header.String())
			}
			s.ClearFailures()
			test.Equal(t, "after it", ask(t, s, "GET /user").StatusCode, http.StatusOK)
		})
	}
	s.SetRemaining(1)
	ask(t, s, "GET /user")
	r := ask(t, s, "GET /user")
	test.Equal(t, "without allowance", r.StatusCode, http.StatusForbidden)
	test.Equal(t, "without allowance", r.Header.Get("X-RateLimit-Remaining"), "0")
}
