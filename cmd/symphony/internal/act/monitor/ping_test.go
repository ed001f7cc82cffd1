package monitor

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/monitor/checktest"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// A check hears how a pass ended.
func TestPing(t *testing.T) {
	now := time.Now()
	s := checktest.New(time.Minute, time.Minute, func() time.Time { return now })
	defer s.Close()
	address := workflow.Secret(s.URL)
	for _, pass := range []struct {
		failed     bool
		kind, then string
	}{{false, "success", "up"}, {true, "fail", "down"}, {false, "success", "up"}} {
		test.OK(t, Report(address, pass.failed, "pass 7"))
		pings := s.Pings()
		test.Equal(t, "the ping", pings[len(pings)-1], checktest.Ping{Kind: pass.kind, Body: "pass 7"})
		test.Equal(t, "the check after "+pass.kind, s.Status(), pass.then)
	}
	now = now.Add(2*time.Minute + time.Second)
	test.Equal(t, "the check after the end of the pings", s.Status(), "down")
	test.OK(t, Check(t.Context(), address))
	test.Equal(t, "the check after a look at it", s.Status(), "down")
}

// A summary that is too long is cut between two characters.
func TestLongSummary(t *testing.T) {
	s := checktest.New(time.Minute, time.Minute, time.Now)
	defer s.Close()
	test.OK(t, Report(workflow.Secret(s.URL), true, "x"+strings.Repeat("é", longestBody)))
	pings := s.Pings()
	body := pings[len(pings)-1].Body
	test.Equal(t, "the end is whole", strings.HasSuffix(body, "é"), true)
	test.Equal(t, "its bytes", len(body), longestBody-1)
}

// Errors name no part of the URL, and a server that does not answer is given up.
func TestPingFails(t *testing.T) {
	s := checktest.New(time.Minute, time.Minute, time.Now)
	wants := func(address, want string) {
		t.Helper()
		err := Report(workflow.Secret(address), false, "pass 7")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "0123456789") {
			t.Errorf("%v, want %s", err, want)
		}
	}
	wants(s.URL+"x", "HTTP 404 Not Found")
	s.Refuse(http.StatusBadGateway)
	wants(s.URL, "HTTP 502 Bad Gateway")
	s.Refuse(0)
	s.Hang(true)
	wants(s.URL, "no answer within 3s")
	s.Close()
	wants(s.URL, "connection refused")
	wants("nothing", "not a URL")
}

// A server that repeats the URL in an answer that makes no sense does not bring it into the
// error.
func TestPingKeepsSecret(t *testing.T) {
	for _, path := range []string{"/ping/0123456789abcdefghijkl", "/0123456789/web-shop", "/short"} {
		for name, answer := range map[string]http.HandlerFunc{
			"redirect": func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "http://"+r.Host+r.URL.Path+"%zz")
				w.WriteHeader(http.StatusFound)
			},
			"no HTTP": func(w http.ResponseWriter, r *http.Request) {
				c, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					return
				}
				_, _ = c.Write([]byte("POST " + r.URL.Path + "\r\n\r\n"))
				_ = c.Close()
			},
		} {
			s := httptest.NewServer(answer)
			err := Report(workflow.Secret(s.URL+path), false, "")
			if err == nil || strings.Contains(err.Error(), strings.Trim(path, "/")) ||
				strings.Contains(err.Error(), s.URL+path) {
				t.Errorf("%s: %v", name, err)
			}
			s.Close()
		}
	}
}
