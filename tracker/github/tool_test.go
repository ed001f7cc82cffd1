package github

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
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

var runIssue = reconcile.Issue{ID: "12", Identifier: "GH-12"}

func toolOf(t *testing.T, change ...func(*Options)) (*recorder, reconcile.AgentTool) {
	t.Helper()
	s := &recorder{}
	first := func(o *Options) {
		o.Repositories = []string{"acme/web-shop"}
		o.ToolBudget = 1000
	}
	return s, Tool(clientOf(t, serving(t, s.ServeHTTP), append([]func(*Options){first}, change...)...))
}

// use calls the tool with the agent's arguments, and returns its answer and the code of its
// error.
func use(t *testing.T, tool reconcile.AgentTool, args string) (reconcile.ToolAnswer, string) {
	t.Helper()
	a := tool.Call(t.Context(), runIssue, json.RawMessage(args))
	var text struct {
		Error struct{ Code string }
	}
	test.OK(t, json.Unmarshal([]byte(a.Text), &text))
	test.Lacks(t, "the answer to "+args, a.Text, testToken)
	return a, text.Error.Code
}

// What is not among the tool's rules is not sent, in whatever way the path is written.
func TestToolRefuses(t *testing.T) {
	s, tool := toolOf(t)
	refused := func(method, path, want string) {
		t.Helper()
		args := fmt.Sprintf(`{"method": %q, "path": %s, "body": {"body": "x"}}`, method, text.JSON(path))
		a, code := use(t, tool, args)
		if sent := s.take(); code != want || a.Success || a.Mutation != nil || sent != "" {
			t.Errorf("%s: %s, sent %q; want %s", args, a.Text, sent, want)
		}
	}
	for _, call := range []string{
		// Other places.
		"GET /user", "GET /", "GET ", "GET repos/acme/web-shop", "GET /graphql", "POST /graphql", "GET /repos/acme",
		"GET /repos/acme/other/issues", "GET /repos/acme/web-shop2", "GET /repos/acme/web-shop.git/issues",
		"GET /repositories/1/issues/12", "GET /orgs/acme/projectsV2/4/items", "GET /search/issues",
		"GET https://api.github.comREPO", "GET //evil.exampleREPO", "GET http://evil.example",
		// Tricks.
		"GET REPO/../other/issues", "GET REPO/%2e%2e/other/issues", "GET REPO/.%2e/other/issues",
		"GET REPO/%252e%252e/other/issues", "GET REPO/issues/12/labels/x%2F..%2F..%2F..%2Fother", "GET REPO/./hooks",
		"GET REPO//hooks", "GET REPO/issues/", `GET REPO/..\other`, "GET REPO/issues%00", "GET REPO/issues\n/12",
		"GET REPO/issues%0d%0aHost:evil", "GET REPO/issues%zz", "GET REPO/issues?state=all", "GET REPO/issues#1",
		"GET /repos/acme%2Fweb-shop/issues", "GET /repos%2Facme/web-shop/issues", "PATCH REPO/issues/12%2F..%2F..",
		"POST REPO/issues/12;x=1/comments", "POST REPO/Issues",
		// Secrets.
		"GET REPO/hooks", "GET REPO/HOOKS/1", "GET REPO/hooks%2F1", "GET REPO/secret-scanning/alerts",
		"GET REPO/actions/variables", "GET REPO/environments/x/secrets",
		"GET REPO/actions/organization-secrets", "GET REPO/actions/organization-variables",
		"GET REPO/agents/variables", "GET REPO/Agents/organization-variables",
		// What reaches beyond issues.
		"PATCH REPO",
		"DELETE REPO",
		"POST REPO/transfer",
		"PUT REPO/contents/README.md",
		"POST REPO/git/refs",
		"POST REPO/hooks",
		"POST REPO/keys", "PUT REPO/collaborators/mallory", "PUT REPO/actions/secrets/X", "POST REPO/dispatches",
		"POST REPO/actions/workflows/1/dispatches", "POST REPO/actions/runs/1/approve", "POST REPO/statuses/0123",
		"POST REPO/check-runs", "POST REPO/releases", "POST REPO/merges", "PUT REPO/pulls/3/merge",
		"PUT REPO/pulls/3/update-branch", "PUT REPO/pulls/3/reviews/1/dismissals", "PUT REPO/issues/12/lock",
		"DELETE REPO/labels/symphony", "DELETE REPO/issues/12", "POST REPO/issues/12", "POST REPO/issues/comments/5",
		"PUT REPO/branches/main/protection",
	} {
		method, path, _ := strings.Cut(strings.ReplaceAll(call, "REPO", "/repos/acme/web-shop"), " ")
		refused(method, path, "path_refused")
	}
	for _, method := range []string{"HEAD", "PATCH\r\nX: y", ""} {
		refused(method, "/repos/acme/web-shop", "invalid_input")
	}
}

