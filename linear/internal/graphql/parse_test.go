package graphql_test

import (
	"testing"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/linear/internal/graphql"
)

func TestParse(t *testing.T) {
	doc, err := graphql.Parse("\ufeff# {\nquery Q($a: [ID!]! = [1, \"x\"] @d, $b: In = {k: null}) @e(f: TODAY) {\n"+
		"  x: issue(id: $a, n: -1.5e2, b: true, s: \"\"\"a \\\"\"\" b\"\"\") @include(if: $b) { id }\n  ...F ... on T { y } ... { z }\n}\n"+
		`fragment F on T { ...F w(t: "\u00e9\n") }`, 200)
	test.OK(t, err)
	op := doc.Operations[0]
	test.Equal(t, "operation", []any{op.Type, op.Name, len(doc.Operations)}, []any{"query", "Q", 1})
	var names []string
	for _, f := range doc.Fields(op.Selections) {
		names = append(names, f.Alias+":"+f.Name)
	}
	test.Equal(t, "names", names, []string{"x:issue", "w:w", "y:y", "z:z"})
}

// FuzzParse compares with another parser: both read an operation of the same type with the same fields, or this one returns an
// error. A request that only this one refuses is not sent.
func FuzzParse(f *testing.F) {
	for _, query := range []string{
		"{ a }", "query { a(b: {c: [1, 2.5, \"x\", $y, E]}) { d ...F } } fragment F on T { e }", "mutation M($a: A! = 1) @d { x: y }",
		"# \r mutation { a }", "# \u2028 mutation { a }", `{ a(b: "\ud83d\ude00") }`, `{ a(b: """x \""" { } """) }`, "{ a(b: 01) }", "{ a(b: 1a) }",
		"{ a(b: -) }", "{ ... on T { a } ... @include(if: true) { b } }", "subscription { a }", "{ }", "{ a( ) }", "fragment on on T { a }",
		"{ a } { b }", "{ a(b: \"\n\") }", "type Query { a: Int }", "{ \u00e9 }", "query Q { a } fragment F on T @d { b }", "{ a(b: 1.e1) }", "{...on}",
	} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		got, err := graphql.Parse(query, 5000)
		if err != nil {
			return
		}
		want, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: query}, 10000)
		if err != nil {
			t.Skip() // for example for control characters, which the server may refuse
		}
		if len(got.Operations) != len(want.Operations) || len(got.Fragments) != len(want.Fragments) {
			t.Fatalf("%q: %d operations and %d fragments, want %d and %d", query, len(got.Operations), len(got.Fragments), len(want.Operations), len(want.Fragments))
		}
		for i, op := range want.Operations {
			g := got.Operations[i]
			test.Equal(t, query+": type and name", []any{g.Type, g.Name}, []any{string(op.Operation), op.Name})
			compare(t, query, got.Operations[i].Selections, op.SelectionSet)
		}
	})
}

func compare(t *testing.T, query string, got []graphql.Selection, want ast.SelectionSet) {
	t.Helper()
	test.Equal(t, query, len(got), len(want))
	for i, s := range want {
		switch s := s.(type) {
		case *ast.Field:
			if got[i].Name != s.Name || got[i].Alias != s.Alias {
				t.Errorf("%q: %+v, want %s", query, got[i], s.Name)
			}
			compare(t, query, got[i].Selections, s.SelectionSet)
		case *ast.InlineFragment:
			compare(t, query, got[i].Selections, s.SelectionSet)
		case *ast.FragmentSpread:
			test.Equal(t, query, got[i].Spread, s.Name)
		}
	}
}
