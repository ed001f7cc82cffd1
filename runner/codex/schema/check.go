package schema

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
)

// Kind says in which way a value does not fit.
type Kind string

const (
	Unknown Kind = "unknown" // a member that the schema does not name
	Missing Kind = "missing" // a member that has to be there
	Type    Kind = "type"    // a value of another type
	Value   Kind = "value"   // a word that is not among those allowed, a number out of range
)

// Problem is one place where a value does not fit.
type Problem struct {
	At   string // path of the member, "" for the value itself
	Kind Kind
	Want string // types or words that would be right
}

func (p Problem) String() string {
	at := p.At
	if at == "" {
		at = "the value"
	}
	switch p.Kind {
	case Unknown:
		return at + " is unknown"
	case Missing:
		return at + " is missing"
	case Type, Value:
	}
	return at + " must be " + p.Want
}

// Check lists where v, as Decode gives it, does not fit. A member that an object's rule does not name is a problem
// unless the rule has room for others. Where there is a choice, the problems are those of the branch that v comes
// nearest to: the one of its type, or with its value of the member "type".
func (s Schema) Check(v any) []Problem { return s.check(v, "", nil, deepest) }

// check knows of the members that the rules name which this one is a part of.
func (s Schema) check(v any, at string, named []string, depth int) []Problem {
	if s.rule == false {
		return []Problem{{at, Unknown, ""}}
	}
	words := s.words()
	if words == nil || depth == 0 {
		return nil
	}
	problems := s.checkValue(words, v, at)
	if len(problems) > 0 {
		return problems
	}
	members, _ := words["properties"].(map[string]any)
	inParts := slices.Concat(named, sortedNames(members))
	for _, rule := range s.list("allOf") {
		problems = append(problems, rule.check(v, at, inParts, depth-1)...)
	}
	for _, word := range []string{"oneOf", "anyOf"} {
		if choices := s.list(word); len(choices) > 0 {
			problems = append(problems, choose(choices, v, at, inParts, depth-1)...)
		}
	}
	switch v := v.(type) {
	case map[string]any:
		problems = append(problems, s.checkMembers(words, v, at, named, depth-1)...)
	case []any:
		if rule, ok := words["items"]; ok {
			for i, item := range v {
				problems = append(problems, s.with(rule).check(item, fmt.Sprintf("%s[%d]", at, i), nil, depth-1)...)
			}
		}
	}
	return problems
}

// checkValue looks at what the value itself is.
func (s Schema) checkValue(words map[string]any, v any, at string) []Problem {
	if types := listOf(words["type"]); types != nil && !slices.ContainsFunc(types, func(t any) bool { return isOf(t, v) }) {
		return []Problem{{at, Type, joined(types, " or ")}}
	}
	allowed := listOf(words["enum"])
	if c, ok := words["const"]; ok {
		allowed = []any{c}
	}
	if allowed != nil && !slices.ContainsFunc(allowed, func(one any) bool { return reflect.DeepEqual(one, v) }) {
		return []Problem{{at, Value, joined(allowed, ", ")}}
	}
	if least, ok := words["minimum"].(json.Number); ok {
		if n, ok := v.(json.Number); ok && number(n) < number(least) {
			return []Problem{{at, Value, "at least " + least.String()}}
		}
	}
	return nil
}

func (s Schema) checkMembers(words, object map[string]any, at string, named []string, depth int) (problems []Problem) {
	for _, name := range listOf(words["required"]) {
		name, _ := name.(string)
		if _, there := object[name]; !there {
			problems = append(problems, Problem{join(at, name), Missing, ""})
		}
	}
	known, listed := words["properties"].(map[string]any)
	rest, open := words["additionalProperties"]
	for _, name := range sortedNames(object) {
		rule, ok := known[name]
		switch {
		case ok:
		case open:
			rule = rest
		case listed && words["oneOf"] == nil && words["anyOf"] == nil && words["allOf"] == nil && !slices.Contains(named, name):
			rule = false
		default:
			continue
		}
		problems = append(problems, s.with(rule).check(object[name], join(at, name), nil, depth)...)
	}
	return problems
}

// choose gives no problem where v fits a rule, else those with the nearest.
func choose(rules []Schema, v any, at string, named []string, depth int) []Problem {
	var nearest []Problem
	var types, words []string
	for _, r := range rules {
		problems := r.check(v, at, named, depth)
		if len(problems) == 0 {
			return nil
		}
		if len(r.Branches()) == 0 {
			continue // null
		}
		if isNear(r, v) && (nearest == nil || len(problems) < len(nearest)) {
			nearest = problems
		}
		types, words = append(types, r.Types()...), append(words, r.Words()...)
	}
	object, isObject := v.(map[string]any)
	_, isWord := v.(string)
	switch {
	case len(words) > 0 && (isWord || isObject && !slices.ContainsFunc(words, func(w string) bool { _, named := object[w]; return named })):
		return []Problem{{at, Value, strings.Join(unique(words), ", ")}}
	case isObject && object["type"] != nil && nearest == nil:
		var kinds []string
		for _, r := range rules {
			for _, b := range r.Branches() {
				kinds = append(kinds, b.kinds()...)
			}
		}
		if len(kinds) > 0 {
			return []Problem{{join(at, "type"), Value, strings.Join(unique(kinds), ", ")}}
		}
	}
	if nearest != nil {
		return nearest
	}
	return []Problem{{at, Type, strings.Join(unique(types), " or ")}}
}

// isNear reports whether a rule is meant for values like v: of its type, and of its kind where it has one.
func isNear(r Schema, v any) bool {
	if !r.Takes(typeName(v)) {
		return false
	}
	object, ok := v.(map[string]any)
	if !ok {
		return true
	}
	var kinds []string
	for _, b := range r.Branches() {
		kinds = append(kinds, b.kinds()...)
	}
	kind, _ := object["type"].(string)
	return len(kinds) == 0 || object["type"] == nil || slices.Contains(kinds, kind)
}

func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

func joined(values []any, between string) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = fmt.Sprint(v)
	}
	return strings.Join(words, between)
}

func unique(words []string) []string {
	var out []string
	for _, w := range words {
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

func sortedNames(object map[string]any) []string {
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func isOf(name, v any) bool {
	got := typeName(v)
	return name == got || name == "number" && got == "integer"
}

func typeOf(v any) any { return typeName(v) }

// typeName is the JSON type of a decoded value.
func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		if f := number(v); f == math.Trunc(f) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

func number(n json.Number) float64 {
	f, err := n.Float64()
	if err != nil {
		return math.NaN() // beyond all bounds
	}
	return f
}