// What the rules allow is sent as it was checked, with the marker in texts that people read as
// comments.
func TestToolSends(t *testing.T) {
	const marked = `\n\n<!-- symphony:agent -->`
	s, tool := toolOf(t)
	for _, c := range []struct{ args, sent string }{
		{`{"method": "GET", "path": "/repos/acme/web-shop"}`, "GET /repos/acme/web-shop"},
		{
			`{"method": " get ", "path": " /repos/ACME/Web-Shop/contents/a b/%C3%BC.go ", "params": null}`,
			"GET /repos/acme/web-shop/contents/a%20b/%C3%BC.go",
		},
		{
			`{"method": "GET", "path": "/repos/acme/web-shop/issues", "params": {"per_page": 50, ` +
				`"labels": ["a", "b&c"], "x": true, "n": null}}`,
			"GET /repos/acme/web-shop/issues?labels=a%2Cb%26c&per_page=50&x=true",
		},
		{
			`{"method": "GET", "path": "/repos/acme/web-shop/contents/hooks/secrets"}`,
			"GET /repos/acme/web-shop/contents/hooks/secrets",
		},
		{
			`{"method": "PATCH", "path": "/repos/acme/web-shop/issues/12", "body": {"state": ` +
				`"closed", "body": "<new> text"}}`,
			`PATCH /repos/acme/web-shop/issues/12 {"state":"closed","body":"<new> text"}`,
		},
		{
			`{"method": "PUT", "path": "/repos/acme/web-shop/issues/12/labels", "body": ["a"]}`,
			`PUT /repos/acme/web-shop/issues/12/labels ["a"]`,
		},
		{
			`{"method": "DELETE", "path": "/repos/acme/web-shop/issues/12/labels/area%2Fx; 100%25"}`,
			"DELETE /repos/acme/web-shop/issues/12/labels/area%2Fx%3B%20100%25",
		},
		{
			`{"method": "POST", "path": "/repos/acme/web-shop/issues/13/comments", "body": {"body": "done"}}`,
			`POST /repos/acme/web-shop/issues/13/comments {"body":"done` + marked + `"}`,
		},
		{
			`{"method": "POST", "path": "/repos/acme/web-shop/issues/13/comments", "body": ` +
				`{"body": "done` + marked + `\n"}}`,
			`POST /repos/acme/web-shop/issues/13/comments {"body":"done` + marked + `"}`,
		},
		{
			`{"method": "POST", "path": "/repos/acme/web-shop/issues/13/comments", "body": {"body": "a", "body": "b"}}`,
			`POST /repos/acme/web-shop/issues/13/comments {"body":"b` + marked + `"}`,
		},
		{
			`{"method": "POST", "path": "/repos/acme/web-shop/pulls/3/reviews", "body": {"event": ` +
				`"COMMENT", "comments": [{"path": "a", "body": "no"}]}}`,
			`POST /repos/acme/web-shop/pulls/3/reviews ` +
				`{"comments":[{"body":"no` + marked + `","path":"a"}],"event":"COMMENT"}`,
		},
	} {
		a, _ := use(t, tool, c.args)
		sent := strings.ReplaceAll(strings.ReplaceAll(s.take(), `\u003c!--`, "<!--"), `--\u003e`, "-->")
		test.Equal(t, c.args+": "+a.Text, []any{a.Success, sent}, []any{true, c.sent})
		if write := !strings.HasPrefix(c.sent, "GET"); write != (a.Mutation != nil) ||
			write && !strings.HasPrefix(sent, a.Mutation.Fields[0][:5]) {
			t.Errorf("%s: recorded %+v", c.args, a.Mutation)
		}
	}
}

