package lineartest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestExecution(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := started(t, Config{Now: func() time.Time { return now }})
	a := must(s.AddIssue(Issue{Title: "One", Labels: []string{"Bug"}, Assignee: "me"}))
	must(s.AddIssue(Issue{Title: "Two", State: "In Progress", BlockedBy: []string{a.Identifier}}))

	for name, tc := range map[string]struct {
		query string
		vars  map[string]any
		want  string
	}{
		"aliases and __typename": {
			`{ v: viewer { kind: __typename mail: email isMe } }`, nil,
			`{"data":{"v":{"kind":"User","mail":"robin@example.com","isMe":true}}}`,
		},
		"fragments": {
			`{ viewer { ...A ... on User { name } ... on Node { __typename } } } fragment A on User { name email }`, nil,
			`{"data":{"viewer":{"name":"Robin Doe","email":"robin@example.com","__typename":"User"}}}`,
		},
		"merged fields": {
			`{ viewer { organization { name } organization { urlKey } } }`, nil,
			`{"data":{"viewer":{"organization":{"name":"Example","urlKey":"example"}}}}`,
		},
		"include and skip": {
			`query($y: Boolean!, $n: Boolean!) { viewer { name @skip(if: $y) email @include(if: $n) active @include(if: $y) ...F @skip(if: $y) } } fragment F on User { id }`,
			map[string]any{"y": true, "n": false},
			`{"data":{"viewer":{"active":true}}}`,
		},
		"default of a variable": {
			`query($n: Int = 1) { issues(first: $n) { nodes { title } } }`, nil,
			`{"data":{"issues":{"nodes":[{"title":"Two"}]}}}`,
		},
		"issue by identifier": {
			`{ issue(id: "ABC-2") { number priority priorityLabel createdAt description branchName inverseRelations { nodes { type issue { identifier } } } } }`, nil,
			`{"data":{"issue":{"number":2,"priority":0,"priorityLabel":"No priority","createdAt":"2026-03-01T12:00:00.000Z","description":null,"branchName":"abc-2-two","inverseRelations":{"nodes":[{"type":"blocks","issue":{"identifier":"ABC-1"}}]}}}}`,
		},
		"edges": {
			`{ issues(first: 1) { edges { node { identifier } } pageInfo { hasNextPage hasPreviousPage } } }`, nil,
			`{"data":{"issues":{"edges":[{"node":{"identifier":"ABC-2"}}],"pageInfo":{"hasNextPage":true,"hasPreviousPage":false}}}}`,
		},
		"links around": {
			`{ team(id: "ABC") { key states(first: 2) { nodes { name type } } } project(id: "demo") { issues { nodes { title } } } }`, nil,
			`{"data":{"team":{"key":"ABC","states":{"nodes":[{"name":"Duplicate","type":"canceled"},{"name":"Canceled","type":"canceled"}]}},"project":{"issues":{"nodes":[{"title":"Two"},{"title":"One"}]}}}}`,
		},
		"introspection of a type": {
			`{ __type(name: "IssueRelationCreateInput") { kind fields { name } inputFields { name type { kind name ofType { kind name } } } } }`, nil,
			`{"data":{"__type":{"kind":"INPUT_OBJECT","fields":null,"inputFields":[{"name":"id","type":{"kind":"SCALAR","name":"String","ofType":null}},{"name":"issueId","type":{"kind":"NON_NULL","name":null,"ofType":{"kind":"SCALAR","name":"String"}}},{"name":"relatedIssueId","type":{"kind":"NON_NULL","name":null,"ofType":{"kind":"SCALAR","name":"String"}}},{"name":"type","type":{"kind":"NON_NULL","name":null,"ofType":{"kind":"ENUM","name":"IssueRelationType"}}}]}}}`,
		},
		"introspection of values": {
			`{ a: __type(name: "IssueRelationType") { enumValues { name isDeprecated } } b: __type(name: "Nope") { name } c: __type(name: "Node") { possibleTypes { name } } __schema { queryType { name } mutationType { name } subscriptionType { name } } }`, nil,
			`{"data":{"a":{"enumValues":[{"name":"blocks","isDeprecated":false},{"name":"duplicate","isDeprecated":false},{"name":"related","isDeprecated":false},{"name":"similar","isDeprecated":false}]},"b":null,"c":{"possibleTypes":[{"name":"Organization"},{"name":"User"},{"name":"Team"},{"name":"WorkflowState"},{"name":"Project"},{"name":"IssueLabel"},{"name":"Issue"},{"name":"IssueRelation"},{"name":"Comment"},{"name":"Attachment"}]},"__schema":{"queryType":{"name":"Query"},"mutationType":{"name":"Mutation"},"subscriptionType":null}}}`,
		},
		"no assignee": {
			`{ issue(id: "ABC-2") { assignee { id } parent { id } project { slugId } } }`, nil,
			`{"data":{"issue":{"assignee":null,"parent":null,"project":{"slugId":"demo"}}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) { wantBody(t, ask(t, s, tc.query, tc.vars), tc.want) })
	}
}

func TestFilters(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := started(t, Config{Now: func() time.Time { return now }})
	must(s.AddIssue(Issue{Title: "Alpha", Labels: []string{"Bug", "UI"}, Assignee: "kim@example.com", Priority: 1}))
	now = now.Add(time.Hour)
	must(s.AddIssue(Issue{Title: "Beta", State: "In Progress", Labels: []string{"Feature"}, Project: "none", Description: new(string)}))
	now = now.Add(time.Hour)
	c := must(s.AddIssue(Issue{Title: "Gamma", State: "Done", Assignee: "me", Priority: 3, Archived: true}))

	for filter, want := range map[string]string{
		`{project: {slugId: {eq: "demo"}}}`:                              "Gamma Alpha",
		`{project: {null: true}}`:                                        "Beta",
		`{project: {slugId: {neq: "demo"}}}`:                             "",
		`{state: {name: {in: ["Todo", "In Progress"]}}}`:                 "Beta Alpha",
		`{state: {name: {nin: ["Todo"]}}}`:                               "Gamma Beta",
		`{state: {name: {eqIgnoreCase: "todo"}}}`:                        "Alpha",
		`{state: {type: {neq: "completed"}, name: {startsWith: "In"}}}`:  "Beta",
		`{id: {in: ["` + c.ID + `"]}}`:                                   "Gamma",
		`{assignee: {isMe: {eq: true}}}`:                                 "Gamma",
		`{assignee: {email: {eq: "kim@example.com"}}}`:                   "Alpha",
		`{assignee: {null: true}}`:                                       "Beta",
		`{assignee: {null: false}}`:                                      "Gamma Alpha",
		`{labels: {name: {eq: "UI"}}}`:                                   "Alpha",
		`{labels: {some: {name: {in: ["UI", "Feature"]}}}}`:              "Beta Alpha",
		`{labels: {every: {name: {eq: "Feature"}}}}`:                     "Gamma Beta",
		`{labels: {length: {eq: 0}}}`:                                    "Gamma",
		`{labels: {or: [{name: {eq: "UI"}}, {name: {eq: "Feature"}}]}}`:  "Beta Alpha",
		`{or: [{title: {eq: "Alpha"}}, {title: {contains: "amm"}}]}`:     "Gamma Alpha",
		`{and: [{title: {contains: "a"}}, {title: {notContains: "m"}}]}`: "Beta Alpha",
		`{or: {title: {eq: "Beta"}}}`:                                    "Beta",
		`{title: {endsWith: "ta"}}`:                                      "Beta",
		`{title: {containsIgnoreCase: "GAM"}}`:                           "Gamma",
		`{priority: {gt: 0, lte: 1}}`:                                    "Alpha",
		`{priority: {in: [1, 3]}}`:                                       "Gamma Alpha",
		`{number: {gte: 2}}`:                                             "Gamma Beta",
		`{createdAt: {gt: "2026-03-01T12:30:00Z"}}`:                      "Gamma Beta",
		`{createdAt: {lte: "2026-03-01T12:00:00Z"}}`:                     "Alpha",
		`{completedAt: {null: true}}`:                                    "Beta Alpha",
		`{description: {null: true}}`:                                    "Gamma Alpha",
		`{description: {eq: ""}}`:                                        "Beta",
		`{team: {key: {eq: "ABC"}}, number: {eq: 2}}`:                    "Beta",
		`{}`: "Gamma Beta Alpha",
	} {
		r := ask(t, s, `{ issues(includeArchived: true, filter: `+filter+`) { nodes { title } } }`, nil)
		var out struct {
			Data struct {
				Issues struct{ Nodes []struct{ Title string } }
			}
		}
		if err := json.Unmarshal([]byte(r.body), &out); err != nil || r.status != 200 {
			t.Errorf("%s: HTTP %d %s", filter, r.status, r.body)
			continue
		}
		var titles []string
		for _, n := range out.Data.Issues.Nodes {
			titles = append(titles, n.Title)
		}
		if got := strings.Join(titles, " "); got != want {
			t.Errorf("%s gave %q, want %q", filter, got, want)
		}
	}
	r := ask(t, s, `query($f: IssueFilter) { issues(filter: $f) { nodes { title } } }`,
		map[string]any{"f": map[string]any{"state": map[string]any{"name": map[string]any{"in": "Todo"}}}})
	wantBody(t, r, `{"data":{"issues":{"nodes":[{"title":"Alpha"}]}}}`)
}

func TestPages(t *testing.T) {
	s := started(t, Config{})
	for i := range 60 {
		must(s.AddIssue(Issue{Title: fmt.Sprint(i)}))
	}
	type page struct {
		Data struct {
			Issues struct {
				Nodes    []struct{ Title string }
				PageInfo struct {
					HasNextPage, HasPreviousPage bool
					StartCursor, EndCursor       string
				}
			}
		}
	}
	get := func(args string) page {
		t.Helper()
		var p page
		r := ask(t, s, `{ issues`+args+` { nodes { title } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }`, nil)
		if err := json.Unmarshal([]byte(r.body), &p); err != nil || r.status != 200 {
			t.Fatalf("%s: %s", args, r.body)
		}
		return p
	}
	p := get("")
	if n := len(p.Data.Issues.Nodes); n != 50 || p.Data.Issues.Nodes[0].Title != "59" || !p.Data.Issues.PageInfo.HasNextPage {
		t.Errorf("default page: %d nodes, %+v", n, p.Data.Issues.PageInfo)
	}
	next := get(`(after: "` + p.Data.Issues.PageInfo.EndCursor + `")`)
	if i := next.Data.Issues; len(i.Nodes) != 10 || i.Nodes[9].Title != "0" || i.PageInfo.HasNextPage || !i.PageInfo.HasPreviousPage {
		t.Errorf("second page: %+v", i)
	}
	back := get(`(last: 3, before: "` + next.Data.Issues.PageInfo.StartCursor + `")`)
	if i := back.Data.Issues; len(i.Nodes) != 3 || i.Nodes[2].Title != "10" {
		t.Errorf("backwards: %+v", i)
	}
	for args, want := range map[string]string{
		"(first: 251)": "250", "(first: -1)": "250", "(first: 1, last: 1)": "exclude", `(after: "nonsense")`: "no cursor",
	} {
		if r := ask(t, s, `{ issues`+args+` { nodes { id } } }`, nil); !strings.Contains(r.body, want) || !strings.Contains(r.body, `"data":null`) {
			t.Errorf("%s: %s", args, r.body)
		}
	}
}

func TestComplexity(t *testing.T) {
	for query, want := range map[string]float64{
		`{ viewer { id } }`: 2, // 1 + 0.1, rounded up
		`{ viewer { id name email active admin app isMe url createdAt } }`:       2,  // 1 + 0.9
		`{ issues(first: 10) { nodes { id } } }`:                                 12, // 1 + 10 × 1.1
		`{ issues { nodes { id } } }`:                                            56, // 1 + 50 × 1.1
		`{ issues(last: 2) { nodes { id labels(first: 3) { nodes { id } } } } }`: 12, // 1 + 2 × (1.1 + 1 + 3.3)
		`{ viewer { id @skip(if: true) name } }`:                                 2,
		`mutation { commentDelete(id: "x") { success } }`:                        2,
	} {
		if got, err := Complexity(query, nil); err != nil || got != want {
			t.Errorf("%s: %v points, %v; want %v", query, got, err, want)
		}
	}
	got, err := Complexity(`query($n: Int) { issues(first: $n) { nodes { id } } }`, map[string]any{"n": 20})
	if err != nil || got != 23 {
		t.Errorf("%v, %v; want 23", got, err)
	}
}

// The document that GraphQL tools ask first with must have an answer without errors.
func TestWholeSchemaCanBeIntrospected(t *testing.T) {
	s := started(t, Config{})
	r := ask(t, s, `{ __schema {
		types { kind name description fields(includeDeprecated: true) { name args { ...V } type { ...T } isDeprecated deprecationReason }
			inputFields { ...V } interfaces { ...T } enumValues(includeDeprecated: true) { name isDeprecated } possibleTypes { ...T } }
		directives { name description locations args { ...V } }
	} }
	fragment V on __InputValue { name description type { ...T } defaultValue }
	fragment T on __Type { kind name ofType { kind name ofType { kind name ofType { kind name } } } }`, nil)
	if r.status != 200 || strings.Contains(r.body, `"errors":`) || !strings.Contains(r.body, `"name":"issueUpdate","args":[{"name":"id"`) {
		t.Errorf("HTTP %d %.2000s", r.status, r.body)
	}
}
