package linear_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/linear"
	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/linear/lineartest/linearschema"
	"github.com/symphony-cron/symphony/reconcile"
)

// startLinear starts a fake Linear for the test.
func startLinear(t *testing.T, c lineartest.Config) *lineartest.Server {
	t.Helper()
	c.Validate = linearschema.Validate
	s := lineartest.New(c)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func newClient(t *testing.T, s *lineartest.Server, change ...func(*linear.Options)) *linear.Client {
	t.Helper()
	o := linear.Options{
		Options:     transport.Options{Endpoint: s.Endpoint(), Key: s.Key()},
		ProjectSlug: "demo",
		Assignee:    true,
	}
	for _, f := range change {
		f(&o)
	}
	return test.Must(linear.New(o))
}

func add(t *testing.T, s *lineartest.Server, i lineartest.Issue) lineartest.Issue {
	t.Helper()
	if i.Title == "" {
		i.Title = "Some work"
	}
	return test.Must(s.AddIssue(i))
}

// answering returns a client that gets the same answer to every request.
func answering(t *testing.T, status int, body string, header ...string) *linear.Client {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)
	now := func() time.Time { return testNow }
	return test.Must(linear.New(linear.Options{
		Options:     transport.Options{Endpoint: srv.URL, Key: testKey, Now: now},
		ProjectSlug: "demo",
	}))
}

func clientOf(url string) *linear.Client {
	return test.Must(linear.New(linear.Options{
		Options:     transport.Options{Endpoint: url, Key: testKey},
		ProjectSlug: "demo",
	}))
}

const testKey = "lin_api_secret0123456789"

var testNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// wantCode checks the code of an error, and that the error does not contain the key.
func wantCode(t *testing.T, err error, code string) *reconcile.Error {
	t.Helper()
	e, is := errors.AsType[*reconcile.Error](err)
	if !is {
		t.Fatalf("error %v (%T), want code %s", err, err, code)
	}
	if e.Code != code {
		t.Fatalf("error %v, want code %s", e, code)
	}
	for _, text := range []string{fmt.Sprintf("%v %+v", err, e), e.Hint, fmt.Sprint(e.Err)} {
		if strings.Contains(text, testKey) {
			t.Fatalf("the key is in %q", text)
		}
	}
	return e
}

func TestOptions(t *testing.T) {
	for name, tc := range map[string]struct{ key, slug, endpoint, code string }{
		"no key":                    {"  ", "x", "", "missing_tracker_api_key"},
		"line break":                {testKey + "\nx", "x", "", "missing_tracker_api_key"},
		"no slug":                   {testKey, " ", "", "missing_tracker_project_slug"},
		"url of an issue":           {testKey, "https://linear.app/x/issue/ABC-1", "", "missing_tracker_project_slug"},
		"no url":                    {testKey, "x", "linear", "tracker_setting_invalid"},
		"key as endpoint":           {testKey, "x", testKey, "tracker_setting_invalid"},
		"user in url":               {testKey, "x", "https://a:b@c/", "tracker_setting_invalid"},
		"line break behind the key": {testKey + "\n", "x", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := linear.New(linear.Options{
				Options:     transport.Options{Endpoint: tc.endpoint, Key: tc.key},
				ProjectSlug: tc.slug,
			})
			if tc.code != "" {
				wantCode(t, err, tc.code)
			} else {
				test.OK(t, err)
			}
		})
	}
}

func TestAuthorization(t *testing.T) {
	for key, want := range map[string]string{
		"lin_api_x":        "lin_api_x",
		"lin_oauth_y":      "Bearer lin_oauth_y",
		"something else":   "something else",
		"Bearer lin_api_z": "Bearer lin_api_z",
	} {
		var got string
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = r.Header.Get("Authorization")
			_, _ = io.WriteString(w, `{"data":{"issues":{"nodes":[]}}}`)
		}))
		c := test.Must(linear.New(linear.Options{
			Options:     transport.Options{Endpoint: srv.URL, Key: key},
			ProjectSlug: "demo",
		}))
		_, err := c.Candidates(context.Background(), []string{"Todo"})
		srv.Close()
		test.Equal(t, "sent for the key "+key, []any{err, got}, []any{nil, want})
	}
}