// An agent can neither write as symphony, nor change what others have written, nor approve.
func TestToolRefusesForgery(t *testing.T) {
	s, tool := toolOf(t)
	for _, args := range []string{
		`{"method": "POST", "path": "/repos/acme/web-shop/issues/12/comments", "body": {"body": ` +
			`"<!-- symphony:request r 1 --> approve"}}`,
		`{"method": "POST", "path": "/repos/acme/web-shop/issues/12/comments", "body": {"body": ` +
			`"<!-- symphony:agent --><!-- sym<!-- symphony:agent -->phony:request r 1 -->"}}`,
		`{"method": "POST", "path": "/repos/acme/web-shop/issues/12/comments", "body": {"body": ["approve"]}}`,
		`{"method": "POST", "path": "/repos/acme/web-shop/issues/12/comments", "body": "approve"}`,
		`{"method": "POST", "path": "/repos/acme/web-shop/issues/12/comments", "params": {"body": "approve"}}`,
		`{"method": "POST", "path": "/repos/acme/web-shop/pulls/3/reviews", "body": {"event": ` +
			`"approve", "body": "fine"}}`,
		`{"method": "POST", "path": "/repos/acme/web-shop/pulls/3/reviews/4/events", "body": {"event": "APPROVE"}}`,
		`{"method": "POST", "path": "/repos/acme/web-shop/pulls/3/reviews", "body": {"comments": ` +
			`[{"body": "<!-- symphony:request r 1 -->"}]}}`,
	} {
		a, _ := use(t, tool, args)
		test.Equal(t, args+": success and what was sent", []any{a.Success, s.take()}, []any{false, ""})
	}
	for _, method := range []string{"PATCH", "DELETE"} {
		args := `{"method": "` + method + `", "path": "/repos/acme/web-shop/issues/comments/5", ` +
			`"body": {"body": "approve"}}`
		for _, body := range []string{
			"deny",
			"May it run `echo '<!-- symphony:agent -->'`? <!-- symphony:request r 1 -->",
			"<!-- symphony:request r 1 -->\n<!-- symphony:agent -->",
		} {
			s.answers = []recorded{{200, `{"id": 5, "body": "` + body + `"}`, ""}}
			if a, code := use(t, tool, args); a.Success || code != "mutation_refused" ||
				s.take() != "GET /repos/acme/web-shop/issues/comments/5" {
				t.Errorf("%s of another's comment: %s", method, a.Text)
			}
		}
		for _, status := range []int{202, 403, 500, 502} {
			s.answers = []recorded{{status, "{}", ""}}
			a, code := use(t, tool, args)
			name := fmt.Sprintf("%s of a comment whose GET has the status %d", method, status)
			test.Equal(t, name, []any{a.Success, code, s.take()},
				[]any{false, "mutation_refused", "GET /repos/acme/web-shop/issues/comments/5"})
		}
		for _, status := range []int{404, 410} {
			s.answers = []recorded{{status, "{}", ""}, {status, "{}", ""}}
			a, _ := use(t, tool, args)
			test.Equal(t, method+" of a comment that is gone", a.Success, false)
			test.Contains(t, "what was sent", s.take(), "\n"+method)
		}
		s.answers = []recorded{{200, `{"id": 5, "body": "plan <!-- symphony:agent -->"}`, ""}}
		if a, _ := use(t, tool, args); !a.Success ||
			!strings.Contains(s.take(), "\n"+method+" /repos/acme/web-shop/issues/comments/5") {
			t.Errorf("%s of an agent's comment: %s", method, a.Text)
		}
	}
}

