//go:build linux && !race

// Package webtest compares the server's answers with its OpenAPI document. The tests of
// package web do without its library.
package webtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/web"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/state/statetest"
)

const token = "0123456789abcdef"

// place makes a project with claims of all kinds, runs and passes.
func place(t *testing.T, name string, settings string) web.Place {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	p := web.Place{
		Workflow: filepath.Join(dir, "WORKFLOW.md"),
		StateDir: filepath.Join(dir, "state"),
	}
	test.OK(t, statetest.Large(t.Context(), p.StateDir, time.Now(), statetest.Size{
		Claims: 100,
		Runs:   60,
		Passes: 30,
	}))
	test.OK(
		t,
		os.WriteFile(
			p.Workflow,
			[]byte(
				"---\ntracker:\n  kind: file\n  provider:\n    path: "+dir+"/tasks\nworkspace:\n  "+
					"root: "+dir+"/ws\n"+settings+"---\nWork.\n",
			),
			0o600,
		),
	)
	return p
}

// serve starts a server and returns its address.
func serve(t *testing.T, places ...web.Place) string {
	t.Helper()
	home := t.TempDir()
	w := &environ.Env{Environ: []string{"TMPDIR=" + home}, Dir: home, Home: home, Now: time.Now}
	s := test.Must(web.New(t.Context(), w, web.Options{Places: places, Token: token}))
	var said strings.Builder
	s.Announce(func(line string) { said.WriteString(line + "\n") }, false)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		test.OK(t, <-done)
	})
	_, address, _ := strings.Cut(said.String(), "serving at ")
	address, _, _ = strings.Cut(address, "/\n")
	return address
}

// send sends a request and returns the answer with the whole body.
func send(t *testing.T, r *http.Request) (*http.Response, []byte) {
	t.Helper()
	answer := test.Must(http.DefaultClient.Do(r))
	defer answer.Body.Close()
	body := test.Must(io.ReadAll(answer.Body))
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return answer, body
}

