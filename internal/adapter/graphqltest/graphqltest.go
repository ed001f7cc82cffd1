// Package graphqltest is shared by the servers of trackers in tests: it reads GraphQL
// requests, and makes requests fail. The program itself must not import it.
package graphqltest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"
)

// Request is a document, the operation that is asked for, and the values of its variables,
// defaults included.
type Request struct {
	*ast.OperationDefinition

	doc    *ast.QueryDocument
	values map[string]any
}

// Parse parses a request. name is the name of the operation; it may be empty for a single
// operation. With an error it returns a request without fields.
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
	r.OperationDefinition = op
	r.doc = doc
	for _, v := range op.VariableDefinitions {
		if v.DefaultValue != nil {
			r.values[v.Variable], _ = v.DefaultValue.Value(nil) // the parser already read it
		}
	}
	maps.Copy(r.values, variables)
	return r, nil
}

// Validate returns everything that the schema forbids.
func (r *Request) Validate(schema *ast.Schema) (faults []error) {
	for _, e := range validator.ValidateWithRules(schema, r.doc, nil) {
		faults = append(faults, errors.New(e.Message))
	}
	if len(faults) > 0 {
		return faults
	}
	data, err := json.Marshal(r.values)
	if err != nil {
		return []error{err}
	}
	given := map[string]any{} // a copy, which the validator changes
	if err := json.Unmarshal(data, &given); err != nil {
		return []error{err}
	}
	if _, err := validator.VariableValues(schema, r.OperationDefinition, given); err != nil {
		return []error{err}
	}
	return nil
}

// Fields lists the selected fields of an object, without fields that @skip and @include
// exclude. It follows fragments on the object's type, or all fragments if typ is empty. Fields
// with the same alias are merged.
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
	skip := list.ForName("skip")
	include := list.ForName("include")
	return (skip == nil || r.Arguments(skip.Arguments)["if"] != true) &&
		(include == nil || r.Arguments(include.Arguments)["if"] == true)
}

// Number is an argument that is a number; 0 if it is absent.
func Number(v any) float64 {
	if n, whole := v.(int64); whole {
		return float64(n)
	}
	n, _ := v.(float64)
	return n
}

// Arguments returns the values of arguments. Variables have values of encoding/json, whole
// numbers in the document are int64. A variable without a value is omitted.
func (r *Request) Arguments(list ast.ArgumentList) map[string]any {
	args := map[string]any{}
	for _, a := range list {
		if _, given := r.values[a.Value.Raw]; given || a.Value.Kind != ast.Variable {
			args[a.Name], _ = a.Value.Value(r.values) // the parser already read it
		}
	}
	return args
}

// Failure makes requests fail. Each server defines its own kinds of failures.
type Failure struct {
	Kind string `json:"kind"`
	// Times is how many requests fail: one if 0, all until ClearFailures if negative.
	Times int `json:"times"`
	// Skip is how many matching requests succeed first.
	Skip int `json:"skip"`
	// Operation confines the failure to requests with this operation name or root field; any
	// if empty. Only Linear uses it.
	Operation string `json:"operation"`

	// Of Linear's answers.
	Status  int    `json:"status"`
	Body    string `json:"body"`
	Message string `json:"message"`
	DelayMS int64  `json:"delay_ms"`

	// Of rate limits: the milliseconds until Linear's ends; the end of GitHub's as Unix time,
	// in 2033 if 0; and Retry-After in seconds.
	ResetMS    int64 `json:"reset_ms"`
	Reset      int64 `json:"reset"`
	RetryAfter int   `json:"retry_after"`

	// Of a malformed issue: the field, the issue or else the first in the answer, and the
	// value instead, null by default.
	Field string          `json:"field"`
	Issue any             `json:"issue"`
	Value json.RawMessage `json:"value"`
}

// Failures are the failures that a test wants, in this order. Their methods are safe for
// concurrent use.
type Failures struct {
	Kinds []string // that the server knows
	mu    sync.Mutex
	list  []*Failure
}

// Fail adds a failure. An unknown kind is an error.
func (l *Failures) Fail(f Failure) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.Kinds, f.Kind) {
		return fmt.Errorf("unknown kind of failure %q", f.Kind)
	}
	f.Times = cmp.Or(f.Times, 1)
	l.list = append(l.list, &f)
	return nil
}

// ClearFailures ends all failures.
func (l *Failures) ClearFailures() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = nil
}

// Next returns the failure that applies to a request, and counts it; nil for none.
func (l *Failures) Next(applies func(*Failure) bool) *Failure {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, f := range l.list {
		if !applies(f) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		f.Times--
		if f.Times == 0 {
			l.list = slices.Delete(l.list, i, i+1)
		}
		return f
	}
	return nil
}

// Spoil replaces the field of the failure in an answer: in the first object with that field,
// or in the object of the issue.
func (f *Failure) Spoil(answer any, isIssue func(object map[string]any) bool) bool {
	switch v := answer.(type) {
	case map[string]any:
		if _, has := v[f.Field]; has && (f.Issue == nil || isIssue(v)) {
			v[f.Field] = f.Value
			return true
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if f.Spoil(v[key], isIssue) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(one any) bool { return f.Spoil(one, isIssue) })
	}
	return false
}