func TestToolRecords(t *testing.T) {
	s, tool := toolOf(t)
	s.answers = []recorded{
		{201, `{"id": 77, "body": "done"}`, ""},
		{422, `{"message": "Validation Failed"}`, ""},
		{204, "", ""},
		{502, "no JSON " + testToken, ""},
	}
	comment := `{"method": "POST", "path": "/repos/acme/web-shop/issues/12/comments", "body": {"body": "done"}}`
	a, _ := use(t, tool, comment)
	m := a.Mutation
	if m.Fields[0] != "POST /repos/acme/web-shop/issues/12/comments" || len(m.Created) != 1 ||
		m.Created[0] != (reconcile.Created{
			Kind: "comment",
			ID:   "77",
		}) {
		t.Errorf("recorded %+v", m)
	}
	test.Equal(t, "the agent reads", a.Text, `{"status":201,"body":{"id":77,"body":"done"}}`)
	if a, _ := use(t, tool, comment); a.Success || a.Mutation.Success || a.Mutation.Created != nil ||
		!strings.Contains(a.Text, "422") {
		t.Errorf("refused by GitHub: %s %+v", a.Text, a.Mutation)
	}
	a, _ = use(t, tool, `{"method": "DELETE", "path": "/repos/acme/web-shop/issues/12/assignees"}`)
	test.Equal(t, "an empty answer", a.Text, `{"status":204,"body":null}`)
	a, _ = use(t, tool, `{"method": "GET", "path": "/repos/acme/web-shop"}`)
	test.Equal(t, "no JSON", a.Text, `{"status":502,"body":"no JSON [token]"}`)
	for args, want := range map[string][2]bool{ // changes the issue, describes it
		`{"method": "GET", "path": "/repos/acme/web-shop/issues/12"}`:                                 {false, false},
		`{"method": "PATCH", "path": "/repos/acme/web-shop/issues/12", "body": {"state":"closed"}}`:   {true, false},
		`{"method": "PATCH", "path": "/repos/acme/web-shop/issues/12", "body": {"body":"x"}}`:         {true, true},
		`{"method": "PATCH", "path": "/repos/acme/web-shop/issues/012", "body": {"b\u006fdy":"x"}}`:   {true, true},
		`{"method": "PATCH", "path": "/repos/acme/web-shop/issues/12", "body": {"title":"\"body\""}}`: {true, false},
		`{"method": "PATCH", "path": "/repos/acme/web-shop/issues/13", "body": {"body":"x"}}`:         {true, false},
		`{"method": "DELETE", "path": "/repos/acme/web-shop/issues/12/labels/comments"}`:              {true, false},
		`{"method": "POST", "path": "/repos/acme/web-shop/issues/12/labels", "body": ["x"]}`:          {true, false},
		comment: {false, false},
		`[]`:    {false, false},
	} {
		test.Equal(
			t,
			args,
			[2]bool{
				tool.ChangesIssue(json.RawMessage(args)),
				tool.Describes(runIssue, json.RawMessage(args)),
			},
			want,
		)
	}
}

func TestToolScopeRead(t *testing.T) {
	s, tool := toolOf(t, func(o *Options) { o.ReadOnly = true })
	a, code := use(
		t,
		tool,
		`{"method": "PATCH", "path": "/repos/acme/web-shop/issues/12", "body": {"state": "closed"}}`,
	)
	test.Equal(t, "refused", []string{code, s.take()}, []string{"mutation_refused", ""})
	test.Equal(t, "names the key: "+a.Text, strings.Contains(a.Text, "tool_scope: read"), true)
	a, _ = use(t, tool, `{"method": "GET", "path": "/repos/acme/web-shop/issues/12"}`)
	test.Equal(t, a.Text, a.Success, true)
}

func TestToolBudget(t *testing.T) {
	s, tool := toolOf(t, func(o *Options) { o.ToolBudget = 2 })
	const get = `{"method": "GET", "path": "/repos/acme/web-shop"}`
	for range 2 {
		a, _ := use(t, tool, get)
		test.Equal(t, a.Text, a.Success, true)
	}
	s.take()
	if a, code := use(t, tool, get); code != "tool_budget_exceeded" ||
		!strings.Contains(a.Text, "its 2 requests") ||
		s.take() != "" {
		t.Errorf("%s", a.Text)
	}
}

