package gitea

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	testRepo  = "acme/shop"
	testToken = "0123456789abcdef0123456789abcdef01234567"
)

// serve starts a server with the answers that Gitea can't be made to give, and returns an adapter
// to it.
func serve(t *testing.T, answer http.HandlerFunc) *reconcile.TrackerAdapter {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return test.Must(Adapter(Options{
		Options:      transport.Options{Endpoint: s.URL + "/api/v1", Key: testToken},
		Repositories: []string{testRepo},
	}))
}

// wireAt is an issue as Gitea answers it.
func wireAt(n int) string {
	return fmt.Sprintf(`{"number": %d, "title": "Work", "state": "open", `+
		`"created_at": "2026-03-01T12:00:00Z", "updated_at": "2026-03-01T12:00:00Z"}`, n)
}

// Each fault is an error that says what to do, for a list as for a single issue. No issue looks as
// if it were gone.
func TestFaults(t *testing.T) {
	answers := func(status int, body string, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	const noScope = `{"message": "token does not have at least one of required scope(s), required=[read:issue]"}`
	for name, c := range map[string]struct {
		answer  http.HandlerFunc
		code    string
		message string
		hint    string
	}{
		"a refused token": {
			answers(401, `{"message": "invalid username, password or token"}`),
			"tracker_api_status", "Gitea answers 401: invalid username", "check the Gitea token",
		},
		"a missing scope": {
			answers(403, noScope),
			"tracker_api_status", "required=[read:issue]", "the token needs the scope read:issue and access to acme/shop",
		},
		"a hidden repository": {
			answers(404, `{"message": "not found"}`),
			"tracker_project_not_found", `no issues of the repository "acme/shop"`, "check the name OWNER/NAME",
		},
		"a limit without a time":   {answers(429, ""), "tracker_rate_limited", "until ", "run passes less often"},
		"a limit with seconds":     {answers(429, "", "Retry-After", "90"), "tracker_rate_limited", "until ", ""},
		"a server that fails":      {answers(500, `{"message": ""}`), "tracker_api_status", "500", "internal error"},
		"a proxy without a server": {answers(503, "<html>"), "tracker_api_status", "503", "internal error"},
		"a page of a login":        {answers(200, "<html>Sign in"), unknownPayload, "Gitea", "a proxy or login page"},
		"an empty answer":          {answers(200, ""), unknownPayload, "", ""},
		"no list, no issue":        {answers(200, "null"), unknownPayload, "", ""},
		"another shape":            {answers(200, `"hello"`), unknownPayload, "", ""},
		"a redirect to another host": {
			answers(301, "", "Location", "https://other.example/api/v1/repos/acme/other/issues"),
			"tracker_api_status", "it leads to https://other.example", "the token is not sent to another host",
		},
		"a redirect in a circle": {
			func(w http.ResponseWriter, r *http.Request) {
				name := "/repos/acme/a"
				if strings.Contains(r.URL.Path, name) {
					name = "/repos/acme/b"
				}
				w.Header().Set("Location", "/api/v1"+name+"/issues")
				w.WriteHeader(301)
			},
			"tracker_api_status", "leads to no repository", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := serve(t, c.answer)
			check := func(what string, found int, err error) {
				t.Helper()
				e, is := errors.AsType[*reconcile.Error](err)
				if !is || found > 0 {
					t.Fatalf("%s: %d issues, error %v", what, found, err)
				}
				test.Equal(t, what, e.Code, c.code)
				test.Contains(t, what, e.Message, c.message)
				test.Contains(t, what, e.Hint, c.hint)
				test.Lacks(t, what, err.Error(), testToken)
				if errors.Is(err, reconcile.ErrGone) {
					t.Errorf("%s: it looks gone: %v", what, err)
				}
			}
			list, err := a.Candidates(t.Context(), []string{"open"})
			check("candidates", len(list), err)
			one, err := a.ByIDs(t.Context(), []string{"1"})
			check("by id", len(one), err)
		})
	}
}

