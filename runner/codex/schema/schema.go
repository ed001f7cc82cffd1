// Package schema reads JSON schemas in the part of the language that codex's own use, and holds values to them. Words
// of the language that it does not know say nothing, for a later codex may use more of them.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Schema is a rule for a value, with the definitions that it refers to.
type Schema struct {
	definitions map[string]any
	rule        any // a map of words, or a bool
}

// Parse reads a schema: one JSON object and nothing else.
func Parse(data []byte) (Schema, error) {
	value, err := Decode(data)
	if err != nil {
		return Schema{}, err
	}
	rule, ok := value.(map[string]any)
	if !ok {
		return Schema{}, errors.New("a JSON schema is an object")
	}
	return New(rule), nil
}

// New is the schema that rule is when decoded; its own definitions are those it refers to.
func New(rule map[string]any) Schema {
	definitions, _ := rule["definitions"].(map[string]any)
	return Schema{definitions, rule}
}

// Decode reads one JSON value, its numbers as json.Number.
func Decode(data []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return v, nil
}

// deepest bounds references that lead to references, and widest what they may grow to when written out.
const (
	deepest = 24
	widest  = 2000
)

// words are the words of a rule after its references; nil where it says nothing.
func (s Schema) words() map[string]any {
	rule, _ := s.rule.(map[string]any)
	for range deepest {
		ref, ok := rule["$ref"].(string)
		if !ok {
			return rule
		}
		rule = s.definition(ref)
	}
	return nil
}

// definition is what "#/definitions/NAME" names; a name may hold slashes where definitions are nested.
func (s Schema) definition(ref string) map[string]any {
	path, ok := strings.CutPrefix(ref, "#/definitions/")
	if !ok {
		return nil
	}
	at := s.definitions
	for name := range strings.SplitSeq(path, "/") {
		at, _ = at[name].(map[string]any)
	}
	return at
}

func (s Schema) with(rule any) Schema { return Schema{s.definitions, rule} }

// Ref is the name of the definition that the rule as a whole refers to, "" where it is written out.
func (s Schema) Ref() string {
	rule, _ := s.rule.(map[string]any)
	ref, _ := rule["$ref"].(string)
	return ref[strings.LastIndex(ref, "/")+1:]
}

// list is a word's value where that is a list.
func (s Schema) list(word string) []Schema {
	var out []Schema
	items, _ := s.words()[word].([]any)
	for _, item := range items {
		out = append(out, s.with(item))
	}
	return out
}

// Choices are the rules that a value has to fit one of, beside what else the rule says.
func (s Schema) Choices() []Schema { return slices.Concat(s.list("oneOf"), s.list("anyOf")) }

// Branches are the rules of which a value has to fit one, each free of choices itself; those for null are left out. A
// rule without a choice is its own only branch.
func (s Schema) Branches() []Schema { return s.branches(deepest) }

func (s Schema) branches(depth int) []Schema {
	words := s.words()
	if words == nil || depth == 0 {
		return []Schema{s}
	}
	choices := s.Choices()
	if all := s.list("allOf"); len(choices) == 0 && len(all) == 1 {
		choices = all
	}
	if len(choices) == 0 {
		if words["type"] == "null" {
			return nil
		}
		return []Schema{s.with(words)}
	}
	var out []Schema
	if words["properties"] != nil { // members that all kinds have
		out = append(out, s.with(map[string]any{"type": "object", "properties": words["properties"]}))
	}
	for _, c := range choices {
		out = append(out, c.branches(depth-1)...)
	}
	return out
}

// Member is the rule for a member of an object, over all of its branches; known is false where none of them names it.
func (s Schema) Member(name string) (rules []Schema, known bool) {
	for _, b := range s.Branches() {
		if properties, ok := b.words()["properties"].(map[string]any); ok {
			if rule, ok := properties[name]; ok {
				rules = append(rules, b.with(rule))
			}
		}
	}
	return rules, len(rules) > 0
}

// Find follows a path: "turn.status", "input[].text", "item(commandExecution).status", where the word in parentheses
// is the type that one of several kinds of objects is known by.
func (s Schema) Find(path string) []Schema {
	at := []Schema{s}
	for step := range strings.SplitSeq(path, ".") {
		name, kind, ofKind := strings.Cut(strings.TrimSuffix(step, ")"), "(")
		name, items := strings.CutSuffix(name, "[]")
		var next []Schema
		for _, rule := range at {
			found, _ := rule.Member(name)
			next = append(next, found...)
		}
		if items {
			next = itemsOf(next)
		}
		if ofKind {
			next = ofType(next, kind)
		}
		at = next
	}
	return at
}

