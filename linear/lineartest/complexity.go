package lineartest

import (
	"fmt"
	"math"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
)

// LargestComplexity is what Linear accepts for one request, in points.
const LargestComplexity = 10000

// Complexity prices a document with one operation as Linear does: a plain field 0.1 points, an object 1, and a
// connection multiplies everything within it by its first or last, or by 50.
func Complexity(query string, variables map[string]any) (float64, error) {
	schema, err := loadSchema()
	if err != nil {
		return 0, err
	}
	op, vars, errs := prepare(schema, query, "", variables)
	if len(errs) > 0 {
		return 0, fmt.Errorf("price query: %w", errs[0])
	}
	return price(schema, op, vars), nil
}

func price(schema *ast.Schema, op *ast.OperationDefinition, vars map[string]any) float64 {
	x := &execution{schema: schema, vars: vars}
	root := schema.Query
	if op.Operation == ast.Mutation {
		root = schema.Mutation
	}
	return math.Ceil(x.price([]ast.SelectionSet{op.SelectionSet}, root.Name) - 1e-9)
}

func (x *execution) price(sets []ast.SelectionSet, typ string) float64 {
	var points float64
	for _, sel := range x.collect(sets, typ) {
		f := sel.fields[0]
		var inner []ast.SelectionSet
		for _, g := range sel.fields {
			if len(g.SelectionSet) > 0 {
				inner = append(inner, g.SelectionSet)
			}
		}
		if len(inner) == 0 {
			points += 0.1
			continue
		}
		of := f.Definition.Type.Name()
		within := x.price(inner, of)
		if strings.HasSuffix(of, "Connection") {
			within *= float64(pageOf(f.ArgumentMap(x.vars)))
		}
		points += 1 + within
	}
	return points
}

func pageOf(args map[string]any) int {
	for _, key := range []string{"first", "last"} {
		if n, ok := integer(args[key]); ok {
			return n
		}
	}
	return defaultPage
}
