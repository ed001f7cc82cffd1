package githubtest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/tracker/github/githubtest/openapi"
)

func TestMistakes(t *testing.T) {
	t.Parallel()
	if os.Getenv(openapi.Variable) == "" || os.Getenv(SchemaVariable) == "" {
		t.Skip(openapi.Variable + " and " + SchemaVariable + " do not name GitHub's descriptions")
	}
	s := hub(t)
	reported := ""
	mistakes := 0
	s.Errorf = func(format string, args ...any) {
		reported = reported + fmt.Sprintf(format, args...)
		mistakes = mistakes + 1
	}
	for request, want := range map[string]string{
		"GET /repos/team/app/issues?per-page=3":                         "there is no parameter per-page",
		"GET /repos/team/app/issues?state=done":                         "state",
		"GET /repos/team/app/issues?since=today":                        "since",
		"PATCH /repos/team/app/issues/1 {\"state\": \"done\"}":          "state",
		"PATCH /repos/team/app/issues/1 {\"labels\": \"bug\"}":          "labels",
		"POST /repos/team/app/issues/1/comments {}":                     "body",
		`POST /graphql {"query": "{viewer {name login email2}}"}`:       "email2",
		`POST /graphql {"query": "query($n: Int!) {viewer {login}}"}`:   "n",
		`POST /graphql {"query": "{viewer {login"}`:                     "Expected Name",
		`POST /graphql {"query": "{viewer {login}}", "variable": null}`: "",
	} {
		reported = ""
		r := ask(t, s, request)
		if want == "" {
			test.Equal(t, request, r.StatusCode, 400)
		} else if r.StatusCode != mistake || !strings.Contains(reported, want) {
			t.Errorf("%s: %d, reported %q without %q", request, r.StatusCode, reported, want)
		}
	}
	test.Equal(t, "mistakes", mistakes, 9)

	// A wrong answer is a mistake too.
	test.OK(t, s.Edit("1", func(i *Issue) { i.Reason = "because" }))
	reported = ""
	test.Equal(t, "status", ask(t, s, "GET /repos/team/app/issues/1").StatusCode, mistake)
	test.Contains(t, "what was reported", reported, "state_reason")
	reported = ""
	test.Must(s.AddPull(Pull{Title: "Work", Branch: "work", Review: "MAYBE"}))
	ask(t, s, `POST /graphql {"query": "{repository(owner: \"team\", name: \"app\") `+
		`{pullRequests(first: 1, headRefName: \"work\") {nodes {reviewDecision}}}}"}`)
	test.Contains(t, "what was reported", reported, "reviewDecision is MAYBE, not PullRequestReviewDecision")
}