func itemsOf(rules []Schema) (out []Schema) {
	for _, r := range rules {
		for _, b := range r.Branches() {
			if item, ok := b.words()["items"]; ok {
				out = append(out, b.with(item))
			}
		}
	}
	return out
}

func ofType(rules []Schema, kind string) (out []Schema) {
	for _, r := range rules {
		for _, b := range r.Branches() {
			if slices.Contains(b.kinds(), kind) {
				out = append(out, b)
			}
		}
	}
	return out
}

// kinds are the values that the member "type" of one kind of objects may have.
func (s Schema) kinds() []string {
	rules, _ := s.Member("type")
	return WordsOf(rules)
}

// Words are the words that a value may be, and the names of the one member that an object in their place has.
func (s Schema) Words() []string { return WordsOf([]Schema{s}) }

// WordsOf is Words over several rules, each once.
func WordsOf(rules []Schema) []string {
	var out []string
	add := func(v any) {
		if word, ok := v.(string); ok && !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	for _, r := range rules {
		for _, b := range r.Branches() {
			words := b.words()
			for _, v := range listOf(words["enum"]) {
				add(v)
			}
			add(words["const"])
			if required, _ := words["required"].([]any); len(required) == 1 && words["type"] == "object" && words["additionalProperties"] == false {
				add(required[0])
			}
		}
	}
	return out
}

// Types are the JSON types that a value may have; nil where all may be.
func (s Schema) Types() []string {
	var out []string
	for _, b := range s.Branches() {
		words := b.words()
		types := listOf(words["type"])
		if words["type"] == nil {
			types = nil
			for _, v := range listOf(words["enum"]) {
				types = append(types, typeOf(v))
			}
			if words["const"] != nil {
				types = append(types, typeOf(words["const"]))
			}
		}
		if len(types) == 0 {
			return nil
		}
		for _, t := range types {
			if name, ok := t.(string); ok && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// Takes reports whether a value of the JSON type may stand here.
func (s Schema) Takes(kind string) bool {
	types := s.Types()
	return types == nil || slices.Contains(types, kind) || kind == "integer" && slices.Contains(types, "number")
}

// remarks are words that say nothing about a value.
var remarks = []string{"$schema", "title", "description", "default", "examples", "format", "definitions"}

// Compact is the rule with all that it refers to in its place, without remarks: to be kept by itself. What would be
// too much, as a rule that refers to itself, is kept as one that takes anything.
func (s Schema) Compact() any {
	room := widest
	return s.compact(&room)
}

func (s Schema) compact(room *int) any {
	words := s.words()
	if *room--; words == nil || *room < 0 {
		return true
	}
	return compactWords(words, func(rule any) any { return s.with(rule).compact(room) })
}

func compactWords(words map[string]any, rule func(any) any) map[string]any {
	out := maps.Clone(words)
	for _, word := range remarks {
		delete(out, word)
	}
	for word, value := range out {
		switch v := value.(type) {
		case map[string]any:
			if word != "properties" {
				out[word] = rule(v)
				continue
			}
			members := make(map[string]any, len(v))
			for name, member := range v {
				members[name] = rule(member)
			}
			out[word] = members
		case []any:
			if word == "oneOf" || word == "anyOf" || word == "allOf" {
				rules := make([]any, len(v))
				for i, one := range v {
					rules[i] = rule(one)
				}
				out[word] = rules
			}
		}
	}
	return out
}

// judged are the words by which Check judges.
var judged = []string{
	"$ref", "type", "enum", "const", "minimum", "required", "properties", "additionalProperties", "items", "oneOf", "anyOf", "allOf",
}

// Overlooked lists the words of the rule, and of all that it refers to, that say nothing to Check.
func (s Schema) Overlooked() []string {
	found := map[string]bool{}
	overlooked(s.Compact(), found)
	return slices.Sorted(maps.Keys(found))
}

func overlooked(rule any, found map[string]bool) {
	words, _ := rule.(map[string]any)
	for word, value := range words {
		if !slices.Contains(judged, word) {
			found[word] = true
		}
		switch v := value.(type) {
		case map[string]any:
			if word != "properties" {
				overlooked(v, found)
				continue
			}
			for _, member := range v {
				overlooked(member, found)
			}
		case []any:
			for _, one := range v {
				overlooked(one, found)
			}
		}
	}
}

func listOf(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		return v
	}
	return []any{v}
}

// String is the rule as JSON.
func (s Schema) String() string {
	text, err := json.Marshal(s.rule)
	if err != nil {
		return fmt.Sprint(err)
	}
	return string(text)
}
