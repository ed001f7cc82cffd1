package web

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/test"
)

// An unknown address names the one that was probably meant.
func TestAddressMeant(t *testing.T) {
	s, _, issue := withWorkspace(t)
	for asked, hint := range map[string]string{
		"GET /api/v1/stat":                      "did you mean GET /api/v1/state?",
		"GET /api/v2/state":                     "did you mean GET /api/v1/state? docs/",
		"GET /state/":                           "did you mean GET /api/v1/state? docs/",
		"GET /api/v1/status":                    "did you mean GET /api/v1/state?",
		"GET /api/v1/issues":                    "did you mean GET /api/v1/state?",
		"GET /api/v1/metrics":                   "did you mean GET /metrics?",
		"GET /health":                           "did you mean GET /healthz? docs/",
		"GET /api/v1/refrsh":                    "did you mean POST /api/v1/refresh?",
		"POST /api/v1/refrsh":                   "use GET, HEAD; or did you mean POST /api/v1/refresh?",
		"POST /api/v1/tick":                     "use GET, HEAD; or did you mean POST /api/v1/refresh?",
		"POST /api/v1/" + issue + "/retyr":      "did you mean POST /api/v1/" + issue + "/retry? docs/",
		"GET /api/v1/issues/" + issue + "/diff": "did you mean GET /api/v1/" + issue + "/diff? docs/",
		"GET /api/v1/issues/" + issue:           "the issue is at /api/v1/" + issue + "; docs/",
		"POST /api/v1/state":                    "use GET, HEAD",
		"GET /api/v1/NO-1":                      "GET /api/v1/state lists the known issues",
		"GET /nothing":                          "docs/api.md lists the addresses",
		"POST /api/v1/" + issue + "/zebra":      "about an issue there are GET /api/v1/ISSUE/log, /diff, POST /api/v1/ISSUE/stop, ",
		"POST /api/v1/stop":                     "use GET, HEAD; or did you mean POST /api/v1/ISSUE/stop?",
		"POST /api/v1/" + issue + "/cancel":     "did you mean POST /api/v1/" + issue + "/stop?",
		"POST /api/v1/" + issue + "/pause":      "did you mean POST /api/v1/" + issue + "/hold?",
		"GET /issue/" + issue:                   "did you mean /issues/",
		"GET /api/v1/state?status=held":         "the answer has all issues: choose among .issues by their status, state and title; GET /api/v1/results",
		"GET /api/v1/state?label=docs":          "the answer has all issues: ",
		"GET /api/v1/state?zebra=x":             "docs/api.md describes the request",
		"GET /" + issue:                         "did you mean /issues/",
		"GET /api/v1/state?limit=5":             "the answer has all issues: ",
		"GET /api/v1/":                          "GET /api/v1/openapi.json describes the addresses",
		"GET /readyz":                           "did you mean GET /healthz?",
		"GET /api/v1/projects/web":              "did you mean GET /api/v1/state?project=web?",
		"POST /api/v1/" + issue + "/run":        "POST /api/v1/refresh runs a pass",
		"POST /api/v1/run":                      "POST /api/v1/refresh runs a pass",
		"PATCH /api/v1/" + issue:                "an issue is changed in its tracker; about the work on it there are GET",
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
	for _, path := range []string{"/api/v1/" + issue + "/hold", "/api/v1/pause", "/api/v1/requests/R/approve"} {
		var answer term.ErrorJSON
		test.OK(t, json.Unmarshal(visit(s, "PUT", path, "").Body.Bytes(), &answer))
		test.Equal(t, "the hint about "+path, answer.Error.Hint, "use POST")
	}
}

// What is elsewhere is named where it is looked for.
func TestOtherPlaces(t *testing.T) {
	s, _, _ := withWorkspace(t)
	answer := visit(s, "POST", "/api/v1/issues", "{}").Body.String()
	test.Contains(t, "the answer", answer, "symphony issues new TITLE")
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