// The tool waits for the end of a short limit, and reports when a long one ends. It records
// the limit for passes.
func TestToolRateLimit(t *testing.T) {
	memory := &trackertest.Memory{}
	s, tool := toolOf(t, func(o *Options) {
		o.Memory = memory
		o.Now = time.Now
	})
	s.answers = []recorded{{403, `{"message": "You have exceeded a secondary rate limit."}`, ""}}
	const change = `{"method": "PATCH", "path": "/repos/acme/web-shop/issues/12", "body": {"state": "closed"}}`
	// Without times it lasts a minute, which is too long together with what has passed.
	a, code := use(t, tool, change)
	test.Equal(t, "the answer", []any{code, len(memory.Values)}, []any{"tracker_rate_limited", 1})
	test.Contains(t, "the answer", a.Text, "until 20")
	s.take()
	for key := range memory.Values {
		// by another process
		memory.Values[key] = fmt.Sprint(time.Now().Add(100 * time.Millisecond).UnixMilli())
	}
	_ = s
	tool = Tool(clientOf(t, serving(t, s.ServeHTTP), func(o *Options) {
		o.Repositories = []string{"acme/web-shop"}
		o.Memory = memory
		o.Now = time.Now
	}))
	if a, _ := use(t, tool, change); !a.Success || strings.Count(s.take(), "PATCH") != 1 {
		t.Errorf("%s", a.Text)
	}
}

// A renamed repository is followed. An issue that was transferred, and another host, are not.
func TestToolRedirects(t *testing.T) {
	s, tool := toolOf(t)
	const change = `{"method": "PATCH", "path": "/repos/acme/web-shop/issues/12", "body": {"state": "closed"}}`
	moved := recorded{307, `{"message": "Temporary Redirect"}`, "/repositories/7/issues/12"}
	s.answers = []recorded{moved, {200, `{"id": 7, "full_name": "acme/store"}`, ""}}
	if a, _ := use(t, tool, change); !a.Success ||
		!strings.HasSuffix(s.take(), "\nPATCH /repos/acme/store/issues/12 "+`{"state":"closed"}`) {
		t.Errorf("renamed: %s", a.Text)
	}
	s, tool = toolOf(t)
	s.answers = []recorded{moved, {200, `{"id": 8, "full_name": "acme/web-shop"}`, ""}}
	a, code := use(t, tool, change)
	test.Equal(
		t,
		"transferred",
		[]any{code, a.Mutation.Success, strings.Count(s.take(), "\n")},
		[]any{"github_moved", false, 1},
	)
	s.answers = []recorded{{302, "", "/somewhere"}}
	_, code = use(t, tool, `{"method": "GET", "path": "/repos/acme/web-shop/tarball"}`)
	test.Equal(t, "found", []any{code, s.take()}, []any{"github_moved", "GET /repos/acme/web-shop/tarball"})
}

// GitHub's own redirects: the tool follows a rename, which it remembers, and accepts the new
// name. It does not follow a transfer.
func TestToolAfterRename(t *testing.T) {
	s := &githubtest.Server{
		Repository: "acme/web-shop",
		Tokens:     []string{testToken},
		Check:      openapi.Check,
	}
	s.Start()
	t.Cleanup(s.Close)
	s.AddRepository("acme/other")
	for number := 1; number <= 12; number++ {
		test.Must(s.AddIssue(githubtest.Issue{Title: "x"}))
	}
	tool := Tool(clientOf(t, s.URL(), func(o *Options) { o.Repositories = []string{"acme/web-shop"} }))
	test.Must(s.Transfer("acme/web-shop#3", "acme/other"))
	_, code := use(
		t,
		tool,
		`{"method": "PATCH", "path": "/repos/acme/web-shop/issues/3", "body": {"state": "closed"}}`,
	)
	test.Equal(t, "transferred", code, "github_moved")
	test.OK(t, s.Rename("acme/web-shop", "acme/store"))
	for _, path := range []string{
		"/repos/acme/web-shop/issues/12",
		"/repos/acme/web-shop/issues/12",
		"/repos/acme/store/issues/12",
	} {
		s.ClearLog()
		if a, _ := use(t, tool, `{"method": "PATCH", "path": "`+path+`", "body": {"state": "closed"}}`); !a.Success {
			t.Errorf("renamed: %s", a.Text)
		}
	}
	test.Equal(t, "requests after a known rename", len(s.Log()), 1)
	_, code = use(t, tool, `{"method": "GET", "path": "/repos/acme/other/issues/1"}`)
	test.Equal(t, "another repository", code, "path_refused")
}