// The document is a valid one, and requests and answers of each kind match it.
func TestAnswersAreAsDocumented(t *testing.T) {
	one := place(t, "web", "")
	other := place(t, "api", "agent:\n  budget_per_day: 1M\n")
	empty := web.Place{Workflow: other.Workflow, StateDir: t.TempDir()}
	single := serve(t, one)
	several := serve(t, one, other)
	none := serve(t, empty)
	request := test.Must(http.NewRequestWithContext(t.Context(), "GET", single+"/api/v1/openapi.json", nil))
	answer, text := send(t, request) //nolint:bodyclose // send has closed it
	test.Equal(t, "status", answer.StatusCode, 200)
	openapi3filter.RegisterBodyDecoder("application/jsonl", openapi3filter.FileBodyDecoder)
	document := test.Must(openapi3.NewLoader().LoadFromData(text))
	document.Servers = nil                          // any address
	router := test.Must(legacy.NewRouter(document)) // which validates the document
	for _, c := range []struct {
		server, method, path, body string
		token                      string
		status                     int
		has                        string // in the body
	}{
		{single, "GET", "/api/v1/state", "", "", 200, `"retrying":[{`},
		{several, "GET", "/api/v1/state", "", "", 200, `"projects":[{`},
		{several, "GET", "/api/v1/state?project=api", "", "", 200, `"budget":{"budget":"1M tokens"`},
		{several, "GET", "/api/v1/state?project=x", "", "", 404, `"not_found"`},
		{none, "GET", "/api/v1/state", "", "", 503, `"snapshot_unavailable"`},
		{single, "GET", "/api/v1/ABC-1", "", "", 200, `"issue_identifier":"ABC-1"`},
		{single, "GET", "/api/v1/abc-2", "", "", 200, `"restart_count":`},
		{several, "GET", "/api/v1/ABC-10", "", "", 409, `"ambiguous"`},
		{several, "GET", "/api/v1/ABC-10?project=web", "", "", 200, `"timeline":[`},
		{single, "GET", "/api/v1/ABC-9999", "", "", 404, `"issue_not_found"`},
		{none, "GET", "/api/v1/ABC-1", "", "", 503, `"snapshot_unavailable"`},
		{single, "GET", "/api/v1/ABC-2/diff", "", "", 401, `"unauthorized"`},
		{single, "GET", "/api/v1/ABC-2/diff", "", token, 404, `"not_found"`},
		{single, "GET", "/api/v1/ABC-2/log", "", "", 401, `"unauthorized"`},
		{single, "GET", "/api/v1/ABC-2/log", "", token, 200, ""},
		{single, "GET", "/api/v1/ABC-2/log?run=none", "", token, 404, `"not_found"`},
		{several, "GET", "/api/v1/ABC-2/log", "", token, 409, `"ambiguous"`},
		{single, "GET", "/api/v1/results?limit=2", "", "", 200, `"next":2`},
		{single, "GET", "/api/v1/results?text=abc-10&text=x&label=bug&outcome=held", "", "", 200, `"outcome":"held"`},
		{several, "GET", "/api/v1/results?from=3&limit=2&since=2026-01-01", "", "", 200, `"from":3,"next":5`},
		{several, "GET", "/api/v1/results?project=x", "", "", 404, `"not_found"`},
		{single, "GET", "/api/v1/results?since=never", "", "", 400, "since needs an age"},
		{none, "GET", "/api/v1/results", "", "", 503, `"snapshot_unavailable"`},
		{single, "GET", "/api/v1/openapi.json", "", "", 200, `"3.1.0"`},
		{single, "GET", "/healthz", "", "", 200, `"ok"`},
		{single, "GET", "/metrics", "", "", 200, "# TYPE "},
		{single, "POST", "/api/v1/refresh", "", "", 401, `"unauthorized"`},
		{single, "POST", "/api/v1/ABC-1/stop", "", "wrong", 401, `"unauthorized"`},
		{several, "POST", "/api/v1/pause", "", token, 400, "project"},
		{several, "POST", "/api/v1/resume?project=x", "", token, 404, `"not_found"`},
		{single, "POST", "/api/v1/ABC-1.1/tell", `{}`, token, 400, "missing"},
		{
			single,
			"POST",
			"/api/v1/several",
			`{"verb": "retry", "targets": [{"name": "ABC-9999"}]}`,
			token,
			200,
			`"outcome":"failed"`,
		},
		{
			several,
			"POST",
			"/api/v1/several",
			`{"verb": "hold", "targets": [{"name": "ABC-10"}]}`,
			token,
			409,
			`"ambiguous"`,
		},
		{several, "POST", "/api/v1/ABC-1.1/deny", `{"reason": "no"}`, token, 409, `"ambiguous"`},
	} {
		newRequest := func() *http.Request {
			r := test.Must(
				http.NewRequestWithContext(t.Context(), c.method, c.server+c.path, strings.NewReader(c.body)),
			)
			if c.body != "" {
				r.Header.Set("Content-Type", "application/json")
			}
			if c.token != "" {
				r.Header.Set("Authorization", "Bearer "+c.token)
			}
			return r
		}
		answer, body := send(t, newRequest()) //nolint:bodyclose // send has closed it
		test.Equal(t, c.method+" "+c.path, answer.StatusCode, c.status)
		test.Contains(t, c.method+" "+c.path, string(body), c.has)
		checkDocumented(t, router, newRequest(), answer, c.token == "" && c.status != http.StatusUnauthorized)
	}
}

// checkDocumented checks that a request and its answer are as the document says. An anonymous
// request must need no token.
func checkDocumented(
	t *testing.T,
	router routers.Router,
	r *http.Request,
	answer *http.Response,
	anonymous bool,
) {
	t.Helper()
	route, params, err := router.FindRoute(r)
	test.OK(t, err)
	input := &openapi3filter.RequestValidationInput{
		Request:    r,
		Route:      route,
		PathParams: params,
		Options: &openapi3filter.Options{
			IncludeResponseStatus: true,
			AuthenticationFunc: func(context.Context, *openapi3filter.AuthenticationInput) error {
				if anonymous {
					return errors.New("it needs a token")
				}
				return nil
			},
		},
	}
	if err := openapi3filter.ValidateRequest(t.Context(), input); err != nil {
		t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	answered := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input,
		Status:                 answer.StatusCode,
		Header:                 answer.Header,
		Body:                   answer.Body,
	}
	if err := openapi3filter.ValidateResponse(t.Context(), answered); err != nil {
		t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
	}
}
