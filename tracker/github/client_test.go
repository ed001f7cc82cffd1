package github

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/tracker/trackertest"
)

const testToken = "ghp_0123456789abcdefghij"

var testNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func clientOf(t *testing.T, endpoint string, change ...func(*Options)) *Client {
	t.Helper()
	o := Options{Options: transport.Options{
		Endpoint: endpoint,
		Key:      testToken,
		Now:      func() time.Time { return testNow },
	}}
	for _, f := range change {
		f(&o)
	}
	return test.Must(connect(o))
}

// serving returns the URL of a server that answers with handler.
func serving(t *testing.T, handler http.HandlerFunc) string {
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	return srv.URL
}

func wantCode(t *testing.T, err error, code string) *reconcile.Error {
	t.Helper()
	known, is := errors.AsType[*reconcile.Error](err)
	if !is || known.Code != code {
		t.Fatalf("error %v, want %s", err, code)
	}
	test.Lacks(
		t,
		"the error",
		fmt.Sprintf("%v %s %s %v", err, known.Message, known.Hint, known.Err),
		testToken,
	)
	return known
}

func TestConnectChecksOptions(t *testing.T) {
	for name, tc := range map[string]struct {
		o    transport.Options
		code string
	}{
		"no token":          {transport.Options{}, "missing_tracker_api_key"},
		"blank token":       {transport.Options{Key: " \n"}, "missing_tracker_api_key"},
		"line break":        {transport.Options{Key: "ghp_abc\nghp_def"}, "missing_tracker_api_key"},
		"quote of a dialog": {transport.Options{Key: "“" + testToken + "”"}, "missing_tracker_api_key"},
		"no URL": {transport.Options{
			Key:      testToken,
			Endpoint: "api.github.com",
		}, "tracker_setting_invalid"},
		"another protocol": {transport.Options{
			Key:      testToken,
			Endpoint: "ftp://api.github.com",
		}, "tracker_setting_invalid"},
		"token in the URL": {transport.Options{
			Key:      testToken,
			Endpoint: "https://" + testToken + "@api.github.com",
		}, "tracker_setting_invalid"},
		"query": {transport.Options{
			Key:      testToken,
			Endpoint: "https://api.github.com/?a=b",
		}, "tracker_setting_invalid"},
		"no CA": {transport.Options{
			Key:    testToken,
			CAFile: "/nonexistent.pem",
		}, "tracker_setting_invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			wantCode(t, test.Err(connect(Options{Options: tc.o})), tc.code)
		})
	}
	for endpoint, want := range map[string]string{
		"":                                "https://api.github.com/graphql",
		"https://api.github.com/":         "https://api.github.com/graphql",
		"https://ghe.example.com/api/v3/": "https://ghe.example.com/api/graphql",
		"http://127.0.0.1:1":              "http://127.0.0.1:1/graphql",
	} {
		test.Equal(t, "GraphQL of "+endpoint, clientOf(t, endpoint).GraphQLAddress, want)
	}
}

func TestStatuses(t *testing.T) {
	for name, tc := range map[string]struct {
		status     int
		body, hint string
		wraps      error
		said       string
	}{
		"refused token": {
			401,
			`{"message":"Bad credentials"}`,
			"check the GitHub token",
			nil,
			"HTTP 401: Bad credentials",
		},
		"missing scope": {
			403,
			`{"message":"Resource not accessible by personal access token"}`,
			"GITHUB_TOKEN",
			nil,
			"not accessible",
		},
		"not found": {404, `{"message":"Not Found"}`, "", reconcile.ErrGone, "HTTP 404"},
		"gone":      {410, `{"message":"This issue was deleted"}`, "", reconcile.ErrGone, "deleted"},
		"rejected":  {422, `{"message":"Validation Failed"}`, "", reconcile.ErrRejected, "Validation"},
		"server": {
			502,
			`<html>oops ` + testToken + `</html>`,
			"internal error",
			transport.ErrServer,
			"oops [token]",
		},
		"elsewhere":      {302, ``, "another host", nil, "it leads to http://other.example/"},
		"empty":          {500, ``, "internal error", transport.ErrServer, "(empty)"},
		"no rate limit!": {403, `{"message":"Must have admin rights"}`, "check the GitHub token", nil, "admin"},
	} {
		t.Run(name, func(t *testing.T) {
			c := clientOf(t, serving(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "http://other.example/")
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			}), func(o *Options) { o.KeySource = "GITHUB_TOKEN" })
			_, err := c.Do(t.Context(), http.MethodGet, "/repos/o/r", nil, nil)
			e := wantCode(t, err, "tracker_api_status")
			if !strings.Contains(e.Hint, tc.hint) || !strings.Contains(e.Message, tc.said) ||
				tc.wraps != nil && !errors.Is(err, tc.wraps) {
				t.Errorf("%v, hint %q, wraps %v", e, e.Hint, e.Err)
			}
		})
	}
}

