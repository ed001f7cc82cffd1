package web

import (
	"encoding/json"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/test"
)

// A wrong method of an address that is right is answered by the address once.
func TestMethodMeant(t *testing.T) {
	s, _, issue := withWorkspace(t)
	for _, path := range []string{"/api/v1/" + issue + "/hold", "/api/v1/pause", "/api/v1/R/approve"} {
		var answer term.ErrorJSON
		test.OK(t, json.Unmarshal(visit(s, "PUT", path, "").Body.Bytes(), &answer))
		test.Equal(t, "the hint about "+path, answer.Error.Hint, "use POST")
	}
}

// The token of the printed link lets a browser in, and the other one works in no link.
func TestTokenOfLink(t *testing.T) {
	s, _, _ := withWorkspace(t)
	code := string(s.access.code)
	w := visit(s, "POST", "/api/v1/pause", "", "Authorization", "Bearer "+code)
	test.Equal(t, "status", w.Code, 401)
	test.Contains(t, "the answer", w.Body.String(), "this is not the token of the server")
	test.Contains(t, "the form", post(s, "/login", "token="+code).Body.String(), "this is not the token")
	answer := visit(s, "GET", "/login?token="+string(s.token), "", "Sec-Fetch-Mode", "navigate")
	test.Contains(t, "the other way round", answer.Body.String(), "this link is of another start")
}
