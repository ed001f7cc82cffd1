package linear

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/linear/lineartest/linearschema"
)

// FuzzTakeIDs checks that whatever Linear answers, only the ids are removed and the rest is
// valid JSON.
func FuzzTakeIDs(f *testing.F) {
	for _, body := range []string{
		`{"data":{"c":{"symphonyCreated":{"id":"1"},"success":true}}}`,
		`{"data":{"c":{"success":true , "symphonyCreated":[{"id":"1"},{}]}}}`,
		`{"data":{"c":{"symphonyCreated":null}}}`,
		`{"data":null,"errors":[{"message":"x"}]}`,
		`[]`,
		`{"data":{"c":{"symphonyCreated":`,
		`{"data":{"c":{"s\u0079mphonyCreated":{"id":"1"}}}}`,
		`{"data":{"c":{"symphonyCreated":1,"symphonyCreated":2}}}`,
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		made, rest := takeIDs(json.RawMessage(body), map[string]string{"c": "comment"})
		if json.Valid([]byte(body)) && !json.Valid(rest) {
			t.Errorf("%q became %q", body, rest)
		}
		if !strings.Contains(body, idsAlias) && !strings.Contains(body, `\u`) &&
			(string(rest) != body || len(made) > 0) {
			t.Errorf("%q lost something: %q, %v", body, rest, made)
		}
	})
}

// FuzzAskForIDs checks that an extended mutation is still valid and has the same root fields.
func FuzzAskForIDs(f *testing.F) {
	for _, query := range []string{
		`mutation { commentCreate(input: {body: "}{"}) { success } }`,
		`mutation($a: X = {b: {c: 1}}) @d(e: "(") { x: commentCreate(input: $a) @f(g: {h: 1}) { ` +
			`...F } } fragment F on P { success }`,
		"mutation {\n#{\nissueCreate(input: {title: \"\"\"\n}\"\"\"}) {success}}",
		`mutation { a: commentCreate { é`,
		`mutation { commentCreate issueCreate { success } }`,
	} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		doc, err := parseOperation(query)
		if err != nil || doc.Operations[0].Operation != ast.Mutation {
			t.Skip()
		}
		in := input{query: query, doc: doc}
		more, asked := askForIDs(in)
		if len(asked) == 0 && more != query {
			t.Errorf("%q became %q", query, more)
		}
		again, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: more}, 2*maxTokens)
		if err != nil {
			t.Fatalf("%q became %q: %v", query, more, err)
		}
		test.Equal(
			t,
			"root fields of "+more,
			strings.Join((input{doc: again}).rootFields(), " "),
			strings.Join(in.rootFields(), " "),
		)
	})
}

func TestChangesIssue(t *testing.T) {
	tool := Tool(nil, false)
	for query, want := range map[string]bool{
		`mutation { issueUpdate(id: "A-1", input: {stateId: "x"}) { success } }`:                     true,
		`mutation M($i: String!) { done: issueArchive(id: $i) { success } }`:                         true,
		`mutation { ...F } fragment F on Mutation { issueUpdate(id: "A-1", input: {}) { success } }`: true,
		`mutation { commentCreate(input: {issueId: "A-1", body: "x"}) { success } }`:                 false,
		`query { issue(id: "A-1") { id } }`:                                                          false,
		`{ issues { nodes { id } } }`:                                                                false,
		`not graphql`:                                                                                false,
	} {
		args := test.Must(json.Marshal(map[string]string{"query": query}))
		test.Equal(t, query, tool.ChangesIssue(args), want)
		test.Equal(t, "the read-only tool refuses "+query, Tool(nil, true).ChangesIssue(args), false)
	}
}

func TestSummary(t *testing.T) {
	for args, want := range map[string]string{
		`{"query":"{ viewer { id } teams { nodes { id } } }"}`:                                    "query viewer, teams",
		`"mutation M($i: String!) { done: issueArchive(id: $i) { success } }"`:                    "mutation M (issueArchive)",
		`{"query":"mutation { ...F } fragment F on Mutation { issueUpdate(id: 1) { success } }"}`: "mutation issueUpdate",
		`{"query":"subscription { x }"}`:                                                          "",
		`{}`:                                                                                      "",
	} {
		test.Equal(t, args, Tool(nil, false).Summary(json.RawMessage(args)), want)
	}
}

// The fields that creators names exist in Linear's schema.
func TestCreatorsAreInTheSchema(t *testing.T) {
	schema := linearschema.Load()
	for name, field := range creators {
		mutation := schema.Mutation.Fields.ForName(name)
		if mutation == nil && os.Getenv(linearschema.Variable) == "" {
			continue // the embedded schema has few mutations
		}
		if mutation == nil {
			t.Errorf("no mutation %s", name)
			continue
		}
		entity := schema.Types[mutation.Type.Name()].Fields.ForName(field)
		if entity == nil || schema.Types[entity.Type.Name()].Fields.ForName("id") == nil {
			t.Errorf("the payload of %s has no %s with an id", name, field)
		}
	}
}

func TestProjectSlug(t *testing.T) {
	for in, want := range map[string]string{
		"demo":             "demo",
		" 1a2b3c4d5e6f ":   "1a2b3c4d5e6f",
		"my-project":       "my-project",
		"web-1a2b3c4d5e6f": "web-1a2b3c4d5e6f",
		"https://linear.app/acme/project/web-app-1a2b3c4d5e6f":          "1a2b3c4d5e6f",
		"https://linear.app/acme/project/web-app-1a2b3c4d5e6f/overview": "1a2b3c4d5e6f",
		"https://linear.app/acme/project/1a2b3c4d5e6f?tab=x#y":          "1a2b3c4d5e6f",
	} {
		got, err := projectSlugs(in)
		if err != nil || got[0] != want {
			t.Errorf("the slug id in %q is first taken as %q, %v; want %q", in, got, err, want)
		}
	}
}

// A field of text has the value that encoding/json reads.
func TestTextField(t *testing.T) {
	for _, data := range []string{
		`"ABC-7"`, `""`, `"a\tb"`, `"\u00e9 \ud83d\ude00"`, `"é"`, "\"\xff\"", `"\""`, `null`, `7`, `["a"]`,
	} {
		var got field[string]
		test.OK(t, json.Unmarshal([]byte(data), &got))
		var want *string
		err := json.Unmarshal([]byte(data), &want)
		test.Equal(t, data+" is wrong", got.wrong, err != nil)
		if err == nil {
			test.Equal(t, data, got.value, want)
		}
	}
}
