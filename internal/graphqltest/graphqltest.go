// Package graphqltest has what the servers of trackers in tests share: it reads GraphQL requests, and makes requests fail. The program
// itself must not import it.
package graphqltest

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"
)

// Request is a document, the operation that is asked for, and the values of its variables, defaults included.
type Request struct {
	*ast.OperationDefinition

	doc    *ast.QueryDocument
	values map[string]any
}

// Parse parses a request. The operation is the only one, or the one that name names. Beside an error it returns one without fields.
func Parse(query, name string, variables map[string]any) (*Request, error) {
	r := &Request{&ast.OperationDefinition{}, nil, map[string]any{}}
	doc, err := parser.ParseQuery(&ast.Source{Input: query})
	if err != nil {
		return r, err
	}
	op := doc.Operations.ForName(name)
	if op == nil {
		return r, errors.New("operationName must name one of the operations")
	}
	r.OperationDefinition, r.doc = op, doc
	for _, v := range op.VariableDefinitions {
		if v.DefaultValue != nil {
			r.values[v.Variable], _ = v.DefaultValue.Value(nil) // the parser has read it
		}
	}
	maps.Copy(r.values, variables)
	return r, nil
}

// Validate returns what the schema does not allow.
func (r *Request) Validate(schema *ast.Schema) (faults []error) {
	for _, e := range validator.ValidateWithRules(schema, r.doc, nil) {
		faults = append(faults, errors.New(e.Message))
	}
	if len(faults) > 0 {
		return faults
	}
	given := map[string]any{} // the validator changes it
	data, err := json.Marshal(r.values)
	if err == nil {
		err = json.Unmarshal(data, &given)
	}
	if err == nil {
		_, err = validator.VariableValues(schema, r.OperationDefinition, given)
	}
	if err != nil {
		return []error{err}
	}
	return nil
}

// Fields lists the selected fields of an object, without those that @skip and @include exclude. Of fragments it has those on the
// object's type; those on every type if typ is empty. Fields with the same alias are merged.
func (r *Request) Fields(set ast.SelectionSet, typ string) (fields []*ast.Field) {
	for _, s := range set {
		for _, f := range r.fieldsOf(s, typ) {
			i := slices.IndexFunc(fields, func(other *ast.Field) bool { return other.Alias == f.Alias })
			if i < 0 {
				fields = append(fields, f)
				continue
			}
			merged := *fields[i]
			merged.SelectionSet = slices.Concat(merged.SelectionSet, f.SelectionSet)
			fields[i] = &merged
		}
	}
	return fields
}

func (r *Request) fieldsOf(s ast.Selection, typ string) []*ast.Field {
	fits := func(condition string) bool { return condition == "" || typ == "" || condition == typ }
	switch s := s.(type) {
	case *ast.Field:
		if r.chosen(s.Directives) {
			return []*ast.Field{s}
		}
	case *ast.InlineFragment:
		if r.chosen(s.Directives) && fits(s.TypeCondition) {
			return r.Fields(s.SelectionSet, typ)
		}
	case *ast.FragmentSpread:
		if f := r.doc.Fragments.ForName(s.Name); f != nil && r.chosen(s.Directives) && fits(f.TypeCondition) {
			return r.Fields(f.SelectionSet, typ)
		}
	}
	return nil
}

func (r *Request) chosen(list ast.DirectiveList) bool {
	skip, include := list.ForName("skip"), list.ForName("include")
	return (skip == nil || r.Arguments(skip.Arguments)["if"] != true) && (include == nil || r.Arguments(include.Arguments)["if"] == true)
}

// Number is an argument that is a number; 0 if it is absent.
func Number(v any) float64 {
	if n, whole := v.(int64); whole {
		return float64(n)
	}
	n, _ := v.(float64)
	return n
}

// Arguments returns the values of arguments: those of variables are of encoding/json, whole numbers in the document are int64. A
// variable without a value is omitted.
func (r *Request) Arguments(list ast.ArgumentList) map[string]any {
	args := map[string]any{}
	for _, a := range list {
		if _, given := r.values[a.Value.Raw]; given || a.Value.Kind != ast.Variable {
			args[a.Name], _ = a.Value.Value(r.values) // the parser has read it
		}
	}
	return args
}
