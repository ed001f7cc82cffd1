package linear

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
)

// What an agent may send: a query in bytes and in tokens, and variables in bytes.
const (
	maxDocument  = 256 << 10
	maxTokens    = 20000
	maxVariables = 1 << 20
)

// input is a call of the tool that may be sent.
type input struct {
	query     string
	variables json.RawMessage // an object, nil where there are none
	doc       *ast.QueryDocument
}

func (in input) operation() *ast.OperationDefinition { return in.doc.Operations[0] }

func (in input) mutates() bool { return in.operation().Operation == ast.Mutation }

// fields are those of the operation itself, also where they stand in fragments.
func (in input) fields() []*ast.Field {
	var found []*ast.Field
	var entered []string
	var collect func(ast.SelectionSet)
	collect = func(set ast.SelectionSet) {
		for _, s := range set {
			switch s := s.(type) {
			case *ast.Field:
				found = append(found, s)
			case *ast.InlineFragment:
				collect(s.SelectionSet)
			case *ast.FragmentSpread:
				// One that spreads itself is Linear's to refuse.
				if f := in.doc.Fragments.ForName(s.Name); f != nil && !slices.Contains(entered, s.Name) {
					entered = append(entered, s.Name)
					collect(f.SelectionSet)
				}
			}
		}
	}
	collect(in.operation().SelectionSet)
	return found
}

// rootFields are their names.
func (in input) rootFields() []string {
	names := []string{}
	for _, f := range in.fields() {
		names = append(names, f.Name)
	}
	return names
}

// readInput reads the agent's arguments; the error says what is wrong with them.
func readInput(args json.RawMessage) (in input, err error) {
	args = bytes.TrimSpace(args)
	switch {
	case len(args) == 0:
		return in, errors.New("no arguments: give an object with a query")
	case args[0] == '"':
		if err := json.Unmarshal(args, &in.query); err != nil {
			return in, fmt.Errorf("arguments are no valid JSON: %w", err)
		}
	case args[0] == '{':
		if in.query, in.variables, err = toolObject(args); err != nil {
			return in, err
		}
	default:
		return in, errors.New("arguments must be an object with a query, or a query as a string")
	}
	in.doc, err = oneOperation(in.query)
	return in, err
}

func toolObject(args json.RawMessage) (query string, variables json.RawMessage, err error) {
	var in map[string]json.RawMessage
	if err := json.Unmarshal(args, &in); err != nil {
		return "", nil, fmt.Errorf("arguments are no valid JSON: %w", err)
	}
	// Other keys are left alone: agents add an operationName, which one operation does not need.
	if json.Unmarshal(in["query"], &query) != nil || in["query"] == nil || string(in["query"]) == "null" {
		return "", nil, errors.New("query must be a string")
	}
	v := in["variables"]
	if len(v) == 0 || string(v) == "null" {
		return query, nil, nil
	}
	if v[0] != '{' {
		return "", nil, errors.New("variables must be an object")
	}
	if len(v) > maxVariables {
		return "", nil, fmt.Errorf("variables have %d bytes, and %d are the most", len(v), maxVariables)
	}
	return query, v, nil
}

// oneOperation parses what is a document with exactly one query or mutation, and refuses all else.
func oneOperation(query string) (*ast.QueryDocument, error) {
	if strings.TrimSpace(query) == "" {
		return nil, errors.New("query must not be empty")
	}
	if len(query) > maxDocument {
		return nil, fmt.Errorf("query is longer than %d bytes", maxDocument)
	}
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Name: "query", Input: query}, maxTokens)
	if err != nil {
		return nil, fmt.Errorf("query is no valid GraphQL: %w", err)
	}
	switch n := len(doc.Operations); {
	case n == 0:
		return nil, errors.New("query holds no operation, only fragments")
	case n > 1:
		return nil, fmt.Errorf("query holds %d operations: send one per call", n)
	}
	if op := doc.Operations[0].Operation; op != ast.Query && op != ast.Mutation {
		return nil, fmt.Errorf("%s operations are not supported: use a query or a mutation", op)
	}
	return doc, nil
}
