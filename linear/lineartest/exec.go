package lineartest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/vektah/gqlparser/v2/ast"
)

// execution is one operation being answered.
type execution struct {
	w      *workspace
	schema *ast.Schema
	vars   map[string]any
	errs   []apiError
}

// record is a value that is no entity: a connection, an edge, a payload.
type record struct {
	typ    string
	fields map[string]any
}

// object is an answered object; members keep the order of the query.
type object []member

type member struct {
	key   string
	value any
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var b strings.Builder
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(m.key)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return []byte(b.String()), nil
}

// errNull says that a value that may not be null had to be; the error itself is recorded already.
type errNull struct{}

func (errNull) Error() string { return "null where the schema has none" }

// run answers the operation; nil data where an error reached the root.
func (x *execution) run(op *ast.OperationDefinition) any {
	root := x.schema.Query
	if op.Operation == ast.Mutation {
		root = x.schema.Mutation
	}
	data, err := x.object(root.Name, nil, []ast.SelectionSet{op.SelectionSet}, nil)
	if err != nil {
		return nil
	}
	return data
}

// selected is a response key with all the fields of the document that were merged into it.
type selected struct {
	key    string
	fields []*ast.Field
}

// collect merges the fields of selection sets for an object type (GraphQL: CollectFields).
func (x *execution) collect(sets []ast.SelectionSet, typ string) []*selected {
	var list []*selected
	byKey := map[string]*selected{}
	var walk func(ast.SelectionSet)
	walk = func(set ast.SelectionSet) {
		for _, s := range set {
			switch s := s.(type) {
			case *ast.Field:
				if x.skipped(s.Directives) {
					continue
				}
				if byKey[s.Alias] == nil {
					byKey[s.Alias] = &selected{key: s.Alias}
					list = append(list, byKey[s.Alias])
				}
				byKey[s.Alias].fields = append(byKey[s.Alias].fields, s)
			case *ast.InlineFragment:
				if !x.skipped(s.Directives) && x.applies(s.TypeCondition, typ) {
					walk(s.SelectionSet)
				}
			case *ast.FragmentSpread:
				if !x.skipped(s.Directives) && x.applies(s.Definition.TypeCondition, typ) {
					walk(s.Definition.SelectionSet)
				}
			}
		}
	}
	for _, set := range sets {
		walk(set)
	}
	return list
}

func (x *execution) skipped(ds ast.DirectiveList) bool {
	if d := ds.ForName("skip"); d != nil && d.ArgumentMap(x.vars)["if"] == true {
		return true
	}
	d := ds.ForName("include")
	return d != nil && d.ArgumentMap(x.vars)["if"] != true
}

func (x *execution) applies(condition, typ string) bool {
	if condition == "" || condition == typ {
		return true
	}
	for _, possible := range x.schema.PossibleTypes[condition] {
		if possible.Name == typ {
			return true
		}
	}
	return false
}

func (x *execution) object(typ string, source any, sets []ast.SelectionSet, path []any) (any, error) {
	out := object{}
	for _, sel := range x.collect(sets, typ) {
		f := sel.fields[0]
		at := append(path[:len(path):len(path)], sel.key)
		if f.Name == "__typename" {
			out = append(out, member{sel.key, typ})
			continue
		}
		value, err := x.field(source, f)
		if err == nil {
			value, err = x.complete(f.Definition.Type, value, sel, at)
		} else {
			x.fail(err, f, at)
		}
		if err != nil {
			if f.Definition.Type.NonNull {
				return nil, errNull{}
			}
			value = nil
		}
		out = append(out, member{sel.key, value})
	}
	return out, nil
}

func (x *execution) fail(err error, f *ast.Field, path []any) {
	e := asAPIError(err)
	e.Path = path
	if f.Position != nil {
		e.Locations = []location{{f.Position.Line, f.Position.Column}}
	}
	x.errs = append(x.errs, e)
}

// field gives the unfinished value of a field of source; source is nil at the root.
func (x *execution) field(source any, f *ast.Field) (any, error) {
	args := f.ArgumentMap(x.vars)
	var value any
	switch s := source.(type) {
	case nil:
		if f.ObjectDefinition == x.schema.Mutation {
			return x.mutate(f.Name, args)
		}
		var err error
		if value, err = x.root(f.Name, args); err != nil {
			return nil, err
		}
	case node:
		value = s.get(f.Name)
	case record:
		return s.fields[f.Name], nil
	case described:
		return s.get(f.Name), nil
	}
	if list, ok := value.([]node); ok {
		return x.connection(f.Definition.Type.Name(), list, args)
	}
	return value, nil
}

// root answers the fields of Query: a connection of all nodes of a type, or one node by id.
func (x *execution) root(name string, args map[string]any) (any, error) {
	switch { //nolint:staticcheck // the later cases are no equalities
	case name == "viewer":
		return x.w.viewer, nil
	case name == "organization":
		return x.w.org, nil
	case name == "__schema":
		return x.describeSchema(), nil
	case name == "__type":
		named, _ := args["name"].(string)
		return x.describe(x.schema.Types[named]), nil
	}
	typ := x.schema.Query.Fields.ForName(name).Type.Name()
	if of, ok := strings.CutSuffix(typ, "Connection"); ok {
		return x.w.all(of), nil
	}
	id, _ := args["id"].(string)
	if n := x.w.byID(typ, id); n != nil {
		return n, nil
	}
	return nil, notFound(typ)
}

// complete turns a value into what is sent (GraphQL: CompleteValue).
func (x *execution) complete(t *ast.Type, value any, sel *selected, path []any) (any, error) {
	if value == nil {
		if t.NonNull {
			x.fail(fmt.Errorf("%s is null", sel.key), sel.fields[0], path)
			return nil, errNull{}
		}
		return nil, nil
	}
	if t.Elem != nil {
		return x.list(t, value, sel, path)
	}
	sets := make([]ast.SelectionSet, len(sel.fields))
	for i, f := range sel.fields {
		sets[i] = f.SelectionSet
	}
	switch v := value.(type) {
	case record:
		return x.object(v.typ, v, sets, path)
	case described:
		return x.object(v.typ, v, sets, path)
	case node:
		return x.object(v.typeName(), v, sets, path)
	case time.Time:
		return v.UTC().Format("2006-01-02T15:04:05.000Z"), nil
	}
	return value, nil
}

func (x *execution) list(t *ast.Type, value any, sel *selected, path []any) (any, error) {
	var in []any
	switch v := value.(type) {
	case []any:
		in = v
	case []node:
		for _, n := range v {
			in = append(in, n)
		}
	case []string:
		for _, s := range v {
			in = append(in, s)
		}
	}
	out := make([]any, 0, len(in))
	for i, e := range in {
		value, err := x.complete(t.Elem, e, sel, append(path[:len(path):len(path)], i))
		if err != nil {
			if t.Elem.NonNull {
				return nil, err
			}
			value = nil
		}
		out = append(out, value)
	}
	return out, nil
}