// The token goes to the configured host only.
func TestRedirects(t *testing.T) {
	other := serving(
		t,
		func(http.ResponseWriter, *http.Request) { t.Error("the token was sent to another host") },
	)
	url := serving(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/repos/o/old":
			http.Redirect(w, r, "/repositories/1", http.StatusMovedPermanently)
		case "/repositories/1":
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s", r.Method, body)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		default:
			http.Redirect(w, r, other, http.StatusTemporaryRedirect)
		}
	})
	c := clientOf(t, url)
	a := test.Must(c.Do(t.Context(), http.MethodPatch, "/repos/o/old", nil, map[string]any{"a": 1}))
	test.Equal(
		t,
		"after a redirect",
		[]any{string(a.Body), a.URL},
		[]any{`PATCH {"a":1}`, url + "/repositories/1"},
	)
	for _, path := range []string{"/loop", "/elsewhere"} {
		wantCode(t, test.Err(c.Do(t.Context(), http.MethodGet, path, nil, nil)), "tracker_api_status")
	}
}

func TestNoAnswer(t *testing.T) {
	_, err := clientOf(t, "http://127.0.0.1:1").Do(t.Context(), http.MethodGet, "/user", nil, nil)
	wantCode(t, err, "tracker_api_request")
	c := clientOf(t, serving(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = c.Do(ctx, http.MethodGet, "/user", nil, nil)
	if e := wantCode(t, err, "tracker_api_request"); !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(e.Message, "no answer in time") {
		t.Error(e)
	}
	c = clientOf(
		t,
		serving(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "123456789") }),
	)
	wantCode(t, test.Err(c.Ask(t.Context(), transport.Request{
		Method: http.MethodGet,
		Path:   "/x",
		Limit:  8,
	})), "answer_too_large")
}

func TestGraphQLAnswers(t *testing.T) {
	type data struct {
		A *int `json:"a"`
	}
	for name, tc := range map[string]struct {
		body, code string
		missing    int
	}{
		"data": {`{"data":{"a":1}}`, "", 0},
		"missing": {
			`{"data":{"a":null},"errors":[{"type":"NOT_FOUND","message":"Could not resolve","path":["a"]}]}`,
			"",
			1,
		},
		"no data": {`{"errors":[{"type":"NOT_FOUND","message":"Could not resolve"}]}`, "tracker_graphql_errors", 0},
		"also others": {
			`{"data":{"a":null},"errors":[{"type":"NOT_FOUND"},{"message":"boom"}]}`,
			"tracker_graphql_errors",
			0,
		},
		"field": {
			`{"errors":[{"message":"Field 'x' doesn't exist","extensions":{"code":"undefinedField"}}]}`,
			"tracker_graphql_errors",
			0,
		},
		"shape":   {`{"data":{"a":"x"}}`, "tracker_unknown_payload", 0},
		"page":    {`<html>login</html>`, "tracker_unknown_payload", 0},
		"nothing": {`{}`, "tracker_unknown_payload", 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := clientOf(
				t,
				serving(
					t,
					func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, tc.body) },
				),
			)
			got, missing, err := graphQL[data](t.Context(), c.requests, "{a}", nil)
			if tc.code != "" {
				wantCode(t, err, tc.code)
			} else if err != nil || got == nil || len(missing) != tc.missing {
				t.Errorf("%v, %v, %v", got, missing, err)
			}
		})
	}
}

// fullDisk is a memory that stores nothing.
type fullDisk struct{ trackertest.Memory }

func (*fullDisk) SetMeta(context.Context, string, string) error { return errors.New("disk full") }

// A limit that can't be stored is still the error that people read.
func TestLimitThatIsNotStored(t *testing.T) {
	url := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "90")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	var warnings []string
	c := clientOf(t, url, func(o *Options) {
		o.Repositories = []string{"acme/web-shop"}
		o.Memory = &fullDisk{}
		o.Warn = func(text string) { warnings = append(warnings, text) }
	})
	_, err := c.Candidates(t.Context(), []string{"open"})
	wantCode(t, err, "tracker_rate_limited")
	test.Equal(t, "warnings", warnings, []string{
		"the end of GitHub's limit is not stored, so that other processes may reach it again: disk full",
	})
}