// With several repositories the tool is restricted to that of the run's issue, on a board to
// the item of this issue.
func TestToolPlaces(t *testing.T) {
	s, tool := toolOf(t, func(o *Options) {
		o.Repositories = []string{"acme/web-shop", "acme/api"}
		o.Project = "https://github.com/orgs/acme/projects/4/views/1"
	})
	issue := reconcile.Issue{ID: "acme/api#3", NativeRef: map[string]any{"item": "9"}}
	const board = "/orgs/acme/projectsV2/4"
	for _, c := range []struct{ method, path, sent string }{
		{"GET", "/repos/acme/web-shop/issues/3", ""},
		{"GET", "/repos/acme/api/issues/3", "GET /repos/acme/api/issues/3"},
		{"GET", board + "/fields", "GET " + board + "/fields"},
		{"GET", board + "/items/9", "GET " + board + "/items/9"},
		{"PATCH", board + "/items/9", "PATCH " + board + `/items/9 {"fields":[]}`},
		{"GET", board, ""},
		{"GET", board + "/items", ""},
		{"GET", board + "/items/8", ""},
		{"PATCH", board + "/items/8", ""},
		{"PATCH", board + "/items/", ""},
		{"PATCH", board + "/items/9%2f..%2f8", ""},
		{"POST", board + "/items", ""},
		{"DELETE", board + "/items/9", ""},
		{"POST", board + "/fields", ""},
		{"PATCH", "/orgs/acme/projectsV2/5/items/9", ""},
	} {
		a := tool.Call(
			t.Context(),
			issue,
			json.RawMessage(
				fmt.Sprintf(`{"method": %q, "path": %q, "body": {"fields": []}}`, c.method, c.path),
			),
		)
		test.Equal(t, c.method+" "+c.path+": "+a.Text, s.take(), c.sent)
	}
	if a := tool.Call(
		t.Context(),
		issue,
		json.RawMessage(`{"method": "GET", "path": "`+board+`/items"}`),
	); !strings.Contains(
		a.Text,
		board+"/items/9 ",
	) {
		t.Errorf("the agent does not learn the item of its issue: %s", a.Text)
	}
	if a := tool.Call(
		t.Context(),
		reconcile.Issue{ID: "3"},
		json.RawMessage(`{"method": "GET", "path": "/repos/acme/web-shop"}`),
	); a.Success {
		t.Error("an id without its repository was accepted")
	}
}

// A repository may be called as a part of a path is. A change of its issues is still seen.
func TestToolInRepositoryCalledIssues(t *testing.T) {
	for name, want := range map[string]struct {
		changes bool
		moves   []string
	}{
		`"PATCH", "path": "REPO/issues/12", "body": {"state": "closed"}`:             {true, []string{"closed"}},
		`"PATCH", "path": "REPO/issues/13", "body": {"state": "closed"}`:             {true, nil},
		`"POST", "path": "REPO/issues/12/comments", "body": {"body": "x"}`:           {false, nil},
		`"POST", "path": "REPO/issues/comments/12/reactions"`:                        {false, nil},
		`"POST", "path": "REPO/labels", "body": {"name": "x"}`:                       {false, nil},
		`"PATCH", "path": "REPO/labels/x", "body": {"new_name": "Human Review"}`:     {false, []string{"Human Review"}},
		`"PATCH", "path": "REPO/labels/todo", "body": {"new_name": "Later"}`:         {false, []string{"Later"}},
		`"PATCH", "path": "REPO/labels/x", "body": {"new_name": "y"}`:                {false, nil},
		`"PATCH", "path": "REPO/labels/human%20review", "body": {"color": "ffffff"}`: {false, nil},
	} {
		for _, repo := range []string{"acme/web-shop", "acme/issues", "acme/labels", "acme/comments", "repos/reactions"} {
			_, tool := toolOf(t, func(o *Options) {
				o.Repositories = []string{repo}
				o.StateLabels = []string{"Todo", "Human Review"}
			})
			args := json.RawMessage(`{"method": ` + strings.ReplaceAll(name, "REPO", "/repos/"+repo) + "}")
			moves := test.Must(tool.MovesTo(t.Context(), runIssue, args))
			test.Equal(t, string(args), []any{tool.ChangesIssue(args), moves}, []any{want.changes, want.moves})
		}
	}
}

