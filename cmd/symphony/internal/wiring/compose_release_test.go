package wiring

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

func TestNewestRelease(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		body, want string
	}{
		"a VERSION file":    {200, "v1.3.0-rc.1\nmore\n", "v1.3.0-rc.1"},
		"a file of Windows": {200, "v1.3.0\r\nmore\r\n", "v1.3.0"},
		"a page": {
			200,
			"<html>v1.3.0",
			"failed: SYMPHONY_RELEASES: the answer has no version like v1.2.3",
		},
		"JSON": {
			200,
			`{"message": "v1.3.0"}`,
			"failed: SYMPHONY_RELEASES: the answer has no version like v1.2.3",
		},
		"no such release": {404, "v1.3.0", "failed: SYMPHONY_RELEASES: HTTP 404 Not Found"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		}))
		got, err := NewestRelease(t.Context(), server.URL+"/secret")
		if err != nil {
			got = err.Error()
		}
		test.Equal(t, name, got, c.want)
		server.Close()
		if _, err = NewestRelease(t.Context(), server.URL+"/secret"); err == nil ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: without a server: %v", name, err)
		}
	}
}

func TestOlderThan(t *testing.T) {
	for version, want := range map[string]bool{
		"v1.2.3":                               true,
		"v1.3.0-rc.1":                          true,
		"v1.3.0":                               false,
		"v1.10.0":                              false,
		"devel":                                true,
		"v1.3.1-0.20260102030405-4be0a1f0c6a2": false,
	} {
		test.Equal(t, version, Build{Version: version}.OlderThan("v1.3.0"), want)
	}
}
