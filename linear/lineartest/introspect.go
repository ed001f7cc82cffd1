package lineartest

import (
	"slices"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
)

// Introspection, which agents explore the API with. Types refer to each other in circles, so a described thing is
// worked out only as far as the query goes.

// described is a value of one of GraphQL's introspection types.
type described struct {
	typ string
	get func(field string) any
}

func (x *execution) describeSchema() described {
	return described{"__Schema", func(f string) any {
		switch f {
		case "queryType":
			return x.describe(x.schema.Query)
		case "mutationType":
			return x.describe(x.schema.Mutation)
		case "types":
			var names []string
			for name := range x.schema.Types {
				names = append(names, name)
			}
			slices.Sort(names)
			return each(names, func(n string) any { return x.describe(x.schema.Types[n]) })
		case "directives":
			var names []string
			for name := range x.schema.Directives {
				names = append(names, name)
			}
			slices.Sort(names)
			return each(names, func(n string) any { return x.describeDirective(x.schema.Directives[n]) })
		}
		return nil
	}}
}

func each[T any](list []T, f func(T) any) []any {
	out := make([]any, 0, len(list))
	for _, e := range list {
		out = append(out, f(e))
	}
	return out
}

// describe gives nil for a type that does not exist.
func (x *execution) describe(d *ast.Definition) any {
	if d == nil {
		return nil
	}
	return described{"__Type", func(f string) any {
		switch f {
		case "kind":
			return string(d.Kind)
		case "name":
			return d.Name
		case "description":
			return optional(d.Description)
		case "fields":
			if d.Kind != ast.Object && d.Kind != ast.Interface {
				return nil
			}
			visible := slices.DeleteFunc(slices.Clone(d.Fields), func(f *ast.FieldDefinition) bool { return strings.HasPrefix(f.Name, "__") })
			return each(visible, x.describeField)
		case "inputFields":
			if d.Kind != ast.InputObject {
				return nil
			}
			return each(d.Fields, func(f *ast.FieldDefinition) any {
				return x.describeInput(f.Name, f.Description, f.Type, f.DefaultValue)
			})
		case "enumValues":
			if d.Kind != ast.Enum {
				return nil
			}
			return each(d.EnumValues, func(v *ast.EnumValueDefinition) any { return describeNamed("__EnumValue", v.Name, v.Description) })
		}
		return x.describeFamily(d, f)
	}}
}

func (x *execution) describeFamily(d *ast.Definition, field string) any {
	switch {
	case field == "interfaces" && (d.Kind == ast.Object || d.Kind == ast.Interface):
		return each(d.Interfaces, func(n string) any { return x.describe(x.schema.Types[n]) })
	case field == "possibleTypes" && d.Kind == ast.Interface:
		return each(x.schema.PossibleTypes[d.Name], x.describe)
	}
	return nil
}

func (x *execution) describeField(d *ast.FieldDefinition) any {
	return described{"__Field", func(f string) any {
		switch f {
		case "name":
			return d.Name
		case "description":
			return optional(d.Description)
		case "type":
			return x.describeRef(d.Type)
		case "args":
			return each(d.Arguments, func(a *ast.ArgumentDefinition) any {
				return x.describeInput(a.Name, a.Description, a.Type, a.DefaultValue)
			})
		case "isDeprecated":
			return false
		}
		return nil
	}}
}

func (x *execution) describeInput(name, description string, t *ast.Type, value *ast.Value) any {
	return described{"__InputValue", func(f string) any {
		switch f {
		case "name":
			return name
		case "description":
			return optional(description)
		case "type":
			return x.describeRef(t)
		case "defaultValue":
			if value != nil {
				return value.String()
			}
		case "isDeprecated":
			return false
		}
		return nil
	}}
}

// describeRef wraps a named type into its list and non-null kinds.
func (x *execution) describeRef(t *ast.Type) any {
	wrap := func(kind string, of *ast.Type) any {
		return described{"__Type", func(f string) any {
			switch f {
			case "kind":
				return kind
			case "ofType":
				return x.describeRef(of)
			}
			return nil
		}}
	}
	switch {
	case t.NonNull:
		inner := *t
		inner.NonNull = false
		return wrap("NON_NULL", &inner)
	case t.Elem != nil:
		return wrap("LIST", t.Elem)
	}
	return x.describe(x.schema.Types[t.NamedType])
}

func (x *execution) describeDirective(d *ast.DirectiveDefinition) any {
	return described{"__Directive", func(f string) any {
		switch f {
		case "name":
			return d.Name
		case "description":
			return optional(d.Description)
		case "isRepeatable":
			return d.IsRepeatable
		case "locations":
			return each(d.Locations, func(l ast.DirectiveLocation) any { return string(l) })
		case "args":
			return each(d.Arguments, func(a *ast.ArgumentDefinition) any {
				return x.describeInput(a.Name, a.Description, a.Type, a.DefaultValue)
			})
		}
		return nil
	}}
}

func describeNamed(typ, name, description string) any {
	return described{typ, func(f string) any {
		switch f {
		case "name":
			return name
		case "description":
			return optional(description)
		case "isDeprecated":
			return false
		}
		return nil
	}}
}
