// Package linearschema validates GraphQL requests against Linear's schema, for tests. The
// program itself must not import it.
package linearschema

import (
	_ "embed" // the schema
	"os"
	"sync"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/symphony-cron/symphony/internal/adapter/graphqltest"
	"github.com/symphony-cron/symphony/internal/test"
)

//go:embed schema.graphql
var embedded string

// Variable is the environment variable that names a file with Linear's published schema.
// Without it the part in schema.graphql is used.
const Variable = "SYMPHONY_LINEAR_SCHEMA"

// Load parses the schema once. It panics if the schema cannot be read.
var Load = sync.OnceValue(func() *ast.Schema {
	source := &ast.Source{Name: "schema.graphql", Input: embedded}
	if path := os.Getenv(Variable); path != "" {
		source = &ast.Source{Name: path, Input: string(test.Must(os.ReadFile(path)))}
	}
	return test.Must(gqlparser.LoadSchema(source))
})

// Validate returns the faults of a request.
func Validate(r *graphqltest.Request) []error { return r.Validate(Load()) }