// However the labels of an issue are written, a label that is a state is a move.
func TestToolMovesByLabels(t *testing.T) {
	s := newScene(t, func(o *Options) { o.StateLabels = []string{"Todo", "Human Review"} })
	s.add(githubtest.Issue{Labels: []string{"Todo"}})
	tool := Tool(s.client())
	for _, call := range []struct{ method, body, want string }{
		{"PUT", `"Human Review"`, "Human Review"},
		{"PUT", `["human review"]`, "Human Review"},
		{"PUT", `{"labels": "Human Review"}`, "Human Review"},
		{"PUT", `{"labels": ["bug", "Human Review"]}`, "Human Review"},
		{"PUT", `{"labels": [{"name": "Human Review"}]}`, "Human Review"},
		{"PUT", `{"labels": []}`, "open"},
		{"POST", `["Human Review"]`, "Todo"},
		{"DELETE", "null", "open"},
	} {
		args := fmt.Sprintf(`{"method": %q, "path": "/repos/%s/issues/1/labels", "body": %s}`,
			call.method, testRepo, call.body)
		states := test.Must(tool.MovesTo(t.Context(), reconcile.Issue{ID: "1"}, json.RawMessage(args)))
		test.Equal(t, call.method+" "+call.body, states, []string{call.want})
	}
}

// The agent moves its issue on GitHub's own board by the item that prompts have, and no other.
func TestToolMovesOnBoard(t *testing.T) {
	s := newScene(t, func(o *Options) { o.Project = "https://github.com/orgs/acme/projects/4" })
	s.SetBoard(githubtest.Board{
		Owner:   "acme",
		Number:  4,
		Title:   "Work",
		Columns: []string{"Todo", "Done"},
	})
	for range 2 {
		i := s.add(githubtest.Issue{})
		test.OK(t, s.Place(i.Ref(), "Todo"))
	}
	c := s.client()
	tool := Tool(c)
	found := test.Must(c.ByIDs(t.Context(), []string{"1", "2"}))
	call := func(method, path string, body any) reconcile.ToolAnswer {
		args := text.JSON(map[string]any{
			"method": method,
			"path":   "/orgs/acme/projectsV2/4/" + path,
			"body":   body,
		})
		return tool.Call(t.Context(), found["1"], args)
	}
	var fields struct {
		Body []struct {
			ID      int64
			Options []struct{ ID string }
		}
	}
	test.OK(t, json.Unmarshal([]byte(call("GET", "fields", nil).Text), &fields))
	done := map[string]any{"fields": []any{map[string]any{
		"id":    fields.Body[0].ID,
		"value": fields.Body[0].Options[1].ID,
	}}}
	for id, allowed := range map[string]bool{"1": true, "2": false} {
		test.Equal(
			t,
			"the item of issue "+id,
			call("PATCH", fmt.Sprint("items/", found[id].NativeRef["item"]), done).Success,
			allowed,
		)
	}
	for value, want := range map[string]string{
		fmt.Sprintf("%q", fields.Body[0].Options[1].ID): "Done",
		`"f00"`: "f00",
		"null":  "open",
	} {
		args := fmt.Sprintf(`{"method": "PATCH", "path": "/orgs/acme/projectsV2/4/items/%v", `+
			`"body": {"fields": [{"id": %d, "value": %s}]}}`,
			found["1"].NativeRef["item"], fields.Body[0].ID, value)
		states := test.Must(tool.MovesTo(t.Context(), found["1"], json.RawMessage(args)))
		test.Equal(t, "states after "+value, states, []string{want})
	}
	after := test.Must(c.ByIDs(t.Context(), []string{"1", "2"}))
	test.Equal(t, "columns", after["1"].State+" "+after["2"].State, "Done Todo")
}
