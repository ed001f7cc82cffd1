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

const issueQuery = `query Issues($owner: String!, $name: String!, $head: String!) {
  viewer { login }
  r0: repository(owner: $owner, name: $name) {
    nameWithOwner
    i0: issue(number: 1) { ...Fields }
    i1: issue(number: 9) { ...Fields }
    p0: pullRequests(headRefName: $head, first: 5, orderBy: {field: CREATED_AT, direction: DESC}) {
      nodes { url state isDraft reviewDecision commits(last: 1) { nodes { commit { statusCheckRollup { state } } } } }
    }
  }
}
fragment Fields on Issue {
  id fullDatabaseId number title body url state createdAt updatedAt
  repository { nameWithOwner }
  assignees(first: 20) { nodes { login } }
  labels(first: 100) { nodes { name } }
  comments(last: 1) { nodes { createdAt } }
  blockedBy(first: 50) { nodes { number state repository { nameWithOwner } } }
}`

func TestGraphQL(t *testing.T) {
	t.Parallel()
	s := hub(t)
	for _, text := range []string{"first", "last"} {
		test.Must(s.Comment("1", "kim", text))
	}
	test.Must(s.AddPull(Pull{Title: "Old", Branch: "work", Base: "main", State: "closed", Merged: true}))
	test.Must(s.AddPull(Pull{Title: "New", Branch: "work", Base: "main", Review: "APPROVED", Checks: "PENDING"}))
	test.OK(t, s.Rename("team/app", "team/web")) // which GraphQL follows
	got := query(t, s, issueQuery, "owner", "team", "name", "app", "head", "work")
	test.Contains(t, "the answer", got,
		`"nameWithOwner":"team/web"`, `"i1":null`, `"path":["r0","i1"],"message":"Could not resolve to an Issue with the number of 9."`,
		`"labels":{"nodes":[{"name":"Todo"},{"name":"bug"}]}`, `"comments":{"nodes":[{"createdAt":"2026-01-01T00:00:14Z"}]}`,
		`"blockedBy":{"nodes":[{"number":2,"repository":{"nameWithOwner":"team/web"},"state":"OPEN"}]}`,
		`"commits":{"nodes":[{"commit":{"statusCheckRollup":{"state":"PENDING"}}}]},"isDraft":false,"reviewDecision":"APPROVED","state":"OPEN"`,
		`"state":"MERGED"`,
	)
	got = query(t, s, `{repository(owner: "team", name: "none") { id }}`)
	test.Equal(t, "unknown repository", got, `{"data":{"repository":null},"errors":[{"type":"NOT_FOUND","path":["repository"],`+
		`"message":"Could not resolve to a Repository with the name 'team/none'."}]}`)
	got = query(t, s, `{repository(owner: "team", name: "web") { issues(first: 1, states: [OPEN]) { nodes { number } pageInfo { endCursor hasNextPage } } }}`)
	var first struct {
		Data struct {
			Repository struct {
				Issues struct {
					Nodes []struct{ Number int }
					Info  struct{ EndCursor string } `json:"pageInfo"`
				}
			}
		}
	}
	test.OK(t, json.Unmarshal([]byte(got), &first))
	test.Equal(t, "first page", first.Data.Repository.Issues.Nodes[0].Number, 1)
	got = query(t, s, `query($after: String){repository(owner: "team", name: "web") { issues(first: 1, after: $after) { nodes { number } } }}`,
		"after", first.Data.Repository.Issues.Info.EndCursor)
	test.Contains(t, "the second page", got, `"nodes":[{"number":2}]`)
	s.NoDependencies = true
	got = query(t, s, issueQuery, "owner", "team", "name", "web", "head", "work")
	test.Contains(t, "the answer of an older server", got, `"code":"undefinedField"`)
}

func TestBoard(t *testing.T) {
	t.Parallel()
	s := hub(t)
	s.SetBoard(Board{Owner: "team", Number: 7, Title: "Work", Columns: []string{"Todo", "Doing", "Done"}})
	test.Equal(t, "url", s.BoardURL(), "https://github.com/orgs/team/projects/7")
	test.OK(t, s.Move("1", "Doing"))
	test.OK(t, s.Place("2", ""))
	const text = `query($login: String!, $number: Int!) { owner: organization(login: $login) { projectV2(number: $number) {
  id title url
  fields(first: 100) { nodes { ... on ProjectV2SingleSelectField { name options { name } } } }
  items(first: 100) { nodes { isArchived
    fieldValueByName(name: "Status") { ... on ProjectV2ItemFieldSingleSelectValue { name } }
    content { __typename ... on Issue { number projectItems(first: 10) { nodes { project { url } } } } ... on PullRequest { title } }
  } pageInfo { hasNextPage } } } } }`
	got := query(t, s, text, "login", "team", "number", 7)
	test.Contains(t, "the answer", got,
		`"fields":{"nodes":[{},{"name":"Status","options":[{"name":"Todo"},{"name":"Doing"},{"name":"Done"}]}]}`,
		`"fieldValueByName":{"name":"Doing"}`, `"fieldValueByName":null`, `"number":1,"projectItems":{"nodes":[{"project":{"url":"`,
	)
	state := test.Must(s.State("1"))
	test.Equal(t, "state", state, "Doing")
	for _, c := range []struct{ login, number, want string }{
		{"team", "8", "a ProjectV2 with the number 8."}, {"none", "7", "an Organization with the login of 'none'."},
	} {
		got = query(t, s, text, "login", c.login, "number", json.Number(c.number))
		test.Contains(t, "the answer", got, "Could not resolve to "+c.want)
	}
	const items = "/orgs/team/projectsV2/7/items"
	field := regexp.MustCompile(`"id":(\d+),"name":"Status","node_id".*"id":"(\w+)","name":\{"html":"Done"`).
		FindStringSubmatch(ask(t, s, "GET /orgs/team/projectsV2/7/fields").body)
	item := regexp.MustCompile(`/items/(\d+)`).FindStringSubmatch(ask(t, s, "GET "+items).body)
	r := ask(t, s, "PATCH "+items+"/"+item[1]+` {"fields": [{"id": `+field[1]+`, "value": "`+field[2]+`"}]}`)
	test.Equal(t, "moved", r.StatusCode, 200)
	if state = test.Must(s.State("1")); state != "Done" || !strings.Contains(ask(t, s, "GET "+items+"/"+item[1]).body, `"name":"Done"`) {
		t.Errorf("the item was moved to %q: %s", state, r.body)
	}
	test.Equal(t, "another board", ask(t, s, "GET /users/team/projectsV2/7/items").StatusCode, 404)
	test.OK(t, s.Archive("1"))
	test.OK(t, s.Unplace("2"))
	got = query(t, s, text, "login", "team", "number", 7)
	test.Contains(t, "the answer", got, `"nodes":[],"pageInfo"`)
}

func TestGraphQLFailures(t *testing.T) {
	t.Parallel()
	s := hub(t)
	for kind, want := range map[string]string{
		FailRateLimit: `"type":"RATE_LIMIT"`, FailForbidden: `"type":"FORBIDDEN"`, FailScope: `"type":"INSUFFICIENT_SCOPES"`,
		FailMalformed: `"number":null`,
	} {
		test.OK(t, s.Fail(Failure{Kind: kind, Field: "number"}))
		got := query(t, s, `{repository(owner: "team", name: "app") { issue(number: 1) { number } }}`)
		test.Contains(t, kind, got, want)
		s.ClearFailures()
	}
}
