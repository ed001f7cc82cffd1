package web

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/test"
)

// An unknown address names the nearest known one.
func TestNearAddress(t *testing.T) {
	s, _, issue := withWorkspace(t)
	for asked, hint := range map[string]string{
		"GET /api/v1/stat":                 "did you mean /api/v1/state?",
		"GET /helthz":                      "did you mean /healthz? docs/",
		"POST /api/v1/refrsh":              "use GET, HEAD; or did you mean /api/v1/refresh?",
		"POST /api/v1/" + issue + "/retyr": "did you mean /api/v1/" + issue + "/retry? docs/",
		"POST /api/v1/" + issue + "/zebra": "docs/api.md lists the addresses",
		"POST /api/v1/state":               "use GET, HEAD",
		"GET /api/v1/NO-1":                 "GET /api/v1/state lists the known issues",
		"GET /nothing":                     "docs/api.md lists the addresses",
		"GET /api/v1/state?zebra=x":        "docs/api.md describes the request",
	} {
		method, path, _ := strings.Cut(asked, " ")
		w := visit(s, method, path, "")
		var answer term.ErrorJSON
		test.OK(t, json.Unmarshal(w.Body.Bytes(), &answer))
		if !strings.HasPrefix(answer.Error.Hint, hint) {
			t.Errorf("%s: the hint is %q, not %q", asked, answer.Error.Hint, hint)
		}
	}
}

// A wrong method of an address that is right is answered by the address once.
func TestMethodMeant(t *testing.T) {
	s, _, issue := withWorkspace(t)
	for _, path := range []string{"/api/v1/" + issue + "/hold", "/api/v1/pause", "/api/v1/R/approve"} {
		var answer term.ErrorJSON
		test.OK(t, json.Unmarshal(visit(s, "PUT", path, "").Body.Bytes(), &answer))
		test.Equal(t, "the hint about "+path, answer.Error.Hint, "use POST")
	}
}

// The token of the printed link lets a browser in. A program or a form that sends it gets an error that
// says so. So does a link with the token of programs.
func TestTokenOfLink(t *testing.T) {
	s, _, _ := withWorkspace(t)
	const said = "this is the token of the link, which lets a single browser in"
	link := "http://localhost/login?token=" + string(s.access.code)
	for _, given := range []string{string(s.access.code), link} {
		w := visit(s, "POST", "/api/v1/pause", "", "Authorization", "Bearer "+given)
		test.Equal(t, "status", w.Code, 401)
		test.Contains(t, "the answer", w.Body.String(), said)
		test.Contains(t, "the form", post(s, "/login", "token="+url.QueryEscape(given)).Body.String(), said)
	}
	answer := visit(s, "GET", "/login?token="+string(s.token), "", "Sec-Fetch-Mode", "navigate")
	test.Contains(t, "the other way round", answer.Body.String(), "this token works in no link")
}
