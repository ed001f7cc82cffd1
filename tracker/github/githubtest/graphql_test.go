package githubtest

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// query sends a GraphQL request and returns the answer.
func query(t *testing.T, s *Server, text string, vars ...any) string {
	t.Helper()
	given := map[string]any{}
	for n := 0; n < len(vars); n += 2 {
		given[vars[n].(string)] = vars[n+1]
	}
	body := test.Must(json.Marshal(map[string]any{"query": text, "variables": given}))
	r := ask(t, s, "POST /graphql "+string(body))
	test.Equal(t, "status", r.StatusCode, 200)
	test.Equal(t, "resource", r.Header.Get("X-RateLimit-Resource"), "graphql")
	return r.body
}

func TestBoard(t *testing.T) {
	t.Parallel()
	s := hub(t)
	s.SetBoard(Board{
		Owner:   "team",
		Number:  7,
		Title:   "Work",
		Columns: []string{"Todo", "Doing", "Done"},
	})
	test.OK(t, s.Move("1", "Doing"))
	test.OK(t, s.Place("2", ""))
	const text = `query($login: String!, $number: Int!) { owner: organization(login: $login) { projectV2(number: $number) {
  id title url
  fields(first: 100) { nodes { ... on ProjectV2SingleSelectField { name options { name } } } }
  items(first: 100) { nodes { isArchived fullDatabaseId
    fieldValueByName(name: "Status") { ... on ProjectV2ItemFieldSingleSelectValue { name } }
    content { __typename ... on Issue { number projectItems(first: 10) { nodes { project { url } } } } ... on PullRequest { title } }
  } pageInfo { hasNextPage } } } } }`
	got := query(t, s, text, "login", "team", "number", 7)
	test.Contains(
		t,
		"the answer",
		got,
		`"fields":{"nodes":[{},{"name":"Status","options":[{"name":"Todo"},{"name":"Doing"},{"name":"Done"}]}]}`,
		`"url":"https://github.com/orgs/team/projects/7"`,
		`"fieldValueByName":{"name":"Doing"}`,
		`"fieldValueByName":null`,
		`"number":1,"projectItems":{"nodes":[{"project":{"url":"`,
	)
	state := test.Must(s.State("1"))
	test.Equal(t, "state", state, "Doing")
	for _, c := range []struct{ login, number, want string }{
		{"team", "8", "a ProjectV2 with the number 8."}, {"none", "7", "an Organization with the login of 'none'."},
	} {
		got = query(t, s, text, "login", c.login, "number", json.Number(c.number))
		test.Contains(t, "the answer", got, "Could not resolve to "+c.want)
	}
	const items = "/orgs/team/projectsV2/7/items/"
	field := regexp.MustCompile(`"id":(\d+),"name":"Status".*"id":"(\w+)","name":\{"html":"Done"`).
		FindStringSubmatch(ask(t, s, "GET /orgs/team/projectsV2/7/fields").body)
	got = query(t, s, text, "login", "team", "number", 7)
	item := regexp.MustCompile(`"fullDatabaseId":"(\d+)"`).FindStringSubmatch(got)
	r := ask(t, s, "PATCH "+items+item[1]+` {"fields": [{"id": `+field[1]+`, "value": "`+field[2]+`"}]}`)
	test.Equal(t, "moved", r.StatusCode, 200)
	state = test.Must(s.State("1"))
	if state != "Done" || !strings.Contains(r.body, `"name":"Done"`) {
		t.Errorf("the item was moved to %q: %s", state, r.body)
	}
	test.Equal(t, "another board", ask(t, s, "PATCH /users/team/projectsV2/7/items/"+item[1]).StatusCode, 404)
	test.OK(t, s.Archive("1"))
	test.OK(t, s.Unplace("2"))
	got = query(t, s, text, "login", "team", "number", 7)
	test.Contains(t, "the answer", got, `"nodes":[],"pageInfo"`)
}

func TestGraphQLFailures(t *testing.T) {
	t.Parallel()
	s := hub(t)
	for kind, want := range map[string]string{
		FailRateLimit: `"type":"RATE_LIMIT"`,
		FailForbidden: `"type":"FORBIDDEN"`,
		FailScope:     `"type":"INSUFFICIENT_SCOPES"`,
		FailMalformed: `"number":null`,
	} {
		test.OK(t, s.Fail(Failure{Kind: kind, Field: "number"}))
		got := query(t, s, `{repository(owner: "team", name: "app") { issue(number: 1) { number } }}`)
		test.Contains(t, kind, got, want)
		s.ClearFailures()
	}
}
