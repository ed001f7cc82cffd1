package lineartest

import (
	"os"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
)

// Every field that the schema names must be answered by the entity it stands on.
func TestEveryFieldIsServed(t *testing.T) {
	schema := must(loadSchema())
	s := New(Config{})
	i := must(s.AddIssue(Issue{Title: "One", Assignee: "me", Description: new(string), Labels: []string{"Bug"}}))
	must(s.AddIssue(Issue{Title: "Two", BlockedBy: []string{i.Identifier}}))
	must(s.Comment(i.Identifier, "", "c"))
	s.w.attachments = append(s.w.attachments, &attachment{entity: s.w.entity("attachment", ""), title: "t", url: "u", issue: s.w.issues[0]})
	for name, def := range schema.Types {
		list := s.w.all(name)
		if name == "Organization" {
			list = []node{s.w.org}
		}
		if def.Kind != ast.Object || len(list) == 0 {
			continue
		}
		for _, f := range def.Fields {
			if strings.HasPrefix(f.Name, "__") {
				continue
			}
			if value := list[0].get(f.Name); value == nil && f.Type.NonNull {
				t.Errorf("%s.%s is nil", name, f.Name)
			}
		}
	}
}

func TestSubsetOfPublishedSchema(t *testing.T) {
	path := os.Getenv("SYMPHONY_LINEAR_SCHEMA")
	if path == "" {
		t.Skip("SYMPHONY_LINEAR_SCHEMA does not name Linear's published schema: the subset was not compared with it")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	published, err := gqlparser.LoadSchema(&ast.Source{Name: path, Input: string(text)})
	if err != nil {
		t.Fatal(err)
	}
	ours := must(loadSchema())
	compared := 0
	for name, def := range ours.Types {
		if def.BuiltIn {
			continue
		}
		theirs := published.Types[name]
		if theirs == nil || theirs.Kind != def.Kind {
			t.Errorf("type %s is not in the published schema, or is something else there", name)
			continue
		}
		compared += compareType(t, def, theirs)
	}
	if compared < 300 {
		t.Errorf("only %d fields were compared", compared)
	}
}

func compareType(t *testing.T, ours, theirs *ast.Definition) int {
	t.Helper()
	n := 0
	for _, v := range ours.EnumValues {
		if n++; theirs.EnumValues.ForName(v.Name) == nil {
			t.Errorf("%s has no value %s", ours.Name, v.Name)
		}
	}
	for _, i := range ours.Interfaces {
		if !strings.Contains(" "+strings.Join(theirs.Interfaces, " ")+" ", " "+i+" ") {
			t.Errorf("%s is no %s", ours.Name, i)
		}
	}
	for _, f := range ours.Fields {
		if strings.HasPrefix(f.Name, "__") {
			continue
		}
		n++
		g := theirs.Fields.ForName(f.Name)
		if g == nil {
			t.Errorf("%s has no field %s", ours.Name, f.Name)
			continue
		}
		if f.Type.String() != g.Type.String() {
			t.Errorf("%s.%s is %s, published %s", ours.Name, f.Name, f.Type, g.Type)
		}
		for _, a := range f.Arguments {
			b := g.Arguments.ForName(a.Name)
			if n++; b == nil || b.Type.String() != a.Type.String() {
				t.Errorf("argument %s of %s.%s differs", a.Name, ours.Name, f.Name)
			}
		}
		for _, b := range g.Arguments {
			if b.Type.NonNull && f.Arguments.ForName(b.Name) == nil {
				t.Errorf("%s.%s lacks the required argument %s", ours.Name, f.Name, b.Name)
			}
		}
	}
	for _, g := range theirs.Fields {
		if ours.Kind == ast.InputObject && g.Type.NonNull && g.DefaultValue == nil && ours.Fields.ForName(g.Name) == nil {
			t.Errorf("%s lacks the required field %s", ours.Name, g.Name)
		}
	}
	return n
}