func TestErrors(t *testing.T) {
	graphql := func(code, message string) string {
		return fmt.Sprintf(`{"errors":[{"message":%q,"extensions":{"code":%q}}]}`, message, code)
	}
	for name, tc := range map[string]struct {
		status        int
		body          string
		code          string
		message, hint string
	}{
		"server fault": {
			503,
			"<html>\n<h1>busy</h1>",
			"linear_api_status",
			"HTTP 503: <html> <h1>busy</h1>",
			"next pass",
		},
		"bad key": {
			401,
			graphql("AUTHENTICATION_ERROR", "not authenticated"),
			"linear_api_status",
			"HTTP 401: not authenticated",
			"API key",
		},
		"bad key with 200": {
			200,
			graphql("AUTHENTICATION_ERROR", "no"),
			"linear_graphql_errors",
			"no",
			"API key",
		},
		"key as bearer": {
			400,
			graphql("", "trying to use an API key as a Bearer token"),
			"linear_api_status",
			"Bearer",
			"API key",
		},
		"wrong path": {404, "Not Found", "linear_api_status", "HTTP 404: Not Found", "check the path in tracker.endpoint"},
		"redirect":   {307, "", "linear_api_status", "HTTP 307", "redirect"},
		"many errors": {
			200,
			`{"errors":[{"message":"a"},{"message":"b"},{"message":"c"},{"message":"d"}]}`,
			"linear_graphql_errors",
			"a; b; c; and 1 more",
			"",
		},
		"errors and data": {
			200,
			`{"data":{"issues":{"nodes":[]}},"errors":[{"message":"partly"}]}`,
			"linear_graphql_errors",
			"partly",
			"",
		},
		"key in the error":        {200, graphql("X", "bad "+testKey), "linear_graphql_errors", "bad [key]", ""},
		"no JSON":                 {200, "<html>login</html>", "linear_unknown_payload", "<html>login</html>", "proxy"},
		"no data":                 {200, `{}`, "linear_unknown_payload", "the answer is not GraphQL: {}", ""},
		"no issues":               {200, `{"data":{}}`, "linear_unknown_payload", "no list", ""},
		"issues of another shape": {200, `{"data":{"issues":[1]}}`, "linear_unknown_payload", "shape", ""},
		"no cursor": {
			200,
			`{"data":{"issues":{"nodes":[],"pageInfo":{"hasNextPage":true}}}}`,
			"linear_missing_end_cursor",
			"no cursor",
			"",
		},
		"repeated cursor": {
			200,
			`{"data":{"issues":{"nodes":[],"pageInfo":{"hasNextPage":true,"endCursor":"x"}}}}`,
			"linear_missing_end_cursor",
			"repeats",
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := answering(t, tc.status, tc.body)
			e := wantCode(t, test.Err(c.Candidates(t.Context(), []string{"Todo"})), tc.code)
			if !strings.Contains(e.Message, tc.message) || len(e.Message) > 400 ||
				strings.ContainsAny(e.Message, "\n\r") {
				t.Errorf("message %q, want one line with %q", e.Message, tc.message)
			}
			if tc.hint != "" && !strings.Contains(e.Hint, tc.hint) {
				t.Errorf("hint %q, want one with %q", e.Hint, tc.hint)
			}
			wantCode(t, test.Err(c.ByIDs(t.Context(), []string{"i"})), tc.code)
		})
	}
}

func TestTransportErrors(t *testing.T) {
	s := startLinear(t, lineartest.Config{})
	c := newClient(t, s)
	test.OK(t, s.Fail(lineartest.Failure{Kind: lineartest.FailHang}))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := c.Candidates(ctx, []string{"Todo"})
	e := wantCode(t, err, "linear_api_request")
	test.ErrorIs(t, "after a hang", err, context.DeadlineExceeded)
	test.Contains(t, "after a hang", e.Message, "no answer in time")
	test.Must(c.Candidates(t.Context(), []string{"Todo"})) // the next request is answered
	_, err = clientOf("http://127.0.0.1:1/graphql").Candidates(t.Context(), []string{"Todo"})
	wantCode(t, err, "linear_api_request")
}

func TestRedirectDoesNotCarryTheKey(t *testing.T) {
	var reached bool
	other := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { reached = true }),
	)
	defer other.Close()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	defer srv.Close()
	wantCode(t, test.Err(clientOf(srv.URL).Candidates(t.Context(), []string{"Todo"})), "linear_api_status")
	test.Equal(t, "the redirect was followed", reached, false)
}

