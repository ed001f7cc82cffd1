package linearschema

import (
	"os"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
)

// The embedded schema is a part of the published one.
func TestSubsetOfPublishedSchema(t *testing.T) {
	if os.Getenv(Variable) == "" {
		t.Skip(Variable + " does not name Linear's published schema")
	}
	published := Load()
	ours, err := gqlparser.LoadSchema(&ast.Source{Name: "schema.graphql", Input: embedded})
	if err != nil {
		t.Fatal(err)
	}
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
