package linearschema

import (
	"os"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
)

// The embedded schema is a part of the published one, and omits nothing that the published one
// requires.
func TestSubsetOfPublishedSchema(t *testing.T) {
	if os.Getenv(Variable) == "" {
		t.Skip(Variable + " does not name Linear's published schema")
	}
	ours := test.Must(gqlparser.LoadSchema(&ast.Source{Name: "schema.graphql", Input: embedded}))
	parts := describe(ours)
	published := describe(Load())
	for part := range parts {
		if _, there := published[part]; !there {
			t.Errorf("%s is not in the published schema", part)
		}
	}
	for part, required := range published {
		_, there := parts[part]
		_, used := parts[part[:max(strings.LastIndexByte(part, '#'), 0)]]
		if required && used && !there {
			t.Errorf("%s is required and not in the embedded schema", part)
		}
	}
	if len(parts) < 300 {
		t.Errorf("only %d parts were compared", len(parts))
	}
}

// describe lists the parts of a schema, each prefixed by its parent, and whether the parent
// requires it.
func describe(schema *ast.Schema) map[string]bool {
	parts := map[string]bool{}
	for _, def := range schema.Types {
		if def.BuiltIn {
			continue
		}
		kind := string(def.Kind) + " " + def.Name
		parts[kind] = false
		for _, v := range def.EnumValues {
			parts[kind+"#"+v.Name] = false
		}
		for _, i := range def.Interfaces {
			parts[kind+"#is "+i] = false
		}
		for _, f := range def.Fields {
			if strings.HasPrefix(f.Name, "__") {
				continue
			}
			field := kind + "#" + f.Name + ": " + f.Type.String()
			parts[field] = def.Kind == ast.InputObject && f.Type.NonNull && f.DefaultValue == nil
			for _, a := range f.Arguments {
				parts[field+"#"+a.Name+": "+a.Type.String()] = a.Type.NonNull
			}
		}
	}
	return parts
}