// If GitHub limits one process, all processes that share its memory send no request until the
// limit ends.
func TestLimits(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		header map[string]string
		body   string
		want   time.Duration
	}{
		"retry after": {429, map[string]string{"Retry-After": "90"}, `{}`, 90 * time.Second},
		"secondary": {
			403,
			map[string]string{"Retry-After": "30"},
			`{"message":"You have exceeded a secondary rate limit"}`,
			30 * time.Second,
		},
		"no time": {403, nil, `{"message":"You have exceeded a secondary rate limit"}`, time.Minute},
		"primary": {403, map[string]string{
			"X-RateLimit-Limit":     "5000",
			"X-RateLimit-Remaining": "0",
			"X-RateLimit-Reset":     fmt.Sprint(testNow.Add(20 * time.Minute).Unix()),
		}, `{"message":"API rate limit exceeded for user ID 1"}`, 20 * time.Minute},
		"left": {429, map[string]string{
			"X-RateLimit-Limit":     "5000",
			"X-RateLimit-Remaining": "7",
			"X-RateLimit-Reset":     "9999999999",
		}, ``, time.Minute},
		"far": {429, map[string]string{"Retry-After": "99999999"}, ``, 2 * time.Hour},
		"a date": {
			429,
			map[string]string{"Retry-After": testNow.Add(time.Hour).Format(http.TimeFormat)},
			``,
			time.Hour,
		},
		"GraphQL": {
			200,
			nil,
			`{"errors":[{"type":"RATE_LIMITED","message":"API rate limit exceeded"}]}`,
			time.Minute,
		},
		"GraphQL, 2": {200, nil, `{"errors":[{"message":"You have exceeded a secondary rate limit"}]}`, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			now := testNow
			limited := true
			url := serving(t, func(w http.ResponseWriter, _ *http.Request) {
				requests++
				if !limited {
					return
				}
				for k, v := range tc.header {
					w.Header().Set(k, v)
				}
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			})
			m := &trackertest.Memory{}
			options := func(o *Options) {
				o.Memory = m
				o.Now = func() time.Time { return now }
			}
			first := clientOf(t, url, options)
			second := clientOf(t, url, options)
			refused := func(c *Client) {
				t.Helper()
				_, err := c.Do(t.Context(), http.MethodGet, "/user", nil, nil)
				wantCode(t, err, "tracker_rate_limited")
				var limit reconcile.Limited
				test.Equal(
					t,
					"a limit and its end",
					[]any{errors.As(err, &limit), limit.ResetAt()},
					[]any{true, testNow.Add(tc.want)},
				)
			}
			refused(first)
			limited = false
			for range 3 {
				refused(first)
				refused(second)
			}
			now = testNow.Add(tc.want - time.Second)
			refused(second)
			test.Equal(t, "requests", requests, 1)
			test.Equal(t, "writes", m.Writes, 1)
			now = testNow.Add(tc.want)
			for _, c := range []*Client{first, second} {
				test.Must(c.Do(t.Context(), http.MethodGet, "/user", nil, nil))
			}
		})
	}
}

func TestForeignLimitIsIgnored(t *testing.T) {
	for _, stored := range []string{
		"",
		"soon",
		"99999999999999999",
		"-1",
		"9223372036854775807",
		fmt.Sprint(testNow.Add(3 * time.Hour).UnixMilli()),
	} {
		c := clientOf(t, serving(t, func(http.ResponseWriter, *http.Request) {}), func(o *Options) {
			o.Memory = &trackertest.Memory{Values: map[string]string{transport.LimitKey("tracker"): stored}}
		})
		if _, err := c.Do(t.Context(), http.MethodGet, "/user", nil, nil); err != nil {
			t.Errorf("with %q: %v", stored, err)
		}
	}
}

func TestBudgetIsTheScarcer(t *testing.T) {
	resource := "core"
	left := map[string]string{"core": "4000", "graphql": "250", "search": "0"}
	c := clientOf(t, serving(t, func(w http.ResponseWriter, _ *http.Request) {
		if resource == "" {
			return
		}
		for k, v := range map[string]string{
			"Limit":     "5000",
			"Remaining": left[resource],
			"Reset":     fmt.Sprint(testNow.Add(time.Hour).Unix()),
			"Resource":  resource,
		} {
			w.Header().Set("X-RateLimit-"+k, v)
		}
	}))
	for _, step := range []struct {
		resource string
		want     float64
	}{{"", 1}, {"core", 0.8}, {"graphql", 0.05}, {"search", 0.05}, {"core", 0.05}, {"", 0.05}} {
		resource = step.resource
		test.Must(c.Do(t.Context(), http.MethodGet, "/user", nil, nil))
		b := c.Budget()
		test.Equal(
			t,
			fmt.Sprintf("budget after %q", step.resource),
			[]any{b.Left, b.At},
			[]any{step.want, testNow},
		)
	}
	test.Equal(t, "low until", c.Budget().LowUntil(), testNow.Add(time.Hour))
}

// hook is a transport that calls before once: before the second request.
type hook struct {
	http.RoundTripper
	n      int
	before func()
}

func (h *hook) RoundTrip(r *http.Request) (*http.Response, error) {
	h.n++
	if h.n == 2 {
		h.before()
	}
	return h.RoundTripper.RoundTrip(r)
}
