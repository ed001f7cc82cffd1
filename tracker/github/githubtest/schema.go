package githubtest

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/symphony-cron/symphony/internal/test"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"
)

// SchemaVariable names schema.graphql of npm's @octokit/graphql-schema. Without it GraphQL is
// not checked.
const SchemaVariable = "SYMPHONY_GITHUB_SCHEMA"

// dependencies are GitHub's changes of the schema of 2025-07-30, which version 15.26.1 of the
// package lacks.
const dependencies = `
enum IssueDependencyOrderField { CREATED_AT DEPENDENCY_ADDED_AT }
input IssueDependencyOrder { direction: OrderDirection! field: IssueDependencyOrderField! }
type IssueDependenciesSummary { blockedBy: Int! blocking: Int! totalBlockedBy: Int! totalBlocking: Int! }
extend type Issue {
  blockedBy(after: String, before: String, first: Int, last: Int, orderBy: IssueDependencyOrder): IssueConnection!
  blocking(after: String, before: String, first: Int, last: Int, orderBy: IssueDependencyOrder): IssueConnection!
  issueDependenciesSummary: IssueDependenciesSummary!
}
`

// schema is GitHub's GraphQL schema; nil without the variable.
var schema = sync.OnceValue(func() *ast.Schema {
	path := os.Getenv(SchemaVariable)
	if path == "" {
		return nil
	}
	data := test.Must(os.ReadFile(path))
	if !bytes.Contains(data, []byte("IssueDependencyOrder")) {
		data = append(data, dependencies...)
	}
	doc := test.Must(parser.ParseSchemas(validator.Prelude, &ast.Source{
		Name:  SchemaVariable,
		Input: string(data),
	}))
	for _, def := range doc.Definitions { // GitHub publishes a few fields twice
		seen := map[string]bool{}
		def.Fields = slices.DeleteFunc(def.Fields, func(f *ast.FieldDefinition) bool {
			twice := seen[f.Name]
			seen[f.Name] = true
			return twice
		})
	}
	return test.Must(validator.ValidateSchemaDocument(doc))
})

// conforms reports whether the value of a field is of its type.
func conforms(v any, t *ast.Type) bool {
	switch {
	case v == nil:
		return !t.NonNull
	case t.Elem != nil:
		list, is := v.([]any)
		return is && !slices.ContainsFunc(list, func(one any) bool { return !conforms(one, t.Elem) })
	}
	def := schema().Types[t.Name()]
	text, isText := v.(string)
	switch {
	case def.Kind == ast.Enum:
		return isText && def.EnumValues.ForName(text) != nil
	case def.Kind != ast.Scalar:
		_, is := v.(object)
		return is
	case t.Name() == "Boolean":
		_, is := v.(bool)
		return is
	case t.Name() == "Int" || t.Name() == "Float":
		_, err := fmt.Sscan(fmt.Sprint(v), new(float64))
		return err == nil && !isText
	}
	return isText
}
