package lineartest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/linear/lineartest/linearschema"
)

func started(t *testing.T, c lineartest.Config) *lineartest.Server {
	t.Helper()
	c.Validate = linearschema.Validate
	s := lineartest.New(c)
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

func post(t *testing.T, url, key, body string) (status int, header http.Header, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err.Error()
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, strings.TrimSpace(string(data))
}

func ask(t *testing.T, s *lineartest.Server, query string, variables map[string]any) (status int, header http.Header, text string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		t.Fatal(err)
	}
	return post(t, s.Endpoint(), s.Key(), string(body))
}

func TestQueries(t *testing.T) {
	s := started(t, lineartest.Config{})
	text := "Do it"
	for _, i := range []lineartest.Issue{
		{Title: "One", Description: &text, Labels: []string{"bug", "New"}, Assignee: "me", Priority: 2},
		{Title: "Two", BlockedBy: []string{"ABC-1"}, State: "In Progress"},
		{Title: "Old", Archived: true},
		{Title: "Other", Project: "none"},
	} {
		if _, err := s.AddIssue(i); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Comment("ABC-1", "kim@example.com", "Hi"); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		`{ me: viewer { ...U ... on User { name } } } fragment U on User { __typename email @skip(if: true) }`:                                 `{"me":{"__typename":"User","name":"Robin Doe"}}`,
		`{ issue(id: "abc-1") { description priority labels { nodes { name } } assignee { isMe } comments { nodes { user { name } } } } }`:     `{"issue":{"assignee":{"isMe":true},"comments":{"nodes":[{"user":{"name":"Kim Poe"}}]},"description":"Do it","labels":{"nodes":[{"name":"New"},{"name":"Bug"}]},"priority":2}}`,
		`{ issue(id: "ABC-2") { inverseRelations { nodes { type issue { identifier state { name } } } } } }`:                                   `{"issue":{"inverseRelations":{"nodes":[{"issue":{"identifier":"ABC-1","state":{"name":"Todo"}},"type":"blocks"}]}}}`,
		`{ issues(filter: {project: {slugId: {eq: "demo"}}}) { nodes { identifier } } }`:                                                       `{"issues":{"nodes":[{"identifier":"ABC-2"},{"identifier":"ABC-1"}]}}`,
		`{ issues(includeArchived: true, filter: {or: [{title: {eqIgnoreCase: "OLD"}}, {labels: {name: {eq: "Bug"}}}]}) { nodes { title } } }`: `{"issues":{"nodes":[{"title":"Old"},{"title":"One"}]}}`,
		`{ issue(id: "ABC-1") { team { key states(filter: {name: {in: ["Todo"]}}) { nodes { type position } } } } }`:                           `{"issue":{"team":{"key":"ABC","states":{"nodes":[{"position":1,"type":"unstarted"}]}}}}`,
	} {
		if status, _, got := ask(t, s, query, nil); status != http.StatusOK || got != `{"data":`+want+`}` {
			t.Errorf("%s: HTTP %d\n%s, want\n%s", query, status, got, want)
		}
	}
	for query, want := range map[string]string{
		`{ issue(id: "ABC-9") { id } }`:                          `"message":"Entity not found: Issue","path":["issue"]`,
		`{ organization { name } }`:                              "organization is not served here",
		`{ issues(first: 300) { nodes { id } } }`:                "a page has 1 to 250 entries",
		`{ viewer { nonsense } }`:                                "GRAPHQL_VALIDATION_FAILED",
		`query($a: Int!) { issues(first: $a) { nodes { id } } }`: "GRAPHQL_VALIDATION_FAILED",
		`{ viewer { id }`:                                        "GRAPHQL_PARSE_FAILED",
		`{ issues(first: 250) { nodes { comments(first: 250) { nodes { id } } } } }`: "too complex",
	} {
		if _, _, got := ask(t, s, query, nil); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

func TestMutations(t *testing.T) {
	s := started(t, lineartest.Config{})
	if _, err := s.AddIssue(lineartest.Issue{Title: "One"}); err != nil {
		t.Fatal(err)
	}
	state, err := s.StateID("ABC", "done")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []string{
		`issueUpdate(id: "ABC-1", input: {stateId: "` + state + `", title: "New", assigneeId: null})`,
		`commentCreate(input: {issueId: "ABC-1", body: "Hi"})`,
		`attachmentLinkURL(issueId: "ABC-1", url: "https://example.com")`,
	} {
		if _, _, got := ask(t, s, "mutation { "+m+" { success } }", nil); !strings.Contains(got, `"success":true`) {
			t.Errorf("%s: %s", m, got)
		}
	}
	_, _, got := ask(t, s, `mutation { issueUpdate(id: "ABC-1", input: {stateId: "nonsense", title: "X"}) { success } }`, nil)
	if !strings.Contains(got, `"data":null`) {
		t.Error(got)
	}
	issue, err := s.Issue("ABC-1")
	if err != nil || issue.State != "Done" || issue.Title != "New" || len(issue.Comments) != 1 || len(issue.Links) != 1 {
		t.Errorf("%+v, %v", issue, err)
	}
	history, err := s.History("ABC-1")
	var fields []string
	for _, c := range history {
		fields = append(fields, c.Field)
	}
	if err != nil || !slices.Equal(fields, []string{"title", "state", "comment", "attachment"}) {
		t.Errorf("history %v, %v", fields, err)
	}
}

func TestAuthentication(t *testing.T) {
	const body = `{"query":"{ viewer { id } }"}`
	for key, accepted := range map[string]string{"lin_api_a": "lin_api_a", "lin_oauth_b": "Bearer lin_oauth_b"} {
		s := started(t, lineartest.Config{Key: key})
		for header, want := range map[string]int{accepted: 200, "": 401, "other": 401, "Bearer lin_api_a": 400} {
			if status, _, _ := post(t, s.Endpoint(), header, body); status != want {
				t.Errorf("key %s, header %q: HTTP %d, want %d", key, header, status, want)
			}
		}
	}
}