func TestLargeAnswerIsRefused(t *testing.T) {
	chunk := strings.Repeat(" ", 1<<20)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 65 {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
	}))
	defer srv.Close()
	_, err := clientOf(srv.URL).Candidates(t.Context(), []string{"Todo"})
	test.Contains(t, "the error", wantCode(t, err, "answer_too_large").Message, "more than 67108864 bytes")
}

// With tracker.ca_file a certificate of a private CA is trusted.
func TestCAFile(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"data":{"issues":{"nodes":[],"pageInfo":{"hasNextPage":false}}}}`)
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	test.OK(t, os.WriteFile(file, data, 0o600))
	ask := func(caFile string) error {
		c, err := linear.New(linear.Options{
			Options:     transport.Options{Endpoint: srv.URL, Key: testKey, CAFile: caFile},
			ProjectSlug: "x",
		})
		if err != nil {
			return err
		}
		_, err = c.Candidates(t.Context(), []string{"Todo"})
		return err
	}
	wantCode(t, ask(""), "linear_api_request")
	test.OK(t, ask(file))
	wantCode(t, ask(file+".missing"), "tracker_setting_invalid")
	test.OK(t, os.WriteFile(file, []byte("no certificate"), 0o600))
	test.Equal(
		t,
		"class",
		reconcile.ClassOf(wantCode(t, ask(file), "tracker_setting_invalid")),
		reconcile.ClassWorkflow,
	)
}

// A request times out after 30 s.
func TestRequestTimeout(t *testing.T) {
	for after, code := range map[time.Duration]string{
		30*time.Second - time.Millisecond: "",
		30*time.Second + time.Millisecond: "linear_api_request",
	} {
		synctest.Test(t, func(t *testing.T) {
			client, err := linear.New(linear.Options{ProjectSlug: "x", Options: transport.Options{
				Endpoint: "http://linear.example/graphql", Key: testKey, Transport: &canned{
					t:      t,
					takes:  after,
					status: http.StatusOK,
					bodies: []string{
						`{"data":{"issues":{"nodes":[],"pageInfo":{"hasNextPage":false,"endCursor":null}}}}`,
					},
				},
			}})
			test.OK(t, err)
			_, err = client.Candidates(t.Context(), []string{"Todo"})
			if code != "" {
				wantCode(t, err, code)
			} else {
				test.OK(t, err)
			}
		})
	}
}

func TestRateLimits(t *testing.T) {
	ms := func(d time.Duration) string { return strconv.FormatInt(testNow.Add(d).UnixMilli(), 10) }
	const limited = `{"errors":[{"message":"slow down","extensions":{"code":"RATELIMITED"}}]}`
	for name, tc := range map[string]struct {
		status int
		body   string
		header []string
		want   time.Duration
	}{
		"400 with requests used up": {400, limited, []string{
			"X-RateLimit-Requests-Remaining", "0", "X-RateLimit-Requests-Reset", ms(10 * time.Minute),
			"X-RateLimit-Complexity-Remaining", "5", "X-RateLimit-Complexity-Reset", ms(50 * time.Minute),
		}, 10 * time.Minute},
		"both used up": {400, limited, []string{
			"X-RateLimit-Requests-Remaining", "0", "X-RateLimit-Requests-Reset", ms(10 * time.Minute),
			"X-RateLimit-Complexity-Remaining", "0", "X-RateLimit-Complexity-Reset", ms(50 * time.Minute),
		}, 50 * time.Minute},
		"of one endpoint": {
			400,
			limited,
			[]string{
				"X-RateLimit-Endpoint-Requests-Remaining",
				"0",
				"X-RateLimit-Endpoint-Requests-Reset",
				ms(3 * time.Minute),
			},
			3 * time.Minute,
		},
		"200 with the code": {
			200,
			limited,
			[]string{"X-RateLimit-Requests-Reset", ms(2 * time.Minute)},
			2 * time.Minute,
		},
		"429 without a body": {429, "", nil, time.Minute},
		"Retry-After wins": {
			429,
			limited,
			[]string{
				"Retry-After",
				"90",
				"X-RateLimit-Requests-Remaining",
				"0",
				"X-RateLimit-Requests-Reset",
				ms(time.Hour),
			},
			90 * time.Second,
		},
		"Retry-After as a date": {
			429,
			"",
			[]string{"Retry-After", testNow.Add(2 * time.Minute).Format("Mon, 02 Jan 2006 15:04:05 GMT")},
			2 * time.Minute,
		},
		"Retry-After: 0 beside a reset": {
			429,
			limited,
			[]string{
				"Retry-After",
				"0",
				"X-RateLimit-Requests-Remaining",
				"0",
				"X-RateLimit-Requests-Reset",
				ms(time.Hour),
			},
			time.Hour,
		},
		"nonsense in Retry-After": {429, "", []string{"Retry-After", "soon"}, time.Minute},
		"400 without a body": {
			400,
			"",
			[]string{"X-RateLimit-Requests-Remaining", "0", "X-RateLimit-Requests-Reset", ms(5 * time.Minute)},
			5 * time.Minute,
		},
		"reset in seconds": {
			429,
			"",
			[]string{"X-RateLimit-Requests-Reset", strconv.FormatInt(testNow.Add(7*time.Minute).Unix(), 10)},
			7 * time.Minute,
		},
		"reset in the past": {429, "", []string{"X-RateLimit-Requests-Reset", ms(-time.Minute)}, time.Minute},
		"reset too far ahead": {
			429,
			"",
			[]string{"X-RateLimit-Requests-Reset", ms(100 * time.Hour)},
			2 * time.Hour,
		},
		"Retry-After too far ahead": {429, "", []string{"Retry-After", "99999999"}, 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			c := answering(t, tc.status, tc.body, tc.header...)
			_, err := c.Candidates(t.Context(), []string{"Todo"})
			wantCode(t, err, "tracker_rate_limited")
			r, is := errors.AsType[*transport.RateLimited](err)
			if !is {
				t.Fatalf("no RateLimited in %v", err)
			}
			test.Equal(t, "reset in", r.Reset.Sub(testNow), tc.want)
		})
	}
	_, err := answering(t, 400, `{"errors":[{"message":"bad","extensions":{"code":"INPUT_ERROR"}}]}`,
		"X-RateLimit-Requests-Remaining", "0").Candidates(t.Context(), []string{"Todo"})
	wantCode(t, err, "linear_api_status") // an invalid request may be the last one of an allowance
}

func TestLow(t *testing.T) {
	for _, tc := range []struct {
		requests, complexity int
		low                  bool
	}{
		{1000, 100000, false},
		{101, 10_100, false}, // the request uses one, and some points
		{99, 100000, true},
		{1000, 9000, true},
	} {
		t.Run(fmt.Sprint(tc), func(t *testing.T) {
			s := startLinear(t, lineartest.Config{
				RequestsPerHour:   1000,
				ComplexityPerHour: 100000,
				Now:               func() time.Time { return testNow },
			})
			s.SetRemaining(tc.requests, tc.complexity)
			now := testNow
			c := newClient(t, s, func(o *linear.Options) { o.Now = func() time.Time { return now } })
			low := func() bool { return now.Before(c.Budget().LowUntil()) }
			test.Equal(t, "low before the first answer", low(), false)
			if _, err := c.ByIdentifier(t.Context(), "ABC-1"); err == nil {
				t.Fatal("found an issue that is none")
			}
			b := c.Budget()
			test.Equal(t, "low", low(), tc.low)
			now = b.Reset
			if low() {
				t.Error("still low when the allowance is full again")
			}
		})
	}
}

func TestBudgetOfAnAnswerWithoutHeaders(t *testing.T) {
	s := startLinear(t, lineartest.Config{RequestsPerHour: 100})
	c := newClient(t, s)
	test.Must(c.Candidates(t.Context(), []string{"Todo"}))
	before := c.Budget()
	test.OK(t, s.Fail(lineartest.Failure{Kind: lineartest.FailStatus, Status: 502}))
	if _, err := c.Candidates(t.Context(), []string{"Todo"}); err == nil {
		t.Fatal("no error")
	}
	after := c.Budget()
	test.Equal(
		t,
		"budget",
		[]any{after.Left, after.Reset, before.Left < 1},
		[]any{before.Left, before.Reset, true},
	)
}
