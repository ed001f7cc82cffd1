package lineartest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func started(t *testing.T, c Config) *Server {
	t.Helper()
	s := New(c)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

type reply struct {
	status int
	header http.Header
	body   string
}

func post(ctx context.Context, url, auth string, payload any) (reply, error) {
	b, err := json.Marshal(payload)
	if err != nil {
		return reply{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(b))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Authorization", auth)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, strings.TrimSpace(string(body))}, err
}

// ask sends a GraphQL document with the right key.
func ask(t *testing.T, s *Server, query string, vars map[string]any) reply {
	t.Helper()
	r, err := post(t.Context(), s.Endpoint(), s.Key(), map[string]any{"query": query, "variables": vars})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func wantBody(t *testing.T, r reply, want string) {
	t.Helper()
	if r.status != http.StatusOK || r.body != want {
		t.Errorf("HTTP %d %s\nwant     %s", r.status, r.body, want)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestAuthentication(t *testing.T) {
	for _, tc := range []struct {
		key, header string
		status      int
	}{
		{"lin_api_a", "lin_api_a", 200},
		{"lin_api_a", "Bearer lin_api_a", 400},
		{"lin_api_a", "lin_api_b", 401},
		{"lin_api_a", "", 401},
		{"lin_oauth_a", "Bearer lin_oauth_a", 200},
		{"lin_oauth_a", "lin_oauth_a", 401},
	} {
		s := started(t, Config{Key: tc.key})
		r, err := post(t.Context(), s.Endpoint(), tc.header, map[string]any{"query": "{ viewer { id } }"})
		if err != nil || r.status != tc.status || (tc.status != 200) != strings.Contains(r.body, `"code":"AUTHENTICATION_ERROR"`) {
			t.Errorf("key %s, header %q: HTTP %d %s %v", tc.key, tc.header, r.status, r.body, err)
		}
		if log := fmt.Sprintf("%+v", s.Log()); strings.Contains(log, tc.key) {
			t.Errorf("the key is in the log: %s", log)
		}
	}
}

func TestBadRequests(t *testing.T) {
	s := started(t, Config{})
	for name, tc := range map[string]struct {
		payload any
		want    string
	}{
		"no object":         {[]int{1}, "no JSON object"},
		"syntax":            {map[string]any{"query": "{ viewer "}, "errors"},
		"unknown field":     {map[string]any{"query": "{ viewer { nope } }"}, `Cannot query field \"nope\"`},
		"unknown argument":  {map[string]any{"query": "{ issues(nope: 1) { nodes { id } } }"}, "Unknown argument"},
		"missing variable":  {map[string]any{"query": "query($id: String!) { issue(id: $id) { id } }"}, "must be defined"},
		"wrong variable":    {map[string]any{"query": "query($id: String!) { issue(id: $id) { id } }", "variables": map[string]any{"id": []int{1}}}, "cannot use"},
		"no such operation": {map[string]any{"query": "query A { viewer { id } }", "operationName": "B"}, "operationName"},
		"which operation":   {map[string]any{"query": "query A { viewer { id } } query B { viewer { id } }"}, "operationName"},
		"too complex":       {map[string]any{"query": "{ issues(first: 250) { nodes { children(first: 250) { nodes { id } } } } }"}, "too complex"},
	} {
		r, err := post(t.Context(), s.Endpoint(), s.Key(), tc.payload)
		if err != nil || r.status != 400 || !strings.Contains(r.body, tc.want) || !strings.Contains(r.body, `"errors"`) {
			t.Errorf("%s: HTTP %d %s %v", name, r.status, r.body, err)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Endpoint(), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: HTTP %d %v", resp.StatusCode, err)
	}
}

func TestFailures(t *testing.T) {
	s := started(t, Config{Now: func() time.Time { return time.UnixMilli(1_000_000_000_000) }})
	must(s.AddIssue(Issue{Title: "One"}))
	fail := func(f Failure) {
		t.Helper()
		if err := s.Fail(f); err != nil {
			t.Fatal(err)
		}
	}
	const q = `query Mine { issues { nodes { id identifier } pageInfo { hasNextPage endCursor } } }`
	fail(Failure{Kind: FailStatus, Status: 503, Body: "busy", Times: 2})
	fail(Failure{Kind: FailGraphQL, Code: "X", Message: "oops"})
	for i, want := range []string{"busy", "busy", `{"message":"oops"`, `"hasNextPage":false`} {
		if r := ask(t, s, q, nil); !strings.Contains(r.body, want) {
			t.Errorf("request %d: %s, want %s", i, r.body, want)
		}
	}
	fail(Failure{Kind: FailStatus, Operation: "Mine", Skip: 1})
	fail(Failure{Kind: FailGarbage, Operation: "viewer"})
	for i, want := range []string{`"nodes"`, "", `"nodes"`} {
		if r := ask(t, s, q, nil); !strings.Contains(r.body, want) || (r.status == 500) != (i == 1) {
			t.Errorf("request %d: HTTP %d %s", i, r.status, r.body)
		}
	}
	if r := ask(t, s, "{ viewer { id } }", nil); json.Valid([]byte(r.body)) {
		t.Errorf("garbage is JSON: %s", r.body)
	}
	fail(Failure{Kind: FailRateLimit, ResetMS: 60000, RetryAfter: 7})
	r := ask(t, s, q, nil)
	if r.status != 400 || r.header.Get("X-RateLimit-Requests-Reset") != "1000000060000" || r.header.Get("Retry-After") != "7" || !strings.Contains(r.body, "RATELIMITED") {
		t.Errorf("rate limit: %+v", r)
	}
	fail(Failure{Kind: FailCursor})
	fail(Failure{Kind: FailRepeat})
	fail(Failure{Kind: FailMalformed})
	fail(Failure{Kind: FailSlow, DelayMS: 1})
	for _, want := range []string{`"hasNextPage":true,"endCursor":null`, `"hasNextPage":true,"endCursor":"b`, `"identifier":null`, `"ABC-1"`} {
		if r := ask(t, s, q, nil); !strings.Contains(r.body, want) {
			t.Errorf("%s, want %s", r.body, want)
		}
	}
	fail(Failure{Kind: FailStatus, Times: -1})
	for range 3 {
		if r := ask(t, s, q, nil); r.status != 500 {
			t.Errorf("HTTP %d", r.status)
		}
	}
	s.ClearFailures()
	if r := ask(t, s, q, nil); r.status != 200 {
		t.Errorf("after ClearFailures: HTTP %d", r.status)
	}
	if err := s.Fail(Failure{Kind: "nonsense"}); err == nil {
		t.Error("an unknown kind is accepted")
	}
	log := s.Log()
	if e := log[0]; e.Failure != FailStatus || e.Status != 503 || e.Operation != "Mine" || e.Type != "query" {
		t.Errorf("log: %+v", e)
	}
}

func TestHangingRequestsEndWithTheServer(t *testing.T) {
	s := New(Config{})
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if err := s.Fail(Failure{Kind: FailHang}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := post(context.Background(), s.Endpoint(), s.Key(), map[string]any{"query": "{ viewer { id } }"})
		ended <- err
	}()
	for deadline := time.Now().Add(10 * time.Second); len(s.Log()) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the request never came")
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a request that hangs was answered")
		}
	case <-time.After(10 * time.Second):
		t.Error("the request hangs on after Close")
	}
}

func TestStartRefusesOtherInterfaces(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", "192.0.2.1:0", "nonsense"} {
		if err := New(Config{Addr: addr}).Start(); err == nil {
			t.Errorf("%s is accepted", addr)
		}
	}
	s := started(t, Config{})
	if err := s.Start(); err == nil {
		t.Error("started twice")
	}
}