// The end of a limit is the announced one, or else a minute from now.
func TestEndOfLimit(t *testing.T) {
	for after, want := range map[string]time.Duration{"": time.Minute, "90": 90 * time.Second} {
		a := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			if after != "" {
				w.Header().Set("Retry-After", after)
			}
			w.WriteHeader(http.StatusTooManyRequests)
		})
		began := time.Now()
		_, err := a.Candidates(t.Context(), []string{"open"})
		var limited reconcile.Limited
		if !errors.As(err, &limited) {
			t.Fatal(err)
		}
		end := limited.ResetAt().Sub(began)
		if end < want || end > want+test.Patience() {
			t.Errorf("Retry-After %q: the limit ends in %v, want %v", after, end, want)
		}
	}
}

// A list that never ends is given up, and a list whose pages are short is read to its end: a
// server may return fewer records than were asked for.
func TestPages(t *testing.T) {
	requests := 0
	last := 0
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/dependencies") {
			_, _ = io.WriteString(w, "[]")
			return
		}
		requests++
		n, _ := strconv.Atoi(r.URL.Query().Get("page"))
		if n != last {
			next := url.URL{Path: r.URL.Path, RawQuery: fmt.Sprint("page=", n+1)}
			w.Header().Set("Link", "<"+next.String()+`>; rel="next"`)
		}
		_, _ = io.WriteString(w, "["+wireAt(n)+"]")
	})
	_, err := a.Candidates(t.Context(), []string{"open"})
	e, is := errors.AsType[*reconcile.Error](err)
	if !is || e.Code != unknownPayload || requests > 1000 {
		t.Errorf("an endless list: %v after %d requests", err, requests)
	}
	last = 3
	found := test.Must(a.Candidates(t.Context(), []string{"open"}))
	ids := text.Map(found, func(i reconcile.Issue) string { return i.ID })
	test.Equal(t, "short pages", ids, []string{"3", "2", "1"})
}

// An answer about another issue, or a pull request under the number of an issue, is no issue.
func TestOtherAnswers(t *testing.T) {
	body := wireAt(2)
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/repos/"+testRepo {
			_, _ = io.WriteString(w, `{"full_name": "acme/shop", "has_issues": true}`)
			return
		}
		_, _ = io.WriteString(w, body)
	})
	_, err := a.ByIDs(t.Context(), []string{"1"})
	test.Contains(t, "another issue", fmt.Sprint(err), "the answer contains issue 2 of acme/shop instead of 1")
	body = strings.Replace(wireAt(1), `"state"`, `"pull_request": {"merged": false}, "state"`, 1)
	found := test.Must(a.ByIDs(t.Context(), []string{"1"}))
	test.Equal(t, "a pull request", len(found), 0)
	body = `{"number": 1, "title": "Work", "state": "strange", "updated_at": "2026-03-01T12:00:00Z"}`
	_, err = a.ByIDs(t.Context(), []string{"1"})
	test.Contains(t, "a strange state", fmt.Sprint(err), `issue "1" is malformed: state is "strange"`)
}

// Whoever copied a repository from another place has not written the comments there: they answer
// no request of an agent.
func TestCopiedComment(t *testing.T) {
	a := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode([]map[string]any{{
			"id":              5,
			"body":            "approve",
			"created_at":      "2026-03-01T12:00:00Z",
			"updated_at":      "2026-03-01T12:00:00Z",
			"user":            map[string]any{"id": 2, "login": "ann"},
			"original_author": "mallory",
		}})
	})
	list := test.Must(a.Comments(t.Context(), "1", time.Time{}))
	test.Equal(t, "author", []any{list[0].Author, len(list[0].AuthorIDs)}, []any{"mallory", 0})
}

// The names of repositories are checked before anything is sent.
func TestNamesOfRepositories(t *testing.T) {
	for _, names := range [][]string{nil, {"shop"}, {"acme/"}, {"acme/.."}, {"acme/a b"}, {"acme/a/b"}} {
		_, err := Adapter(Options{
			Options:      transport.Options{Endpoint: "http://127.0.0.1:1/api/v1", Key: testToken},
			Repositories: names,
		})
		test.Contains(t, fmt.Sprint(names), fmt.Sprint(err), "missing_tracker_project_slug")
	}
}
