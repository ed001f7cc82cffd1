package linear

import (
	"os"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
)

// Every mutation whose payload is asked for more must have it in Linear's schema.
func TestCreatorsAreInTheSchema(t *testing.T) {
	path := os.Getenv("SYMPHONY_LINEAR_SCHEMA")
	if path == "" {
		t.Skip("SYMPHONY_LINEAR_SCHEMA names no schema of Linear's")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := gqlparser.LoadSchema(&ast.Source{Name: path, Input: string(text)})
	if err != nil {
		t.Fatal(err)
	}
	for name, field := range creators {
		mutation := schema.Mutation.Fields.ForName(name)
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
